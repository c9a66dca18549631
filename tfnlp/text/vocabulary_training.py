"""Training of vocabularies on counted words: WordPiece's, and the byte pairs of GPTs."""

import collections
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tfnlp.text.base_tokenizers import END_OF_TEXT
from tfnlp.text.byte_pair_files import Merges
from tfnlp.text.gpt_tokenizers import END_OF_WORD, ROBERTA_TOKENS, UNKNOWN_TOKEN
from tfnlp.text.gpt_words import gpt_words
from tfnlp.text.lines import checked_texts
from tfnlp.text.pipeline.gpt2_words import WordBytes, byte_characters
from tfnlp.text.wordpiece import CONTINUATION, MAX_TOKEN_BYTES, SPECIAL_TOKENS, UNK, token_bytes

_BATCH = 1000  # texts that are cut into words at once
_LINE = 1000  # words of a line


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
    counts = _count_bert_words(texts, lowercase)
    starting = _frequent_characters(counts, limit_alphabet)
    continuing = sorted({char for word in counts for char in word[1:]}.intersection(starting))
    initial = [*SPECIAL_TOKENS, *starting, *(CONTINUATION + char for char in continuing)]
    if vocab_size < len(initial):
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the {len(SPECIAL_TOKENS)} special tokens and "
            f"{len(initial) - len(SPECIAL_TOKENS)} characters of the texts; pass vocab_size >= "
            f"{len(initial)} or lower limit_alphabet={limit_alphabet}"
        )
    tokenizer = _train(
        models.WordPiece(unk_token=UNK),
        trainers.WordPieceTrainer,
        counts,
        initial,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        continuing_subword_prefix=CONTINUATION,
    )
    ids = tokenizer.get_vocab()
    return [token for token in sorted(ids, key=ids.get) if token_bytes(token) <= MAX_TOKEN_BYTES]


def _count_bert_words(texts: Iterable[str], lowercase: bool) -> collections.Counter:
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


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    kind: str = "gpt2",
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> tuple[list[str], Merges]:
    """Learn a byte-pair vocabulary from `texts`; the same texts always give the same lists.

    Texts are cut into words as the tokenizer does it, then the most frequent pair of symbols is
    merged until `vocab_size` tokens exist or no pair occurs `min_frequency` times (`tokenizers`'
    `BpeTrainer`). The tokens are, for

    - "gpt2": the 256 bytes in the published order, the merged ones, `<|endoftext|>`;
    - "gpt": `<unk>`, characters, characters with `</w>` that end words, both in code point order,
      the merged ones, `<|endoftext|>`.

    Args:
        texts: strings, read once; only the counts of distinct words are kept in memory.
        vocab_size: the largest number of tokens, all included.
        kind: "gpt" or "gpt2".
        min_frequency: pairs seen fewer times are not merged.
        limit_alphabet: for "gpt", only this many characters, the most frequent, get tokens.

    Returns:
        Tokens by id, and merges in the order they were learnt.

    Raises:
        ValueError: `kind` is another one; `texts` is a single string, holds something else than
            strings or no word; or `vocab_size` is too small for the bytes or characters.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}")
    symbols, count, options = _KINDS[kind]
    counts, first = count(checked_texts(texts), limit_alphabet)
    if vocab_size <= len(first):
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the {len(first)} {symbols} and "
            f"{END_OF_TEXT}; pass vocab_size >= {len(first) + 1}"
        )
    tokenizer = _train(
        models.BPE(),
        trainers.BpeTrainer,
        counts,
        first,
        vocab_size=vocab_size - 1,
        min_frequency=min_frequency,
        **options,
    )
    ids = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [*sorted(ids, key=ids.get), END_OF_TEXT], list(map(tuple, merges))


def train_roberta_bpe(
    texts: Iterable[str], vocab_size: int, min_frequency: int = 2
) -> tuple[list[str], Merges]:
    """Learn a vocabulary for `RobertaTokenizer`: special tokens, the 256 bytes, merged ones.

    Args:
        texts: strings, read once.
        vocab_size: the largest number of tokens, all included.
        min_frequency: pairs seen fewer times are not merged.

    Returns:
        Tokens by id, and merges in the order they were learnt; see `train_bpe`.

    Raises:
        ValueError: as `train_bpe`.
    """
    first = len(ROBERTA_TOKENS) + len(byte_characters())
    if vocab_size < first:
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the 256 bytes and {len(ROBERTA_TOKENS)} special "
            f"tokens; pass vocab_size >= {first}"
        )
    # One token less: that which ends GPT-2's texts.
    tokens, merges = train_bpe(texts, vocab_size - len(ROBERTA_TOKENS) + 1, "gpt2", min_frequency)
    return [*ROBERTA_TOKENS, *tokens[:-1]], merges


def _batches(texts: Iterator[str]) -> Iterator[tf.Tensor]:
    while batch := list(itertools.islice(texts, _BATCH)):
        yield tf.constant([text.encode("utf-8", "replace") for text in batch])


def _count_byte_words(texts: Iterator[str], _: int) -> tuple[collections.Counter, list[str]]:
    """Count GPT-2's words, in characters that stand for bytes; also return the first symbols."""
    counts, words, alphabet = collections.Counter(), WordBytes(), byte_characters()
    for batch in _batches(texts):
        data, starts, stops, _ = (x.numpy() for x in words.cut(batch))
        counts.update(data[a:b].tobytes() for a, b in zip(starts, stops, strict=True))
    named = {"".join(alphabet[i] for i in word): n for word, n in counts.items()}
    return collections.Counter(named), sorted(alphabet)


