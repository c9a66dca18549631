"""Fine-tuned models of transformers predict at once, and are written for transformers."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import tfnlp
from tests.checkpoints.checkpoints import copied
from tests.checkpoints.faults import one_line
from tests.support import golden
from tfnlp.checkpoints import Pretrained, load_gpt
from tfnlp.checkpoints.gpt import KINDS
from tfnlp.families import FAMILIES
from tfnlp.formats import export
from tfnlp.models import gpt
from tfnlp.runs.backbone import backbone_config, load_backbone
from tfnlp.runs.task_folder import make_task_model
from tfnlp.tasks import Choose, task_of
from tfnlp.text import gpt_tokenizer, train_bpe

HEADS = golden("huggingface_heads")
ROWS = json.loads((HEADS / "texts.json").read_text())
TEXTS, PAIRS, CHOICES = ROWS["texts"], [tuple(pair) for pair in ROWS["pairs"]], ROWS["choices"]


def run_of(name):
    return tfnlp.load(HEADS / name)


def expected_of(name):
    return np.load(HEADS / f"{name}.npz")


def outputs_of(run, expected):
    """What the task's model gives for the inputs that transformers made."""
    names = {"input_word_ids": "input_ids", "input_mask": "attention_mask"}
    inputs = {ours: expected[theirs] for ours, theirs in names.items()}
    model, mask = run.task_model.model, expected["attention_mask"]
    if "input_type_ids" in model.input:
        found = "token_type_ids" in expected
        inputs["input_type_ids"] = expected["token_type_ids"] if found else 0 * mask
    if "extract_positions" in model.input:
        inputs = {name: x[:, None] for name, x in inputs.items()}
        inputs["extract_positions"] = mask.sum(-1, keepdims=True) - 1
    return {name: np.asarray(x) for name, x in model(inputs).items()}


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def assert_close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


def sample(name, first, others):
    """Parametrize with a few values here, with the others in the long tier."""
    others = [pytest.param(value, marks=pytest.mark.long) for value in others]
    return pytest.mark.parametrize(name, [*first, *others])


@sample("family", ["bert", "gpt2"], ["roberta", "distilbert", "albert", "electra"])
def test_classes(family):
    name, rows = f"{family}_classify", TEXTS if family == "gpt2" else PAIRS
    run, expected = run_of(name), expected_of(name)
    assert_close(outputs_of(run, expected)["class_logits"], expected["logits"])
    predicted = run.predict(rows)
    probabilities = [[row["probabilities"][label] for label in run.labels] for row in predicted]
    assert_close(probabilities, softmax(expected["logits"]))
    best = expected["logits"].argmax(-1)
    assert [row["label"] for row in predicted] == [run.labels[i] for i in best]
    assert run.labels[0] == ("low" if family == "bert" else "LABEL_0")
    measured = run.evaluate([(*(r if isinstance(r, tuple) else (r,)), run.labels[0]) for r in rows])
    assert measured["accuracy"] == np.mean(best == 0)


@pytest.mark.slow
def test_scores():
    run, expected = run_of("bert_similarity"), expected_of("bert_similarity")
    assert run.task == "similarity"
    assert_close([row["score"] for row in run.predict(PAIRS)], expected["logits"][:, 0])


@pytest.mark.slow
def test_several_scores(tmp_path):
    """Those of a model of transformers, and of what is written of it."""
    run, expected = run_of("bert_scores"), expected_of("bert_scores")["logits"]
    rows = [(text, dict(zip(run.labels, scores, strict=True)))
            for text, scores in zip(TEXTS, expected + [1, 0, 0], strict=True)]  # fmt: skip
    assert run.task == "scores" and run.labels == ["low", "middle", "high"]
    measured = run.evaluate(rows)
    assert measured["mse/low"] == pytest.approx(1, rel=1e-3) and measured["mse/high"] < 1e-6
    run.save(tmp_path / "again", format="huggingface")
    for model in (run, tfnlp.load(tmp_path / "again")):
        found = [[row["scores"][name] for name in run.labels] for row in model.predict(TEXTS)]
        assert_close(found, expected)
    with pytest.raises(ValueError, match="example 1 has the scores x; expected low, middle, high"):
        run.evaluate([("a dog", {"x": 1.0})])


