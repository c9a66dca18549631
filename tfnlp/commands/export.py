"""Export a BERT as a pair of SavedModels: preprocessor and encoder."""

from tfnlp.commands.arguments import add_model


def add_arguments(parser):
    """Arguments of `tfnlp export`."""
    add_model(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the pair")
    parser.add_argument(
        "--seq-length", type=int, default=128, help="length that the preprocessor packs to"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier export")


def run(args):
    """Writes DIR/encoder and DIR/preprocessor."""
    from tfnlp.commands.loading import load_bert
    from tfnlp.hub import export_bert

    loaded = load_bert(args.model)
    positions = loaded.encoder.get_layer("position_embedding").max_positions
    encoder, preprocessor = export_bert(
        args.output,
        loaded.encoder,
        loaded.tokenizer,
        loaded.pretrainer,
        seq_length=min(args.seq_length, positions),
        overwrite=args.overwrite,
    )
    print(f"encoder: {encoder}\npreprocessor: {preprocessor}")
