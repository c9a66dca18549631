"""Examples as columns and targets, decoded again as words and answers."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.hub import gpt_toy
from tfnlp.data import Question, RoleSentence, TaggedSentence, TaskExample
from tfnlp.hub.modules.frozen_features import WordRows
from tfnlp.tasks import Answer, Choose, Classify, Roles, Similarity, Tag, sequences
from tfnlp.tasks.sequences import encode_examples
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer
from tfnlp.text.task_readers import BertReader, GPTReader, WordReader

LETTERS = [*"abcdefghijklmnopqrstuvwxyzé.,", "北", "京"]
TOKENIZER = WordPieceTokenizer([*SPECIAL_TOKENS, *LETTERS, *(f"##{x}" for x in LETTERS)], False)
KINDS = ("bert", "gpt2", "elmo")


@functools.cache
def reader_of(kind):
    if kind == "bert":
        return BertReader(TOKENIZER)
    if kind == "elmo":
        return WordReader()
    size = gpt_toy.tokenizer(kind).vocab_size
    return GPTReader(gpt_toy.tokenizer(kind), [size, size + 1, size + 2])


def encode(kind, task, examples):
    words = WordRows() if kind == "elmo" else None
    return encode_examples(reader_of(kind), task, examples, words), words


WORDS = ["né", "à", "北京", "the", "cat", "ab", "caé", ".", "c,d", "sat"]


def questions(rng, count):
    """Questions about random texts whose answers begin and end anywhere, also inside words."""
    found = []
    for number in range(count):
        context = " ".join(rng.choice(WORDS, rng.integers(1, 15)))
        context = " " * (number % 3) + context
        start = int(rng.integers(len(context)))
        answer = context[start : start + 1 + int(rng.integers(12))]
        answers = () if number % 5 == 4 else ((answer, start), ("unused", 0))
        found.append(Question(str(number), "the cat"[: number % 8], context, answers))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_gold_answers_come_back(kind, monkeypatch):
    monkeypatch.setattr(sequences, "_CHUNK", 12)  # words are numbered across calls
    examples = questions(np.random.default_rng(0), 20)
    task = Answer(max_length=16, stride=3, max_question=6)
    found, _ = encode(kind, task, examples)
    fixed = task.targets(found, examples)
    assert fixed[0] == {}
    columns = [fixed[1][name] for name in ("start_positions", "end_positions")]
    assert all(c.dtype == np.int32 and c.shape == found.row.shape for c in columns)
    assert sorted(set(found.row)) == list(range(20)) and max(found.sizes) <= 16
    whole = outside = 0
    for window, (row, start, end) in enumerate(zip(found.row, *columns, strict=True)):
        example, words = examples[row], found.windows["token_word"][window]
        places = [found.starts, found.ends]
        first, last = found.splits[row : row + 2]
        assert all(first <= w < last for w in words if w >= 0)
        data = example.context.encode()
        null = found.null_positions[window]
        assert null == (found.sizes[window] - 1 if kind == "gpt2" else 0)
        if not example.answers:
            assert (start, end) == (null, null)
            continue
        text, at = example.answers[0]
        at = len(example.context[:at].encode())
        until = at + len(text.encode())
        # The words that share a byte with the answer.
        gold = [w for w in range(first, last) if places[1][w] > at and places[0][w] < until]
        if not gold or gold[0] not in words or gold[-1] not in words:
            assert (start, end) == (null, null)
            outside += 1
            continue
        whole += 1
        assert [words[start], words[end]] == [gold[0], gold[-1]]
        assert words[start - 1] != gold[0] and words[end + 1] != gold[-1]  # all pieces
        said = data[places[0][words[start]] : places[1][words[end]]].decode()
        assert text.strip() in said and said in example.context
    assert whole > 10 and outside > 5


def sentences(rng, count):
    tags = ("O", "B-A", "I-A", "B-NEW")
    return [
        TaggedSentence(tuple(rng.choice([*WORDS, "\u200b"], size)), tuple(rng.choice(tags, size)))
        for size in rng.integers(0, 14, count)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_is_learnt_once(kind, monkeypatch):
    monkeypatch.setattr(sequences, "_CHUNK", 6)
    examples = [*sentences(np.random.default_rng(3), 20), TaggedSentence((), ())]
    task = Tag(labels=("O", "B-A", "I-A"), max_length=9, stride=3)
    found, _ = encode(kind, task, examples)
    tokens, fixed = task.targets(found, examples)
    assert fixed == {} and set(tokens) == {"labels", "weights"}
    every = [tag for e in examples for tag in e.tags]
    assert found.splits.tolist() == np.cumsum([0, *(len(e.words) for e in examples)]).tolist()
    seen = np.zeros(len(every), int)
    for n, row in enumerate(found.row):
        words, labels, weights = (
            x[n] for x in (found.windows["token_word"], tokens["labels"], tokens["weights"])
        )
        assert len(words) == len(labels) == len(weights) == found.sizes[n]
        assert set(weights) <= {0.0, 1.0} and labels.dtype == np.int32
        for word, label, weight in zip(words, labels, weights, strict=True):
            if weight:
                assert found.splits[row] <= word < found.splits[row + 1]
                assert task.labels[label] == every[word]
                seen[word] += 1
    assert seen.tolist() == [int(tag != "B-NEW") for tag in every]
    assert 0 < seen.sum() < len(every) and len(found.row) > len(examples)


@pytest.mark.parametrize("kind", KINDS)
def test_choices(kind):
    examples = [TaskExample(("the cat",), i % 3, ("sat", "ab " * (1 + i), "")) for i in range(4)]
    task = Choose(choices=3, max_length=12)
    found, _ = encode(kind, task, examples)
    single = Classify(labels=("a", "b"), texts=2, max_length=12)
    for n, example in enumerate(examples):
        column = found.inputs["input_word_ids"][n]
        assert column.shape == (3, found.sizes[n]) and column.dtype == np.int32
        for c, choice in enumerate(example.choices):
            pair = [TaskExample((example.segments[0], choice), "a")]
            alone, _ = encode(kind, single, pair)
            size = alone.sizes[0]
            for name in ("input_mask", "input_type_ids", "input_word_ids")[: 3 - (kind == "elmo")]:
                got = found.inputs[name][n][c]
                assert got[:size].tolist() == alone.inputs[name][0].tolist()
                assert not got[size:].any()
            assert found.null_positions[n, c] == alone.null_positions[0]
    assert task.targets(found, examples)[1]["labels"].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_both_orders(kind):
    pairs = [("the cat", "sat"), ("", "ab ab"), ("cat " * 20, "sat " * 3)]
    examples = [TaskExample(pair, 2.0 * i) for i, pair in enumerate(pairs)]
    task = Similarity(texts=2, max_length=10, mean=2.0, deviation=4.0)
    both = dataclasses.replace(task, both_orders=True)
    found, rows = encode(kind, both, examples)
    for way in (0, 1):
        turned = [TaskExample(e.segments[:: -1 if way else 1], e.label) for e in examples]
        alone, own = encode(kind, task, turned)
        np.testing.assert_array_equal(found.null_positions[:, way], alone.null_positions)
        for n in range(3):
            for name, column in found.inputs.items():
                got, want = column[n][way], alone.inputs[name][n]
                if kind == "elmo" and name == "input_word_ids":
                    got, want = [rows.words[i] for i in got], [own.words[i] for i in want]
                np.testing.assert_array_equal(got, want)
    fixed = both.targets(found, examples)[1]["labels"]
    assert fixed.dtype == np.float32 and fixed.tolist() == [-0.5, 0.0, 0.5]


def test_examples_that_are_cut_are_counted(monkeypatch):
    """As many as those whose sequences would be longer than they may be."""
    monkeypatch.setattr(sequences, "_CHUNK", 8)
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(15)]
    rows = [texts[i : i + 3] for i in range(0, 15, 3)]
    one = Classify(labels=("a", "b"), max_length=500)
    two = Similarity(texts=2, max_length=500, both_orders=True)
    three = Choose(choices=2, max_length=500)
    for task, examples in (
        (one, [TaskExample((row[0],), "a") for row in rows]),
        (two, [TaskExample((*row[:2],), 1.0) for row in rows]),
        (three, [TaskExample((row[0],), 0, (*row[1:],)) for row in rows]),
    ):
        whole, _ = encode("bert", task, examples)
        limit = int(np.median(whole.sizes))
        found, _ = encode("bert", dataclasses.replace(task, max_length=limit), examples)
        assert found.cut == (whole.sizes > limit).sum() > whole.cut == 0
    answers = [Question(str(i), text, "the cat", ()) for i, text in enumerate(texts)]
    task = Answer(max_length=16, stride=3, max_question=6)
    as_text, _ = encode("bert", one, [TaskExample((text,), "a") for text in texts])
    assert encode("bert", task, answers)[0].cut == (as_text.sizes > 6 + 2).sum() > 0
    tagged = [TaggedSentence((*text.split(), "cat"), None) for text in texts]
    task = Tag(labels=("a", "b"), max_length=8, stride=3)
    assert encode("bert", task, tagged)[0].cut == 0  # read in windows


def test_classes_and_forms_that_do_not_fit():
    task = Classify(labels=("x", "y"))
    examples = [TaskExample(("ab",), label) for label in ("y", "x", "y")]
    found, _ = encode("bert", task, examples)
    assert task.targets(found, examples)[1]["labels"].tolist() == [1, 0, 1]
    for other, example in (
        (task, TaskExample(("a", "b"), "x")),
        (Choose(choices=2), TaskExample(("a",), 0, ("b",))),
    ):
        with pytest.raises(ValueError, match="example 0"):
            encode("bert", other, [example])


def test_first_words_have_no_space_before_them_beside_any_text():
    """GPT-2's words are the same with and without white space at the start of a text."""
    task = Answer(max_length=32, max_question=4)
    contexts = ["  the cat", "the cat", " the cat"]
    given = {"question": tf.constant(["a"] * 3), "context": tf.constant(contexts)}
    rows = task.encode(reader_of("gpt2"), given, True)["inputs"]["input_word_ids"].numpy()
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[2], rows[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [True, False])
def test_predicates_are_marked_in_every_window(kind, whole):
    rng = np.random.default_rng(4)
    task = Roles(labels=("O", "A"), max_length=12, stride=3)
    examples = []
    for size in (1, 5, 14):
        words = tuple(rng.choice(WORDS, size).tolist())
        examples.append(RoleSentence(words, ("O",) * size, int(rng.integers(size))))
    words = WordRows() if kind == "elmo" else None
    found = encode_examples(reader_of(kind), task, examples, words, whole)
    marks = found.inputs["input_type_ids" if whole else "predicate_mask"]
    assert len(marks) > 3 and ("predicate_mask" in found.inputs) == (not whole)
    for row, word, mark, ids, mask in zip(
        found.row,
        found.windows["token_word"],
        marks,
        found.inputs["input_word_ids"],
        found.inputs["input_mask"],
        strict=True,
    ):
        predicate = found.splits[row] + examples[row].predicate
        np.testing.assert_array_equal(mark, word == predicate)
        inside = np.flatnonzero(word >= 0)
        assert mask.all() and len(ids) <= 12
        if whole:  # start, the predicate, a delimiter, and the window
            alone = examples[row].words[examples[row].predicate]
            pieces = reader_of(kind).read([], tf.ragged.constant([[alone]]), tf.ragged.constant(
                [[examples[row].predicate > 0]]))[1].flat_values.numpy()  # fmt: skip
            assert inside[0] == 2 + len(pieces)
            if kind != "elmo":  # whose ids are rows of a table
                np.testing.assert_array_equal(ids[1 : 1 + len(pieces)], pieces)
        else:
            assert inside[0] == 1
