import keras
import numpy as np
import pytest

from tests.models.bert_tasks_test import run
from tfnlp.models import gpt, gpt_task, gpt_with_extra_tokens

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


def encoder(**changes):
    keras.utils.set_random_seed(2)
    return gpt_with_extra_tokens(None, CONFIG, **changes)


def build(output, sequences, **arguments):
    classes = 3 if output == "class" else None
    arguments = {"initializer_range": 1.0, **arguments}
    model = gpt_task(arguments.pop("encoder", encoder()), output, classes, sequences, **arguments)
    if output in ("class", "score"):
        model.get_layer("classifier").bias.assign_add(keras.random.normal((classes or 1,)))
    return model


def inputs(sequences, batch=3, length=9, seed=0):
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
def test_outputs_are_those_of_the_formula(output, sequences):
    body = encoder()
    model = build(output, sequences, encoder=body)
    batch = inputs(sequences)
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
    body, batch = encoder(), inputs(1)
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
    still = encoder(dropout=0.0, attention_dropout=0.0)
    model = build("choice", 3, encoder=still, dropout=0.5)
    batch = {k: np.repeat(v[:, :1], 3, 1) for k, v in inputs(1, batch=6).items()}
    logits = run(model, batch, training=True)["choice_logits"]
    np.testing.assert_allclose(logits, logits[:, :1] + np.zeros(3), atol=2e-6)
    assert np.abs(logits - run(model, batch)["choice_logits"]).max() > 1e-2
