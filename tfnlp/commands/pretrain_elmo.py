"""Pretrain an ELMo: a bidirectional language model over characters."""

import os
import sys
import zlib

from tfnlp.commands.arguments import add_tokenize, tokenized
from tfnlp.commands.pretraining import (
    add_run,
    add_training,
    check_training,
    documents,
    kept_vocabulary,
    make_trainer,
    training_settings,
)

SIZES = ("mini", "small", "medium", "original")


def add_arguments(elmo):
    """Arguments of `tfnlp pretrain elmo`; the defaults are the recipe of bilm-tf."""
    add_run(elmo)
    add_tokenize(elmo)
    elmo.add_argument("--max-vocab", type=int, help="words to predict, if the vocabulary is built")
    elmo.add_argument("--min-count", type=int, default=1, help="leave rarer words out of it")
    elmo.add_argument(
        "--from",
        dest="start",
        metavar="DIR",
        help="go on from this run or bilm-tf checkpoint, with its sizes and its vocabulary",
    )
    elmo.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help="published size, or mini: a fortieth of the original's work, for a CPU",
    )
    for name, text in (
        ("num-layers", "LSTM layers a direction"),
        ("units", "LSTM cells"),
        ("projection-size", "width of word vectors and LSTM outputs"),
        ("num-highway", "highway layers"),
    ):
        elmo.add_argument(f"--{name}", type=int, help=f"{text}, instead of the size's")
    elmo.add_argument("--dropout", type=float, default=0.1, help="dropout rate")
    elmo.add_argument(
        "--samples", type=int, default=8192, help="words in the sampled softmax; 0: all, always"
    )
    elmo.add_argument("--window", type=int, default=20, help="words of back-propagation")
    elmo.add_argument(
        "--reset",
        choices=["never", "document", "sentence"],
        default="never",
        help="where the LSTM state, which goes on from window to window, is zeroed",
    )
    elmo.add_argument("--epochs", type=float, default=10, help="times through the text")
    elmo.add_argument("--steps", type=int, help="updates, instead of --epochs")
    add_training(
        elmo,
        batch_size=128,
        learning_rate=0.2,
        warmup=0.0,
        schedule="constant",
        optimizer="adagrad",
        weight_decay=0.0,
        clip_norm=10.0,
    )


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    import keras

    from tfnlp import training
    from tfnlp.commands.pictures import plot_history
    from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
    from tfnlp.models import elmo, elmo_pretrainer
    from tfnlp.tasks import ElmoPretraining
    from tfnlp.training.run import delete_run, write_config

    check_training(args)
    if args.restart:
        delete_run(args.output)
    before = _start(args)
    train_documents, valid_documents = (tokenized(d, args) for d in documents(args))
    words = _vocabulary(args, train_documents, before)
    train = LanguageModelCorpus.build(train_documents, words)
    valid = LanguageModelCorpus.build(valid_documents, words, lexicon=train.lexicon)
    del train_documents, valid_documents
    windows = LanguageModelWindows(
        train, batch_size=args.batch_size, window=args.window, seed=args.seed, reset=args.reset
    )
    strategy = training.make_strategy(args.strategy)
    held_out = _evaluation(valid, args.batch_size, args.window, strategy, args.reset)
    args.steps = args.steps or max(1, round(args.epochs * windows.steps_per_epoch))
    config = _config(args, before, train)
    write_config(args.output, config)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        encoder = elmo(**config["arguments"], dtype="mixed_bfloat16" if args.bf16 else None)
        pretrainer = elmo_pretrainer(
            encoder, **config["heads"], dropout=args.dropout, resets=args.reset != "never"
        )
        if before is not None:
            _copy_weights(before, encoder, pretrainer)
        # All words that will be read have their characters here, those held out too.
        task = ElmoPretraining(
            pretrainer, valid.characters(), args.batch_size, distinct=not args.jit
        )
    print(
        f"ELMo with {encoder.count_params() / 1e6:.2f} M parameters and a softmax over "
        f"{train.vocab_size:,} words ({train.vocab_size * (encoder_width(encoder) + 1) / 1e6:.2f} "
        f"M); {train.num_tokens:,} tokens of {train.num_sentences:,} sentences, "
        f"{windows.steps_per_epoch:,} updates an epoch; held out: {valid.num_tokens:,} tokens"
    )
    trainer = make_trainer(args, task, strategy, loss_scale=args.window / 2)
    if before is not None and not trainer.restore():
        show("before", trainer.evaluate(held_out.evaluation_batches()))
    history = trainer.fit(
        windows,
        args.steps,
        validation=held_out.evaluation_batches(args.evaluate_batches),
        evaluate_every=args.evaluate_every,
        checkpoint_every=args.checkpoint_every,
        patience=args.patience,
    )
    curve = plot_history(
        history, os.path.join(args.output, "curve.png"), ["perplexity"], task.report
    )
    trainer.restore(best=True)
    show(f"after {trainer.step} updates", trainer.evaluate(held_out.evaluation_batches()))
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def show(when, results):
    """Prints the perplexities of an evaluation."""
    print(
        f"held out, full softmax, {when}: perplexity {results['perplexity']:.2f} "
        f"(forward {results['forward_perplexity']:.2f}, "
        f"backward {results['backward_perplexity']:.2f})",
        flush=True,
    )


