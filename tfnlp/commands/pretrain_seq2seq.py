"""Train a recurrent encoder-decoder to translate, with attention or without."""

from tfnlp.commands.translating import add_text, add_translation_training, train

SCORES = ("additive", "dot", "general", "cosine", "none")


def add_arguments(parser):
    """Arguments of `tfnlp pretrain seq2seq`."""
    add_text(parser)
    parser.add_argument(
        "--attention",
        choices=SCORES,
        default="general",
        help="how a state of the decoder is compared with those of the encoder; none: the "
        "encoder's last state is all that the decoder gets",
    )
    parser.add_argument(
        "--input-feeding",
        action="store_true",
        help="the decoder also reads what it attended to in the step before",
    )
    parser.add_argument("--num-layers", type=int, default=1, help="of encoder and decoder each")
    parser.add_argument("--hidden-size", type=int, default=256, help="cells a layer")
    parser.add_argument("--embedding-size", type=int, help="of a token (default: as --hidden-size)")
    parser.add_argument("--dropout", type=float, default=0.2, help="rate while training")
    add_translation_training(
        parser,
        batch_size=64,
        learning_rate=3e-3,
        warmup=0.02,
        schedule="linear",
        optimizer="adam",
        weight_decay=0.0,
        clip_norm=1.0,
    )


def run(args):
    """Pairs of sentences to a run's folder; the same command again resumes one that was stopped."""
    from tfnlp import models

    for name in ("num_layers", "hidden_size", "embedding_size"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value} must be at least 1")
    if args.input_feeding and args.attention == "none":
        raise ValueError("--input-feeding needs --attention; without it there is nothing to feed")
    sizes = {
        "num_layers": args.num_layers,
        "hidden_size": args.hidden_size,
        "embedding_size": args.embedding_size or args.hidden_size,
        "attention": None if args.attention == "none" else args.attention,
        "input_feeding": args.input_feeding,
        "dropout": args.dropout,
    }
    train(args, "seq2seq", sizes, models.seq2seq)
