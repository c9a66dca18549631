"""Training, reading and writing WordPiece vocabularies.

A vocabulary is a list of tokens whose index is the id; its file holds one token per line. Pieces
that continue a word begin with `##`.
"""

import collections
import os
from collections.abc import Iterable, Sequence

from tokenizers import models, normalizers, pre_tokenizers, trainers

from tfnlp.text.counted_words import checked_texts, frequent_characters, train
from tfnlp.text.lines import checked_entries, read_lines, write_text

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS
CONTINUATION = "##"
MAX_TOKEN_BYTES = 256  # of a token without its `##`: the limit of tensorflow_text's trie


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> list[str]:
    """Learn a WordPiece vocabulary from `texts`; the same texts always give the same list.

    Words are cleaned and split as BERT does it, then the most frequent pair of pieces is merged
    until `vocab_size` tokens exist or no pair occurs `min_frequency` times (`tokenizers`'
    `WordPieceTrainer`). The list begins with `SPECIAL_TOKENS`, then the characters that may
    begin a word, then those that may continue one, both in code point order, then merged pieces.

    Args:
        texts: strings, read once; only the counts of distinct words are kept in memory.
        vocab_size: the largest number of tokens, special tokens and characters included.
        lowercase: lower-case and strip accents, as the uncased models do.
        min_frequency: pairs seen fewer times are not merged.
        limit_alphabet: only this many characters, the most frequent, get a token.

    Raises:
        ValueError: `texts` is a single string, holds something else than strings or no word, or
            `vocab_size` is too small for the special tokens and the characters.
    """
    counts = _count_words(texts, lowercase)
    starting = frequent_characters(counts, limit_alphabet)
    continuing = sorted({char for word in counts for char in word[1:]}.intersection(starting))
    initial = [*SPECIAL_TOKENS, *starting, *(CONTINUATION + char for char in continuing)]
    if vocab_size < len(initial):
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the {len(SPECIAL_TOKENS)} special tokens and "
            f"{len(initial) - len(SPECIAL_TOKENS)} characters of the texts; pass vocab_size >= "
            f"{len(initial)} or lower limit_alphabet={limit_alphabet}"
        )
    tokenizer = train(
        models.WordPiece(unk_token=UNK),
        trainers.WordPieceTrainer,
        counts,
        initial,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        continuing_subword_prefix=CONTINUATION,
    )
    ids = tokenizer.get_vocab()
    return [token for token in sorted(ids, key=ids.get) if _token_bytes(token) <= MAX_TOKEN_BYTES]


def _token_bytes(token: str) -> int:
    return len(token.removeprefix(CONTINUATION).encode())


def _count_words(texts: Iterable[str], lowercase: bool) -> collections.Counter:
    raw = collections.Counter()
    for text in checked_texts(texts):
        raw.update(text.split())
    # Cleaning the distinct words only is many times faster than cleaning the running text.
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    splitter = pre_tokenizers.BertPreTokenizer()
    counts = collections.Counter()
    for word, count in raw.items():
        for part, _ in splitter.pre_tokenize_str(normalizer.normalize_str(word)):
            counts[part] += count
    return counts


def check_vocabulary(tokens: Sequence[str], source: str) -> list[str]:
    """Return `tokens` as a list."""
    tokens = checked_entries(tokens, source, "token", SPECIAL_TOKENS)
    for index, token in enumerate(tokens):
        if _token_bytes(token) > MAX_TOKEN_BYTES:
            raise ValueError(
                f"{source} has a token of {_token_bytes(token)} bytes as token {index} (line "
                f"{index + 1}); at most {MAX_TOKEN_BYTES} are possible"
            )
    return tokens


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """Read a vocabulary file: UTF-8, one token per line, the line number is the id.

    Both line endings are accepted, and so is a missing last one.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, binary or not UTF-8, has blank lines, duplicates or tokens
            of more than 256 bytes, or lacks one of `SPECIAL_TOKENS`.
    """
    return check_vocabulary(read_lines(path, "vocabulary file"), f"vocabulary file {path}")


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Write a vocabulary file, whole or not at all (see `tfnlp.files.written_whole`).

    Raises:
        ValueError: `tokens` is not a usable vocabulary (see `read_vocabulary`).
    """
    path = os.fspath(path)
    tokens = check_vocabulary(tokens, f"the vocabulary to be written to {path}")
    write_text(path, "\n".join(tokens) + "\n")
