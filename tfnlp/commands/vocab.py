"""Build a WordPiece vocabulary from text."""

import os

from tfnlp.commands.arguments import add_corpus


def add_arguments(parser):
    """Arguments of `tfnlp vocab`."""
    add_corpus(parser)
    parser.add_argument("--output", required=True, help="vocabulary file to write")
    parser.add_argument("--size", type=int, default=8000, help="number of tokens")
    parser.add_argument("--cased", action="store_true", help="keep case and accents")
    parser.add_argument("--min-frequency", type=int, default=2, help="rarer pairs aren't merged")


def run(args):
    """Reads the corpus, trains the vocabulary, writes it whole or not at all."""
    from tfnlp.data import read_documents
    from tfnlp.text import train_wordpiece, write_vocabulary

    folder = os.path.dirname(os.path.abspath(args.output))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"--output {args.output}: the folder {folder} does not exist")
    sentences = (s for d in read_documents(args.input, args.layout) for s in d)
    tokens = train_wordpiece(
        sentences, args.size, lowercase=not args.cased, min_frequency=args.min_frequency
    )
    write_vocabulary(args.output, tokens)
    print(f"{args.output}: {len(tokens)} tokens, {'cased' if args.cased else 'uncased'}")
