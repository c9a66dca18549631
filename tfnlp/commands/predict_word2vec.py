"""Find the words nearest to words, or to `king - man + woman`, by vectors of any kind."""


def add_arguments(parser):
    """Arguments of `tfnlp predict word2vec`."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="PATH",
        help="a run of word2vec or nnlm; or a file of word2vec, fastText or GloVe",
    )
    parser.add_argument(
        "word",
        nargs="+",
        help="words, or one sum of words with spaces around + and -; with subwords any word goes",
    )
    parser.add_argument("--top", type=int, default=10, help="words to print")


def run(args):
    """Prints for each word, or for the sum, the nearest words with their cosines."""
    from tfnlp.commands.word_vectors import load_vectors, query

    if args.top < 1:
        raise ValueError(f"--top {args.top} must be at least 1")
    text = " ".join(args.word)
    queries = [text] if {"+", "-"} & set(text.split()) else text.split()
    asked = [query(one) for one in queries]
    vectors = load_vectors(args.model)
    for one, (positive, negative) in zip(queries, asked, strict=True):
        found = vectors.most_similar(positive, negative, args.top)
        print(one)
        for word, cosine in found:
            print(f"  {cosine:.3f}  {word}")
