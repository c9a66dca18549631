"""Training of byte-pair vocabularies, those of GPT, GPT-2 and RoBERTa."""

import collections
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf
from tokenizers import Tokenizer, models, trainers

from tfnlp.text.base_tokenizers import END_OF_TEXT
from tfnlp.text.byte_pair_files import Merges
from tfnlp.text.counted_words import checked_texts, frequent_characters, train
from tfnlp.text.gpt_tokenizers import END_OF_WORD, ROBERTA_TOKENS, UNKNOWN_TOKEN
from tfnlp.text.gpt_words import gpt_words
from tfnlp.text.pipeline.gpt2_words import ByteWords, byte_characters

_BATCH = 1000  # texts that are cut into words at once


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
    symbols = _KINDS[kind]
    counts, first = symbols.count(checked_texts(texts), limit_alphabet)
    if vocab_size <= len(first):
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the {len(first)} {symbols.name} and "
            f"{END_OF_TEXT}; pass vocab_size >= {len(first) + 1}"
        )
    tokenizer = train(
        models.BPE(),
        trainers.BpeTrainer,
        counts,
        first,
        vocab_size=vocab_size - 1,
        min_frequency=min_frequency,
        **symbols.options,
    )
    return _result(tokenizer)


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
    counts, words = collections.Counter(), ByteWords()
    for batch in _batches(texts):
        chars, starts, _ = (x.numpy() for x in words.cut(batch))
        text = chars.tobytes().decode("utf-32-le")
        counts.update(text[a:b] for a, b in itertools.pairwise([*starts, len(text)]))
    return counts, sorted(byte_characters())


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
    kept = frequent_characters(counts, limit)
    ending = sorted({word[-1] for word in counts}.intersection(kept))
    words = collections.Counter(
        # The line break is a word, but the trainer splits at white space and does not need it.
        {w: n for w, n in counts.items() if not w.isspace() and set(w) <= set(kept)}
    )
    return words, [UNKNOWN_TOKEN, *kept, *(char + END_OF_WORD for char in ending)]


def _result(tokenizer: Tokenizer) -> tuple[list[str], Merges]:
    ids = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [*sorted(ids, key=ids.get), END_OF_TEXT], list(map(tuple, merges))


class _Symbols(NamedTuple):
    """The symbols that merging begins with.

    `count` is a function of the texts and a limit of characters that returns the counts of words
    and the first symbols; `name`, in the plural, is for messages, `options` are for the trainer.
    """

    name: str
    count: Callable[[Iterator[str], int], tuple[collections.Counter, list[str]]]
    options: Mapping[str, str] = {}


_KINDS = {
    "gpt": _Symbols("characters", _count_character_words, {"end_of_word_suffix": END_OF_WORD}),
    "gpt2": _Symbols("bytes", _count_byte_words),
}
