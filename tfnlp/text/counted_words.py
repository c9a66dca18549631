"""Training of vocabularies on counted words."""

import collections
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

_LINE = 1000  # words of a line


def checked_texts(texts: Iterable[str], name: str = "texts") -> Iterator[str]:
    """Yield texts, each of which must be a string."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} is a single string; pass a list of strings")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{number}] must be a string; got {text!r:.60}")
        yield text


def frequent_characters(counts: collections.Counter, limit: int) -> list[str]:
    """Return the `limit` most frequent characters of words, in code point order."""
    chars = collections.Counter()
    for word, count in counts.items():
        for char in word:
            chars[char] += count
    return sorted(sorted(chars, key=lambda char: (-chars[char], char))[:limit])


def train(
    model: models.Model,
    trainer: Callable[..., trainers.Trainer],
    counts: collections.Counter,
    first: list[str],
    **options: Any,
) -> Tokenizer:
    """Return a tokenizer of the library `tokenizers` that has learnt its vocabulary from words.

    The trainers number symbols of several characters (`##x`, `x</w>`) in hash order, which decides
    ties between merges, and so differs from run to run. Declaring every symbol beforehand fixes the
    numbers: `first` are all that there are before the first merge. `vocab_size` is among `options`.
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