@pytest.mark.slow
def test_tags_are_those_of_the_first_piece():
    run, expected = run_of("bert_tag"), expected_of("bert_tag")
    logits = expected["logits"]
    assert_close(outputs_of(run, expected)["tag_logits"], logits)
    predicted = [row["tags"] for row in run.predict(TEXTS)]
    tokens = (golden("bert_google_tf_generated") / "vocab.txt").read_text().split("\n")
    best = [
        [
            run.labels[logit.argmax()]
            for i, logit in zip(ids, row, strict=True)
            if not tokens[i].startswith(("##", "["))
        ]
        for ids, row in zip(expected["input_ids"], logits, strict=True)
    ]
    assert any(tokens[i].startswith("##") for i in expected["input_ids"].flat)
    assert predicted == best


@pytest.mark.slow
def test_answers():
    run, expected = run_of("bert_answer"), expected_of("bert_answer")
    outputs, real = outputs_of(run, expected), expected["attention_mask"] == 1
    for name in ("start_logits", "end_logits"):
        # But for a constant, the bias.
        difference = (outputs[name] - expected[name])[real]
        assert_close(difference, difference[0])
    (row, *_) = run.predict(PAIRS)
    first = expected["input_ids"][0].tolist().index(3) + 1  # after the first [SEP]
    words = PAIRS[0][1].split()
    spans = {
        (i, j): expected["start_logits"][0, first + i] + expected["end_logits"][0, first + j]
        for i in range(len(words))
        for j in range(i, len(words))
    }
    i, j = max(spans, key=spans.get)
    assert row["answer"] == " ".join(words[i : j + 1])


@sample("family", ["bert"], ["roberta", "albert", "electra"])
@pytest.mark.slow
def test_choices(family):
    """The number of choices is that of the rows."""
    run, expected = run_of(f"{family}_choose"), expected_of(f"{family}_choose")
    predicted = run.predict([tuple(row) for row in CHOICES])
    assert_close([row["probabilities"] for row in predicted], softmax(expected["logits"]))
    outputs = Choose(choices=2).decoded({"choice_logits": expected["logits"]})
    assert [row["choice"] for row in predicted] == outputs["choice"].numpy().tolist()


@pytest.mark.parametrize(
    "name, changes, pattern",
    [
        ("bert_classify", dict(problem_type="ranking"), "problem_type='ranking'"),
        ("bert_classify", dict(id2label={"0": "a", "1": "b"}), "id2label="),
        ("bert_tag", dict(id2label={"0": "a", "1": "b", "2": "a"}), "id2label="),
        ("bert_classify", dict(tfnlp_task={"task": "tag"}), "'tfnlp_task'.*task='tag'"),
        ("bert_tag", dict(architectures=["BertForPreTraining"]), "surplus 'classifier.bias'"),
    ],
)
def test_refusals(tmp_path, name, changes, pattern):
    folder = copied(HEADS / name, tmp_path / name, **changes)
    one_line(pattern, ValueError, tfnlp.load, folder)


@pytest.mark.slow
def test_several_labels_at_once_are_read_and_written(tmp_path):
    """Only the configuration tells them from classes; thresholds go with tfnlp's settings."""
    stated = dict(problem_type="multi_label_classification")
    run = tfnlp.load(copied(HEADS / "bert_classify", tmp_path / "x", **stated))
    assert run.task == "labels" and run.labels == run_of("bert_classify").labels
    expected = expected_of("bert_classify")
    logits = outputs_of(run, expected)["label_logits"]
    assert_close(logits, expected["logits"])
    probability = 1 / (1 + np.exp(-logits[0].astype("float64")))
    first = run.predict(PAIRS)[0]
    assert_close(list(first["probabilities"].values()), probability)
    assert first["labels"] == [n for n, p in zip(run.labels, probability, strict=True) if p >= 0.5]
    thresholds = tuple(np.float64(np.float32(probability + [0.1, -0.1, 0.1])))
    run.task_model.task = dataclasses.replace(run.task_model.task, thresholds=thresholds)
    assert run.predict(PAIRS)[0]["labels"] == [run.labels[1]]
    run.save(tmp_path / "out")
    again = tfnlp.load(tmp_path / "out")
    assert again.task_model.task == run.task_model.task


