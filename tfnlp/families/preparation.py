"""What a family makes of its text for one pretraining run, and steps that families share."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tfnlp.data import split_documents
from tfnlp.data.corpus.cache import cache_folder, cached, digest
from tfnlp.data.corpus.documents import held_out_documents, read_documents
from tfnlp.data.corpus.stored_documents import StoredDocuments, stored_text
from tfnlp.data.rows import held
from tfnlp.data.shards.reading import Shards
from tfnlp.data.texts import documents_of
from tfnlp.families.vocabularies import Vocabulary
from tfnlp.text import split_words

Documents = Iterable[list[str]]  # that can be read several times
T = TypeVar("T")


class Preparation(abc.ABC):
    """All that the training loop asks of a family.

    Attributes:
        batches: To train on, by step, with `steps_per_epoch`.
        held_out: Batches of the evaluations during training.
        measured: The whole held-out text, whose `evaluation_batches` give the results.
        described: A line about model and text, for people.
        vocabulary: How the run keeps its tokens.
        tokens: What is compared when a run goes on.
        arguments: Of the encoder.
        corpus: The section of `config.json` that tells this text from others.
        heads: Arguments of the pretrainer; None: `config.json` has none.
        unrecorded_arguments: Of the encoder while it is trained; its weights are the same.
        unrecorded_heads: Of the pretrainer; `config.json` keeps them elsewhere.
        text: A section of `config.json`, beside the recorded settings; None: no section.
        training: What replaces or joins the recorded settings in the section "training".
        first: Whether the model is measured before it is trained: it was trained before.
        files: Names of more files of the run to their lines.
        loss_scale: See `tfnlp.training.Trainer`.
    """

    batches: Any
    held_out: Any
    measured: Any
    described: str
    vocabulary: Vocabulary
    tokens: Any
    arguments: dict[str, Any]
    corpus: dict[str, Any]
    heads: dict[str, Any] | None = None
    unrecorded_arguments: dict[str, Any] = {}
    unrecorded_heads: dict[str, Any] = {}
    text: dict[str, Any] | None = None
    training: dict[str, Any] = {}
    first: bool = False
    files: dict[str, Iterable[Any]] = {}
    loss_scale: float = 1.0

    @abc.abstractmethod
    def objective(self, model: Any) -> Any:
        """Return what is learnt by the model that is trained, see `tfnlp.objectives`."""

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
        """Return a line about model and text, for people."""
        return self.described

    def measure(self, trainer: Any) -> dict[str, float]:
        """Return the results on the whole held-out text."""
        return trainer.evaluate(self.measured.evaluation_batches())

    @abc.abstractmethod
    def line(self, when: str, results: dict[str, float]) -> str:
        """Return the results as a line, for people."""

    def fill(self, encoder: Any, trained: Any) -> None:  # noqa: B027
        """Give a new model what it does not learn; called in the strategy's scope."""

    def checkpoints(self, steps: int) -> dict[str, int]:
        """Return the settings of checkpoints that follow from the number of steps."""
        return {}

    def finish(self, trainer: Any, settings: Any, results: dict[str, float]) -> dict[str, float]:
        """Return the results of steps after training."""
        return results


@dataclasses.dataclass(frozen=True)
class ExampleRecipe:
    """How prepared examples are made, see `tfnlp.data.shards.examples`."""

    vocabulary: Vocabulary
    tokens: Any
    settings: dict[str, Any]  # that decide the examples, beside those that all have
    recipe: Any


def documents(settings: Any, paragraphs: bool = False) -> tuple[Documents, Documents]:
    """Return training and held-out documents, lists of sentences (or paragraphs).

    Small texts and Python objects are lists in memory; large files are `StoredDocuments`.
    """

    def read(name: str) -> Documents:
        text = held(getattr(settings, name))
        stored = stored_text(text, settings.layout, paragraphs, name)
        if stored is not None:
            print(f"what is made of large texts is kept in {cache_folder()}", file=sys.stderr)
            return StoredDocuments(stored)
        return list(documents_of(text, settings.layout, paragraphs, name=name))

    train = read("text")
    if settings.valid is not None:
        settings.refuse(["held_out"], "is for a run without `valid`; leave one of them out")
        return train, read("valid")
    if isinstance(train, list):
        return split_documents(train, settings.held_out, settings.seed)
    return train.split(settings.held_out, settings.seed)


