"""ALBERT beside Hugging Face's: hidden states, heads, tokens, and files both ways.

`tests/goldens/albert_huggingface/make.py` made the files that this compares with.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tfnlp import convert, models
from tfnlp.text import SentencePieceTokenizer

GOLDEN = pathlib.Path(__file__).parents[1] / "goldens" / "albert_huggingface"


@pytest.fixture(scope="module")
def loaded():
    return convert.load_albert(GOLDEN)


@pytest.fixture(scope="module")
def expected():
    with np.load(GOLDEN / "expected.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def tokens():
    return json.loads((GOLDEN / "tokens.json").read_text())


def inputs(expected, padding=0):
    names = {"input_word_ids": "ids", "input_mask": "mask", "input_type_ids": "types"}
    return {
        ours: np.pad(expected[theirs], [[0, 0], [0, padding]]) for ours, theirs in names.items()
    }


@pytest.mark.parametrize("padding", [0, 5])
def test_outputs_are_those_of_huggingface(loaded, expected, padding):
    positions = np.tile([[0, 3, 7]], [2, 1]).astype("int32")
    found = loaded.pretrainer({**inputs(expected, padding), "masked_lm_positions": positions})
    real = expected["mask"].astype(bool)
    layers = [found["embedding_output"], *found["encoder_outputs"]]
    assert len(layers) == len(expected["hidden"]) == 4
    for ours, theirs in zip(layers, expected["hidden"], strict=True):
        np.testing.assert_allclose(np.array(ours)[:, :12][real], theirs[real], atol=1e-5)
    for name, theirs in (
        ("pooled_output", "pooled"),
        ("mlm_logits", "mlm_logits"),
        ("sentence_order_logits", "sop_logits"),
    ):
        np.testing.assert_allclose(found[name], expected[theirs], rtol=1e-5, atol=2e-5)


def test_a_classifier_is_that_of_huggingface(loaded, expected):
    model = models.bert_task(loaded.encoder, "class", num_classes=2)
    kernel, bias = expected["class_kernel"], expected["class_bias"]
    model.layers[-1].set_weights([kernel, bias])
    found = model(inputs(expected))
    (logits,) = [value for name, value in found.items() if name == "class_logits"]
    np.testing.assert_allclose(logits, expected["class_logits"], atol=1e-5)


def test_weights_are_written_as_they_were_read(loaded, tmp_path):
    from safetensors.numpy import load_file

    convert.save_albert(loaded.pretrainer, tmp_path / "out", loaded.tokenizer)
    ours, theirs = (load_file(f / "model.safetensors") for f in (tmp_path / "out", GOLDEN))
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)
    stated = json.loads((GOLDEN / "config.json").read_text())
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {name: stated.get(name, value) for name, value in written.items()} == written


def test_several_groups_of_layers_are_refused(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "x")
    config = json.loads((GOLDEN / "config.json").read_text())
    (tmp_path / "x" / "config.json").write_text(json.dumps({**config, "num_hidden_groups": 2}))
    with pytest.raises(ValueError, match="num_hidden_groups=2"):
        convert.load_albert(tmp_path / "x")


@pytest.mark.parametrize(("lowercase", "key"), [(True, "ids"), (False, "cased_ids")])
def test_ids_are_those_of_huggingface(tokens, lowercase, key):
    tokenizer = SentencePieceTokenizer(GOLDEN / "spiece.model", lowercase)
    assert tokenizer.vocabulary == tokens["pieces"]
    ids = tokenizer.tokenize(tf.constant(tokens["texts"]))
    assert ids.to_list() == tokens[key]
    words = tokenizer.tokenize_words(tf.constant(tokens["texts"]))
    assert words.merge_dims(1, 2).to_list() == tokens[key]
    for row in words.to_list():
        for word in row:
            pieces = [tokens["pieces"][i] for i in word]
            assert pieces[0][0] == "▁" and not any(p.startswith("▁") for p in pieces[1:])


def test_masks_in_texts(loaded, tokens):
    from tfnlp.families.masks import encode

    found, places = encode(loaded, tokens["masked"]["text"])
    assert found["input_word_ids"].numpy().tolist() == [tokens["masked"]["ids"]]
    assert [tokens["masked"]["ids"][place] for place in places] == [4, 4]


@pytest.mark.parametrize("lowercase", [True, False])
def test_tokenizer_json_is_written_and_read(tokens, lowercase, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    loaded = convert.load_albert(GOLDEN, lowercase=lowercase)
    convert.save_albert(loaded.pretrainer, tmp_path / "out", loaded.tokenizer)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    wanted = tokens["ids" if lowercase else "cased_ids"]
    for text, ids in zip(tokens["texts"], wanted, strict=True):
        assert theirs.encode(text, add_special_tokens=False).ids == ids
    assert theirs.encode(tokens["masked"]["text"]).ids == tokens["masked"]["ids"]
    (tmp_path / "out" / "spiece.model").unlink()
    (tmp_path / "out" / "tokenizer_config.json").unlink()
    again = convert.load_albert(tmp_path / "out").tokenizer
    assert again.lowercase == lowercase
    assert again.tokenize(tf.constant(tokens["texts"])).to_list() == wanted


def test_a_damaged_model_is_refused(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"no model")
    with pytest.raises(ValueError, match="spiece.model is no SentencePiece model"):
        SentencePieceTokenizer(tmp_path / "spiece.model")
    with pytest.raises(FileNotFoundError, match="none.model does not exist"):
        SentencePieceTokenizer(tmp_path / "none.model")


@pytest.mark.slow
def test_a_fine_tuned_checkpoint_predicts_at_once(loaded, expected, tmp_path):
    from safetensors.numpy import load_file, save_file

    import tfnlp

    folder = tmp_path / "classifier"
    shutil.copytree(GOLDEN, folder)
    tensors = load_file(GOLDEN / "model.safetensors")
    tensors = {name: array for name, array in tensors.items() if name.startswith("albert.")}
    kernel, bias = expected["class_kernel"], expected["class_bias"]
    tensors.update({"classifier.weight": kernel.T.copy(), "classifier.bias": bias})
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((GOLDEN / "config.json").read_text())
    named = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    architecture = {"architectures": ["AlbertForSequenceClassification"]}
    (folder / "config.json").write_text(json.dumps({**config, **named, **architecture}))

    task, text = tfnlp.load(folder), "mary was in the garden"
    (said,) = task.predict([text])
    tokenizer = loaded.tokenizer
    ids = [tokenizer.cls_id, *tokenizer.tokenize(tf.constant([text]))[0].numpy(), tokenizer.sep_id]
    row = np.array([ids], "int32")
    batch = {"input_word_ids": row, "input_mask": row * 0 + 1, "input_type_ids": row * 0}
    logits = (np.asarray(loaded.encoder(batch)["pooled_output"]) @ kernel + bias)[0]
    wanted = np.exp(logits) / np.exp(logits).sum()
    found = [said["probabilities"][name] for name in ("bad", "good")]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    task.save(tmp_path / "again", format="huggingface")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert again.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