@pytest.mark.slow
def test_the_number_of_texts_is_stated_where_it_is_known(tmp_path):
    run = run_of("bert_classify")
    run.set_inputs(texts=2)
    run.save(tmp_path / "out")
    again = tfnlp.load(tmp_path / "out")
    assert again.task_model.task.texts == 2
    one_line("`texts` 1: .* reads 2", ValueError, again.set_inputs, texts=1)


def test_a_fine_tuned_model_is_a_start(capsys):
    """The encoder is taken; the head is left out, which is said."""
    backbone = load_backbone(str(HEADS / "bert_tag"))
    assert "the head of its BertForTokenClassification is left out" in capsys.readouterr().err
    held = load_file(HEADS / "bert_tag" / "model.safetensors")
    assert_close(
        backbone.encoder.get_layer("token_embedding").embeddings,
        held["bert.embeddings.word_embeddings.weight"].astype("float32"),
    )
    assert load_gpt(HEADS / "gpt2_classify").left_out == "GPT2ForSequenceClassification"


def gpt_run(norm_first, **spec):
    """What a run on a small GPT with random weights would be."""
    kind = "gpt2" if norm_first else "gpt"
    tokenizer = gpt_tokenizer(train_bpe(TEXTS * 3, 300 if norm_first else 40, kind))
    arguments = dict(
        vocab_size=tokenizer.vocab_size + 2, num_layers=2, hidden_size=16, num_heads=2,
        intermediate_size=64, max_positions=40, norm_first=norm_first, initializer_range=0.2,
    )  # fmt: skip
    backbone = Pretrained(gpt(**arguments), None, KINDS[norm_first].config_of(gpt(**arguments)))
    backbone.make_tokenizer, backbone.family = (lambda: tokenizer), FAMILIES["gpt"]
    spec = task_of({**spec, "max_length": 40}).config()
    config = dict(
        spec=spec, head={"dropout": 0.1}, features=None, backbone=backbone_config(backbone)
    )
    task_model = make_task_model(backbone, config)
    family = FAMILIES["gpt"]
    generator = np.random.default_rng(0)
    for weight in task_model.model.trainable_variables:
        weight.assign(weight + 0.3 * generator.standard_normal(weight.shape).astype("float32"))
    return SimpleNamespace(
        task_model=task_model, config=config, family=family, path="run", low_rank=None
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "norm_first, spec",
    [
        (False, dict(task="classify", labels=["a", "b"])),
        pytest.param(
            True, dict(task="similarity", texts=2, mean=2.5, deviation=1.5), marks=pytest.mark.long
        ),
        pytest.param(
            True, dict(task="scores", labels=["a", "b"], means=[2.5, -1.0], deviations=[1.5, 2.0]),
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_gpt_with_its_own_tokens_around_texts(tmp_path, norm_first, spec):
    """The bias has no place in the head: it is found in the last layer norm."""
    run = gpt_run(norm_first, **spec)
    export(run, tmp_path / "out", {"format": "huggingface"}, None)
    task_model = run.task_model
    rows = PAIRS if spec["task"] == "similarity" else [(text,) for text in TEXTS]
    examples = task_model.task.examples_of(rows)
    (prepared,) = task_model.prepare([examples])
    expected = task_model.predict(examples, 8, prepared)
    again = tfnlp.load(tmp_path / "out")
    assert not again.task_model.model.get_layer("classifier").bias.numpy().any()
    found = again.predict(rows if len(rows[0]) == 2 else TEXTS)
    numbers = [
        [
            [*row.get("probabilities", row.get("scores", {})).values(), row.get("score", 0)]
            for row in several
        ]
        for several in (expected, found)
    ]
    assert_close(*numbers)
    ids = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json")).encode(*rows[0]).ids
    assert ids == prepared.encoded.inputs["input_word_ids"][0].ravel().tolist()[: len(ids)]


@pytest.mark.slow
def test_what_gpt_cannot_be_written_as(tmp_path):
    run = gpt_run(True, task="similarity", texts=2, both_orders=True)
    for features, reason in ((None, "in both orders"), ("last", "frozen features")):
        run.config["features"] = features
        arguments = (run, tmp_path / "out", {"format": "huggingface"}, None)
        one_line(reason, ValueError, export, *arguments)
    assert not list(tmp_path.iterdir())
