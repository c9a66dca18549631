"""What a family makes of its text for one pretraining run, and steps that families share."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tfnlp.files import local_copy, written_whole

Documents = Iterable[list[str]]  # that can be read several times
T = TypeVar("T")

VOCABULARY = "vocab.txt"
BPE_VOCABULARY = "vocab"  # a folder
SENTENCEPIECE_MODEL = "spiece.model"
VOCABULARIES = (VOCABULARY, BPE_VOCABULARY, SENTENCEPIECE_MODEL)  # of pieces of words


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a run and how its folder keeps them."""

    tokens: Any  # what is compared when a run goes on
    read: Callable[[str], Any]
    write: Callable[[str, Any], None]
    name: str = VOCABULARY  # of the file or folder in the run


@dataclasses.dataclass
class Preparation:
    """All that the training loop asks of a family."""

    batches: Any  # to train on, by step, with `steps_per_epoch`
    held_out: Any  # batches of the evaluations during training
    vocabulary: Vocabulary
    arguments: dict[str, Any]  # of the encoder
    corpus: dict[str, Any]  # section of `config.json`: what tells this text from others
    objective: Callable[[Any], Any]  # pretrainer to the task
    describe: Callable[[Any, Any, int], str]  # of (encoder, pretrainer, steps), for people
    measure: Callable[[Any], dict[str, float]]  # trainer to the results of the whole held-out text
    line: Callable[[str, dict[str, float]], str]  # of (when, results), for people
    heads: dict[str, Any] | None = None  # of the pretrainer; None: `config.json` has none
    # Of the encoder while it is trained; its weights are the same.
    unrecorded_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Of the pretrainer; `config.json` keeps them elsewhere.
    unrecorded_heads: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Section of `config.json`, beside the recorded arguments; None: no section.
    text: dict[str, Any] | None = None
    # Settings in the section "training" that replace or join the recorded ones.
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    first: bool = False  # the model is measured before it is trained: it was trained before
    # (encoder, pretrainer): fills them; None: new weights.
    copy_weights: Callable[[Any, Any], None] | None = None
    prepare_model: Callable[[Any], None] | None = None  # called in the strategy's scope
    files: dict[str, Iterable[Any]] = dataclasses.field(default_factory=dict)  # name to lines
    checkpoints: Callable[[int], dict[str, int]] | None = None  # steps to settings
    loss_scale: float = 1.0  # see `tfnlp.training.Trainer`
    perplexity: bool = True  # whether the curve shows it
    # (trainer, config, results) to results, for steps after training.
    finish: Callable[[Any, Any, dict[str, float]], dict[str, float]] | None = None


def documents(config: Any, paragraphs: bool = False) -> tuple[Documents, Documents]:
    """Return training and held-out documents, lists of sentences (or paragraphs).

    Small texts and Python objects are lists in memory; large files are `StoredDocuments`.
    """
    from tfnlp.data import split_documents
    from tfnlp.data.corpus.cache import cache_folder
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.data.corpus.stored_documents import StoredDocuments, stored_text
    from tfnlp.data.rows import held

    def read(name: str) -> Documents:
        text = held(getattr(config, name))
        stored = stored_text(text, config.layout, paragraphs, name)
        if stored is not None:
            print(f"what is made of large texts is kept in {cache_folder()}", file=sys.stderr)
            return StoredDocuments(stored)
        return list(documents_of(text, config.layout, paragraphs, name=name))

    train = read("text")
    if config.valid is not None:
        return train, read("valid")
    if isinstance(train, list):
        return split_documents(train, config.held_out, config.seed)
    return train.split(config.held_out, config.seed)


def tokenized(documents: Documents, tokenize: bool) -> Documents:
    """Return documents with a space between words and punctuation, if `tokenize`."""
    from tfnlp.text import split_words

    return changed(documents, split_words) if tokenize else documents


