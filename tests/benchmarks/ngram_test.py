"""The n-gram models beside the textbook's formulas in plain Python, and by hand."""

import collections
import math
import re

import numpy as np
import pytest

from benchmarks import ngram
from tfnlp import books

TINY = ["a b", "a"]


class Textbook:
    """Interpolated modified Kneser-Ney over tuples of words, by the definitions.

    Contexts are found by counting pairs and triples of the sentences themselves; nothing is
    packed, sorted or shared with the program.
    """

    def __init__(self, sentences):
        self.tables = [collections.defaultdict(collections.Counter) for _ in range(3)]
        before = collections.defaultdict(set)  # n-gram: the words seen before it
        counts = collections.Counter()
        for sentence in sentences:
            words = ["BEGIN", *sentence, "END"]
            for n in (1, 2, 3):
                for i in range(len(words) - n + 1):
                    gram = tuple(words[i : i + n])
                    counts[gram] += 1
                    if i:
                        before[gram].add(words[i - 1])
        for gram, count in counts.items():
            if gram == ("BEGIN",):
                continue
            if len(gram) < 3 and gram[0] != "BEGIN":
                count = len(before[gram])
            self.tables[len(gram) - 1][gram[:-1]][gram[-1]] = count
        self.discounts = [self.estimate(table) for table in self.tables]
        self.vocabulary = {w for s in sentences for w in s} | {"<UNK>", "END"}

    @staticmethod
    def estimate(table):
        n = collections.Counter(count for row in table.values() for count in row.values())
        if not (n[1] and n[2] and n[3]):
            return 0.5, 1.0, 1.5
        y = n[1] / (n[1] + 2 * n[2])
        found = 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]
        return found if all(0 < d <= i for i, d in enumerate(found, 1)) else (0.5, 1.0, 1.5)

    def probability(self, word, context):
        """p(word | context), a tuple of at most two words."""
        one, two, many = self.discounts[len(context)]
        lower = self.probability(word, context[1:]) if context else 1 / len(self.vocabulary)
        row = self.tables[len(context)].get(context)
        if row is None:
            return lower
        total = sum(row.values())
        ones = sum(count == 1 for count in row.values())
        twos = sum(count == 2 for count in row.values())
        gamma = (one * ones + two * twos + many * (len(row) - ones - twos)) / total
        count = row[word] if word in row else 0
        discount = {0: 0, 1: one, 2: two}.get(count, many)
        return max(count - discount, 0) / total + gamma * lower

    def losses(self, sentences):
        """-log p of each predicted token, in order."""
        for sentence in sentences:
            words = ["BEGIN", *sentence, "END"]
            for i in range(1, len(words)):
                yield -math.log(self.probability(words[i], tuple(words[max(i - 2, 0) : i])))


@pytest.fixture(scope="module")
def novel():
    """1,200 lines to train on, 200 held out, as lists of tokens; blank lines left out."""
    lines = books.path("the_secret_garden").read_text(encoding="utf-8").lower().splitlines()
    tokens = [re.findall(r"\w+|[^\w\s]", line) for line in lines]
    tokens = [line for line in tokens if line]
    return tokens[:1200], tokens[1200:1400]


def write(path, sentences):
    path.write_text("\n".join(" ".join(s) for s in sentences) + "\n", encoding="utf-8")
    return str(path)


def cut(sentences, kept):
    return [[word if word in kept else "<UNK>" for word in s] for s in sentences]


def model(tmp_path, lines, **limits):
    path = write(tmp_path / "train.txt", [line.split() for line in lines])
    text, words = ngram.read_training([path], **limits)
    return ngram.KneserNeyTrigram(text, text.max() + 1), words


def figures(output):
    """The rows of the printed tables: name to numbers."""
    rows = (line.split() for line in output.splitlines() if line and line[0] != " ")
    return {
        name: [float(x.strip("%").replace(",", "")) for x in more]
        for name, *more in rows
        if name != "perplexity"
    }


