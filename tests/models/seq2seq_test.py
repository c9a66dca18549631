import numpy as np
import pytest
import tensorflow as tf

from tests.models.seq2seq_reference import START, H, V, batch, pairs, seq2seq_reference, small
from tfnlp.models import Seq2SeqDecoder

STOP, PAD = 2, 0
CASES = {
    "none": dict(attention=None, num_layers=2),
    "sutskever": dict(attention=None, bidirectional=False, reverse_source=True, num_layers=2),
    "additive": dict(attention="additive"),
    "additive-deep": dict(attention="additive", num_layers=2, bidirectional=False),
    "dot": dict(attention="dot"),
    "cosine": dict(attention="cosine"),
    "general-deep": dict(attention="general", num_layers=2),
    "feeding-general": dict(attention="general", input_feeding=True, num_layers=2),
    "feeding-cosine": dict(attention="cosine", input_feeding=True),
    "feeding-additive": dict(attention="additive", input_feeding=True),
}
# Of each way through the decoder one.
FEW = {name: CASES[name] for name in ("sutskever", "additive", "general-deep", "feeding-general")}
cases = pytest.mark.parametrize("name", CASES)
few = pytest.mark.parametrize("name", FEW)


@pytest.fixture(scope="module")
def models():
    """A model of each case, made once."""
    made = {}

    def model(name):
        if name not in made:
            made[name] = small(seed=3, **CASES[name])
        return made[name]

    return model


def close(got, want, tolerance=1e-4):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@cases
def test_formula(models, name):
    """Every row of a padded batch equals plain numpy on that pair alone."""
    rows = pairs(3)
    outputs = models(name)(batch(rows))
    for index, (source, target) in enumerate(rows):
        want = seq2seq_reference(models(name), source, target, **CASES[name])
        assert set(outputs) == set(want)
        for key, value in want.items():
            got = outputs[key][index].numpy()
            if value.ndim == 2 and key != "encoder_state":
                rows_of = len(source) if key == "encoder_output" else len(target)
                if key == "attention":
                    assert not got[:, len(source) :].any()
                    got = got[:, : len(source)]
                got = got[:rows_of]
            close(got, value)
    spread = np.ptp(outputs["lm_logits"], axis=1)  # what is predicted differs from place to place
    assert spread.max() > 0.5


def test_tables_of_their_own():
    arguments = dict(shared_embeddings=False, tied=False, embedding_size=5)
    model = small(seed=4, **arguments)
    tables = {w.path: tuple(w.shape) for w in model.weights if "embeddings" in w.path}
    assert tables == {
        "source_embedding/embeddings": (V, 5),
        "target_embedding/embeddings": (V, 5),
        "softmax/embeddings": (V, H),
    }
    ((source, target),) = rows = pairs(1)
    want = seq2seq_reference(model, source, target)
    close(model(batch(rows))["lm_logits"][0], want["lm_logits"])


@few
def test_step_by_step_equals_the_whole_model(models, name):
    inputs = batch(pairs(3), noise=V - 1)
    want = models(name)(inputs)["lm_logits"]
    decoder = Seq2SeqDecoder(models(name), START, vocab_size=V - 1)
    assert decoder.vocab_size == V - 1
    ids, mask = tf.constant(inputs["input_word_ids"]), tf.constant(inputs["input_mask"] > 0)
    source, target = ids.shape[1], want.shape[1]
    logits, cache = decoder.prefill(ids, mask, source + target)
    for t in range(target):
        close(logits, want[:, t, : V - 1], 1e-5)
        assert all(part.shape[0] == len(ids) for part in cache)
        if t + 1 < target:
            tokens = tf.constant(inputs["target_word_ids"][:, t + 1])
            logits, cache = decoder.step(tokens, source + t, mask, cache)


@few
def test_attention_of_a_finished_translation(models, name):
    rows = pairs(3)
    inputs = batch(rows)
    ids, mask = tf.constant(inputs["input_word_ids"]), tf.constant(inputs["input_mask"] > 0)
    decoder = Seq2SeqDecoder(models(name), START)
    made = np.concatenate([inputs["target_word_ids"][:, 1:], np.full((3, 1), 7)], 1)
    if CASES[name]["attention"] is None:
        with pytest.raises(ValueError, match="attention=None"):
            decoder.attention(ids, mask, tf.constant(made, "int32"))
        return
    got = decoder.attention(ids, mask, tf.constant(made, "int32"))
    close(got, models(name)(inputs)["attention"], 1e-6)
    close(np.sum(got, -1), 1.0, 1e-5)
