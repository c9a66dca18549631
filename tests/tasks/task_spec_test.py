"""Task specifications: derived values, and errors."""

import json

import pytest

from tfnlp.tasks.task_spec import TaskSpec


@pytest.mark.parametrize(
    ("arguments", "output", "sequences"),
    [
        ({"task": "classify", "labels": ("a", "b")}, "class", 1),
        ({"task": "classify", "labels": ["a", "b"], "texts": 2, "both_orders": True}, "class", 2),
        ({"task": "similarity", "texts": 2, "mean": 2.5, "deviation": 1.5}, "score", 1),
        ({"task": "similarity", "texts": 2, "both_orders": True}, "score", 2),
        ({"task": "choose", "choices": 4, "max_length": 4}, "choice", 4),
        ({"task": "answer", "max_question": 60, "max_length": 64}, "span", 1),
        ({"task": "tag", "labels": ("O", "B-A"), "stride": 1}, "tag", 1),
    ],
)
def test_output_sequences_and_config(arguments, output, sequences):
    spec = TaskSpec(**arguments)
    assert (spec.output, spec.sequences) == (output, sequences)
    config = json.loads(json.dumps(spec.config()))
    assert TaskSpec(**config) == spec
    for name, value in arguments.items():
        assert config[name] == (list(value) if name == "labels" else value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "guess"}, "task='guess' must be one of classify, labels, similarity"),
        ({"task": "classify"}, r"labels=\(\) must be two or more"),
        ({"task": "tag", "labels": ("O",)}, r"labels=\('O',\) must be two or more"),
        ({"task": "similarity", "texts": 3}, "texts=3 must be 1 or 2"),
        ({"task": "similarity", "both_orders": True}, "texts=1 must be 1 or 2, and 2 with"),
        ({"task": "choose", "choices": 1}, "choices=1 must be at least 2"),
        ({"task": "similarity", "max_length": 3}, "max_length=3 must be at least 4$"),
        ({"task": "answer", "max_length": 67}, "max_length=67 must be at least 68, max_question"),
        ({"task": "answer", "stride": 0}, "stride=0 must be at least 1"),
        ({"task": "answer", "max_question": 0}, "max_question=0 must be at least 1"),
        ({"task": "answer", "max_answer": 0}, "max_answer=0 must be at least 1"),
    ],
)
def test_values_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        TaskSpec(**arguments)
