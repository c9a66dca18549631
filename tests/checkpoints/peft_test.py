"""Adapters of PEFT: read with the model that they belong to, written, and read again."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import tfnlp
from tests.checkpoints.checkpoints import GENERATED, copied
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone
from tests.runs.lora_test import DEV, LORA, ROWS
from tests.support import golden
from tfnlp.checkpoints import peft
from tfnlp.checkpoints.encoders import BERT_FILES
from tfnlp.checkpoints.formats.weight_files import open_tensors

PEFT = golden("peft")
NAMES = {"input_word_ids": "input_ids", "input_mask": "attention_mask"}


def inputs_of(name, model):
    expected = np.load(PEFT / f"{name}.npz")
    inputs = {ours: expected[theirs] for ours, theirs in NAMES.items()}
    if "input_type_ids" in model.input:
        inputs["input_type_ids"] = 0 * expected["attention_mask"]
    return inputs, expected


@pytest.mark.slow
def test_a_task_of_peft_gives_its_logits(capsys):
    """With rank-stabilized scales, and modules that have a rank and an alpha of their own."""
    run = tfnlp.load(PEFT / "bert_classify")
    inputs, expected = inputs_of("bert_classify", run.task_model.model)
    found = run.task_model.model(inputs)["class_logits"]
    np.testing.assert_allclose(found, expected["logits"], atol=1e-5)
    assert run.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert command("predict", "--model", PEFT / "bert_classify", "so good") == 0
    assert "LABEL_" in capsys.readouterr().out


@pytest.mark.slow
def test_adapters_without_a_task_are_a_pretrained_model():
    """Of GPT-2, whose queries, keys and values are one matrix, stored as `[in, out]`."""
    loaded = tfnlp.load(PEFT / "gpt2_features")
    inputs, expected = inputs_of("gpt2_features", loaded.encoder)
    found = np.asarray(loaded.encoder(inputs)["sequence_output"])
    real = expected["attention_mask"] == 1
    np.testing.assert_allclose(found[real], expected["states"][real], atol=1e-4)
    assert loaded.tokenizer.vocab_size > 0


@pytest.mark.slow
def test_what_is_written_is_read_again(tmp_path):
    bert, base = backbone("bert", None), str(tmp_path / "checkpoint")
    train = dict(dev=DEV, epochs=2, **LORA)
    run = tfnlp.finetune("classify", bert, ROWS, output=tmp_path / "run", **train)
    with pytest.raises(ValueError, match="no checkpoint of Hugging Face.*`base`"):
        run.export(tmp_path / "adapters", format="peft")
    assert not (tmp_path / "adapters").exists()
    tfnlp.load(bert).export(base, format="huggingface")
    files = run.export(tmp_path / "adapters", format="peft", base=base)
    assert files == {"adapters": str(tmp_path / "adapters")}
    config = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == base and config["r"] == 2
    tensors = open_tensors(tmp_path / "adapters" / "adapter_model.safetensors")
    down = [name for name in tensors if name.endswith("lora_A.weight")]
    assert sorted({name.split(".layer.")[1].partition(".")[2] for name in down}) == [
        f"{module}.lora_A.weight"
        for module in ("attention.self.query", "attention.self.value", "output.dense")
    ]
    assert all(tensors.shapes[name][0] == 2 for name in down)
    loaded = tfnlp.load(tmp_path / "adapters")
    assert loaded.labels == run.labels
    rows = [(text,) for text, _ in DEV]
    for one, other in zip(loaded.predict(rows), run.predict(rows), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task, name", [
    ("classify", "distilbert_huggingface"),  # with its masked LM
    ("classify", "electra_huggingface/discriminator"),
    ("tag", "huggingface_heads/bert_classify"),  # a head of the same name
])  # fmt: skip
def test_our_adapters_of_a_model_with_another_head_are_read_again(task, name, tmp_path):
    base = copied(golden(name), tmp_path / "base")
    for file in golden(GENERATED).glob("vocab.txt"):
        (base / file.name).write_text(file.read_text())
    rows = ROWS if task == "classify" else [(t.split(), [y] * len(t.split())) for t, y in ROWS]
    train = dict(dev=rows[:8], epochs=1, **LORA)
    run = tfnlp.finetune(task, str(base), rows, output=tmp_path / "run", **train)
    run.export(tmp_path / "adapters", format="peft", base=str(base))
    loaded = tfnlp.load(tmp_path / "adapters")
    assert loaded.labels == run.labels
    for one, other in zip(
        loaded.task_model.model.weights, run.task_model.model.weights, strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def merged(tmp_path, **changes):
    """The tensors that the adapters of a task make, with another configuration."""
    stated = dict(file="adapter_config.json", **changes)
    folder = copied(PEFT / "bert_classify", tmp_path / "adapters", **stated)
    (tmp_path / "merged").mkdir()
    base, files = golden("bert_xsmall_dummy_pt"), BERT_FILES
    peft.write_merged(folder, base, str(tmp_path / "merged"), files)
    return open_tensors(tmp_path / "merged" / "model.safetensors")


def adapters_of(tmp_path, architecture, change=lambda name: name, **more):
    """The golden adapters of three classes, of a base that has another class and head."""
    held = open_tensors(golden("bert_xsmall_dummy_pt") / "pytorch_model.bin")
    tensors = {change(f"bert.{name}"): held[name] for name in held if held.dtypes[name] != "int64"}
    base = copied(golden("bert_xsmall_dummy_pt"), tmp_path / "base", architectures=[architecture])
    (base / "pytorch_model.bin").unlink()
    (base / "weights.npz").unlink()
    tensors = {name: x for name, x in tensors.items() if name is not None}
    save_file({**tensors, **more}, base / "model.safetensors")
    stated = dict(file="adapter_config.json", base_model_name_or_path=str(base))
    return copied(PEFT / "bert_classify", tmp_path / "adapters", **stated)


@pytest.mark.parametrize("architecture, head", [
    ("BertForQuestionAnswering", {"qa_outputs.weight": (2, 20), "qa_outputs.bias": (2,)}),
    ("BertForSequenceClassification", {"classifier.weight": (7, 20), "classifier.bias": (7,)}),
    ("BertForTokenClassification", {"classifier.weight": (7, 20), "classifier.bias": (7,)}),
])  # fmt: skip
def test_the_head_of_the_base_does_not_answer_for_that_of_the_task(tmp_path, architecture, head):
    """`qa_outputs.weight` and `classifier.weight` are one after their first dots."""
    head = {name: np.ones(shape, "float32") for name, shape in head.items()}
    run = tfnlp.load(adapters_of(tmp_path, architecture, **head))
    inputs, expected = inputs_of("bert_classify", run.task_model.model)
    found = run.task_model.model(inputs)["class_logits"]
    np.testing.assert_allclose(found, expected["logits"], atol=1e-5)
    assert len(run.labels) == 3


def test_a_pooler_that_nobody_has_is_missed(tmp_path):
    def change(name):
        return None if "pooler" in name else name

    path = adapters_of(tmp_path, "BertForMaskedLM", change)
    with pytest.raises(ValueError, match="adapters.* changes 'bert.pooler.dense', which"):
        tfnlp.load(path)


def test_biases_are_read_whatever_they_are_called(tmp_path):
    folder = copied(PEFT / "bert_classify", tmp_path / "adapters", file="adapter_config.json")
    held = open_tensors(folder / "adapter_model.safetensors")
    name, bias = "bert.encoder.layer.0.attention.self.query", np.arange(20, dtype="float32")
    more = {f"base_model.model.{name}.base_layer.bias": bias,
            "base_model.model.classifier.original_module.bias": bias[:3]}  # fmt: skip
    save_file({**{n: held[n] for n in held}, **more}, folder / "adapter_model.safetensors")
    base = golden("bert_xsmall_dummy_pt")
    peft.write_merged(folder, base, str(tmp_path), BERT_FILES)
    found = open_tensors(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(found[f"{name.removeprefix('bert.')}.bias"], bias)
    np.testing.assert_array_equal(
        found["classifier.bias"], held["base_model.model.classifier.bias"]
    )


def test_an_alpha_belongs_to_a_name_or_its_ending(tmp_path):
    alphas = {"uery": 9, "self.query": 3, "layer.0.output.dense": 5, "dense": 2}
    found = merged(tmp_path, alpha_pattern=alphas, lora_alpha=7)
    base = open_tensors(golden("bert_xsmall_dummy_pt") / "pytorch_model.bin")
    updates = open_tensors(PEFT / "bert_classify" / "adapter_model.safetensors")
    for module, alpha in (("attention.self.query", 3), ("attention.self.key", 7),
                          ("output.dense", 5), ("attention.output.dense", 2)):  # fmt: skip
        name = f"encoder.layer.0.{module}"
        a, b = (updates[f"base_model.model.bert.{name}.lora_{x}.weight"] for x in "AB")
        expected = base[f"{name}.weight"] + alpha / np.sqrt(len(a)) * b @ a  # use_rslora
        np.testing.assert_allclose(found[f"{name}.weight"], expected, atol=1e-6)


@pytest.mark.parametrize("changes, said", [
    ({"alpha_pattern": {"(x+x+)+y": 1}}, "no other regular expressions"),
    ({"alpha_pattern": {"dense$": 1}}, "no other regular expressions"),
    ({"alpha_pattern": ["dense"]}, "expected names of modules"),
    ({"alpha_pattern": {"dense": [1]}}, r"lora_alpha=\[1\]; expected a number"),
    ({"alpha_pattern": {"dense": None}}, "lora_alpha=None"),
    ({"lora_alpha": float("nan")}, "lora_alpha=nan"),
    ({"lora_alpha": 1e308}, r"lora_alpha=1e\+308"),
    ({"lora_alpha": 10**400}, "lora_alpha=10000"),
    ({"lora_alpha": True}, "lora_alpha=True"),
])  # fmt: skip
def test_alphas_that_are_none(changes, said, tmp_path):
    with pytest.raises(ValueError, match=said) as error:
        merged(tmp_path, **changes)
    assert str(tmp_path / "adapters") in str(error.value)


@pytest.mark.parametrize("size, said", [
    (10**6, r"\(1000000, 1000000\).*another model"),  # which is not computed
    (20, "makes numbers that are not finite of 'bert.pooler.dense'"),
])  # fmt: skip
def test_matrices_that_are_too_large(size, said, tmp_path):
    pair = {f"base_model.model.bert.pooler.dense.lora_{x}.weight": np.full(shape, 1e20, "float32")
            for x, shape in (("A", (1, size)), ("B", (size, 1)))}  # fmt: skip
    copied(PEFT / "bert_classify", tmp_path / "adapters", file="adapter_config.json")
    save_file(pair, tmp_path / "adapters" / "adapter_model.safetensors")
    with pytest.raises(ValueError, match=said):
        base = golden("bert_xsmall_dummy_pt")
        peft.write_merged(tmp_path / "adapters", base, str(tmp_path), BERT_FILES)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"task_type": ["SEQ_CLS"]}, "task_type ['SEQ_CLS'] must be a string"),
        ({"peft_type": "IA3"}, "peft_type='IA3'"),
        ({"use_dora": True}, "use_dora=True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa'"),
        ({"init_lora_weights": "olora"}, "init_lora_weights='olora'"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path"),
        ({"base_model_name_or_path": "/absent/model"}, "/absent/model"),
        ({"base_model_name_or_path": str(golden("huggingface_heads") / "bert_classify")},
         "it belongs to another model"),
        ({"lora_alpha": "seven"}, "lora_alpha='seven'"),
    ],
)  # fmt: skip
def test_refusals(changes, said, tmp_path, capsys):
    base = dict(base_model_name_or_path=str(golden("bert_xsmall_dummy_pt")))
    stated = dict(file="adapter_config.json", **{**base, **changes})
    folder = copied(PEFT / "bert_classify", tmp_path / "adapters", **stated)
    assert command("predict", "--model", folder, "so good") == 1
    assert said in error(capsys)


def test_damaged_files_are_refused(tmp_path, capsys):
    base = str(golden("bert_xsmall_dummy_pt"))
    stated = dict(file="adapter_config.json", base_model_name_or_path=base)
    weights = copied(PEFT / "bert_classify", tmp_path / "x", **stated) / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert command("predict", "--model", weights.parent, "so good") == 1
    assert "adapter" in error(capsys)
