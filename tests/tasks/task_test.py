"""Tasks as a run keeps them: derived values, errors, and labels that are numbers or bools."""

import json

import pandas
import pytest

import tfnlp
from tests.cli.toy_tasks import backbone
from tfnlp.tasks import Classify, Labels, task_of


@pytest.mark.parametrize(
    ("arguments", "output", "sequences"),
    [
        ({"task": "classify", "labels": ("a", "b")}, "class", 1),
        ({"task": "similarity", "texts": 2, "mean": 2.5, "deviation": 1.5}, "score", 1),
        ({"task": "similarity", "texts": 2, "both_orders": True}, "score", 2),
        ({"task": "scores", "labels": ["a", "b"], "means": [2.0, -1.0]}, "scores", 1),
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
        ({"task": "scores", "labels": ("a", "b"), "deviations": (0.5,)}, "deviations"),
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


def learnt(labels, task=Classify):
    rows = [(f"text {n}", label) for n, label in enumerate(labels)]
    return task.learnt_from(task.read(rows).examples, None, max_length=16)


@pytest.mark.parametrize(
    ("labels", "names", "kind"),
    [
        ([1, 0, 1.0, 0.0], ["0", "1"], "float"),
        ([1, "1", 0, 1.0], ["0", "1"], "str"),
        ([*range(11, -1, -1)], [str(n) for n in range(12)], "int"),
        ([str(n) for n in range(12)], [str(n) for n in range(12)], "str"),
        ([1.5, -2, 10.0], ["-2", "1.5", "10"], "float"),
        ([True, False, True], ["False", "True"], "bool"),
        (["b", "a10", "a9"], ["a10", "a9", "b"], "str"),
        (["10", "9", "none"], ["10", "9", "none"], "str"),
    ],
)
def test_classes_of_numbers_and_bools(labels, names, kind):
    task = learnt(labels)
    assert (list(task.labels), task.label_type) == (names, kind)
    assert task_of(json.loads(json.dumps(task.config()))) == task
    examples = Classify.read([("text", label) for label in labels]).examples
    predictions = [task.perfect(example) for example in examples]
    assert task.measures(examples, predictions)["accuracy"] == 1.0
    shares = dict.fromkeys(task.labels, 1 / len(names))
    for label, guess in zip(labels, predictions, strict=True):
        found = task.returned({**guess, "probabilities": shares})
        assert found["label"] == (label if kind != "str" else guess["label"])
        assert found["probabilities"][found["label"]] == 1 / len(names)
        assert type(found["label"]).__name__ == kind


def test_sets_of_numbers():
    task = learnt([[10, 9], [], [9]], Labels)
    assert task.labels == ("9", "10")
    shares = dict.fromkeys(task.labels, 0.7)
    found = task.returned({"labels": ["9", "10"], "probabilities": shares})
    assert found == {"labels": [9, 10], "probabilities": {9: 0.7, 10: 0.7}}
    examples = Labels.read([("a", [9.0, "10"]), ("b", "9|10")]).examples
    assert task.golds(examples) == [["10", "9"]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [bool, int])
def test_predictions_compare_with_the_labels_of_the_data(kind, tmp_path):
    labels = [kind(n % 2) for n in range(40)]
    data = {"text": ["the dog ran" if label else "a cat sat" for label in labels], "label": labels}
    task = tfnlp.finetune(
        "classify", backbone("bert", tmp_path), pandas.DataFrame(data), pandas.DataFrame(data),
        tmp_path / "run", epochs=6, learning_rate=3e-3, batch_size=8, max_length=16,
        class_weights={kind(1): 1.5},
    )  # fmt: skip
    assert task.results["metrics"]["accuracy"] == 1.0
    found = tfnlp.load(tmp_path / "run").predict(data["text"])
    assert [row["label"] for row in found] == labels
    lines = (tmp_path / "run" / "dev_predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == labels
    pandas.DataFrame(data).to_csv(tmp_path / "dev.csv", index=False)  # strings, there
    assert task.evaluate(tmp_path / "dev.csv", report=str(tmp_path / "page"))["accuracy"] == 1.0
    other = [(text, "rare") for text in data["text"][:10]]
    assert task.evaluate([*zip(data["text"], labels, strict=True), *other])["accuracy"] == 0.8
