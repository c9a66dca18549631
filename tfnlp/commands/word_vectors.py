"""Word vectors from wherever they are: a run of word2vec or an NNLM, or a file."""

import json
import math
import os


def load_vectors(path):
    """The `WordVectors` of a run's folder or of a file, see `tfnlp.convert.read_word_vectors`.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import convert
    from tfnlp.commands.run_config import VECTORS, run_kind
    from tfnlp.training.run import read_config

    if not os.path.isdir(path):
        return convert.read_word_vectors(path)
    kind = run_kind(path, read_config(path))
    if kind not in VECTORS:
        raise ValueError(f"{path} is a run of {kind}, which has no vectors of words alone")
    return _of_nnlm(path) if kind == "nnlm" else _of_word2vec(path)


def _of_nnlm(path):
    from tfnlp.commands.loading import load_nnlm
    from tfnlp.text import WordVectors

    loaded = load_nnlm(path)
    table = loaded.model.get_layer("token_embedding").embeddings
    return WordVectors(loaded.words, table.numpy())


def _of_word2vec(path):
    import numpy as np

    from tfnlp import models
    from tfnlp.commands.pretrain_word2vec import COUNTS, read_words
    from tfnlp.commands.run_config import check_run
    from tfnlp.text import Subwords, WordVectors
    from tfnlp.text.lines import read_lines
    from tfnlp.training.run import read_config, restore_weights

    config = read_config(path)
    check_run(path, config)
    model = models.word2vec(**config["arguments"])
    restore_weights(path, model)
    words, counts = read_words(os.path.join(path, "vocab.txt")), None
    kept = os.path.join(path, COUNTS)
    if os.path.exists(kept):
        lines = read_lines(kept, "file of counts")
        if not all(line.isdecimal() and len(line) < 19 for line in lines):
            raise ValueError(f"file of counts {kept} holds something else; expected whole numbers")
        counts = np.array(lines, "int64")
    table = model.get_layer("word_embedding").embeddings.numpy()
    if config["arguments"].get("buckets") is None:
        return WordVectors(words, table, counts)
    own, rest = table[: len(words)], table[len(words) :]
    subwords = Subwords(rest, config["text"]["min_n"], config["text"]["max_n"])
    return WordVectors(words, subwords.vectors(words, own), counts, subwords)


def is_vectors(path):
    """Whether `path` is a file of word vectors."""
    from tfnlp.convert.word_vectors import word_vectors_kind

    return os.path.isfile(path) and word_vectors_kind(path) is not None


def query(text):
    """The words of "king - man + woman", as `(positive, negative)`.

    Raises:
        ValueError: if a word or a sign is missing.
    """
    positive, negative, sign, words = [], [], "+", text.split()
    for place, word in enumerate(words):
        if place % 2:
            if word not in ("+", "-"):
                raise ValueError(f"{text!r} lacks a + or - before {word!r}")
            sign = word
        elif word in ("+", "-"):
            raise ValueError(f"{text!r} lacks a word beside {word!r}; put spaces around signs")
        else:
            (positive if sign == "+" else negative).append(word)
    if len(words) % 2 == 0:
        raise ValueError(f"{text!r} lacks a word at its end")
    return positive, negative


def evaluate(args):
    """Prints the answers to --analogies and the rank correlations with --similarity."""
    from tfnlp.data import read_analogies, read_similarities
    from tfnlp.tasks import answer_analogies, rate_pairs

    if args.most_frequent < 1:
        raise ValueError(f"--most-frequent {args.most_frequent} must be at least 1")
    questions = read_analogies(args.analogies) if args.analogies else None
    sets = {path: read_similarities(path) for path in args.similarity or ()}
    vectors = load_vectors(args.model)
    results = {"words": len(vectors.words), "size": vectors.size}
    if questions is not None:
        answers = answer_analogies(vectors, questions, args.most_frequent)
        results["analogies"] = {
            name: {
                "accuracy": _number(a.accuracy),
                "correct": a.correct,
                "seen": a.seen,
                "asked": a.asked,
            }
            for name, a in answers.items()
        }
    results["similarity"] = {}
    for path, pairs in sets.items():
        found = rate_pairs(vectors, pairs)
        results["similarity"][path] = {
            "spearman": _number(found.spearman),
            "seen": found.seen,
            "asked": found.asked,
        }
    if args.json:
        print(json.dumps(results))
    else:
        _show(results)


def _show(results):
    print(f"{results['words']:,} words of {results['size']} numbers")
    for name, row in results.get("analogies", {}).items():
        print(
            f"{name:30s}{_shown(row['accuracy'], '.1%'):>8s}  {row['correct']} of {row['seen']}, "
            f"{row['asked'] - row['seen']} not asked"
        )
    for path, row in results["similarity"].items():
        name = os.path.basename(path)
        print(
            f"{name:30s}{_shown(row['spearman'], '.3f'):>8s}  Spearman of {row['seen']} pairs, "
            f"{row['asked'] - row['seen']} left out"
        )


def _number(value):
    """A number as JSON knows it."""
    return None if math.isnan(value) else value


def _shown(value, format):
    return "-" if value is None else f"{value:{format}}"