def training_documents(settings: Any, paragraphs: bool) -> Iterator[list[str]]:
    """Yield the documents that are not held out, one by one: the text is read twice."""

    def read() -> Iterable[list[str]]:
        return read_documents(settings.text, settings.layout, paragraphs)

    if settings.valid:
        yield from read()
        return
    sizes = [len(document) for document in read()]
    held, cut = held_out_documents(sizes, settings.held_out, settings.seed)
    for number, document in enumerate(read()):
        if number not in held:
            yield document[:cut]


def tokenized(documents: Documents, tokenize: bool) -> Documents:
    """Return documents with a space between words and punctuation, if `tokenize`."""
    return changed(documents, split_words) if tokenize else documents


def changed(documents: Documents, change: Callable[[str], str]) -> Documents:
    """Return documents whose sentences went through a function, which has a name."""
    if isinstance(documents, StoredDocuments):
        return documents.map(change)
    return [[change(sentence) for sentence in document] for document in documents]


def sentences(documents: Documents) -> Iterator[str]:
    """Yield the sentences of documents."""
    return (sentence for document in documents for sentence in document)


def tokenized_once(
    documents: Documents,
    decides: list[Any],
    build: Callable[[str | None], T],
    read: Callable[[str], T],
) -> T:
    """Return what is made of documents: in memory, or of stored ones in the cache.

    `decides` is what decides it beside the documents, as JSON. `build` takes the folder to write
    to, or None; `read` takes that folder.
    """
    if not isinstance(documents, StoredDocuments):
        return build(None)
    return cached(digest(documents.key, *decides), build, read)


def tokens_of(
    settings: Any,
    vocabulary: Vocabulary,
    documents: Documents,
    texts: Callable[[], Iterable[str]] | None = None,
) -> Any:
    """Return the tokens of `settings.vocab`, of an earlier start of the run, or learnt ones.

    Nothing is written to the run's folder, which is made when everything else has been checked.
    What is learnt from stored documents is kept in the cache.

    Args:
        settings: Those of the run.
        vocabulary: What learns and reads the tokens.
        documents: To learn them from.
        texts: Returns the texts that these documents are read as; None: their sentences.
    """
    kept = vocabulary.kept(settings)
    if kept is not None:
        return kept

    def build(folder: str | None) -> Any:
        tokens = vocabulary.learn(sentences(documents) if texts is None else texts(), settings)
        if folder is not None:
            vocabulary.write(os.path.join(folder, "vocab.txt"), tokens)
        return tokens

    return tokenized_once(
        documents,
        vocabulary.decides(settings),
        build,
        lambda folder: vocabulary.read(os.path.join(folder, "vocab.txt")),
    )


# What prepared examples have of their own, and what training must not change.
_OWN = ("text", "layout", "valid", "held_out", "vocab", "vocab_size", "bpe")
_DECIDED = ("seq_length", "seed", "cased")


def with_examples(settings: Any, family: str) -> Any:
    """Return the settings with what prepared examples decide; without them, as they are."""
    if settings.examples is None:
        if settings.text is None:
            raise ValueError("give `text`, or `examples` made by tfnlp examples")
        return settings
    made_with = Shards(settings.examples, family).settings
    decided = {**made_with, "cased": not made_with.get("lowercase", True)}
    for name in _OWN + _DECIDED:
        given = getattr(settings, name, None)
        if name not in settings.given or given is None or given is False:
            continue
        if name in _OWN:
            raise ValueError(f"`{name}` can't be given with `examples`, which has its own")
        if given != decided[name]:
            raise ValueError(
                f"`{name}`{'' if given is True else f' {given}'} contradicts `examples` "
                f"{settings.examples}, made with {decided[name]}; leave it out"
            )
    changes = {"seq_length": made_with["seq_length"], "seed": made_with["seed"]}
    if hasattr(settings, "cased"):
        changes["cased"] = decided["cased"]
    return settings.replace(**changes)


def readable(settings: Any, family: str) -> contextlib.AbstractContextManager[None]:
    """Return a context that names the damaged shard where reading the examples fails."""
    if getattr(settings, "examples", None) is None:
        return contextlib.nullcontext()
    return Shards(settings.examples, family).readable()
