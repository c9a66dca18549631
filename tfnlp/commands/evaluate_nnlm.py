"""Perplexity of an NNLM on a text."""

import json

from tfnlp.commands.arguments import tokenized


def run(args, batch_size=512):
    """Prints the perplexity of a run over all tokens of --input, with the full softmax.

    Args:
        args: of `tfnlp evaluate`.
        batch_size: targets at a time.
    """
    from tfnlp import training
    from tfnlp.commands.loading import load_nnlm
    from tfnlp.data import LanguageModelCorpus, Ngrams, read_documents
    from tfnlp.tasks import NNLMPretraining

    loaded = load_nnlm(args.model)
    args.tokenize = args.tokenize or loaded.config.get("text", {}).get("tokenize", False)
    documents = tokenized(list(read_documents(args.input, args.layout)), args)
    corpus = LanguageModelCorpus.build(documents, loaded.words)
    context = loaded.config["arguments"]["context"]
    ngrams = Ngrams(corpus, context=context, batch_size=min(batch_size, corpus.num_tokens))
    trainer = training.Trainer(NNLMPretraining(loaded.pretrainer), training.AdamW(), 0.0)
    results = trainer.evaluate(ngrams.evaluation_batches())
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
            f"{counts['sentences']:,} sentences\nfull softmax: perplexity "
            f"{results['perplexity']:.2f}"
        )
