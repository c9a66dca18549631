"""Checkpoints of every kind give the numbers that their own code gives."""

import functools

import numpy as np
import pytest

from tests.checkpoints.checkpoints import (
    GENERATED,
    assert_same_weights,
    batch,
    config_json,
    google_arrays,
    huggingface_arrays,
    write,
)
from tests.support import golden
from tfnlp.checkpoints import load_bert


@functools.cache
def original():
    return load_bert(golden(GENERATED))


GOLDENS = {GENERATED: "bert_tiny_generated", "bert_google_tf_tiny": "bert_google_tf_tiny"}


def largest_difference(outputs, expected, prefix):
    """Over hidden layers, pooled output and both heads' logits."""
    hidden = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    pairs = [(h, f"hidden_{i}") for i, h in enumerate(hidden)]
    assert f"{prefix}hidden_{len(hidden)}" not in expected
    pairs += [
        (outputs["pooled_output"], "pooled"),
        (outputs["mlm_logits"], "mlm_logits"),
        (outputs["next_sentence_logits"], "nsp_logits"),
    ]
    return max(np.abs(np.asarray(a) - expected[prefix + name]).max() for a, name in pairs)


@pytest.mark.parametrize(
    "name, activation, prefix",
    [
        (GENERATED, "gelu", "erf_"),
        (GENERATED, "gelu_tanh", "tanh_"),
        ("bert_google_tf_tiny", "gelu", "erf_"),
    ],
)
def test_google_checkpoint_reproduces_goldens(name, activation, prefix):
    expected = np.load(golden(f"{GOLDENS[name]}_expected.npz"))
    converted = load_bert(golden(name), activation=activation)
    outputs = converted.pretrainer(batch(expected))
    assert largest_difference(outputs, expected, prefix) < 1e-4
    if name == GENERATED:  # its weights are large enough to tell the two apart
        other = {"erf_": "tanh_", "tanh_": "erf_"}[prefix]
        assert largest_difference(outputs, expected, other) > 1e-3


@pytest.mark.parametrize("file", ["weights.npz", "pytorch_model.bin"])
def test_huggingface_fixture_reproduces_goldens(file):
    expected = np.load(golden("bert_xsmall_dummy_expected.npz"))
    converted = load_bert(golden("bert_xsmall_dummy_pt") / file)
    assert converted.pretrainer is None
    inputs = batch(expected)
    del inputs["masked_lm_positions"]
    outputs = converted.encoder(inputs)
    for output, name in (
        ("embedding_output", "hidden_0"),
        ("sequence_output", "sequence_output"),
        ("pooled_output", "pooled"),
    ):
        np.testing.assert_allclose(outputs[output], expected[name], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "names, kind", [(dict(), "safetensors"), (dict(prefix="", legacy=True), "npz")]
)
def test_huggingface_names_give_the_weights_of_the_google_checkpoint(tmp_path, names, kind):
    folder = write(tmp_path / "x", huggingface_arrays(**names), kind=kind)
    assert_same_weights(load_bert(folder).pretrainer, original().pretrainer)


@pytest.mark.slow
def test_stored_copies_and_buffers_are_accepted(tmp_path):
    arrays = huggingface_arrays()
    arrays["bert.embeddings.position_ids"] = np.arange(40)[None]
    arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"] + 0
    arrays["cls.predictions.decoder.bias"] = arrays["cls.predictions.bias"] + 0
    assert_same_weights(
        load_bert(write(tmp_path / "both", arrays)).pretrainer, original().pretrainer
    )
    del arrays["cls.predictions.bias"]
    assert_same_weights(
        load_bert(write(tmp_path / "decoder", arrays)).pretrainer, original().pretrainer
    )
    arrays["cls.predictions.decoder.weight"][3, 4] += 1e-3
    with pytest.raises(ValueError, match="different values in 'cls.predictions.decoder.weight'"):
        load_bert(write(tmp_path / "untied", arrays))


@pytest.mark.parametrize(
    "kept, outputs",
    [
        ("cls/seq bert/pooler", {"mlm_logits"}),
        ("cls/predictions", {"next_sentence_logits", "pooled_output"}),
        ("cls/ bert/pooler", set()),
    ],
)
def test_the_heads_that_are_there(tmp_path, kept, outputs):
    dropped = tuple(kept.split())
    arrays = {n: a for n, a in google_arrays().items() if not n.startswith(dropped or "?")}
    converted = load_bert(write(tmp_path, arrays, kind="npz"))
    heads = {"mlm_logits", "next_sentence_logits"} & outputs
    assert (converted.pretrainer is None) == (not heads)
    model = converted.pretrainer or converted.encoder
    always = {"sequence_output", "encoder_outputs", "embedding_output"}
    assert set(model.output) == outputs | always
    assert converted.config["pooler"] == ("pooled_output" in outputs)
    expected = {v.path: v.numpy() for v in original().pretrainer.weights}
    for variable in model.weights:
        np.testing.assert_array_equal(variable.numpy(), expected[variable.path])


def test_ignore_leaves_a_classifier_out(tmp_path):
    arrays = huggingface_arrays()
    arrays["classifier.weight"] = np.ones((2, 32), np.float32)
    folder = write(tmp_path, arrays)
    with pytest.raises(ValueError, match=r"in 1 tensors: surplus 'classifier.weight'.*`ignore`"):
        load_bert(folder)
    for ignore in ("classifier.", ["classifier.", "nothing"]):
        assert_same_weights(load_bert(folder, ignore=ignore).pretrainer, original().pretrainer)


def test_arguments_pass_through():
    converted = load_bert(
        golden(GENERATED), dtype="mixed_bfloat16", seq_length=16, max_predictions=5
    )
    encoder = converted.encoder
    assert encoder.output["sequence_output"].dtype == "bfloat16"
    assert encoder.output["sequence_output"].shape == (None, 16, 32)
    assert converted.pretrainer.output["mlm_logits"].shape == (None, 5, 200)
    assert_same_weights(converted.pretrainer, original().pretrainer)


def test_config_and_vocabulary_from_elsewhere(tmp_path):
    weights = write(tmp_path / "weights", google_arrays(), kind="npz", vocab=False)
    (weights / "config.json").rename(tmp_path / "other.json")
    with pytest.raises(FileNotFoundError, match="no configuration; looked for bert_config.json"):
        load_bert(weights)
    converted = load_bert(weights, config_file=tmp_path / "other.json")
    assert converted.vocabulary is None and converted.lowercase is None
    with pytest.raises(ValueError, match="no vocab.txt"):
        _ = converted.tokenizer
    vocab = golden(GENERATED) / "vocab.txt"
    converted = load_bert(weights, config_file=tmp_path / "other.json", vocab=vocab)
    assert converted.vocabulary == str(vocab) and converted.lowercase is True


def test_activation_and_epsilon_are_read(tmp_path):
    config = config_json(hidden_act="gelu_new", layer_norm_eps=0.25)
    converted = load_bert(write(tmp_path, google_arrays(), config, kind="npz"))
    assert converted.config["activation"] == "gelu_tanh"
    block = converted.encoder.get_layer("layer_0")
    head = converted.pretrainer.get_layer("masked_lm_head")
    assert block.activation == head.activation == "gelu_tanh"
    assert converted.encoder.get_layer("embedding_norm").epsilon == 0.25
    assert block.norm_epsilon == head.norm_epsilon == 0.25