def test_sums_to_one_for_any_context(novel, tmp_path):
    path = write(tmp_path / "train.txt", novel[0])
    text, _ = ngram.read_training([path], min_count=2)
    for turned in (text, ngram.reverse(text)):
        size = int(text.max()) + 1
        trigram = ngram.KneserNeyTrigram(turned, size)
        seen = ngram.trigrams(turned)
        random = np.random.default_rng(1)
        contexts = np.concatenate(
            [
                seen[random.integers(len(seen), size=60), :2],
                random.integers(ngram.UNKNOWN, size, [60, 2]),
                [[ngram.END, ngram.BEGIN]],
            ]
        )
        met = {tuple(row) for row in seen[:, :2].tolist()}
        assert {tuple(row) in met for row in contexts.tolist()} == {True, False}
        everything = np.delete(np.arange(size), ngram.BEGIN)
        for context in contexts:
            rows = np.column_stack([np.tile(context, [size - 1, 1]), everything])
            probabilities = trigram.probabilities(rows)
            assert probabilities.min() > 0
            assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        one = ngram.unigram(turned, size)
        assert one[everything].min() > 0 and one.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_equals_the_textbook(novel, tmp_path, min_count, backward):
    paths = [write(tmp_path / f"{i}.txt", text) for i, text in enumerate(novel)]
    train, words = ngram.read_training([paths[0]], min_count=min_count)
    valid = ngram.read([paths[1]], words)
    if backward:
        train, valid = ngram.reverse(train), ngram.reverse(valid)
    trigram = ngram.KneserNeyTrigram(train, int(train.max()) + 1)
    found = -np.log(trigram.probabilities(ngram.trigrams(valid)))

    counts = collections.Counter(word for s in novel[0] for word in s)
    kept = {word for word, count in counts.items() if count >= min_count}
    step = -1 if backward else 1
    texts = [[s[::step] for s in cut(text, kept)] for text in novel]
    textbook = Textbook(texts[0])
    assert all(order.estimated for order in trigram.orders)
    # reversing the text reverses the order of its sentences too
    expected = np.array(list(textbook.losses(texts[1][::step])))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_command_prints_both_directions(novel, tmp_path, capsys):
    halves = [write(tmp_path / f"{i}.txt", novel[0][i::2]) for i in range(2)]
    valid = write(tmp_path / "valid.txt", [[], *novel[1], []])
    arguments = ["--train", *halves, "--valid", valid, "--max-vocab", "500"]
    assert ngram.main(arguments) == 0
    found = figures(capsys.readouterr().out)

    tokens = [word for half in range(2) for s in novel[0][half::2] for word in s]
    kept = {word for word, _ in collections.Counter(tokens).most_common(500)}
    train, held = cut(novel[0], kept), cut(novel[1], kept)
    predicted = [word for s in held for word in [*s, "END"]]
    counts = collections.Counter(word for s in train for word in [*s, "END"])
    total = sum(counts.values())
    assert found["sentences"] == [1200, 200]
    assert found["tokens"] == [total, len(predicted)]
    assert found["types"] == [500, len(set(predicted) - {"<UNK>", "END"})]
    shares = [counts["<UNK>"] / total, predicted.count("<UNK>") / len(predicted)]
    assert found["<UNK>"] == pytest.approx([100 * share for share in shares], abs=0.005)

    one = np.mean([-math.log((counts[w] + 1) / (total + 502)) for w in predicted])
    assert found["unigram"] == pytest.approx([math.exp(one)] * 3, abs=0.006)
    forward = np.mean(list(Textbook(train).losses(held)))
    turned = [[s[::-1] for s in text] for text in (train, held)]
    backward = np.mean(list(Textbook(turned[0]).losses(turned[1])))
    assert abs(forward - backward) > 1e-3
    expected = np.exp([forward, backward, (forward + backward) / 2])
    assert found["trigram"] == pytest.approx(expected, abs=0.006)


def test_tiny_text_by_hand(tmp_path):
    """Two sentences, `a b` and `a`, with the discounts 0.5, 1 and 1.5 (no count of 3 occurs).

    Words seen before: a 1, b 1, end 2 (a, b); so p(a) = p(b) = .5/4 + 2/4 * 1/4 = .25,
    p(end) = 1/4 + 2/4 * 1/4 = .375, p(UNK) = .125. Behind BEGIN, a is seen twice:
    p(a) = (2 - 1)/2 + 1/2 * .25 = .625. Behind a: p(b) = .5/2 + 1/2 * .25 = .375. Behind b:
    p(end) = .5/1 + .5 * .375 = .6875.
    """
    trigram, words = model(tmp_path, TINY)

    def probabilities(sentence):
        path = write(tmp_path / "valid.txt", [sentence.split()])
        return trigram.probabilities(ngram.trigrams(ngram.read([path], words)))

    second = 0.5 / 2 + 1 / 2 * 0.375  # b behind BEGIN a
    third = 0.5 / 1 + 0.5 * 0.6875  # end behind a b
    np.testing.assert_allclose(probabilities("a b"), [0.625, second, third], rtol=1e-14)
    np.testing.assert_allclose(probabilities("b"), [0.5 * 0.25, 0.6875], rtol=1e-14)
    # an unseen word from BEGIN, then the end from a context never seen
    np.testing.assert_allclose(probabilities("new"), [0.5 * 0.125, 0.375], rtol=1e-14)
    perplexity = (0.625 * second * third) ** (-1 / 3)
    assert math.exp(ngram.loss(probabilities("a b"))) == pytest.approx(perplexity)