def changed(documents: Documents, change: Callable[[str], str]) -> Documents:
    """Return documents whose sentences went through a function, which has a name."""
    from tfnlp.data.corpus.stored_documents import StoredDocuments

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
    """Return a corpus made of documents: in memory, or of stored ones in the cache.

    `decides` is what decides the corpus beside the documents, as JSON. `build` takes the folder to
    write the corpus to, or None; `read` takes that folder.
    """
    from tfnlp.data.corpus.cache import cached, digest
    from tfnlp.data.corpus.stored_documents import StoredDocuments

    if not isinstance(documents, StoredDocuments):
        return build(None)
    return cached(digest(documents.key, *decides), build, read)


def read_or_learnt(
    config: Any,
    documents: Documents,
    decides: list[Any],
    learn: Callable[[], Any],
    read: Callable[[str], Any],
    write: Callable[[str, Any], None],
    name: str = VOCABULARY,
) -> Any:
    """Return the tokens of `config.vocab`, of an earlier start of the run, or of `learn()`.

    Nothing is written to the run's folder, which is made when everything else has been checked.
    What is learnt from stored documents is kept in the cache. For `decides` see `tokenized_once`,
    for `read`, `write` and `name` see `Vocabulary`.
    """
    import tensorflow as tf

    def build(folder: str | None) -> Any:
        tokens = learn()
        if folder is not None:
            write(os.path.join(folder, VOCABULARY), tokens)
        return tokens

    kept = tf.io.gfile.join(config.output, name)
    if config.vocab:
        return read(config.vocab)
    if tf.io.gfile.exists(kept) and not config.restart:
        with local_copy(kept) as path:
            return read(path)
    return tokenized_once(
        documents, decides, build, lambda folder: read(os.path.join(folder, VOCABULARY))
    )


def word_vocabulary(config: Any, documents: Documents) -> list[str]:
    """Return the words of `config.vocab`, or those that the documents hold."""
    from tfnlp.text import read_words, train_words, write_words

    def learn() -> list[str]:
        print("counting words", file=sys.stderr)
        return train_words(sentences(documents), config.max_vocab, config.min_count)

    decides = ["words", config.max_vocab, config.min_count]
    return read_or_learnt(config, documents, decides, learn, read_words, write_words)


def bpe_vocabulary(
    config: Any, texts: Callable[[], Iterable[str]], kind: str = "gpt2", documents: Documents = ()
) -> Any:
    """Return tokens and merges of `config.vocab`, or those learnt from the texts.

    `documents` are what the texts are made of.
    """
    from tfnlp.text import read_bpe, train_bpe

    def learn() -> Any:
        print(f"building a vocabulary of {config.vocab_size} tokens", file=sys.stderr)
        return train_bpe(texts(), config.vocab_size, kind)

    decides = ["bpe", config.vocab_size, kind]
    return read_or_learnt(
        config, documents, decides, learn, read_bpe, write_bpe_folder, BPE_VOCABULARY
    )


def write_bpe_folder(path: str, pair: Any) -> None:
    """Write tokens and merges as the folder `path`, whole or not at all."""
    from tfnlp.text import write_bpe

    with written_whole(path) as partial:
        os.makedirs(partial)
        write_bpe(partial, *pair)


def kept_vocabulary(folder: str) -> str | None:
    """Return the path of the vocabulary of pieces in a run's folder, or None."""
    paths = (os.path.join(folder, name) for name in VOCABULARIES)
    return next((path for path in paths if os.path.exists(path)), None)


def same_folder(first: Any, second: Any) -> bool:
    """Return whether two paths name the same folder."""
    if not all(isinstance(path, str | os.PathLike) for path in (first, second)):
        return False
    return os.path.realpath(first) == os.path.realpath(second)


def write_lines(path: str, lines: Iterable[Any]) -> None:
    """Write a file of one entry a line, whole or not at all."""
    with written_whole(path) as partial:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines)
