"""ELMo's pretraining: language models for the next and for the previous word."""

import keras
import numpy as np
from keras import ops

from tfnlp.layers.types import Tensor
from tfnlp.objectives.objective import Batch, Objective, Tensors, perplexity
from tfnlp.optional_tensorflow import tf

_PADDING = 261  # the character that fills up a word


class ElmoPretraining(Objective):
    """Bidirectional language modelling (Peters et al. 2018, section 3.1).

    `loss = -mean_t log p(w_{t+1} | w_1..w_t) - mean_t log p(w_{t-1} | w_t..w_n)`, with truncated
    back-propagation: every step reads a window and starts from the state in which the previous
    window ended.

    The character network takes most of the time, and most words occur several times in a batch. So
    it is run once for each distinct word, over as many characters as the longest of them needs;
    this does not change any vector.

    Args:
        model: from `tfnlp.models.elmo_pretrainer`.
        characters: integer `[W, 50]`, character ids of all words, see
            `tfnlp.data.LanguageModelCorpus.characters`.
        batch_size: rows of the global batch; each has a state. Build the task in the scope of
            the strategy.
        distinct: run the character network on distinct words only. Shapes then depend on the
            words; with False all shapes are static, as XLA requires, and JAX, where it is always
            False.

    Batch: see `tfnlp.data.LanguageModelWindows`.
    """

    def __init__(
        self, model: keras.Model, characters: np.ndarray, batch_size: int, distinct: bool = True
    ) -> None:
        super().__init__(model)
        if keras.backend.backend() == "tensorflow":  # workers can't share a variable of int16
            self.characters = ops.convert_to_tensor(characters, "int16")
        else:
            table = np.asarray(characters, "int16")
            # A function, so that the variable can be made where no values are (`tfnlp plan`).
            self.characters = keras.Variable(
                lambda *_, **__: table, table.shape, "int16", trainable=False, name="characters"
            )
            self.tables = [self.characters]
        self.distinct = distinct and keras.backend.backend() == "tensorflow"
        shape = (batch_size, *model.input["state"].shape[1:])
        state = keras.Variable("zeros", shape, "float32", trainable=False, name="state")
        self.state = {"state": state}
        # With this many characters after the longest word, no position of a filter is lost.
        self._margin = max(width for width, _ in model.get_layer("char_cnn").filters)

    def inputs(self, batch: Batch) -> Tensors:
        """Return the model's inputs: characters of words, and where each word is read."""
        ids = ops.stack([batch["forward_ids"], batch["backward_ids"]])  # [2, B, T]
        flat = ops.reshape(ids, (-1,))  # [2BT]
        if self.distinct:
            words, places = tf.unique(flat)  # [N], [2BT]
            characters = ops.take(self.characters, words, axis=0)
            used = ops.any(ops.not_equal(characters, _PADDING), axis=0)  # [50]
            length = ops.sum(ops.cast(used, "int32")) + self._margin
            characters = characters[:, :length]
        else:
            characters = ops.take(self.characters, flat, axis=0)
            places = ops.arange(ops.size(flat), dtype="int32")
        forward, backward = ops.unstack(ops.reshape(places, ops.shape(ids)), 2)
        inputs = {
            "word_characters": ops.cast(characters, "int32"),
            "forward_words": forward,
            "backward_words": backward,
        }
        others = [name for name in self.model.input if name not in inputs]
        return {**inputs, **{name: batch[name] for name in others}}

    def tokens(self, batch: Batch) -> Tensor:
        return ops.sum(batch["weights"])

    def targets(self, batch: Batch) -> Tensors:
        count = ops.sum(batch["weights"])
        return {"forward": count, "backward": count}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {
            direction: ops.sum(outputs[f"{direction}_losses"] * batch["weights"])
            for direction in ("forward", "backward")
        }

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `forward_perplexity`, `backward_perplexity` and `perplexity`.

        `perplexity` is the geometric mean of both, e to the mean of both losses, as in bilm-tf.
        """
        if "forward_loss" not in means:
            return means
        forward, backward = means["forward_loss"], means["backward_loss"]
        losses = {"forward_": forward, "backward_": backward, "": (forward + backward) / 2}
        return {**means, **{f"{name}perplexity": perplexity(x) for name, x in losses.items()}}