def encoder_width(encoder):
    """P, the width of the word vectors."""
    return encoder.get_layer("bilm").projection_size


def _start(args):
    """The model to go on from, or None."""
    if args.start is None:
        return None
    from tfnlp.commands.loading import load_elmo

    changed = [
        f"--{name.replace('_', '-')}"
        for name in ("num_layers", "units", "projection_size", "num_highway")
        if getattr(args, name) is not None
    ]
    if changed:
        raise ValueError(f"{changed[0]} can't be changed when going on --from {args.start}")
    return load_elmo(args.start)


def _vocabulary(args, documents, before):
    """The words to predict: those of the model gone on from, of --vocab, or of the text."""
    from tfnlp.text import read_words, train_words, write_words

    if before is not None and before.words is not None:
        if args.vocab:
            raise ValueError(f"--vocab can't be given with --from {args.start}, which has its own")
        return read_words(kept_vocabulary(args, lambda: before.words, read_words, write_words))

    def make():
        print("counting words", file=sys.stderr)
        return train_words((s for d in documents for s in d), args.max_vocab, args.min_count)

    return read_words(kept_vocabulary(args, make, read_words, write_words))


def _evaluation(valid, batch_size, window, strategy, reset):
    """Held-out windows, in fewer rows than training has where the text is short."""
    from tfnlp.data import LanguageModelWindows

    replicas = strategy.num_replicas_in_sync
    # A row starts without context; let that be one window in ten.
    rows = min(batch_size, valid.num_tokens // (10 * window)) // replicas * replicas
    return LanguageModelWindows(valid, batch_size=max(rows, replicas), window=window, reset=reset)


def _copy_weights(before, encoder, pretrainer):
    encoder.set_weights(before.encoder.get_weights())
    if before.pretrainer is not None and before.words is not None:
        softmax = pretrainer.get_layer("softmax")
        kept = before.pretrainer.get_layer("softmax")
        softmax.kernel.assign(kept.kernel)
        softmax.bias.assign(kept.bias)


def _config(args, before, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__, models

    if before is not None:
        sizes = {**before.config, "dropout": args.dropout}
    else:
        sizes = dict(getattr(models, f"ELMO_{args.size.upper()}"))
        for name in ("num_layers", "units", "projection_size", "num_highway"):
            if getattr(args, name) is not None:
                sizes[name] = getattr(args, name)
        sizes["dropout"] = args.dropout
    return {
        "tfnlp": __version__,
        "model": "elmo",
        "arguments": sizes,
        "heads": {"vocab_size": corpus.vocab_size, "num_samples": args.samples or None},
        "training": {
            "from": args.start,
            "window": args.window,
            "reset": args.reset,
            **training_settings(args),
        },
        "corpus": {"tokens": corpus.num_tokens, "crc32": zlib.crc32(corpus.ids.tobytes())},
    }
