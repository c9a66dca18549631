"""What the commands of models that translate share: texts, training, the models of runs."""

import sys
import zlib

from tfnlp.commands import devices
from tfnlp.commands.gpt_text import VOCABULARY, write_vocabulary
from tfnlp.commands.pretraining import (
    add_training,
    check_training,
    fit,
    make_trainer,
    start_run,
    training_settings,
    vocabulary,
)


def add_text(parser):
    """Sources and their translations, held-out ones, the vocabulary and the run's folder."""
    for name, text in (
        ("source", "sentences, one a line; .gz is unpacked"),
        ("target", "their translations, line by line"),
    ):
        parser.add_argument(f"--{name}", nargs="+", required=True, metavar="FILE", help=text)
    for name in ("source", "target"):
        parser.add_argument(f"--valid-{name}", nargs="+", metavar="FILE", help=f"held-out {name}s")
    parser.add_argument(
        "--held-out",
        type=float,
        default=0.02,
        help="without --valid-source: share of the pairs held out",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument(
        "--vocab", metavar="DIR", help="byte pairs of both languages; learnt if absent"
    )
    parser.add_argument("--vocab-size", type=int, default=8000, help="tokens if they are learnt")
    parser.add_argument(
        "--max-tokens", type=int, default=100, help="longer sentences are not trained on"
    )
    parser.add_argument("--restart", action="store_true", help="delete an earlier run there first")


def add_translation_training(parser, **defaults):
    """What `add_training` has, and what only translation asks."""
    parser.add_argument("--epochs", type=float, default=20, help="times through the pairs")
    parser.add_argument("--steps", type=int, help="updates, instead of --epochs")
    parser.add_argument(
        "--label-smoothing", type=float, default=0.1, help="share of the target spread over all"
    )
    parser.add_argument(
        "--average",
        type=int,
        default=5,
        help="last checkpoints whose mean is used if it is better than the best one; 0: none",
    )
    add_training(parser, **defaults)


def train(args, kind, sizes, make):
    """Sentence pairs to a run's folder; the same command again resumes a run that was stopped.

    Args:
        args: of the command line.
        kind: the run's model, "seq2seq" or "transformer".
        sizes: arguments of the model, but for `vocab_size`.
        make: function of all arguments of the model and its dtype policy to the model.
    """
    with devices.strategy(args) as strategy:
        _train(args, kind, sizes, make, strategy)


def _train(args, kind, sizes, make, strategy):
    import keras

    from tfnlp import training
    from tfnlp.data import translation_batches
    from tfnlp.tasks import Translation
    from tfnlp.text import gpt_tokenizer, read_bpe

    check_training(args, strategy)
    if not args.epochs > 0:
        raise ValueError(f"--epochs {args.epochs} must be above 0")
    if args.average < 0:
        raise ValueError(f"--average {args.average} must be 0 or more")
    text, held_out = _texts(args)
    pair = _vocabulary(args, text)
    tokenizer = gpt_tokenizer(pair)
    sources, targets = (tokenize(tokenizer, side) for side in text[:2])
    kept = [
        i
        for i, (source, target) in enumerate(zip(sources, targets, strict=True))
        if max(len(source), len(target)) < args.max_tokens
    ]
    if not kept:
        raise ValueError(f"no pair is shorter than --max-tokens {args.max_tokens}")
    fixed = devices.is_tpu(strategy)
    batches = translation_batches(
        [sources[i] for i in kept],
        [targets[i] for i in kept],
        tokenizer.end_id,
        batch_size=args.batch_size,
        pad_all=fixed,
        seed=args.seed,
    )
    valid = translation_batches(
        *(tokenize(tokenizer, side) for side in held_out[:2]),
        tokenizer.end_id,
        batch_size=args.batch_size,
        pad_all=fixed,
    )
    args.steps = args.steps or max(1, round(args.epochs * batches.steps_per_epoch))
    if args.average:  # those of the last tenth of the run, if nothing else is said
        args.keep = max(args.keep, args.average)
        args.checkpoint_every = args.checkpoint_every or max(1, args.steps // (10 * args.average))
    arguments = {"vocab_size": tokenizer.vocab_size, **sizes}
    tokens = sum(len(sources[i]) + len(targets[i]) for i in kept)
    crc32 = 0
    for side in text[:2]:
        crc32 = zlib.crc32("\n".join(side).encode(), crc32)
    config = _config(args, kind, arguments, {"pairs": len(kept), "tokens": tokens, "crc32": crc32})
    chief = training.Workers(strategy).chief
    start_run(args, config, pair, read_bpe, write_vocabulary, VOCABULARY, chief)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        model = make(**arguments, dtype="mixed_bfloat16" if args.bf16 else None)
    left_out = len(sources) - len(kept) + text.left_out
    print(
        f"{model.count_params() / 1e6:.2f} M parameters; {len(kept):,} pairs of {tokens:,} tokens"
        + (f", {left_out:,} empty or too long ones left out" if left_out else "")
        + f"; held out: {len(held_out.sources):,} pairs; {args.steps:,} updates",
        flush=True,
    )
    task = Translation(model, args.label_smoothing)
    trainer = make_trainer(args, task, strategy)
    curve = fit(args, trainer, batches, valid.evaluation_batches(), perplexity=True)
    trainer.restore(best=True)
    held_out_best = trainer.evaluate(valid.evaluation_batches())
    _show(f"after {trainer.step} updates", held_out_best)
    if args.average and args.steps // args.checkpoint_every >= args.average:
        _average(args, trainer, valid, held_out_best)
    print(f"training curve: {curve}\nrun: {args.output}")


def _average(args, trainer, valid, held_out_best):
    """Leaves the mean of the last checkpoints in the run if it is better than the best of them."""
    import tensorflow as tf

    from tfnlp.training import average_checkpoints
    from tfnlp.training.run import restore_weights

    if trainer.workers.chief:
        path = average_checkpoints(args.output, args.average)
    trainer.workers.gather(trainer.step)  # nobody reads it before it is there
    restore_weights(args.output, trainer.task.model, average=True)
    results = trainer.evaluate(valid.evaluation_batches())
    better = results["nll"] < held_out_best["nll"]
    _show(f"mean of the last {args.average} checkpoints", results, "" if better else ", not used")
    if trainer.workers.chief and not better:
        tf.io.gfile.rmtree(path)


def _show(when, results, more=""):
    print(
        f"held out, {when}: perplexity {results['perplexity']:.2f} a token, "
        f"{results['token_accuracy']:.3f} of the tokens right{more}",
        flush=True,
    )


def tokenize(tokenizer, sentences):
    """Ids of each sentence, a list of int32 arrays."""
    import tensorflow as tf

    tokens = []
    for first in range(0, len(sentences), 10_000):
        ragged = tokenizer.tokenize(tf.constant(sentences[first : first + 10_000]))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        tokens += [values[a:b] for a, b in zip(splits[:-1], splits[1:], strict=True)]
    return tokens


def _texts(args):
    """Pairs to train on and pairs held out, two `ParallelText`s."""
    import numpy as np

    from tfnlp.data import read_parallel

    if bool(args.valid_source) != bool(args.valid_target):
        raise ValueError("give both --valid-source and --valid-target, or neither")
    text = read_parallel(args.source, args.target)
    if args.valid_source:
        return text, read_parallel(args.valid_source, args.valid_target)
    count = round(args.held_out * len(text.sources))
    if not 0 < count < len(text.sources):
        raise ValueError(
            f"--held-out {args.held_out} of {len(text.sources)} pairs are {count}; one or more "
            "must be held out, and one or more left"
        )
    order = np.random.Generator(np.random.Philox(key=args.seed)).permutation(len(text.sources))
    chosen = set(order[:count].tolist())
    sides = [
        [[s for i, s in enumerate(side) if (i in chosen) == held] for side in text[:2]]
        for held in (False, True)
    ]
    return text._replace(sources=sides[0][0], targets=sides[0][1]), text._replace(
        sources=sides[1][0], targets=sides[1][1], left_out=0
    )


def _vocabulary(args, text):
    """Tokens and merges, learnt from both languages together."""
    from tfnlp.text import read_bpe, train_bpe

    def make():
        print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
        return train_bpe((s for side in text[:2] for s in side), args.vocab_size)

    return vocabulary(args, make, read_bpe, VOCABULARY)


def _config(args, kind, arguments, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": kind,
        "arguments": arguments,
        "training": {
            "max_tokens": args.max_tokens,
            "label_smoothing": args.label_smoothing,
            **training_settings(args),
        },
        "corpus": corpus,
    }
