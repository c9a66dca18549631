"""Tasks as a run keeps them: derived values, and errors."""

import json

import pytest

from tfnlp.tasks import task_of


@pytest.mark.parametrize(
    ("arguments", "output", "sequences"),
    [
        ({"task": "classify", "labels": ("a", "b")}, "class", 1),
        ({"task": "similarity", "texts": 2, "mean": 2.5, "deviation": 1.5}, "score", 1),
        ({"task": "similarity", "texts": 2, "both_orders": True}, "score", 2),
        ({"task": "choose", "choices": 4, "max_length": 4}, "choice", 4),
        ({"task": "answer", "max_question": 60, "max_length": 64}, "span", 1),
        ({"task": "tag", "labels": ("O", "B-A"), "stride": 1}, "tag", 1),
        ({"task": "labels", "labels": ["a"], "thresholds": [0.25]}, "label", 1),
    ],
)
def test_output_sequences_and_config(arguments, output, sequences):
    task = task_of(arguments)
    assert (task.output, task.sequences) == (output, sequences)
    config = json.loads(json.dumps(task.config()))
    assert task_of(config) == task
    for name, value in arguments.items():
        assert config[name] == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"task": "guess"}, "task"),
        ({"task": "classify"}, "labels"),
        ({"task": "labels", "labels": ("a", "b"), "thresholds": (0.5,)}, "thresholds"),
        ({"task": "tag", "labels": ()}, "labels"),
        ({"task": "similarity", "texts": 3}, "texts"),
        ({"task": "tag", "labels": ("O", "X"), "crf": -1.0}, "crf"),
        ({"task": "tag", "labels": ("O", "X"), "smoothing": 1.0}, "smoothing"),
        ({"task": "choose", "choices": 1}, "choices"),
        ({"task": "similarity", "max_length": 3}, "max_length=3 must be at least 4$"),
        ({"task": "answer", "max_length": 67}, "max_length=67 must be at least 68"),
        ({"task": "answer", "stride": 0}, "stride"),
    ],
)
def test_values_that_do_not_fit(arguments, name):
    with pytest.raises(ValueError, match=name):
        task_of(arguments)
