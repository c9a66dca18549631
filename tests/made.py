"""Toys of each family, pretrained, fine-tuned and exported once for a whole run of pytest.

The fixture `made` (tests/conftest.py) returns the `Made` of a family, whose parts are made by the
`tfnlp` command when a test first asks for them; all processes of pytest-xdist share them:

    made("bert").train, .valid      a book's sentences, one a line, a blank line between documents
                .rows, .dev         labelled texts: tables with the columns `text` and `label`
                .run                what `tfnlp pretrain bert` left
                .exported           what `tfnlp export` wrote of the run: of an encoder the folders
                                    `encoder` and `preprocessor`, of a GPT `model` and
                                    `preprocessor`, of the others one module
                .task               what `tfnlp finetune classify` left: the run, fine-tuned
                .module             what `tfnlp export` wrote of the task: one module
                .command(output)    the command line that has made the run, for another folder
                .copied(folder)     a copy of the run, for tests that may write to it
                .settings           the same as arguments of `tfnlp.pretrain`, but for the texts

Translators have .train and .valid with the suffixes `.source` and `.target`, and no task. Word
vectors have no task either. The folders are of all tests and processes: none writes to them.
"""

import contextlib
import dataclasses
import fcntl
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cli.command import tfnlp
from tests.support import golden
from tfnlp import books

_ENCODER = dict(
    num_layers=2, hidden_size=16, num_heads=2, max_positions=48, vocab_size=300, seq_length=16,
    batch_size=8, steps=4, steps_per_call=2, evaluate_batches=3,
)  # fmt: skip
_WORDS = dict(batch_size=64, steps=12, steps_per_call=4)
_TRANSLATOR = dict(
    hidden_size=32, vocab_size=300, dropout=0, batch_size=32, steps=200, steps_per_call=10,
    evaluate_every=100,
)  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "word2vec": _WORDS | dict(dimension=8, window=2, samples=6, block=8, min_count=2),
    "glove": _WORDS | dict(dimension=8, window=4, learning_rate=0.3, min_count=2),
    "nnlm": _WORDS | dict(context=2, embedding_size=6, hidden_size=8, max_vocab=200),
    "seq2seq": _TRANSLATOR | dict(learning_rate=1e-2),
    "transformer": _TRANSLATOR | dict(num_layers=1, num_heads=2, learning_rate=5e-3),
    "elmo": dict(
        size="mini", units=12, projection_size=8, num_layers=1, max_vocab=300, reset="sentence",
        batch_size=8, window=5, samples=50, steps=4, steps_per_call=2, evaluate_batches=3,
    ),
    "gpt": _ENCODER | dict(vocab_size=320, initializer_range=0.02),
    "bert": _ENCODER,
    "roberta": _ENCODER | dict(vocab_size=320),
    "distilbert": dict(seq_length=16, batch_size=8, steps=4, steps_per_call=2, evaluate_batches=3),
    "albert": _ENCODER | dict(whole_word=True),
    "electra": _ENCODER | dict(generator_size=0.5),
    "mpnet": {k: v for k, v in _ENCODER.items() if k != "vocab_size"}
    | dict(vocab=str(golden("multilingual") / "mpnet")),
}  # fmt: skip
TRANSLATORS = ("seq2seq", "transformer")
# A language with another word for each word, and another order: the last one comes first.
WORDS = {"red": "rot", "dog": "Hund", "sees": "sieht", "big": "groß", "cat": "Katze", "the": "der"}


