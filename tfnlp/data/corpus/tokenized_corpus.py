"""A corpus as one flat array of token ids, with the starts of sentences and documents."""

import collections
import concurrent.futures
import dataclasses
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.data.corpus.arrays import ArrayFolder, StoredSentences
from tfnlp.data.corpus.sentences import Continued, checked_documents
from tfnlp.text.byte_pairs import missing_tokens_explained

_BATCH = 2000  # sentences per call of the tokenizer
_THREADS = 2


def tokenize_sentences(sentences: list[str], tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of all sentences, int32 [N], and the length of each, int64 [S]."""
    with missing_tokens_explained():
        ragged = tokenizer.tokenize(tf.constant(sentences))
    tokens = ragged.flat_values.numpy().astype(np.int32, copy=False)
    return tokens, ragged.row_lengths().numpy()


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedCorpus(StoredSentences):
    """Token ids of a corpus without any special tokens.

    In memory they have 4 bytes each; in files 2, of a vocabulary of 65,536 tokens or fewer.

    Sentence s is `tokens[sentence_starts[s] : sentence_starts[s + 1]]`, document d holds the
    sentences `document_starts[d]` to `document_starts[d + 1] - 1`. None of them is empty.

    Attributes:
        tokens: int32 or uint16 [N].
        sentence_starts: int64 [S + 1], positions in `tokens`, from 0 to N.
        document_starts: int64 [D + 1], numbers of sentences, from 0 to S.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @classmethod
    def build(
        cls,
        documents: Iterable[list[str]],
        tokenizer: Any,
        progress: bool = True,
        folder: str | None = None,
    ) -> "TokenizedCorpus":
        """Tokenize documents; leave out sentences without tokens and documents without sentences.

        Args:
            documents: lists of sentences, as `read_documents` returns them; read once.
            tokenizer: has `tokenize(strings [B]) -> RaggedTensor int32 [B, (pieces)]` and, with
                `folder`, `vocab_size`.
            progress: show a progress bar on stderr.
            folder: write the arrays to files there, and map these; None: keep them in memory.

        Raises:
            ValueError: a document that is a string; a corpus without tokens, or one that
                needs tokens which the vocabulary lacks.
        """
        arrays, tokens, sentences = ArrayFolder(folder), 0, 0
        dtype = np.int32 if folder is None or tokenizer.vocab_size > 1 << 16 else np.uint16
        for values, lengths, first in tokenize_documents(documents, tokenizer, progress):
            arrays.append("tokens", values, dtype)
            arrays.append("sentence_starts", tokens + np.cumsum(lengths) - lengths, np.int64)
            arrays.append("document_starts", sentences + np.flatnonzero(first), np.int64)
            tokens, sentences = tokens + len(values), sentences + len(lengths)
        arrays.append("sentence_starts", [tokens], np.int64)
        arrays.append("document_starts", [sentences], np.int64)
        return cls(**arrays.finish())

    def begins_document(self, begin: int, count: int) -> np.ndarray:
        """Return for `count` sentences from `begin` on whether they begin a document, bool."""
        low, high = np.searchsorted(self.document_starts[:-1], [begin, begin + count])
        first = np.zeros(count, bool)
        first[np.asarray(self.document_starts[low:high]) - begin] = True
        return first


def tokenize_documents(
    documents: Iterable[list[str]], tokenizer: Any, progress: bool = True
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the tokens of some sentences, the length of each, and whether it begins a document.

    They are int32 [N], int64 [S] and bool [S]; see `TokenizedCorpus.build`.
    """
    empty, last = True, -1
    with ProgressBar(desc="tokenizing", unit="sentences", disable=not progress) as bar:
        batches = _batches(checked_documents(documents))
        for (tokens, lengths), owners in _in_threads(batches, tokenizer):
            bar.update(len(owners))
            owners, lengths = owners[lengths > 0], lengths[lengths > 0]
            if len(lengths):
                yield tokens, lengths, np.diff(owners, prepend=last) > 0
                empty, last = False, owners[-1]
    if empty:
        raise ValueError("the corpus holds no tokens; give more text or another layout")


def _batches(documents: Iterable[list[str]]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield batches of sentences, with the number of the document of each."""
    sentences, owners, number = [], array("q"), -1
    for document in documents:
        number += not isinstance(document, Continued)
        sentences.extend(document)
        owners.extend([number] * len(document))
        while len(sentences) >= _BATCH:
            yield sentences[:_BATCH], np.array(owners[:_BATCH])
            del sentences[:_BATCH], owners[:_BATCH]
    if sentences:
        yield sentences, np.array(owners)


def _in_threads(
    batches: Iterable[tuple[list[str], np.ndarray]], tokenizer: Any
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield what the tokenizer makes of each batch, in order, while the next ones are read."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        waiting = collections.deque()
        for sentences, owners in batches:
            waiting.append((pool.submit(tokenize_sentences, sentences, tokenizer), owners))
            if len(waiting) > 2 * _THREADS:
                future, numbers = waiting.popleft()
                yield future.result(), numbers
        for future, numbers in waiting:
            yield future.result(), numbers
