"""Perplexities of an ELMo on a text."""

import json

from tfnlp.commands.arguments import tokenized


def held_out_windows(corpus, batch_size, window, reset, replicas):
    """Windows to evaluate on, in fewer rows than training has where the text is short."""
    from tfnlp.data import LanguageModelWindows

    # A row starts without context; let that be one window in ten.
    rows = min(batch_size, corpus.num_tokens // (10 * window)) // replicas * replicas
    rows = max(rows, replicas)
    window = min(window, max(1, corpus.num_tokens // rows))
    return LanguageModelWindows(corpus, batch_size=rows, window=window, reset=reset)


def summary(results):
    """The perplexities of an evaluation in a line."""
    return (
        f"perplexity {results['perplexity']:.2f} (forward {results['forward_perplexity']:.2f}, "
        f"backward {results['backward_perplexity']:.2f})"
    )


def run(args, config, batch_size=None):
    """Prints the perplexities of a run over all tokens of --input, with the full softmax.

    Args:
        args: of `tfnlp evaluate`.
        config: the run's.
        batch_size: rows at a time; None: as many as the run's updates have.
    """
    from tfnlp import training
    from tfnlp.commands.loading import load_elmo
    from tfnlp.data import LanguageModelCorpus, read_documents
    from tfnlp.tasks import ElmoPretraining

    args.tokenize = args.tokenize or config.get("text", {}).get("tokenize", False)
    trained = config["training"]
    loaded = load_elmo(args.model, dtype="mixed_bfloat16" if trained["bf16"] else None)
    documents = tokenized(list(read_documents(args.input, args.layout)), args)
    corpus = LanguageModelCorpus.build(documents, loaded.words)
    windows = held_out_windows(
        corpus, batch_size or trained["batch_size"], trained["window"], trained["reset"], 1
    )
    task = ElmoPretraining(loaded.pretrainer, corpus.characters(), windows.batch_size)
    trainer = training.Trainer(task, training.Adagrad(), 0.0)
    results = trainer.evaluate(windows.evaluation_batches())
    unknown = (corpus.ids >= corpus.vocab_size) | (corpus.ids == corpus.unknown_id)
    counts = {
        "sentences": corpus.num_sentences,
        "words": corpus.num_words,
        "unknown_words": int(unknown.sum()),
        "tokens": corpus.num_tokens,
    }
    if args.json:
        print(json.dumps({**results, **counts}))
    else:
        print(
            f"{counts['tokens']:,} tokens: {counts['words']:,} words "
            f"({counts['unknown_words']:,} of them not in the vocabulary) and the ends of "
            f"{counts['sentences']:,} sentences\nfull softmax: {summary(results)}"
        )
