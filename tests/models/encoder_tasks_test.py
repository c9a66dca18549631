import keras
import numpy as np
import pytest

from tests.layers.reference import randomize
from tests.models.bert_test import SMALL, B, T, V
from tfnlp import models
from tfnlp.models import bert, bert_for_tasks, bert_task, gpt, gpt_task, gpt_with_extra_tokens
from tfnlp.models.first_position import encoder_at_first, for_prediction

H, K, C = 16, 3, 4
KINDS = {"class": (K, 1), "score": (None, 1), "choice": (None, C), "tag": (K, 1), "span": (None, 1)}


def inputs(output, seed=0):
    """Examples of all lengths; [B, T], or [B, C, T] for "choice"."""
    rng = np.random.default_rng(seed)
    shape = (B, C) if output == "choice" else (B,)
    sizes = rng.integers(1, T + 1, shape)
    sizes[0] = T
    mask = np.arange(T) < sizes[..., None]
    batch = {
        "input_word_ids": rng.integers(1, V, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": mask & (np.arange(T) > 3),
    }
    return {name: value.astype("int32") for name, value in batch.items()}


def build(output, pooler=True, seed=1, encoder=None, **arguments):
    keras.utils.set_random_seed(seed)
    encoder = encoder or bert(**SMALL, pooler=pooler)
    model = bert_task(encoder, output, *KINDS[output], **arguments)
    randomize(encoder, np.random.default_rng(seed), 0.3)
    randomize(model, np.random.default_rng(seed), 0.3)
    return model


def run(model, batch, training=False):
    outputs = model({name: batch[name] for name in model.input}, training=training)
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}


def test_without_a_pooler_the_first_token_is_read():
    """Other outputs are compared with those of transformers in tests/checkpoints."""
    model, batch = build("class", pooler=False), inputs("class")
    first = model.get_layer("bert")(batch)["sequence_output"][:, 0]
    kernel, bias = model.get_layer("classifier").get_weights()
    found = run(model, batch)["class_logits"]
    np.testing.assert_allclose(found, first @ kernel + bias, rtol=1e-4, atol=1e-5)
    for output in ("tag", "span"):
        assert not any("pooler" in v.path for v in build(output).weights)


@pytest.mark.parametrize("output", ["class", "tag"])
def test_dropout_is_on_what_the_layer_reads(output):
    still = bert(**{**SMALL, "dropout": 0.0, "attention_dropout": 0.0})
    model, batch = build(output, encoder=still, dropout=0.5), inputs(output)
    (plain,), (dropped,) = run(model, batch).values(), run(model, batch, True).values()
    assert np.abs(plain - dropped).max() > 0.1
    model = build(output, encoder=still, dropout=0.0)
    (plain,), (dropped,) = run(model, batch).values(), run(model, batch, True).values()
    np.testing.assert_allclose(dropped, plain, atol=1e-5)


