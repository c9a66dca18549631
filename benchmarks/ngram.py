"""Held-out perplexity of a unigram and of a modified Kneser-Ney trigram, to set beside a biLM's.

    python -m benchmarks.ngram --train FILE ... --valid FILE ... [--max-vocab N] [--min-count N]

Files hold one pre-tokenised sentence a line; tokens are split on whitespace, blank lines skipped.
Every word of a sentence and one `</S>` are predicted, the first from `<S>`; backward, the words
are predicted from the last to the first, then `<S>`. Words outside the training vocabulary are
`<UNK>` in both texts (and `<UNK>` is predicted like a word; a text's own `<unk>` is a word).
The mean of both directions is exp of the mean of their losses, as biLMs report it.
"""

import argparse
import array
import collections
import itertools
import sys

import numpy as np

BEGIN, END, UNKNOWN = range(3)  # then the words, the commonest first
FALLBACK = (0.5, 1.0, 1.5)  # discounts where counts of counts are too few, as in lmplz


def main(argv=None):
    parser = argparse.ArgumentParser(prog="ngram", description=__doc__.split("\n")[0])
    parser.add_argument("--train", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--valid", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--max-vocab", type=_positive, help="keep the N commonest words")
    parser.add_argument("--min-count", type=_positive, default=1, help="drop rarer words")
    arguments = parser.parse_args(argv)
    try:
        train, words = read_training(arguments.train, arguments.max_vocab, arguments.min_count)
        valid = read(arguments.valid, words)
        report(train, valid, size=int(train.max()) + 1)
        return 0
    except (ValueError, OSError) as error:
        named = isinstance(error, OSError) and error.strerror and error.filename
        message = f"{error.filename}: {error.strerror}" if named else str(error)
        print(f"ngram: error: {' '.join(message.split())}", file=sys.stderr)
        return 1


def report(train, valid, size):
    """Prints the sizes of both texts and the perplexities on `valid`."""
    print(f"{'':12s}{'train':>12s}{'valid':>12s}")
    for name, measure in {
        "sentences": lambda text: f"{np.sum(text == BEGIN):,}",
        "tokens": lambda text: f"{np.sum(text != BEGIN):,}",  # those predicted, end marks too
        "types": lambda text: f"{np.sum(np.unique(text) > UNKNOWN):,}",
        "<UNK>": lambda text: f"{np.sum(text == UNKNOWN) / np.sum(text != BEGIN):.2%}",
    }.items():
        print(f"{name:12s}{measure(train):>12s}{measure(valid):>12s}")

    losses = {"unigram": [], "trigram": []}
    for name, turn in (("forward", np.copy), ("backward", reverse)):
        histories = trigrams(turn(valid))
        trigram = KneserNeyTrigram(turn(train), size)
        for order in trigram.orders:
            if not order.estimated:
                print(
                    f"ngram: warning: {name} order {order.n}: too few n-grams to estimate the "
                    f"discounts, used {', '.join(map(str, FALLBACK))}",
                    file=sys.stderr,
                )
        losses["unigram"].append(loss(unigram(train, size)[histories[:, 2]]))
        losses["trigram"].append(loss(trigram.probabilities(histories)))
    print(f"\n{'perplexity':12s}{'forward':>12s}{'backward':>12s}{'mean':>12s}")
    for name, (forward, backward) in losses.items():
        values = np.exp([forward, backward, (forward + backward) / 2])
        print(f"{name:12s}" + "".join(f"{value:12.2f}" for value in values))


def read_training(paths, max_vocab=None, min_count=1):
    """The training text and its vocabulary.

    Args:
        paths: files of one sentence a line.
        max_vocab: how many words are kept at most, the commonest (of equals, those seen first);
            the marks are not counted. None for all.
        min_count: words that occur less often are dropped.

    Returns: the text as `read` gives it, and a dict of word to id (`UNKNOWN` for dropped ones).

    Raises: as `read`; ValueError if no word is left.
    """
    words = collections.defaultdict(itertools.count(UNKNOWN + 1).__next__)
    words["<UNK>"] = UNKNOWN
    text = _read(paths, lambda sentence: map(words.__getitem__, sentence))
    counts = np.bincount(text)[UNKNOWN + 1 :]
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= min_count][:max_vocab]
    if not len(kept):
        raise ValueError(f"--min-count {min_count} leaves no word of {', '.join(paths)}: lower it")
    ids = np.full(UNKNOWN + 1 + len(counts), UNKNOWN)
    ids[[BEGIN, END]] = BEGIN, END
    ids[UNKNOWN + 1 + kept] = UNKNOWN + 1 + np.arange(len(kept))
    return ids[text], {word: int(ids[old]) for word, old in words.items()}


def read(paths, words):
    """The sentences of the files, one after the other, as int64 ids: BEGIN words END BEGIN ...

    Raises: OSError if a file cannot be read; ValueError if one holds no sentence, a sentence
    mark or bytes that are not UTF-8.
    """
    return _read(paths, lambda sentence: map(words.get, sentence, itertools.repeat(UNKNOWN)))


