"""What the tests of examples share: a corpus in several files, and both ways to its batches."""

import gzip
import json
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.cli.command import tfnlp
from tests.data.batches_test import arrays  # noqa: F401
from tests.data.batches_test import assert_equal as assert_same  # noqa: F401
from tfnlp.cli.command import parse
from tfnlp.cli.commands import COMMANDS
from tfnlp.data import (
    PairShards,
    SentencePairs,
    TokenizedCorpus,
    TokenWindows,
    read_documents,
    split_documents,
    token_stream,
)
from tfnlp.families.gpt import newline_id
from tfnlp.text import WordPieceTokenizer, gpt_tokenizer, read_bpe, read_vocabulary

WORDS = "the a dog cat river mountain unbelievable walking walked sees crosses of in old".split()
SEED = 3


def small_pieces():
    """A context in which texts are tokenized in pieces of 600 characters."""
    return mock.patch("tfnlp.runs.examples.CHUNK", 600)


def files_of(folder):
    return [str(folder / name) for name in ("a.txt", "b.txt.gz", "c.txt", "d.txt")]


def write_corpus(folder):
    """Four files: sentences a line, prose in gzip, documents of one sentence, and no text."""
    folder.mkdir()
    rng = np.random.default_rng(0)

    def sentence():
        return " ".join(rng.choice(WORDS, rng.integers(1, 14))).capitalize() + "."

    def document(size):
        return [sentence() for _ in range(size)]

    lines = ["\n".join(document(n)) for n in (40, 3, 1, 25, 60, 8, 2)]
    # A sentence without tokens, and a document of nothing else.
    lines.insert(2, f"{sentence()}\n\ufffd\n{sentence()}")
    lines.insert(4, "\ufffd\n\ufffd")
    (folder / "a.txt").write_text("\n\n".join(lines) + "\n")
    prose = "\n\n\n".join("\n\n".join(" ".join(document(5)) for _ in range(n)) for n in (4, 7, 3))
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.write(prose)
    (folder / "c.txt").write_text("\n\n".join(sentence() for _ in range(30)))
    (folder / "d.txt").write_text("\n")


def command(model, files, output, *flags):
    """The arguments of `tfnlp examples`, for small things."""
    sizes = ["--seq-length", "32"]
    if "--vocab" not in flags:
        sizes += ["--vocab-size", "80" if model == "bert" else "300"]
    shards = ["--seed", str(SEED), "--epochs", "2", "--shards", "3"]
    return [model, "--input", *files, "--output", str(output), *sizes, *shards, *flags]


def make(*arguments):
    """Makes examples in this process; returns the manifest."""
    options = parse(["tfnlp", "examples", *map(str, command(*arguments))])
    with small_pieces():
        COMMANDS["examples"].run(options)
    with open(f"{options.output}/manifest.json") as file:
        return json.load(file)


def by_command(*arguments):
    """The exit code of `tfnlp examples` with these arguments of `command`."""
    with small_pieces():
        return tfnlp("examples", *command(*arguments))


def bert_shards(folder, **arguments):
    tokenizer = WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"))
    return PairShards(folder, tokenizer, **{"batch_size": 4, "max_predictions": 6, **arguments})


def from_text(model, folder, documents, valid=None, held_out=0.05, **arguments):
    """`SentencePairs` or `TokenWindows` as training makes them of raw text: those to train on, and
    those held out."""
    if valid is None:
        documents, valid = split_documents(documents, held_out, SEED)
    made = []
    if model == "bert":
        tokenizer = WordPieceTokenizer(read_vocabulary(f"{folder}/vocab.txt"))
    else:
        tokenizer = gpt_tokenizer(read_bpe(f"{folder}/vocab"))
    for part, seed in ((documents, SEED), (valid, SEED + 1)):
        corpus = TokenizedCorpus.build(part, tokenizer, progress=False)
        if model == "bert":
            more = {"seq_length": 32, "max_predictions": 6, "seed": seed, **arguments}
            made.append(SentencePairs(corpus, tokenizer, **more))
        else:
            stream = token_stream(corpus, newline_id(tokenizer), tokenizer.end_id)
            made.append(TokenWindows(stream, window=32, seed=seed, **arguments))
    return made


def documents_of(files, model="bert"):
    return list(read_documents(files, "auto", paragraphs=model == "gpt"))


def contents(folder):
    """Every file below a folder of examples, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def features(path):
    """The examples of a shard as dicts of lists."""
    found = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        found.append({n: list(f.int64_list.value) for n, f in example.features.feature.items()})
    return found
