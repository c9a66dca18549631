"""Masked words: go on with a BERT's masked language model on your own text."""

from tfnlp.commands import devices, pretrain_bert
from tfnlp.commands.arguments import add_layout, add_model
from tfnlp.commands.pretraining import add_training

_SMALL = 768  # narrower models learn faster


def add_arguments(parser):
    """Arguments of `tfnlp finetune fill`: those of `tfnlp pretrain bert --from` that are left.

    The defaults of the optimizer are those of Gururangan et al. 2020 ("Don't stop pretraining",
    appendix): AdamW, 1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """
    add_model(parser)
    parser.add_argument(
        "--train",
        nargs="+",
        required=True,
        dest="input",
        metavar="FILE",
        help="text to learn from, given like --input of `tfnlp pretrain`",
    )
    parser.add_argument(
        "--dev", nargs="+", dest="valid", metavar="FILE", help="text to measure on"
    )
    parser.add_argument(
        "--held-out", type=float, default=0.05, help="without --dev: share of --train held out"
    )
    add_layout(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--restart", action="store_true", help="delete an earlier run there first")
    parser.add_argument(
        "--seq-length",
        type=int,
        help="tokens a training sequence (default: 128, or the model's positions if fewer)",
    )
    pretrain_bert.add_masking(parser)
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout rate")
    parser.add_argument("--epochs", type=float, default=10, help="times through the text")
    parser.add_argument("--steps", type=int, help="updates, instead of --epochs")
    add_training(
        parser,
        batch_size=32,
        learning_rate=None,
        warmup=0.06,
        schedule="linear",
        optimizer="adamw",
        weight_decay=0.01,
        clip_norm=1.0,
    )
    # What `tfnlp pretrain bert` asks besides follows from the model.
    names = (
        "vocab cased examples num_layers hidden_size num_heads intermediate_size max_positions"
    )
    parser.set_defaults(**dict.fromkeys(names.split()))


def run(args):
    """A BERT's folder and text to a run's folder, which is a BERT's again."""
    if not args.epochs > 0:
        raise ValueError(f"--epochs {args.epochs} must be above 0")
    args.start = args.model
    with devices.strategy(args) as strategy:
        _run(args, strategy)


def _run(args, strategy):
    before = pretrain_bert.start(args)
    if args.seq_length is None:
        positions = before.encoder.get_layer("position_embedding").max_positions
        args.seq_length = min(128, positions)
    if args.learning_rate is None:
        width = before.encoder.get_layer("token_embedding").hidden_size
        args.learning_rate = 3e-4 if width < _SMALL else 1e-4
    pretrain_bert.train(args, before, strategy)
    print(
        f"fill in masked words with it: tfnlp predict bert --model {args.output} 'A [MASK] ...'\n"
        f"one SavedModel of it: tfnlp export --model {args.output} --output DIR --fill"
    )
