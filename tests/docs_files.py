"""Toy files and models that stand for those which the pages of the documentation name."""

import fnmatch
import json
import pathlib
import shutil
import zipfile
from collections.abc import Iterable

from tests.support import golden
from tfnlp import books
from tfnlp.text import SPECIAL_TOKENS

# Words that the pages ask for: of word2vec's example, of ELMo's.
_ASKED = ["saw", "the", "king", ",", "a", "man", "and", "a", "woman", "at", "the", "bank", "."]


def _sentences(count: int = 240) -> list[str]:
    """Return sentences of a book, whose first words are two that can be classes."""
    words = books.path().read_text(encoding="utf-8").split()[500 : 500 + 8 * count]
    parts = [_ASKED, *(words[i : i + 8] for i in range(0, len(words), 8))]
    return [" ".join([("Mary", "Dickon")[i % 2], *part]) for i, part in enumerate(parts)]


def _short_sentences() -> list[str]:
    """Return sentences of three words: an untrained model translates to the longest that it may."""
    return [" ".join(sentence.split()[:3]) for sentence in _sentences(40)]


def _lines(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)


_DOCUMENTS = "\n\n".join(_lines(_sentences()[i : i + 8]) for i in range(0, 240, 8))


def _table(*header: str, separator: str = "\t") -> str:
    """Return a table of 24 rows: a class, a rating, one or two texts, names of labels."""
    texts = [text.replace('"', "").replace(",", "") for text in _sentences()]
    rows = []
    for i in range(24):
        label, text = texts[i].split(maxsplit=1)
        other = texts[i + 24]
        values = {"label": label, "labels": "toxic|insult" if i % 2 else "", "score": i % 6}
        rows.append([str(values.get(name, other if "2" in name else text)) for name in header])
    # A number as the name of a column stands for a file without header.
    names = [] if header[0].isdecimal() else [header]
    return _lines(separator.join(row) for row in [*names, *rows])


def _objects() -> str:
    found = [text.split(maxsplit=1) for text in _sentences(24)]
    return _lines(json.dumps({"text": text, "label": label}) for label, text in found)


def _labels() -> str:
    found = [(text, ["toxic", "insult"][: i % 3]) for i, text in enumerate(_sentences(24))]
    return _lines(json.dumps({"text": text, "labels": labels}) for text, labels in found)


def _conll() -> str:
    tags = [[f"{word} {'B-x' if word[0].isupper() else 'O'}" for word in text.split()]
            for text in _sentences(24)]  # fmt: skip
    return "\n\n".join("\n".join(lines) for lines in tags) + "\n"


def _novels() -> str:
    """Return documents of which the first and the last word are a cluster."""
    found = []
    for number, text in enumerate(_sentences(24)):
        words = [*text.split()[:8], "she"]
        marks = ["(0)", *["-"] * 7, "(0)"]
        rows = zip(range(9), words, marks, strict=True)
        lines = (f"novel\t0\t{place}\t{word}\t-\t{mark}" for place, word, mark in rows)
        found += [f"#begin document ({number});", *lines, "#end document"]
    return _lines(found)


def _conllu(roles: bool = True) -> str:
    """Return sentences with parts of speech, and a predicate each with its roles if asked."""
    kinds = [("PRON", "_", "ARG0"), ("VERB", "sell.01", "V"), ("PRON", "_", "ARG1")]
    sentences = []
    for who in ("She", "He", "Mary", "Dickon", "Colin", "Martha"):
        for does in ("sold", "took", "saw"):
            rows = [
                [str(i), form, "_", kind, *"_" * 6, *([predicate, role] if roles else ())]
                for i, (form, (kind, predicate, role)) in enumerate(
                    zip((who, does, "it"), kinds, strict=True), 1
                )
            ]
            sentences.append(_lines("\t".join(row) for row in rows))
    return "\n".join(sentences) + "\n"


def _vectors() -> str:
    words = dict.fromkeys(" ".join(_sentences(30)).split())
    rows = [f"{word} {i % 7 - 3}.5 {i % 5 - 2}.25 {i % 3}" for i, word in enumerate(words)]
    return _lines([f"{len(rows)} 3", *rows])


# The first pattern that fits the end of a path says what is in the file.
FILES = {
    "vectors.txt": _vectors,
    "questions-words.txt": lambda: ": family\nking man woman bank\nman king bank woman\n",
    "EN-*.txt": lambda: "king\tman\t7.5\nwoman\tman\t8\nbank\tking\t1\n",
    "vocab.txt": lambda: _lines(
        [*SPECIAL_TOKENS, *sorted({*" ".join(_sentences()).lower().split()})]
    ),
    "*train.txt": lambda: _lines(_sentences()),
    "*dev.txt": lambda: _lines(_sentences()),
    "*texts.txt": lambda: _lines(_sentences()),
    "*.txt": lambda: _DOCUMENTS,
    "*.raw": lambda: _DOCUMENTS,
    "*.en": lambda: _lines(_short_sentences()),
    "*.de": lambda: _lines(_short_sentences()),
    "reviews.tsv": lambda: _table("label", "body"),
    "reviews.csv": lambda: _table("text", "label", separator=","),
    "pairs.tsv": lambda: _table("sentence1", "sentence2"),
    "entailment.tsv": lambda: _table("premise", "hypothesis", "label"),
    "rated.tsv": lambda: _table("sentence1", "sentence2", "score"),
    "sts-*.tsv": lambda: _table("0", "1", "2", "3", "score", "5", "text2"),
    "*.tsv": lambda: _table("sentence", "label"),
    "*.csv": lambda: _table("text", "labels", separator=","),
    "messages_*.jsonl": _labels,
    "*.jsonl": _objects,
    "rows.json": lambda: json.dumps({"instances": [{"text": "the dog ran"}]}),
    "novels_*.conll": _novels,
    "*.conll": _conll,
    "ewt_*.conllu": lambda: _conllu(roles=False),
    "*.conllu": _conllu,
}
# Those of the folder `models`, and golden files.
MODELS = {
    "bert": "models/bert",
    "run": "models/bert",
    "minilm": "models/minilm",
    "all-MiniLM-L6-v2": "models/minilm",
    "gpt": "gpt2_openai_tf",
    "gpt2": "gpt2_openai_tf",
    "elmo": "elmo_bilm_tf",
    "sentiment": "models/sentiment",
    "lee_fasttext.bin": "word_vectors_gensim/fasttext.bin",
    "preset-folder": "keras_hub/bert.zip",
    "nli": "huggingface_heads/bert_classify",
}


def provide(words: Iterable[str], folder: pathlib.Path, models: pathlib.Path) -> None:
    """Write what is not there of the files and models of these names; other words are passed over.

    Args:
        words: the words of a page's commands and the strings of its programs.
        folder: where the page is run.
        models: a folder with `bert`, a pretrained run, `minilm`, a checkpoint of transformers,
            and `sentiment`, a fine-tuned run.
    """
    for word in sorted(set(words)):
        path = folder / word.replace("*", "a")
        if path.exists():
            continue
        if word in MODELS:
            _copy(MODELS[word], path, models)
            continue
        for pattern, content in FILES.items():
            if fnmatch.fnmatch(path.name, pattern) and not word.startswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content(), encoding="utf-8")
                break


def _copy(name: str, path: pathlib.Path, models: pathlib.Path) -> None:
    source = models / name.removeprefix("models/") if name.startswith("models/") else golden(name)
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            archive.extractall(path)
    elif source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)
