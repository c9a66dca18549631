import numpy as np
import pytest

from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths, token_batches

SIZES = [3, 1, 5, 2, 9, 4, 5, 1, 2, 7, 3]
LENGTHS = [2, 5, 10]
CHOICES = 2


def columns(choices=False):
    """Ids that tell where they come from, 1 and up; tags, labels and weights that follow."""
    ids = np.split(np.arange(1, sum(SIZES) + 1), np.cumsum(SIZES)[:-1])
    if choices:
        ids = [np.stack([part, part + 100]) for part in ids]
    fixed = {"labels": np.array([part.max() % 4 for part in ids])}
    fixed["scores"] = np.array([[part.sum() / 8.0, 1.0] for part in ids])
    return {"ids": ids, "tags": [part % 5 for part in ids]}, fixed


def make(choices=False, lengths=LENGTHS, **arguments):
    tokens, fixed = columns(choices)
    return TaskBatches(tokens, fixed, batch_size=3, lengths=lengths, **arguments)


def numpy_batches(batches):
    return [{k: v.numpy() for k, v in batch.items()} for batch in batches]


def real_examples(batches, choices=False, lengths=LENGTHS, training=False):
    """Numbers of the examples that count; checks every row of the batches on the way.

    In training an example that was left over may be in a batch of a greater length.
    """
    tokens, fixed = columns(choices)
    number_of = {part.flat[0]: number for number, part in enumerate(tokens["ids"])}
    found = []
    for batch in batches:
        length = batch["ids"].shape[-1]
        assert length in lengths
        assert set(batch) == {"ids", "tags", "labels", "scores", "weights"}
        for row, ids in enumerate(batch["ids"]):
            number = number_of[ids.flat[0]]
            size = SIZES[number]
            for name in ("ids", "tags"):
                value = batch[name][row]
                np.testing.assert_array_equal(value[..., :size], tokens[name][number])
                assert not value[..., size:].any()  # padding on the right
            for name in fixed:
                np.testing.assert_array_equal(batch[name][row], fixed[name][number])
            if batch["weights"][row]:
                smallest = min(n for n in lengths if n >= size)
                assert batch["weights"][row] == 1
                assert smallest <= length if training else smallest == length
                found.append(number)
    return found


def epochs(batches, choices):
    """The batches of each of three epochs, and the numbers of their examples: each once."""
    orders, count = [], batches.steps_per_epoch
    for first in range(0, 3 * count, count):
        taken = [batches.batch(step) for step in range(first, first + count)]
        orders.append(real_examples(taken, choices, training=True))
        assert sorted(orders[-1]) == list(range(len(SIZES)))
        yield taken, orders[-1]
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("choices", [False, True])
def test_every_epoch_has_every_example_once(choices):
    batches = make(choices)
    assert batches.steps_per_epoch == 4  # of 4, 5 and 2 examples: 1 + 2 + 1 batches
    for taken, _ in epochs(batches, choices):
        assert sorted(batch["ids"].shape[-1] for batch in taken) == [2, 5, 5, 10]
        assert sorted(int(batch["weights"].sum()) for batch in taken) == [2, 3, 3, 3]
    held_out = real_examples(numpy_batches(batches.evaluation_batches()), choices)
    assert sorted(held_out) == list(range(len(SIZES)))