def test_a_copy_has_the_same_weights_and_other_arguments():
    config = {**SMALL, "seq_length": 7}
    old = bert(**config)
    new = bert_for_tasks(old, config, dropout=0.3, attention_dropout=0.4, dtype="float32")
    assert new.get_layer("embedding_dropout").rate == 0.3
    assert new.get_layer("layer_1").attention_dropout == 0.4
    assert new.input["input_mask"].shape == (None, None)
    for a, b in zip(old.weights, new.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        b.assign(b + 1.0)
        assert np.abs(a.numpy() - b.numpy()).min() > 0.5
    bare = bert_for_tasks(old, config, pooler=False)
    assert "pooled_output" not in bare.output
    np.testing.assert_array_equal(
        bare.get_layer("layer_2").weights[0].numpy(), old.get_layer("layer_2").weights[0].numpy()
    )


def test_without_an_encoder_the_copy_is_a_new_model():
    new = bert_for_tasks(None, {**SMALL, "seq_length": 7}, dropout=0.3)
    plain = bert(**SMALL)
    assert [(v.path, v.shape) for v in new.weights] == [(v.path, v.shape) for v in plain.weights]
    assert new.get_layer("embedding_dropout").rate == 0.3
    assert new.input["input_mask"].shape == (None, None)


TINY = dict(hidden_size=8, num_heads=2, intermediate_size=16, max_positions=12)
ENCODERS = {
    "bert": lambda **more: models.bert(30, 3, **TINY, **more),
    "no pooler": lambda **more: models.bert(30, 2, **TINY, pooler=False, **more),
    "albert": lambda **more: models.albert(30, 4, 2, **TINY, **more),
    "mpnet": lambda **more: models.mpnet(30, 2, **TINY, **more),
}


@pytest.mark.parametrize(
    "kind, output, classes, sequences, hidden",
    [
        ("bert", "class", 3, 1, None),
        ("no pooler", "choice", None, C, None),
        ("bert", "score", None, 1, "gelu"),
        ("albert", "choice", None, C, None),
        ("mpnet", "class", 3, 1, "tanh"),
    ],
)
def test_outputs_are_those_of_the_whole_model(kind, output, classes, sequences, hidden):
    encoder = ENCODERS[kind]()
    model = models.bert_task(encoder, output, classes, sequences, hidden=hidden)
    fast = for_prediction(model)
    assert fast is not model and for_prediction(model) is fast
    given = inputs(output)
    for seed in range(2):
        randomize(model, np.random.default_rng(seed))
        want, found = model(given, training=False), fast(given, training=False)
        assert set(found) == set(want)
        for name, value in want.items():
            np.testing.assert_allclose(found[name], value, atol=2e-5)
            assert np.ptp(np.asarray(value), axis=0).max() > 1e-3
    # Nothing is tracked or saved twice.
    assert len(model.weights) == len({v.path for v in model.weights}) == len(fast.weights)


def test_other_models_are_left_as_they_are():
    model = models.bert_task(ENCODERS["bert"](), "tag", 3)
    assert for_prediction(model) is model
    assert encoder_at_first(models.bert(30, 1, **TINY)) is None  # a single block
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    assert for_prediction(plain) is plain


VOCAB = 20
CONFIG = dict(
    vocab_size=VOCAB,
    num_layers=2,
    hidden_size=8,
    num_heads=2,
    intermediate_size=16,
    max_positions=12,
    initializer_range=0.3,
)
LOGITS = {"class": "class_logits", "score": "score", "choice": "choice_logits"}


def gpt_encoder(**changes):
    keras.utils.set_random_seed(2)
    return gpt_with_extra_tokens(None, CONFIG, **changes)


def build_gpt(output, sequences, **arguments):
    classes = 3 if output == "class" else None
    arguments = {"initializer_range": 1.0, **arguments}
    model = gpt_task(
        arguments.pop("encoder", gpt_encoder()), output, classes, sequences, **arguments
    )
    if output in ("class", "score"):
        model.get_layer("classifier").bias.assign_add(keras.random.normal((classes or 1,)))
    return model


def gpt_inputs(sequences, batch=3, length=9, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, length + 1, (batch, sequences))
    sizes[0, 0] = length
    mask = (np.arange(length) < sizes[..., None]).astype("int32")
    return {
        "input_word_ids": rng.integers(0, VOCAB + 3, mask.shape).astype("int32") * mask,
        "input_mask": mask,
        "extract_positions": (sizes - 1).astype("int32"),
    }


def test_extra_tokens_come_behind_the_vocabulary():
    keras.utils.set_random_seed(5)
    old = gpt(**CONFIG, seq_length=7)
    kept = [w.numpy() for w in old.weights]
    new = gpt_with_extra_tokens(old, {**CONFIG, "seq_length": 7}, dropout=0.3, dtype="float32")
    table = new.get_layer("token_embedding").embeddings.numpy()
    assert table.shape == (VOCAB + 3, 8) and 0.1 < table[VOCAB:].std() < 0.6
    assert new.get_layer("embedding_dropout").rate == 0.3
    assert new.input["input_word_ids"].shape == (None, None)
    # What the old tokens say is what they said.
    ids = np.random.default_rng(0).integers(0, VOCAB, (2, 7)).astype("int32")
    batch = {"input_word_ids": ids, "input_mask": np.ones_like(ids)}
    want, got = (m(batch)["sequence_output"].numpy() for m in (old, new))
    np.testing.assert_allclose(got, want, atol=1e-6)
    for variable in new.weights:
        variable.assign_add(keras.ops.ones(variable.shape))
    for before, after in zip(kept, old.weights, strict=True):
        np.testing.assert_array_equal(before, after.numpy())


@pytest.mark.parametrize(
    "output, sequences", [("class", 1), ("class", 2), ("score", 1), ("score", 2), ("choice", 3)]
)
def test_outputs_of_gpt_are_those_of_the_formula(output, sequences):
    body = gpt_encoder()
    model = build_gpt(output, sequences, encoder=body)
    batch = gpt_inputs(sequences)
    outputs = run(model, batch)
    w, *b = (v.numpy().astype("float64") for v in model.get_layer("classifier").weights)
    for row in range(3):
        hidden = []
        for c in range(sequences):
            size = batch["extract_positions"][row, c] + 1
            ids = batch["input_word_ids"][row, c, :size][None]  # without padding
            found = body({"input_word_ids": ids, "input_mask": np.ones_like(ids)})
            found = found["sequence_output"].numpy()[0].astype("float64")
            np.testing.assert_allclose(outputs["sequence_output"][row, c, :size], found, atol=2e-6)
            hidden.append(found[-1])
        if output == "choice":
            want = [(h @ w)[0] for h in hidden]
        else:
            want = sum(hidden) @ w + b[0]
            want = want[0] if output == "score" else want
        np.testing.assert_allclose(outputs[LOGITS[output]][row], want, atol=1e-5)


def test_tags_and_spans_are_read_at_every_token():
    body, batch = gpt_encoder(), gpt_inputs(1)
    del batch["extract_positions"]
    found = body({name: value[:, 0] for name, value in batch.items()})
    hidden = found["sequence_output"].numpy().astype("float64")  # [B, T, H]
    real = batch["input_mask"][:, 0] > 0

    model = gpt_task(body, "tag", 3, initializer_range=1.0)
    w, b = model.get_layer("classifier").weights
    b.assign([0.5, -1.0, 2.0])
    outputs = run(model, batch)
    np.testing.assert_allclose(outputs["tag_logits"], hidden @ w.numpy() + b.numpy(), atol=1e-5)
    np.testing.assert_allclose(outputs["sequence_output"][:, 0], hidden, atol=1e-6)

    model = gpt_task(body, "span", initializer_range=1.0)
    outputs = run(model, batch)
    for name in ("start", "end"):
        want = hidden @ model.get_layer(name).kernel.numpy()[:, 0]
        want = np.where(real, want, -1e9)
        np.testing.assert_allclose(outputs[f"{name}_logits"], want, atol=1e-5)
    assert np.abs(outputs["start_logits"] - outputs["end_logits"])[real].max() > 1e-2
    assert (~real).any()


def test_one_dropout_mask_for_all_choices():
    still = gpt_encoder(dropout=0.0, attention_dropout=0.0)
    model = build_gpt("choice", 3, encoder=still, dropout=0.5)
    batch = {k: np.repeat(v[:, :1], 3, 1) for k, v in gpt_inputs(1, batch=6).items()}
    logits = run(model, batch, training=True)["choice_logits"]
    np.testing.assert_allclose(logits, logits[:, :1] + np.zeros(3), atol=2e-6)
    assert np.abs(logits - run(model, batch)["choice_logits"]).max() > 1e-2
