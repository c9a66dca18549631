"""Corpora as flat arrays of ids, with the starts of sentences and documents.

Tokens of any tokenizer, words for language models that predict words, and for word vectors.
"""

import collections
import concurrent.futures
import dataclasses
import functools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.data.corpus.arrays import (
    CHUNK,
    ArrayFolder,
    GrowingWords,
    StoredSentences,
    count_ids,
    read_arrays,
    scratch,
)
from tfnlp.data.corpus.sentences import Continued, checked_documents
from tfnlp.text.characters import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    MAX_CHARACTERS,
    UNKNOWN,
    character_ids,
)
from tfnlp.text.lines import checked_texts
from tfnlp.text.pipeline.byte_pairs import missing_tokens_explained
from tfnlp.text.words import by_frequency, check_words

_BATCH = 2000  # sentences per call of the tokenizer
_THREADS = 2
_CHUNK = 1 << 16  # words per call of `character_ids`


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


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModelCorpus(StoredSentences):
    """Words of a corpus as indices into a lexicon, 4 bytes a word, without `<S>` and `</S>`.

    The lexicon begins with the vocabulary, the words that a model predicts. All other words of the
    text follow: a model reads their characters, but as targets they are `<UNK>`.

    Attributes:
        lexicon: distinct words; the first `vocab_size` are the vocabulary.
        vocab_size: number of words that can be targets.
        ids: int32 [W], indices into `lexicon`.
        sentence_starts, document_starts: as of `TokenizedCorpus`, of `ids`.
        begin_id, end_id, unknown_id: indices of `<S>`, `</S>` and `<UNK>`.
    """

    lexicon: list[str]
    vocab_size: int
    ids: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray

    def __post_init__(self) -> None:
        special = (BEGIN_OF_SENTENCE, END_OF_SENTENCE, UNKNOWN)
        for name, word in zip(("begin_id", "end_id", "unknown_id"), special, strict=True):
            object.__setattr__(self, name, self.lexicon.index(word))

    @property
    def num_words(self) -> int:
        return len(self.ids)

    @property
    def num_tokens(self) -> int:
        """Targets of a model in one direction: the words, and an end for each sentence."""
        return self.num_words + self.num_sentences

    @classmethod
    def build(
        cls,
        documents: Iterable[list[str]],
        vocabulary: Sequence[str],
        lexicon: Sequence[str] | None = None,
        progress: bool = True,
        folder: str | None = None,
    ) -> "LanguageModelCorpus":
        """Split the sentences of documents at whitespace and number the words.

        Sentences without words and documents without sentences are left out. New words are numbered
        in the order of their first appearance.

        Args:
            documents, progress, folder: as of `TokenizedCorpus.build`.
            vocabulary: the words to predict, see `tfnlp.text.read_words`.
            lexicon: words with numbers already, such as `train.lexicon` for held-out text, so that
                both share one table of characters; it begins with the vocabulary and is left as it
                is. The corpus' lexicon begins with it.

        Raises:
            ValueError: an unusable vocabulary, a lexicon that does not begin with it, a document
                that is a string, or a corpus without words.
        """
        vocabulary = check_words(vocabulary, "vocabulary")
        if lexicon is None:
            lexicon = vocabulary
        elif list(lexicon[: len(vocabulary)]) != vocabulary:
            raise ValueError(
                f"lexicon does not begin with the {len(vocabulary)} words of the vocabulary; pass "
                "the lexicon of a corpus that was built with the same vocabulary"
            )
        # A dict that numbers new words by itself needs one lookup a word.
        numbers = collections.defaultdict(None, zip(lexicon, range(len(lexicon)), strict=True))
        numbers.default_factory = numbers.__len__
        number = numbers.__getitem__
        grown = GrowingWords(folder)
        with ProgressBar(desc="reading words", unit="sentences", disable=not progress) as bar:
            for document in checked_documents(documents):
                grown.start(document)
                for sentence in document:
                    grown.append(map(number, sentence.split()))
                bar.update(len(document))
        if not grown.words:
            raise ValueError("the corpus holds no words; give more text or another layout")
        return cls(**grown.finish(lexicon=list(numbers), vocab_size=len(vocabulary)))

    def target_starts(self) -> np.ndarray:
        """Return the number of the first target of each sentence, int64 [S]."""
        starts = scratch(self.num_sentences, np.int64)
        for first in range(0, len(starts), CHUNK):
            numbers = np.arange(first, min(first + CHUNK, len(starts)))
            starts[numbers] = self.sentence_starts[numbers] + numbers
        return starts

    def characters(self) -> np.ndarray:
        """Return the `character_ids` of each word of the lexicon, int16 [len(lexicon), 50]."""
        table = np.empty([len(self.lexicon), MAX_CHARACTERS], np.int16)
        with tf.device("CPU:0"):
            for start in range(0, len(table), _CHUNK):
                words = tf.constant(self.lexicon[start : start + _CHUNK])
                table[start : start + _CHUNK] = character_ids(words).numpy()
        return table


@dataclasses.dataclass(frozen=True, eq=False)
class WordCorpus:
    """Sentences as indices of words, 4 bytes a word.

    Words that are not in the vocabulary are removed: as in word2vec.c, the words before and after
    them become neighbours. No sentence is empty.

    Attributes:
        words: the vocabulary, V distinct words.
        ids: int32 [W], indices into `words`.
        sentence_starts: int64 [S + 1], positions in `ids`, from 0 to W.
        counts: int64 [V], the frequency of each word in `ids`.
        unknown: number of words of the text that were removed.
    """

    words: list[str]
    ids: np.ndarray
    sentence_starts: np.ndarray
    unknown: int = 0

    @functools.cached_property
    def counts(self) -> np.ndarray:
        return count_ids(self.ids, len(self.words))

    @property
    def num_words(self) -> int:
        return len(self.ids)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @classmethod
    def build(
        cls, sentences: Iterable[str], words: Sequence[str], folder: str | None = None
    ) -> "WordCorpus":
        """Split sentences at whitespace and number their words.

        Args:
            sentences: strings, read once.
            words: the vocabulary, each of them once, see `frequent_words`.
            folder: write the arrays to files there, and map these; None: keep them in memory.

        Raises:
            ValueError: a sentence that is no string, or sentences without a word of the vocabulary.
        """
        words = list(words)
        numbers = {word: number for number, word in enumerate(words)}
        grown, unknown = GrowingWords(folder), 0
        for sentence in checked_texts(sentences, "sentences"):
            split = sentence.split()
            known = grown.append([numbers[word] for word in split if word in numbers])
            unknown += len(split) - known
        if not grown.words:
            raise ValueError(
                f"the text holds none of the {len(words)} words of the vocabulary; give more text "
                "or another vocabulary"
            )
        arrays = grown.finish(unknown=unknown)
        return cls(words, arrays["ids"], arrays["sentence_starts"], unknown)

    @classmethod
    def read(cls, folder: str, words: Sequence[str]) -> "WordCorpus":
        """Return the corpus of these words that `build` wrote; an OSError for a damaged file."""
        arrays = read_arrays(folder)
        return cls(list(words), arrays["ids"], arrays["sentence_starts"], arrays["unknown"])


def frequent_words(
    sentences: Iterable[str], min_count: int = 5, max_size: int | None = None
) -> list[str]:
    """Return the words of `sentences` by falling frequency, ties in the order of code points.

    Args:
        sentences: strings of words with whitespace between, read once.
        min_count: rarer words are left out.
        max_size: largest number of words; None: no limit.

    Raises:
        ValueError: no words, or only rarer ones.
    """
    return by_frequency(sentences, min_count)[:max_size]
