"""What pretraining commands share: arguments, documents, and the trainer made from them."""

import os

from tfnlp.commands.arguments import add_corpus


def add_run(parser):
    """Text, output folder and vocabulary."""
    add_corpus(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--valid", nargs="+", metavar="FILE", help="held-out text; else see below")
    parser.add_argument(
        "--held-out", type=float, default=0.05, help="share of --input held out without --valid"
    )
    parser.add_argument("--vocab", metavar="FILE", help="vocabulary; built from --input if absent")
    parser.add_argument("--restart", action="store_true", help="delete an earlier run there first")


def add_training(
    parser, *, batch_size, learning_rate, warmup, schedule, optimizer, weight_decay, clip_norm
):
    """Optimisation, devices, evaluation and checkpoints; the defaults are the model's recipe."""
    parser.add_argument("--batch-size", type=int, default=batch_size, help="rows an update")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches an update")
    parser.add_argument(
        "--learning-rate", type=float, default=learning_rate, help="peak learning rate"
    )
    parser.add_argument("--warmup", type=float, default=warmup, help="share of the steps")
    parser.add_argument(
        "--schedule",
        choices=["linear", "cosine", "inverse_sqrt", "constant"],
        default=schedule,
        help="what the learning rate does after the warm-up",
    )
    parser.add_argument("--optimizer", choices=["adamw", "lamb", "adagrad"], default=optimizer)
    parser.add_argument("--weight-decay", type=float, default=weight_decay)
    parser.add_argument("--clip-norm", type=float, default=clip_norm, help="0 for no clipping")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--jit", action="store_true", help="compile the step with XLA")
    parser.add_argument("--steps-per-call", type=int, default=10)
    parser.add_argument("--strategy", choices=["auto", "cpu", "gpu", "mirrored"], default="auto")
    parser.add_argument("--evaluate-every", type=int, help="steps (default: ten times a run)")
    parser.add_argument("--evaluate-batches", type=int, default=50, help="held-out batches")
    parser.add_argument("--checkpoint-every", type=int, help="steps (default: each evaluation)")
    parser.add_argument("--keep", type=int, default=3, help="checkpoints to keep")
    parser.add_argument("--patience", type=int, help="evaluations without progress before stopping")
    parser.add_argument("--seed", type=int, default=0)


def check_training(args):
    """Raises ValueError for numbers that no training can have."""
    if not 0 <= args.warmup <= 1:
        raise ValueError(f"--warmup {args.warmup} must lie between 0 and 1")


def documents(args):
    """Training and held-out documents, lists of lists of sentences."""
    from tfnlp.data import read_documents, split_documents

    train = list(read_documents(args.input, args.layout))
    if args.valid:
        return train, list(read_documents(args.valid, args.layout))
    return split_documents(train, args.held_out, args.seed)


def training_settings(args):
    """The arguments of `add_training` that decide which numbers come out."""
    names = (
        "batch_size accumulation steps learning_rate warmup schedule optimizer weight_decay "
        "clip_norm bf16 seed"
    )
    return {name: getattr(args, name) for name in names.split()}


def make_trainer(args, task, strategy, **more):
    """The `Trainer` that the command line asks for."""
    from tfnlp import training

    return training.Trainer(
        task,
        training.optimizer(args.optimizer, args.weight_decay),
        training.schedule(
            args.schedule, args.learning_rate, args.steps, int(args.warmup * args.steps)
        ),
        strategy=strategy,
        clip_norm=args.clip_norm or None,
        accumulation=args.accumulation,
        steps_per_call=args.steps_per_call,
        jit_compile=args.jit,
        seed=args.seed,
        directory=args.output,
        keep=args.keep,
        **more,
    )


def kept_vocabulary(args, make, read, write):
    """The path of the run's vocabulary, which is written there unless an earlier start did.

    Args:
        make: function without arguments that makes the tokens if neither --vocab nor an earlier
            start of the run has them.
        read, write: functions of a path to the tokens, and of a path and tokens.

    Raises:
        ValueError: if the run has another vocabulary than --vocab.
    """
    kept = os.path.join(args.output, "vocab.txt")
    if args.vocab:
        tokens = read(args.vocab)
    elif os.path.exists(kept):
        return kept
    else:
        tokens = make()
    os.makedirs(args.output, exist_ok=True)
    if not os.path.exists(kept):
        write(kept, tokens)
    elif read(kept) != tokens:
        raise ValueError(
            f"{args.output} holds a run with another vocabulary than {args.vocab}; give the same "
            "one to resume it, or another --output to start a new one"
        )
    return kept
