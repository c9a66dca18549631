"""Train a Transformer to translate."""

from tfnlp.commands.pretraining import add_transformer
from tfnlp.commands.translating import add_text, add_translation_training, train

SIZES = ("mini", "base", "big")


def add_arguments(parser):
    """Arguments of `tfnlp pretrain transformer`."""
    add_text(parser)
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="mini",
        help="of the paper, or mini: 3 + 3 layers x 256, for a CPU",
    )
    add_transformer(parser, positions=False)
    parser.add_argument(
        "--norm-first", action="store_true", help="layer norms before the sub-layers, not after"
    )
    add_translation_training(
        parser,
        batch_size=128,
        learning_rate=1e-3,
        warmup=0.1,
        schedule="inverse_sqrt",
        optimizer="adam",
        weight_decay=0.0,
        clip_norm=0.0,
    )


def run(args):
    """Pairs of sentences to a run's folder; the same command again resumes one that was stopped."""
    from tfnlp import models

    sizes = dict(getattr(models, f"TRANSFORMER_{args.size.upper()}"))
    sizes.pop("vocab_size", None)
    for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size"):
        if getattr(args, name) is not None:
            sizes[name] = getattr(args, name)
    if args.hidden_size and not args.intermediate_size:
        sizes["intermediate_size"] = 4 * args.hidden_size
    if sizes["num_heads"] < 1 or sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"--hidden-size {sizes['hidden_size']} is not a multiple of --num-heads "
            f"{sizes['num_heads']}"
        )
    sizes.update(dropout=args.dropout, norm_first=args.norm_first)
    train(args, "transformer", sizes, models.transformer)
