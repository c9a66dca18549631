"""Find words used in the same sense, or write all layers of a text, with an ELMo."""

import os

from tfnlp.commands.arguments import add_model, add_tokenize, tokenized


def add_arguments(parser):
    """Arguments of `tfnlp predict elmo`."""
    add_model(parser)
    parser.add_argument(
        "sentence", nargs="*", help="with --word: sentences that hold it, words between spaces"
    )
    parser.add_argument("--word", help="print its nearest neighbours in --corpus")
    parser.add_argument(
        "--corpus",
        action="append",
        metavar="FILE",
        help="text to look for neighbours in; may be given several times, also a glob in quotes",
    )
    parser.add_argument(
        "--layout",
        choices=["auto", "lines", "prose", "words"],
        default="auto",
        help="of --corpus, as in `tfnlp pretrain`",
    )
    add_tokenize(parser)
    parser.add_argument("--same", action="store_true", help="only neighbours that are --word too")
    parser.add_argument("--top", type=int, default=5, help="neighbours a sentence")
    parser.add_argument(
        "--layer",
        default="lstm_outputs1",
        help="vectors to compare: word_emb, lstm_outputs1, lstm_outputs2, ...",
    )
    parser.add_argument("--input", metavar="FILE", help="with --hdf5: a sentence a line")
    parser.add_argument("--hdf5", metavar="FILE", help="write all layers of --input to this file")
    parser.add_argument(
        "--carry-state",
        action="store_true",
        help="with --hdf5: carry the LSTM state from sentence to sentence, as bilm-tf does",
    )


def run(args):
    """Prints neighbours, writes an HDF5 file, or both."""
    if not (args.word or args.hdf5):
        raise ValueError("nothing to do: give --word and --corpus, or --input and --hdf5")
    if args.word and not (args.corpus and args.sentence):
        raise ValueError("--word needs sentences that hold it, and --corpus")
    if args.hdf5 and not args.input:
        raise ValueError("--hdf5 needs --input, a file of sentences")
    for sentence in args.sentence if args.word else ():
        if args.word not in sentence.split():
            raise ValueError(f"{args.word!r} is not a word of {sentence!r} (split at spaces)")
    if args.hdf5 and os.path.exists(args.hdf5):
        raise FileExistsError(f"{args.hdf5} exists; choose another --hdf5")

    from tfnlp.commands.loading import load_elmo

    encoder = load_elmo(args.model).encoder
    if args.word:
        _print_neighbours(args, encoder)
    if args.hdf5:
        _write(args, encoder)


def _print_neighbours(args, encoder):
    from tfnlp.commands.neighbours import nearest
    from tfnlp.data import read_documents

    names = ["word_emb", *(n for n in encoder.output if n.startswith("lstm_outputs"))]
    if args.layer not in names:
        raise ValueError(f"--layer {args.layer} is unknown; choose one of {', '.join(names)}")
    documents = tokenized(read_documents(args.corpus, args.layout), args)
    corpus = [sentence.split() for document in documents for sentence in document]
    found = nearest(
        encoder,
        [sentence.split() for sentence in args.sentence],
        args.word,
        corpus,
        layer=names.index(args.layer),
        top=args.top,
        same=args.same,
    )
    for sentence, neighbours in zip(args.sentence, found, strict=True):
        words = sentence.split()
        print(_marked(words, words.index(args.word)))
        for score, number, place in neighbours:
            print(f"  {score:.3f}  {_marked(corpus[number], place)}")


def _marked(words, place, around=9):
    """`words` near `place`, with the word there in brackets."""
    first, last = max(0, place - around), min(len(words), place + around + 1)
    shown = [f"[{w}]" if i == place else w for i, w in enumerate(words)][first:last]
    return f"{'... ' if first else ''}{' '.join(shown)}{' ...' if last < len(words) else ''}"


def _write(args, encoder):
    import h5py
    from tqdm import tqdm

    from tfnlp.hub import ElmoModule, running_layers, sentence_layers

    with open(args.input, encoding="utf-8") as file:
        sentences = [line.split() for line in file]
    if not sentences:
        raise ValueError(f"{args.input} is empty; give a file with a sentence a line")
    if args.carry_state:
        layers = running_layers(encoder, sentences)
    else:
        layers = sentence_layers(ElmoModule(encoder), sentences)
    partial = f"{args.hdf5}.partial"
    try:
        with h5py.File(partial, "w") as file:
            for number, values in enumerate(tqdm(layers, total=len(sentences), unit="sentence")):
                file.create_dataset(str(number), data=values)
        os.replace(partial, args.hdf5)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    print(f"{args.hdf5}: {len(sentences)} sentences, {values.shape[0]} layers of {values.shape[2]}")
