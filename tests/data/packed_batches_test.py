"""Rows of several examples of a task: every example once, whole, with its labels."""

import numpy as np
import pytest

from tfnlp.data import PackedTaskBatches

SIZES = [3, 1, 5, 2, 9, 4, 5, 1, 2, 7, 3, 10]
T = 10


def columns():
    """Ids that tell which example they are of, from 1 on, and labels that follow."""
    ids = [np.arange(n) + 100 * number for number, n in enumerate(SIZES, 1)]
    labels = np.arange(len(SIZES)) % 3
    return {"ids": ids, "input_mask": [np.ones(n, int) for n in SIZES]}, {"labels": labels}


def make(weights=False, **arguments):
    tokens, fixed = columns()
    if weights:
        tokens["weights"] = [(ids % 2).astype("float32") for ids in tokens["ids"]]
    return PackedTaskBatches(tokens, fixed, **{"batch_size": 2, "length": T, **arguments})


def examples_of(batches, epoch):
    """Numbers of the examples of an epoch; checks every row on the way."""
    tokens, fixed = columns()
    found, steps = [], batches.steps_per_epoch
    for step in range(epoch * steps, (epoch + 1) * steps):
        batch = batches.batch(step)
        assert batch["ids"].shape == (batches.batch_size, T)
        for row, ids in enumerate(batch["sequence_ids"]):
            count = ids.max()
            for slot in range(count):
                (places,) = np.nonzero(ids == slot + 1)
                assert batch["first_positions"][row, slot] == places[0]
                number = batch["ids"][row, places[0]] // 100 - 1
                np.testing.assert_array_equal(batch["ids"][row, places], tokens["ids"][number])
                assert batch["labels"][row, slot] == fixed["labels"][number]
                found.append(number)
            np.testing.assert_array_equal(batch["input_mask"][row], ids > 0)
            assert not batch["ids"][row, ids == 0].any() and not ids[(ids > 0).sum() :].any()
            assert batch["weights"][row].tolist() == [1] * count + [0] * (
                batch["weights"].shape[1] - count
            )
            assert not batch["labels"][row, count:].any()
    return found


def test_an_epoch_has_every_example_once():
    batches = make(seed=3)
    assert batches.rows_per_epoch < len(SIZES) and batches.steps_per_epoch > 1
    epochs = [examples_of(batches, epoch) for epoch in range(3)]
    assert all(sorted(epoch) == list(range(len(SIZES))) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_weights_of_tokens_stay():
    batch = make(weights=True).batch(0)
    real = batch["input_mask"] > 0
    np.testing.assert_array_equal(batch["weights"], np.where(real, batch["ids"] % 2, 0))


def test_rows_that_hold_so_many_examples():
    per_row = len(SIZES) / make().rows_per_epoch
    for examples in (1, 4, 8):
        rows = make(batch_size=1, examples_per_batch=examples).batch_size
        assert abs(rows * per_row - examples) <= max(per_row / 2, per_row - examples)
        assert make(batch_size=3, examples_per_batch=examples).batch_size % 3 == 0


def test_an_example_that_is_too_long_is_named():
    with pytest.raises(ValueError, match=r"tokens\['ids'\]\[11\] has 10 tokens"):
        make(length=9)
