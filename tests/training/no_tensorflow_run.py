"""A BERT that JAX trains from arrays of numpy where TensorFlow is missing: `... FOLDER`."""

import sys

for _name in ("tensorflow", "tensorflow_text", "tf_keras"):
    sys.modules[_name] = None  # as if it were not installed

import keras  # noqa: E402
import numpy as np  # noqa: E402

from tfnlp import layers, models, objectives, training  # noqa: E402

SIZES = dict(num_layers=1, hidden_size=8, num_heads=2, vocab_size=30, seq_length=12)


def batch(step):
    """Return the masked tokens of a step, and pairs."""
    rng = np.random.default_rng(step)
    ids, mask = rng.integers(5, 30, (8, 12), "int32"), np.ones((8, 12), "int32")
    return {
        "input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * ids,
        "masked_lm_positions": np.tile(np.array([2, 5], "int32"), (8, 1)),
        "masked_lm_ids": ids[:, [2, 5]], "masked_lm_weights": np.ones((8, 2), "float32"),
        "next_sentence_labels": ids[:, 0] % 2,
    }  # fmt: skip


def trainer(directory=None):
    """Return a trainer of a new model, and the model."""
    keras.utils.set_random_seed(3)
    model = models.bert_pretrainer(models.bert(**SIZES), max_predictions=2)
    objective = objectives.BertPretraining(model)
    return training.Trainer(objective, "adamw", 0.05, directory=directory), model


def weights(model):
    return [np.asarray(v) for v in model.trainable_variables]


def main(folder):
    """Train without a stop, with one, and from an iterator."""
    quiet = dict(progress=False, validation=[batch(99)], evaluate_every=3)
    whole, expected = trainer()
    history = whole.fit(batch, 6, **quiet)
    assert history.train[-1]["loss"] < history.train[0]["loss"]
    first, _ = trainer(f"{folder}/run")
    first.fit(batch, 3, **quiet)
    second, model = trainer(f"{folder}/run")
    second.fit(batch, 6, **quiet)
    for one, other in zip(weights(model), weights(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert second.evaluate([batch(99)]) == whole.evaluate([batch(99)])
    third, model = trainer()
    third.fit(map(batch, range(6)), 6, progress=False)
    for one, other in zip(weights(model), weights(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    training.average_checkpoints(f"{folder}/run", 2)
    assert layers.Dropout(0.1)(np.ones((2, 3), "float32")).shape == (2, 3)
    assert sys.modules["tensorflow"] is None


if __name__ == "__main__":
    main(sys.argv[1])
