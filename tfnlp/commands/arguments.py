"""Arguments that several sub-commands share."""


def add_corpus(parser):
    """`--input` and `--layout`."""
    parser.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="FILE",
        help="text files, globs, .gz files, tfds:NAME[:SPLIT], or book:NAME for one that ships "
        "with tfnlp (book:the_secret_garden)",
    )
    parser.add_argument(
        "--layout",
        choices=["auto", "lines", "prose", "words"],
        default="auto",
        help="lines: a sentence a line, blank line between documents; prose: split into sentences; "
        "words: a word a line, blank line between sentences",
    )


def add_model(parser):
    """`--model`."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="DIR",
        help="a run's folder, or a Google or Hugging Face BERT checkpoint",
    )