@dataclasses.dataclass(frozen=True)
class Made:
    """A toy of one family; see the module."""

    folder: pathlib.Path  # the session's, of all families
    family: str

    @property
    def settings(self) -> dict[str, Any]:
        more = {} if self.family in TRANSLATORS else {"layout": "lines"}
        if self.family == "distilbert":
            more["teacher"] = str(Made(self.folder, "bert").run)
        return {**SETTINGS[self.family], **more}

    @property
    def train(self) -> pathlib.Path:
        return self._texts / ("train" if self.family in TRANSLATORS else "train.txt")

    @property
    def valid(self) -> pathlib.Path:
        return self._texts / ("valid" if self.family in TRANSLATORS else "valid.txt")

    @property
    def rows(self) -> pathlib.Path:
        return self._texts / "rows.tsv"

    @property
    def dev(self) -> pathlib.Path:
        return self._texts / "dev.tsv"

    @property
    def run(self) -> pathlib.Path:
        return self._part("run", lambda output: _run(*self.command(output)))

    @property
    def exported(self) -> pathlib.Path:
        run = self.run
        return self._part("exported", lambda output: _export(run, output))

    @property
    def task(self) -> pathlib.Path:
        command = ["finetune", "classify", "--model", self.run, "--train", self.rows]
        command += ["--dev", self.dev, "--epochs", 1, "--batch-size", 8, "--max-length", 16]
        return self._part("task", lambda output: _run(*command, "--output", output))

    @property
    def module(self) -> pathlib.Path:
        task = self.task
        return self._part("module", lambda output: _export(task, output))

    def copied(self, folder: pathlib.Path) -> pathlib.Path:
        """Return a copy of the run, in `folder`."""
        return pathlib.Path(shutil.copytree(self.run, folder / f"{self.family}_run"))

    def command(self, output: pathlib.Path, **changes: Any) -> list[Any]:
        """Return the command line of the run, with another folder and other settings."""
        command = ["pretrain", self.family, "--output", output]
        if self.family in TRANSLATORS:
            for option, path in (("", self.train), ("valid-", self.valid)):
                for side in ("source", "target"):
                    command += [f"--{option}{side}", path.with_suffix(f".{side}")]
        else:
            command += ["--input", self.train, "--valid", self.valid]
        return command + options({**self.settings, **changes})

    @property
    def _texts(self) -> pathlib.Path:
        if self.family in TRANSLATORS:
            return once(self.folder / "pairs", _write_pairs)
        return once(self.folder / "texts", _write_texts)

    def _part(self, name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
        return once(self.folder / self.family / name, make)


def options(settings: dict[str, Any]) -> list[Any]:
    """Return arguments of `tfnlp.pretrain` as the command takes them; None and False are none."""
    found = []
    for name, value in settings.items():
        if value is not None and value is not False:
            found += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return found


def once(path: pathlib.Path, make: Callable[[pathlib.Path], Any]) -> pathlib.Path:
    """Return a path that `make(path)` has written, in this process or in another one."""
    done = path.with_name(f"{path.name}.done")
    if not done.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_name(f"{path.name}.lock")):
            if not done.exists():
                shutil.rmtree(path, ignore_errors=True)  # of a process that failed
                make(path)
                done.touch()
    return path


@contextlib.contextmanager
def _alone(path: pathlib.Path) -> Iterator[None]:
    """Keep other processes out of the block."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield


def _run(*command: Any) -> None:
    assert tfnlp(*command) == 0


def _export(model: pathlib.Path, output: pathlib.Path) -> None:
    _run("export", "--model", model, "--output", output)


def _write_texts(folder: pathlib.Path) -> None:
    folder.mkdir()
    words = books.path().read_text(encoding="utf-8")[:30_000].split()
    lines = [" ".join(words[i : i + 10]) for i in range(0, len(words), 10)]
    documents = ["\n".join(lines[i : i + 8]) for i in range(0, len(lines), 8)]
    for name, part in (("train.txt", documents[:-6]), ("valid.txt", documents[-6:])):
        (folder / name).write_text("\n\n".join(part) + "\n", encoding="utf-8")
    rng = np.random.default_rng(5)
    for name, count in (("rows.tsv", 40), ("dev.tsv", 16)):
        texts = [" ".join(rng.choice(words[:300], rng.integers(3, 9))) for _ in range(count)]
        labels = [["no", "yes"][number % 2] for number in range(count)]
        rows = (f"{text} {label}\t{label}" for text, label in zip(texts, labels, strict=True))
        (folder / name).write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")


def _write_pairs(folder: pathlib.Path) -> None:
    folder.mkdir()
    for name, count in (("train", 600), ("valid", 24)):
        rng = np.random.default_rng(count)
        rows = [rng.choice(list(WORDS), rng.integers(2, 6)).tolist() for _ in range(count)]
        sides = {"source": rows, "target": [[WORDS[w] for w in [r[-1], *r[:-1]]] for r in rows]}
        for side, texts in sides.items():
            lines = (f"{' '.join(text)}\n" for text in texts)
            (folder / f"{name}.{side}").write_text("".join(lines), encoding="utf-8")