@pytest.mark.parametrize("full", [False, True])
def test_batches_by_tokens_have_every_example_once_the_longest_first(full):
    sizes = np.random.default_rng(0).integers(1, 129, 300)
    lengths = bucket_lengths(sizes, 6)
    plan = token_batches(sizes, lengths, 1000, full)
    found = np.concatenate([rows[:real] for _, rows, real in plan])
    assert sorted(found) == list(range(300)) and (np.diff(sizes[found]) <= 0).all()
    for number, (length, rows, real) in enumerate(plan):
        assert length == min(n for n in lengths if n >= sizes[rows[0]])
        most = max(1, 1000 // length)
        assert set(rows[real:]) <= {rows[0]}
        last = number == len(plan) - 1
        if full:
            assert len(rows) == (min(most, 2 ** int(np.ceil(np.log2(real)))) if last else most)
        else:
            wasted = sum(length - min(n for n in lengths if n >= s) for s in sizes[rows])
            assert real == len(rows) <= most and wasted <= 64
            if real < most and not last:  # the next example ended it
                fits = min(n for n in lengths if n >= sizes[plan[number + 1][1][0]])
                assert wasted + length - fits > 64
    if full:
        shapes = {(length, len(rows)) for length, rows, _ in plan}
        assert len(shapes) <= len(lengths) + 1 and len(plan) > 2 * len(shapes)


@pytest.mark.parametrize(
    "sizes, lengths, tokens, rows",
    [
        ([9, 30], [9, 30], 10, [[1], [0]]),  # one row may be more than `tokens`
        ([3] * 5, [4], 8, [[0, 1], [2, 3], [4]]),
        ([100, 90, 41, 40, 39], [39, 40, 41, 90, 100], 1000, [[0, 1], [2, 3, 4]]),
    ],
)
def test_batches_by_tokens_of_few_examples(sizes, lengths, tokens, rows):
    assert [x[1].tolist() for x in token_batches(sizes, lengths, tokens)] == rows


@pytest.mark.parametrize("choices", [False, True])
@pytest.mark.parametrize("pad_all", [False, True])
def test_what_batches_by_tokens_hold(choices, pad_all):
    batches = make(choices, pad_all=pad_all)
    taken = list(batches.by_tokens())
    for batch, examples in taken:
        rows, length = batch["ids"].shape[0], batch["ids"].shape[-1]
        assert rows == len(examples) <= 30 // length  # as many tokens as three of the longest
    found = real_examples([batch for batch, _ in taken], choices, training=True)
    assert found == np.concatenate([examples for _, examples in taken]).tolist()
    assert sorted(found) == list(range(len(SIZES)))
    assert pad_all == ({batch["ids"].shape[-1] for batch, _ in taken} == {10})


def test_padding_all_keeps_composition_and_order():
    bucketed, padded = make(), make(pad_all=True)
    for step in range(10):
        short, long = bucketed.batch(step), padded.batch(step)
        length = short["ids"].shape[1]
        assert long["ids"].shape == long["tags"].shape == (3, 10)
        for name in short:
            value = long[name][:, :length] if name in ("ids", "tags") else long[name]
            np.testing.assert_array_equal(value, short[name])
            assert value is long[name] or not long[name][:, length:].any()
    assert padded.dataset().element_spec["ids"].shape == [3, 10]
    assert make(lengths=None).dataset().element_spec["ids"].shape == [3, 9]


def test_weights_of_tokens_count_in_real_examples_only():
    tokens, fixed = columns()
    tokens["weights"] = [part % 2 for part in tokens["ids"]]
    batches = TaskBatches(tokens, fixed, batch_size=3, lengths=LENGTHS)
    total = 0.0
    for batch, examples in batches.by_tokens(full=True):
        real = np.arange(len(batch["ids"])) < len(examples)
        np.testing.assert_array_equal(batch["weights"], batch["ids"] % 2 * real[:, None])
        assert batch["weights"].dtype == np.float32
        total += batch["weights"].sum()
    assert total == sum(sum(part % 2) for part in tokens["ids"])


@pytest.mark.parametrize("choices", [False, True])
def test_rows_of_a_mapped_table(tmp_path, choices):
    table = np.arange(300 * 6).reshape(300, 3, 2).astype("float16") / 8
    table[0] = 0
    np.save(tmp_path / "table.npy", table)
    table = np.load(tmp_path / "table.npy", mmap_mode="r")
    tokens, fixed = columns(choices)
    tokens["rows"] = [part * (part % 3 > 0) for part in tokens["ids"]]
    batches = TaskBatches(tokens, fixed, batch_size=3, lengths=LENGTHS, table=table)
    for batch in numpy_batches(batches.dataset().take(5)):
        assert "rows" not in batch and batch["lm_layers"].dtype == np.float32
        want = np.zeros([*batch["ids"].shape, 3, 2], "float32")
        for place in np.ndindex(batch["ids"].shape):
            word = batch["ids"][place]
            want[place] = table[word] if word % 3 else 0
        np.testing.assert_array_equal(batch["lm_layers"], want)
    lead = [3, CHOICES] if choices else [3]
    assert batches.dataset().element_spec["lm_layers"].shape.as_list() == [*lead, None, 3, 2]


def test_bucket_lengths_share_the_examples_evenly():
    sizes = np.random.default_rng(0).permutation(np.arange(1, 601))
    assert bucket_lengths(sizes, 6, 1) == [100, 200, 300, 400, 500, 600]
    assert bucket_lengths(sizes) == [104, 200, 304, 400, 504, 600]
    assert bucket_lengths([3, 3, 3, 4]) == [4]
    assert bucket_lengths([5] * 9 + [30], 3) == [8, 30]


@pytest.mark.parametrize(
    "tokens, arguments, message",
    [
        ({"x": [[1], [1, 2]]}, {"lengths": [1]}, r"tokens\['x'\]\[1\] has 2 tokens"),
        ({"x": [[1], [1, 2]], "y": [[1], [1]]}, {}, r"tokens\['y'\]"),
        ({"x": [[1]]}, {"batch_tokens": 9, "pad_all": True}, "batch_tokens"),
    ],
)
def test_wrong_arguments(tokens, arguments, message):
    with pytest.raises(ValueError, match=message):
        TaskBatches(tokens, {}, **{"batch_size": 2, **arguments})


@pytest.mark.parametrize("choices", [False, True])
def test_mixed_batches_have_all_lengths_the_longest_first(choices):
    batches = make(choices, mixed=True)
    assert batches.steps_per_epoch == 4
    for taken, order in epochs(batches, choices):
        assert [int(batch["weights"].sum()) for batch in taken] == [3, 3, 3, 2]
        for batch, first in zip(taken, range(0, 11, 3), strict=True):
            sizes = [SIZES[n] for n in order[first : first + 3]]
            assert sizes == sorted(sizes, reverse=True)
            assert batch["ids"].shape[-1] == min(n for n in LENGTHS if n >= sizes[0])
    held_out = numpy_batches(batches.evaluation_batches())
    for one, other in zip(held_out, make(choices).evaluation_batches(), strict=True):
        np.testing.assert_array_equal(one["ids"], other["ids"])


@pytest.mark.parametrize("choices", [False, True])
def test_batches_by_tokens_have_more_examples_where_they_are_short(choices):
    tokens, fixed = columns(choices)
    batches = TaskBatches(tokens, fixed, batch_size=1, lengths=LENGTHS, batch_tokens=12)
    for taken, _ in epochs(batches, choices):
        # 12 // T rows; 4 of the examples, left over from T = 2, go on to T = 5.
        shapes = sorted((b["ids"].shape[0], b["ids"].shape[-1]) for b in taken)
        assert {rows * length <= 12 for rows, length in shapes} == {True}
        assert {rows == 12 // length for rows, length in shapes} == {True}
    even = TaskBatches(tokens, fixed, batch_size=2, lengths=LENGTHS, batch_tokens=12)
    rows = {len(even.batch(step)["ids"]) for step in range(even.steps_per_epoch)}
    assert rows <= {6, 2}  # two for T = 5, and where one row has 10 tokens
    for n, element in enumerate(even.dataset(2).take(4)):
        np.testing.assert_array_equal(element["ids"], even.batch(2 + n)["ids"])
    assert even.dataset().element_spec["labels"].shape == [None]
