"""Low-rank updates of whole models, and the choice of what is trained."""

import keras
import numpy as np
import pytest

from tests.layers.reference import randomize
from tests.models import bert_test
from tests.models.packed_test import ENCODERS
from tfnlp import models
from tfnlp.layers import LowRank
from tfnlp.models.first_position import encoder_at_first

BERT = bert_test.SMALL
ALL = ("query", "key", "value", "attention_output", "intermediate", "output")
rng = np.random.default_rng(0)
IDS = rng.integers(1, 9, (2, 6)).astype("int32")


def outputs(model):
    inputs = {name: np.ones_like(IDS) for name in model.input}
    found = model({**inputs, "input_word_ids": IDS})
    return np.asarray(found["sequence_output"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder(kind):
    make, sizes = ENCODERS[kind]
    model = make(**sizes)
    randomize(model, rng)
    before, paths = outputs(model), [v.path for v in model.weights]
    count = models.add_low_rank(model, LowRank(2, ALL))
    np.testing.assert_array_equal(outputs(model), before)
    updates = models.low_rank_updates(model)
    assert count == sum(int(np.prod(v.shape)) for _, d, _ in updates for v in d.update.weights)
    assert len(model.trainable_variables) == 2 * len(updates) > 0
    assert len({v.path for v in model.weights}) == len(model.weights)
    for _, dense, _ in updates:
        randomize(dense.update, rng)
    changed = outputs(model)
    assert np.abs(changed - before).max() > 0.01
    models.merge_low_rank(model)
    np.testing.assert_allclose(outputs(model), changed, rtol=1e-3, atol=1e-3)
    assert [v.path for v in model.weights] == paths
    assert len(model.trainable_variables) == len(paths)


def test_prediction_at_the_first_position_alone():
    model = models.bert(**BERT)
    randomize(model, rng)
    models.add_low_rank(model, LowRank(2, ALL))
    for _, dense, _ in models.low_rank_updates(model):
        randomize(dense.update, rng)
    inputs = {name: np.ones_like(IDS) for name in model.input}
    want, found = (m(inputs)["pooled_output"] for m in (model, encoder_at_first(model)))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_layers_put_on_top_are_trained():
    encoder = models.bert(**BERT)
    models.add_low_rank(encoder, LowRank(2))
    task = models.bert_task(encoder, "class", num_classes=3)
    trained = {v.path for v in task.trainable_variables}
    assert {path for path in trained if "update" not in path} == {
        "classifier/kernel",
        "classifier/bias",
    }
    assert models.count_trained(task) == models.count_trained(encoder) + 3 * (
        BERT["hidden_size"] + 1
    )


@pytest.mark.parametrize("kind, chosen", [("bert", LowRank(2)), ("electra", "/(bias|beta)$")])
def test_what_is_frozen_stays_frozen_in_files_and_clones(kind, chosen, tmp_path):
    encoder = models.bert(**BERT) if kind == "bert" else models.electra(**BERT, embedding_size=4)
    choose = models.train_weights if isinstance(chosen, str) else models.add_low_rank
    count = choose(encoder, chosen)
    task = models.bert_task(encoder, "class", num_classes=3)
    task.save(tmp_path / "task.keras")
    copies = [keras.models.load_model(tmp_path / "task.keras"), keras.models.clone_model(task)]
    copies.append(keras.models.clone_model(copies[0]))
    for copy in copies:
        assert [v.path for v in copy.trainable_weights] == [v.path for v in task.trainable_weights]
        assert models.count_trained(copy) == count + 3 * (BERT["hidden_size"] + 1)
    if not isinstance(chosen, str):
        merged = models.merge_low_rank(copies[0])
        assert len(merged.trainable_weights) == len(merged.weights)


def test_bias_terms_alone():
    model = models.bert(**BERT)
    models.train_weights(model, "/(bias|beta)$")
    names = {v.path.rpartition("/")[2] for v in model.trainable_variables}
    assert names == {"bias", "beta"}
    models.train_weights(model, "layer_0/")  # of those
    paths = [v.path for v in model.trainable_variables]
    assert paths and all(path.startswith("layer_0/") for path in paths)
