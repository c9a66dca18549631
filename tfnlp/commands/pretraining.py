"""What pretraining commands share: arguments, documents, and the trainer made from them."""

from tfnlp.commands.arguments import add_corpus
from tfnlp.commands.devices import add_devices

VOCABULARY = "vocab.txt"


def add_run(parser, input_required=True):
    """Text, output folder and vocabulary."""
    add_corpus(parser, input_required)
    parser.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--valid", nargs="+", metavar="FILE", help="held-out text")
    parser.add_argument(
        "--held-out", type=float, default=0.05, help="without --valid: share of --input held out"
    )
    parser.add_argument(
        "--vocab", metavar="FILE", help="vocabulary (GPT: its folder); built from --input if absent"
    )
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
    parser.add_argument(
        "--optimizer",
        choices=["adam", "adamw", "lamb", "adagrad", "rowwise_adagrad"],
        default=optimizer,
        help="rule of the updates",
    )
    parser.add_argument("--weight-decay", type=float, default=weight_decay, help="strength")
    parser.add_argument("--clip-norm", type=float, default=clip_norm, help="0 for no clipping")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--jit", action="store_true", help="compile the step with XLA")
    parser.add_argument(
        "--steps-per-call", type=int, default=10, help="steps a call into TensorFlow"
    )
    add_devices(parser)
    parser.add_argument("--evaluate-every", type=int, help="steps (default: ten times a run)")
    parser.add_argument("--evaluate-batches", type=int, default=50, help="held-out batches")
    parser.add_argument("--checkpoint-every", type=int, help="steps (default: each evaluation)")
    parser.add_argument("--keep", type=int, default=3, help="checkpoints to keep")
    parser.add_argument("--patience", type=int, help="evaluations without progress before stopping")
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and the batches")
    parser.add_argument(
        "--profile",
        action="store_const",
        const=(20, 25),
        help="write a TensorFlow profile of steps 20 to 25 of this start to the run's logs",
    )


def add_transformer(parser, positions=True):
    """What can be changed of a published size, and dropout; `positions`: whether it has a table."""
    for name, text in (
        ("num-layers", "Transformer blocks"),
        ("hidden-size", "width"),
        ("num-heads", "attention heads"),
        ("intermediate-size", "width of the feed-forward nets"),
    ):
        parser.add_argument(f"--{name}", type=int, help=f"{text}, instead of the size's")
    if positions:
        parser.add_argument(
            "--max-positions",
            type=int,
            help="longest sequence that the model can ever read, instead of the size's",
        )
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout rate")


def check_training(args, strategy):
    """Raises ValueError for numbers that no training can have, before anything is written."""
    at_least_one = (
        "batch_size accumulation steps steps_per_call evaluate_every evaluate_batches "
        "checkpoint_every keep patience"
    )
    for name in at_least_one.split():
        _check(args, name, "at least 1", lambda value: value >= 1)
    for name in ("weight_decay", "clip_norm", "seed"):
        _check(args, name, "0 or more", lambda value: value >= 0)
    _check(args, "learning_rate", "above 0", lambda value: value > 0)
    _check(args, "warmup", "between 0 and 1", lambda value: 0 <= value <= 1)
    _check(args, "dropout", "between 0 and 1", lambda value: 0 <= value < 1)
    replicas = strategy.num_replicas_in_sync
    if args.batch_size % (replicas * args.accumulation):
        raise ValueError(
            f"batch of {args.batch_size} does not divide by {replicas} devices x --accumulation "
            f"{args.accumulation}; let --batch-size be a multiple of {replicas * args.accumulation}"
        )


def _check(args, name, wanted, holds):
    value = getattr(args, name)
    if value is not None and not holds(value):
        raise ValueError(f"--{name.replace('_', '-')} {value} must be {wanted}")


def documents(args, paragraphs=False):
    """Training and held-out documents, lists of lists of sentences (of prose, paragraphs)."""
    from tfnlp.data import read_documents, split_documents

    train = list(read_documents(args.input, args.layout, paragraphs))
    if args.valid:
        return train, list(read_documents(args.valid, args.layout, paragraphs))
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


def vocabulary(args, make, read, name=VOCABULARY):
    """The tokens of --vocab, of an earlier start of the run, or those that `make()` returns.

    Nothing is written: that is left to `start_run`, when all else is known to be right.

    Args:
        make: function without arguments to the tokens.
        read: function of a path to the tokens.
        name: where a run keeps them.
    """
    import tensorflow as tf

    from tfnlp.files import local_copy

    kept = tf.io.gfile.join(args.output, name)
    if args.vocab:
        return read(args.vocab)
    if tf.io.gfile.exists(kept) and not args.restart:
        with local_copy(kept) as path:
            return read(path)
    return make()


def start_run(args, config, tokens, read, write, name=VOCABULARY, chief=True):
    """Makes the run's folder, or checks that the one there is this run's.

    Args:
        config: see `tfnlp.training.run`.
        tokens: the vocabulary.
        read, write: functions of a path to the tokens, and of a path and tokens.
        name: where the run keeps them.
        chief: False for a worker that leaves the folder to the first one.

    Raises:
        ValueError: if the folder holds another run.
    """
    import tensorflow as tf

    from tfnlp.files import local_copy, written_whole
    from tfnlp.training.run import delete_run, write_config

    if not chief:
        return
    if args.restart:
        delete_run(args.output)
    kept = tf.io.gfile.join(args.output, name)
    known = tf.io.gfile.exists(kept)
    if known:
        with local_copy(kept) as path:
            same = read(path) == tokens
        if not same:
            raise ValueError(
                f"{args.output} holds a run with another vocabulary than "
                f"{args.vocab or 'the one to be used'}; give the same one to resume it, or another "
                "--output to start a new one"
            )
    write_config(args.output, config)
    if not known:
        with written_whole(kept) as path:
            write(path, tokens)


def fit(args, trainer, data, validation, perplexity=False):
    """Trains as the command line asks, and draws the curve: of losses or perplexities.

    Returns:
        the path of the curve, which the first worker draws.
    """
    from tfnlp.commands.pictures import plot_history
    from tfnlp.files import written_whole

    trainer.fit(
        data,
        args.steps,
        validation=validation,
        evaluate_every=args.evaluate_every,
        checkpoint_every=args.checkpoint_every,
        patience=args.patience,
        profile=args.profile,
    )
    picture = f"{args.output.rstrip('/')}/curve.png"
    if trainer.workers.chief:
        with written_whole(picture) as path:
            shown = (["perplexity"], trainer.task.report) if perplexity else ()
            plot_history(trainer.history, path, *shown)
    return picture
