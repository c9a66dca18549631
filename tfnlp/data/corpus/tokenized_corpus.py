"""A corpus as one flat array of token ids, with the starts of sentences and documents."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from tfnlp.data.corpus.checks import checked_documents

_BATCH = 2000  # sentences per call of the tokenizer


def tokenize_sentences(sentences: list[str], tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of all sentences, int32 [N], and the length of each, int64 [S]."""
    ragged = tokenizer.tokenize(tf.constant(sentences))
    tokens = ragged.flat_values.numpy().astype(np.int32, copy=False)
    return tokens, ragged.row_lengths().numpy()


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """Token ids of a corpus without any special tokens, 4 bytes a token.

    Sentence s is `tokens[sentence_starts[s] : sentence_starts[s + 1]]`, document d holds the
    sentences `document_starts[d]` to `document_starts[d + 1] - 1`. None of them is empty.

    Attributes:
        tokens: int32 [N].
        sentence_starts: int64 [S + 1], positions in `tokens`, from 0 to N.
        document_starts: int64 [D + 1], numbers of sentences, from 0 to S.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_starts) - 1

    @classmethod
    def build(
        cls, documents: Iterable[list[str]], tokenizer: Any, progress: bool = True
    ) -> "TokenizedCorpus":
        """Tokenize a stream of documents.

        Sentences without tokens and documents without sentences are left out.

        Args:
            documents: lists of sentences, as `read_documents` returns them; read once.
            tokenizer: has `tokenize(strings [B]) -> RaggedTensor int32 [B, (pieces)]`.
            progress: show a progress bar on stderr.

        Raises:
            ValueError: a document that is a string; a corpus without tokens.
        """
        pieces, lengths, owners = [], [], []  # owners: the document of each sentence

        def tokenize(sentences: list[str]) -> None:
            tokens, length = tokenize_sentences(sentences, tokenizer)
            pieces.append(tokens)
            lengths.append(length)

        with tqdm.tqdm(desc="tokenizing", unit=" sentences", disable=not progress) as bar:
            waiting = []
            for number, document in enumerate(checked_documents(documents)):
                owners.append(np.full(len(document), number))
                waiting.extend(document)
                while len(waiting) >= _BATCH:
                    tokenize(waiting[:_BATCH])
                    del waiting[:_BATCH]
                    bar.update(_BATCH)
            if waiting:
                tokenize(waiting)
                bar.update(len(waiting))

        length = np.concatenate(lengths or [np.zeros(0, np.int64)])
        owner = np.concatenate(owners or [np.zeros(0, np.int64)])[length > 0]
        length = length[length > 0]
        if not len(length):
            raise ValueError("the corpus holds no tokens; give more text or another layout")
        first_of_document = np.flatnonzero(np.diff(owner)) + 1
        return cls(
            tokens=np.concatenate(pieces),
            sentence_starts=np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
            document_starts=np.concatenate([[0], first_of_document, [len(length)]]),
        )