def test_tiny_text_warns_of_its_discounts(tmp_path, capsys):
    path = write(tmp_path / "tiny.txt", [line.split() for line in TINY])
    assert ngram.main(["--train", path, "--valid", path]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [re.search(r"(\w+) order (\d)", line).groups() for line in lines] == [
        (direction, order) for direction in ("forward", "backward") for order in "123"
    ]


def test_discounts_by_hand():
    """n = 4, 2, 1, 1 and Y = 4 / (4 + 2 * 2) = 1/2."""
    discounts, estimated = ngram.discounts_of(np.array([1, 3, 1, 2, 9, 1, 4, 2, 1]))
    assert estimated
    expected = [1 - 2 * 0.5 * 2 / 4, 2 - 3 * 0.5 * 1 / 2, 3 - 4 * 0.5 * 1 / 1]
    np.testing.assert_allclose(discounts, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "counts",
    [[1, 1, 2], [2, 3, 4], [1, 2, 3, 3, 3, 3, 4]],
    ids=["no count of 3", "no count of 1", "second discount negative"],
)
def test_discounts_fall_back(counts):
    with np.errstate(all="raise"):  # found out, not stumbled over
        discounts, estimated = ngram.discounts_of(np.array(counts))
    assert not estimated and discounts.tolist() == [0.5, 1.0, 1.5]


def test_vocabulary_keeps_the_commonest(tmp_path):
    lines = ["c b <UNK> a", "b a c d", "c"]
    path = write(tmp_path / "train.txt", [line.split() for line in lines])
    text, words = ngram.read_training([path], max_vocab=2)
    # c three times, then b before a, which is as common but comes later
    assert words == {"<UNK>": 2, "c": 3, "b": 4, "a": 2, "d": 2}
    assert text.tolist() == [0, 3, 4, 2, 2, 1, 0, 4, 2, 3, 2, 1, 0, 3, 1]
    text, words = ngram.read_training([path], min_count=2)
    assert words == {"<UNK>": 2, "c": 3, "b": 4, "a": 5, "d": 2}
    assert ngram.reverse(text).tolist() == [0, 3, 1, 0, 2, 3, 5, 4, 1, 0, 5, 2, 4, 3, 1]


@pytest.mark.parametrize(
    "content, limits, message",
    [
        (None, [], "train.txt: No such file or directory"),
        (b"", [], "train.txt: holds no sentence"),
        (b" \n\n", [], "train.txt: holds no sentence"),
        (b"a b\n<S> a </S>\n", [], "train.txt: line 2 holds <S>"),
        (b"a \xff b\n", [], "train.txt: expected UTF-8 text"),
        (b"a b\n", ["--min-count", "2"], "--min-count 2 leaves no word of"),
    ],
    ids=["missing", "empty", "blank", "marks", "bytes", "rare"],
)
def test_faults_in_one_line(tmp_path, capsys, content, limits, message):
    train, valid = tmp_path / "train.txt", tmp_path / "valid.txt"
    valid.write_text("a b\n")
    if content is not None:
        train.write_bytes(content)
    assert ngram.main(["--train", str(train), "--valid", str(valid), *limits]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("ngram: error: ") and message in output.err
    assert output.err.count("\n") == 1 and not output.out
    if not limits:  # the same file held out
        assert ngram.main(["--train", str(valid), "--valid", str(train)]) == 1
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_limits_are_positive(capsys, value):
    with pytest.raises(SystemExit) as stop:
        ngram.main(["--train", "x", "--valid", "x", "--max-vocab", value])
    assert stop.value.code == 2 and "--max-vocab" in capsys.readouterr().err


def test_too_many_types_for_the_keys():
    with pytest.raises(ValueError, match="2,097,153 types.*--max-vocab"):
        ngram.KneserNeyTrigram(np.array([0, 3, 1]), 2**21 + 1)