def _count_character_words(
    texts: Iterator[str], limit: int
) -> tuple[collections.Counter, list[str]]:
    """Count GPT's words of frequent characters; also return the first symbols."""
    split = tf.function(
        lambda strings: gpt_words(strings).flat_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    raw = collections.Counter()
    for batch in _batches(texts):
        raw.update(split(batch).numpy().tolist())
    counts = collections.Counter({word.decode(): count for word, count in raw.items()})
    kept = _frequent_characters(counts, limit)
    ending = sorted({word[-1] for word in counts}.intersection(kept))
    words = collections.Counter(
        # The line break is a word, but the trainer splits at white space and does not need it.
        {w: n for w, n in counts.items() if not w.isspace() and set(w) <= set(kept)}
    )
    return words, [UNKNOWN_TOKEN, *kept, *(char + END_OF_WORD for char in ending)]


# What the first symbols are, how words are counted, and what the trainer is told beside it.
_KINDS = {
    "gpt": ("characters", _count_character_words, {"end_of_word_suffix": END_OF_WORD}),
    "gpt2": ("bytes", _count_byte_words, {}),
}


def _frequent_characters(counts: collections.Counter, limit: int) -> list[str]:
    """Return the `limit` most frequent characters of words, in code point order."""
    chars = collections.Counter()
    for word, count in counts.items():
        for char in word:
            chars[char] += count
    return sorted(sorted(chars, key=lambda char: (-chars[char], char))[:limit])


def _train(
    model: models.Model,
    trainer: Callable[..., trainers.Trainer],
    counts: collections.Counter,
    first: list[str],
    **options: Any,
) -> Tokenizer:
    """Return a tokenizer of the library `tokenizers` that has learnt its vocabulary from words.

    The trainers number symbols of several characters (`##x`, `x</w>`) in hash order, which decides
    ties between merges. Declaring every symbol beforehand fixes the numbers: `first` are all that
    there are before the first merge. `vocab_size` is among `options`.
    """
    if not counts:
        raise ValueError("texts holds no words to train a vocabulary on; pass some text")
    alphabet = [symbol for symbol in first if len(symbol) == 1]
    # Memory is reserved for the size that is given. Every merge shortens a word by one symbol.
    most = len(first) + sum(map(len, counts))
    options["vocab_size"] = min(options["vocab_size"], most)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learning = trainer(
        special_tokens=first,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
        **options,
    )
    tokenizer.train_from_iterator(repeat_words(counts), learning)
    return tokenizer


def repeat_words(counts: collections.Counter) -> Iterator[str]:
    """Yield lines that hold each word as often as it was counted: the trainer takes text only."""
    line = []
    for word, count in counts.items():
        while count:
            take = min(count, _LINE - len(line))
            line.extend([word] * take)
            count -= take
            if len(line) == _LINE:
                yield " ".join(line)
                line.clear()
    if line:
        yield " ".join(line)
