"""Pretrain an ELMo: a bidirectional language model over characters."""

import os
import sys
import zlib

from tfnlp.commands import devices
from tfnlp.commands.arguments import add_tokenize, tokenized
from tfnlp.commands.evaluate_elmo import held_out_windows, summary
from tfnlp.commands.pretraining import (
    add_run,
    add_training,
    check_training,
    documents,
    fit,
    make_trainer,
    start_run,
    training_settings,
    vocabulary,
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
    with devices.strategy(args) as strategy:
        train(args, strategy)


def train(args, strategy):
    """What `run` does, on the devices of `strategy`."""
    import keras

    from tfnlp import training
    from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
    from tfnlp.models import elmo, elmo_pretrainer
    from tfnlp.tasks import ElmoPretraining
    from tfnlp.text import read_words, write_words

    check_training(args, strategy)
    _check_settings(args)
    before = _start(args)
    train_documents, valid_documents = (tokenized(d, args) for d in documents(args))
    words = _vocabulary(args, train_documents, before)
    train = LanguageModelCorpus.build(train_documents, words)
    valid = LanguageModelCorpus.build(valid_documents, words, lexicon=train.lexicon)
    del train_documents, valid_documents
    windows = LanguageModelWindows(
        train, batch_size=args.batch_size, window=args.window, seed=args.seed, reset=args.reset
    )
    held_out = held_out_windows(
        valid, args.batch_size, args.window, args.reset, strategy.num_replicas_in_sync
    )
    args.steps = args.steps or max(1, round(args.epochs * windows.steps_per_epoch))
    config = _config(args, before, train)
    chief = training.Workers(strategy).chief
    start_run(args, config, words, read_words, write_words, chief=chief)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        encoder = elmo(**config["arguments"], dtype="mixed_bfloat16" if args.bf16 else None)
        pretrainer = elmo_pretrainer(
            encoder, **config["heads"], dropout=args.dropout, resets=args.reset != "never"
        )
        if before is not None:
            _copy_weights(before, encoder, pretrainer)
        # All words that will be read have their characters here, those held out too.
        compiled = args.jit or devices.is_tpu(strategy)
        task = ElmoPretraining(
            pretrainer, valid.characters(), args.batch_size, distinct=not compiled
        )
    print(
        f"ELMo with {encoder.count_params() / 1e6:.2f} M parameters and a softmax over "
        f"{train.vocab_size:,} words ({train.vocab_size * (_width(encoder) + 1) / 1e6:.2f} "
        f"M); {train.num_tokens:,} tokens of {train.num_sentences:,} sentences, "
        f"{windows.steps_per_epoch:,} updates an epoch; held out: {valid.num_tokens:,} tokens"
    )
    trainer = make_trainer(args, task, strategy, loss_scale=args.window / 2)
    if before is not None and not trainer.restore():
        _show("before", trainer.evaluate(held_out.evaluation_batches()))
    held_out_part = held_out.evaluation_batches(args.evaluate_batches)
    curve = fit(args, trainer, windows, held_out_part, perplexity=True)
    trainer.restore(best=True)
    _show(f"after {trainer.step} updates", trainer.evaluate(held_out.evaluation_batches()))
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def _show(when, results):
    print(f"held out, full softmax, {when}: {summary(results)}", flush=True)


def _width(encoder):
    """P, the width of the word vectors."""
    return encoder.get_layer("bilm").projection_size


def _check_settings(args):
    """Raises ValueError for what makes no sense, before any work is done."""
    bounds = dict(num_layers=1, units=1, projection_size=1, num_highway=0, samples=0)
    for name, least in bounds.items():
        value = getattr(args, name)
        if value is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least {least}")
    if not args.epochs > 0:
        raise ValueError(f"--epochs {args.epochs} must be above 0")
    if args.start is None:
        return
    if os.path.realpath(args.start) == os.path.realpath(args.output):
        raise ValueError(
            f"--from and --output are the same folder, {args.output}; give a new --output, or "
            "leave --from out to resume the run"
        )
    for name in ("num_layers", "units", "projection_size", "num_highway"):
        if getattr(args, name) is not None:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} can't be changed when going on --from {args.start}")


def _start(args):
    """The model to go on from, or None."""
    from tfnlp.commands.loading import load_elmo

    return None if args.start is None else load_elmo(args.start)


def _vocabulary(args, documents, before):
    """The words to predict: those of the model gone on from, of --vocab, or of the text."""
    from tfnlp.text import read_words, train_words

    if before is not None and before.words is not None:
        for name, given in (
            ("vocab", args.vocab),
            ("max-vocab", args.max_vocab),
            ("min-count", args.min_count > 1),
        ):
            if given:
                raise ValueError(
                    f"--{name} can't be given with --from {args.start}, which has a vocabulary"
                )
        return before.words

    def make():
        print("counting words", file=sys.stderr)
        return train_words((s for d in documents for s in d), args.max_vocab, args.min_count)

    return vocabulary(args, make, read_words)


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
        "text": {"tokenize": args.tokenize},
        "training": {
            "from": args.start,
            "window": args.window,
            "reset": args.reset,
            **training_settings(args),
        },
        "corpus": {"tokens": corpus.num_tokens, "crc32": zlib.crc32(corpus.ids.tobytes())},
    }
