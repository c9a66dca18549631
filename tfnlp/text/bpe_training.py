"""Learning byte-pair vocabularies, GPT's and GPT-2's kind."""

import collections
import itertools
import json
from collections.abc import Iterable, Iterator

import tensorflow as tf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tfnlp.text.gpt.gpt2_tokenizer import END_OF_TEXT, byte_characters
from tfnlp.text.gpt.gpt2_words import gpt2_words
from tfnlp.text.gpt.tokenizer import END_OF_WORD, UNKNOWN_TOKEN
from tfnlp.text.gpt.words import gpt_words

_KINDS = ("gpt", "gpt2")
_BATCH = 1000  # texts that are cut into words at once
_REPEATS = 1000  # of a word in one string


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    kind: str = "gpt2",
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learns a byte-pair vocabulary from `texts`; the same texts always give the same lists.

    Texts are cut into words as the tokenizer does it, then the most frequent pair of symbols is
    merged until `vocab_size` tokens exist or no pair occurs `min_frequency` times (`tokenizers`'
    `BpeTrainer`).  The tokens are, for

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
      ValueError: `kind` is another one, `texts` is a single string, holds something else than
        strings or no word, or `vocab_size` has no room for bytes or characters.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}")
    if isinstance(texts, str | bytes):
        raise ValueError("texts is a single string; pass an iterable of strings")
    if kind == "gpt2":
        counts, first = _byte_words(texts), sorted(byte_characters())
    else:
        counts, first = _char_words(texts, limit_alphabet)
    if not counts:
        raise ValueError("texts holds no words to train a vocabulary on; pass some text")
    if vocab_size <= len(first):
        raise ValueError(
            f"vocab_size={vocab_size} cannot hold the {len(first)} "
            f"{'bytes' if kind == 'gpt2' else 'characters'} and {END_OF_TEXT}; pass vocab_size >= "
            f"{len(first) + 1}"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=min_frequency,
        show_progress=False,
        # The trainer numbers `x</w>` in hash order, which decides ties between merges, and so
        # differs from run to run.  Declaring every symbol beforehand fixes the numbers.
        special_tokens=first,
        initial_alphabet=[symbol for symbol in first if len(symbol) == 1],
        limit_alphabet=sum(len(symbol) == 1 for symbol in first),
        **({} if kind == "gpt2" else dict(end_of_word_suffix=END_OF_WORD)),
    )
    tokenizer.train_from_iterator(_repeat_words(counts), trainer)
    return _result(tokenizer)


def _batches(texts: Iterable[str]) -> Iterator[list[bytes]]:
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _BATCH)):
        for text in batch:
            if not isinstance(text, str):
                raise ValueError(f"texts must hold strings, but one is a {type(text).__name__}")
        yield [text.encode("utf-8", "replace") for text in batch]


def _byte_words(texts: Iterable[str]) -> collections.Counter:
    """Counts of GPT-2's words, in the characters that stand for bytes."""
    counts = collections.Counter()
    for batch in _batches(texts):
        data, starts, ends, _ = (x.numpy() for x in gpt2_words(tf.constant(batch)))
        data = data.tobytes()
        counts.update(data[start:end] for start, end in zip(starts, ends, strict=True))
    counts.pop(b"", None)  # the ends of the texts
    names = str.maketrans(dict(enumerate(byte_characters())))
    return collections.Counter(
        {word.decode("latin-1").translate(names): count for word, count in counts.items()}
    )


def _char_words(texts: Iterable[str], limit: int) -> tuple[collections.Counter, list[str]]:
    """Counts of GPT's words of frequent characters, and the symbols to start from."""
    split = tf.function(
        lambda strings: gpt_words(strings).flat_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    raw = collections.Counter()
    for batch in _batches(texts):
        raw.update(split(tf.constant(batch)).numpy().tolist())
    counts = collections.Counter({word.decode(): count for word, count in raw.items()})
    chars = collections.Counter()
    for word, count in counts.items():
        for char in word:
            chars[char] += count
    kept = sorted(sorted(chars, key=lambda char: (-chars[char], char))[:limit])
    ending = sorted({word[-1] for word in counts}.intersection(kept))
    words = collections.Counter(
        # The line break is a word, but the trainer, which splits at white space, has no need of it.
        {w: n for w, n in counts.items() if not w.isspace() and set(w) <= set(kept)}
    )
    return words, [UNKNOWN_TOKEN, *kept, *(char + END_OF_WORD for char in ending)]


def _repeat_words(counts: collections.Counter) -> Iterator[str]:
    """Each word as often as it was counted: the trainer takes text only."""
    for word, count in counts.items():
        whole, rest = divmod(count, _REPEATS)
        yield from itertools.repeat(f"{word} " * _REPEATS, whole)
        yield f"{word} " * rest


def _result(tokenizer: Tokenizer) -> tuple[list[str], list[tuple[str, str]]]:
    ids = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    # Older versions of `tokenizers` write a merge as one string.
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in merges]
    return [*sorted(ids, key=ids.get), END_OF_TEXT], merges