def _read(paths, encode):
    ids = array.array("q")
    for path in paths:
        before = len(ids)
        for sentence in _sentences(path):
            ids.append(BEGIN)
            ids.extend(encode(sentence))
            ids.append(END)
        if len(ids) == before:
            raise ValueError(f"{path}: holds no sentence, expected one a line: name another file")
    return np.array(ids, np.int64)


def _sentences(path):
    with open(path, encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, 1):
                sentence = line.split()
                for mark in ("<S>", "</S>"):
                    if mark in sentence:
                        raise ValueError(
                            f"{path}: line {number} holds {mark}, which is added here: remove it"
                        )
                if sentence:
                    yield sentence
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected UTF-8 text, got {error}: convert it") from error


def reverse(text):
    """The text with each sentence's words reversed; END then stands for `<S>`."""
    text = text[::-1]
    return np.where(text == BEGIN, END, np.where(text == END, BEGIN, text))


def trigrams(text):
    """int64 `[N, 3]`: every predicted token after its two predecessors.

    The first word of a sentence comes after (END, BEGIN), wherever the sentence stands.
    """
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([[END], text]), 3)
    return windows[windows[:, 2] != BEGIN]


def unigram(text, size):
    """Add-one relative frequencies, float64 `[size]`: (c(w) + 1) / (N + V), 0 for BEGIN."""
    counts = np.bincount(text, minlength=size) + 1.0
    counts[BEGIN] = 0
    return counts / counts.sum()


def loss(probabilities):
    """Mean negative natural logarithm; perplexity is exp of it."""
    return float(-np.mean(np.log(probabilities)))


class KneserNeyTrigram:
    """Interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3; Heafield et al. 2013).

        p(w | h) = (a(h w) - D(a(h w))) / sum_x a(h x) + gamma(h) p(w | h without its first word)

    down to the uniform distribution over the vocabulary, `<UNK>` and the end mark. a is the
    count for trigrams and for n-grams that begin with BEGIN, else the number of different words
    seen before the n-gram. There is one BEGIN, so a first word is predicted by the bigram (BEGIN,
    word). gamma(h) is the mass that discounting freed, and 1 for an unseen context.

    Args:
        text: ids as `read` gives them, or `reverse` of them.
        size: number of ids, marks included.

    Raises: ValueError if `size` ** 3 exceeds int64.
    """

    def __init__(self, text, size):
        if size**3 > np.iinfo(np.int64).max:
            raise ValueError(f"{size:,} types, expected fewer than 2,097,152: set --max-vocab")
        self.size = size
        seen = trigrams(text)
        first = seen[:, 1] == BEGIN
        three, counts = np.unique(self._keys(seen[~first], 3), return_counts=True)
        opening, opening_counts = np.unique(self._keys(seen[first], 2), return_counts=True)
        inner, inner_counts = np.unique(three % size**2, return_counts=True)
        two = np.concatenate([opening, inner])  # sorted, as BEGIN is 0 and not within `inner`
        one, one_counts = np.unique(two % size, return_counts=True)
        self.orders = [
            _Order(1, one, one_counts, size),
            _Order(2, two, np.concatenate([opening_counts, inner_counts]), size),
            _Order(3, three, counts, size),
        ]

    def probabilities(self, histories):
        """float64 `[N]`: p(w | u v) for rows u, v, w of ids, `[N, 3]`; w must not be BEGIN."""
        result = 1 / (self.size - 1)  # every id but BEGIN
        for order in self.orders:
            result = order.interpolate(self._keys(histories, order.n), result)
        return result

    def _keys(self, rows, n):
        """The last n ids of each row as the digits of one number to the base `size`."""
        return rows[:, -n:] @ self.size ** np.arange(n - 1, -1, -1, dtype=np.int64)


class _Order:
    """Discounted shares of the n-grams (sorted keys) and what is left over for each context."""

    def __init__(self, n, keys, counts, size):
        self.n, self.keys, self.size = n, keys, size
        discounts, self.estimated = discounts_of(counts)
        taken = discounts[np.minimum(counts, 3) - 1]
        self.contexts, starts, lengths = np.unique(
            keys // size, return_index=True, return_counts=True
        )
        totals = np.add.reduceat(counts, starts)
        self.shares = (counts - taken) / np.repeat(totals, lengths)
        self.left = np.add.reduceat(taken, starts) / totals

    def interpolate(self, keys, lower):
        shares = _look_up(keys, self.keys, self.shares, 0.0)
        return shares + _look_up(keys // self.size, self.contexts, self.left, 1.0) * lower


def discounts_of(counts):
    """Discounts of counts of 1, of 2 and of 3 or more, float64 `[3]`, and whether estimated.

    D_i = i - (i + 1) Y n_(i+1) / n_i with Y = n_1 / (n_1 + 2 n_2), where n_i is the number of
    n-grams that occur i times (Chen and Goodman 1999, section 3). `FALLBACK` where n_1, n_2 or
    n_3 is 0 or a discount is outside (0, i], as with small texts and small vocabularies.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6)
    if n[1:4].all():
        i = np.arange(1, 4)
        discounts = i - (i + 1) * n[1] / (n[1] + 2 * n[2]) * n[2:5] / n[1:4]
        if np.all((discounts > 0) & (discounts <= i)):
            return discounts, True
    return np.array(FALLBACK), False


def _look_up(wanted, keys, values, default):
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], default)


def _positive(text):
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
