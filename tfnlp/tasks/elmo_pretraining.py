"""What ELMo learns from raw text: the next word, and the previous one."""

import math

import tensorflow as tf

from tfnlp.tasks.task import Task

_PADDING = 261  # the character that fills up a word


class ElmoPretraining(Task):
    """Bidirectional language modelling (Peters et al. 2018, section 3.1).

    `loss = -mean_t log p(w_{t+1} | w_1..w_t) - mean_t log p(w_{t-1} | w_t..w_n)`, with truncated
    back-propagation: every step reads a window and starts from the state in which the window
    before it ended.

    The character network is the dearer part, and most words of a batch come more than once. So it
    is run once for each distinct word, over as many characters as the longest of them needs;
    every vector is the same as without.

    Args:
        model: from `tfnlp.models.elmo_pretrainer`.
        characters: integer `[W, 50]`, character ids of all words, see
            `tfnlp.data.LanguageModelCorpus.characters`.
        batch_size: rows of the global batch; each has a state. Build the task in the scope of
            the strategy.
        distinct: look at distinct words only. That makes shapes that depend on the words; with
            False all shapes are static, as XLA demands.

    Batch: see `tfnlp.data.LanguageModelWindows`.
    """

    def __init__(self, model, characters, batch_size, distinct=True):
        super().__init__(model)
        self.characters = tf.constant(characters, "int16")
        self.distinct = distinct
        shape = model.input["state"].shape[1:]
        self.state = {
            "state": tf.Variable(tf.zeros((batch_size, *shape)), trainable=False, name="state")
        }
        # So much more than the longest word keeps every place that a filter can lie at.
        self._margin = max(width for width, _ in model.get_layer("char_cnn").filters)

    def inputs(self, batch):
        ids = tf.stack([batch["forward_ids"], batch["backward_ids"]])  # [2, B, T]
        if self.distinct:
            words, places = tf.unique(tf.reshape(ids, [-1]))  # [N], [2BT]
            characters = tf.gather(self.characters, words)
            used = tf.reduce_any(characters != _PADDING, axis=0)  # [50]
            length = tf.reduce_sum(tf.cast(used, "int32")) + self._margin
            characters = characters[:, :length]
        else:
            characters = tf.gather(self.characters, tf.reshape(ids, [-1]))
            places = tf.range(tf.size(ids))
        forward, backward = tf.unstack(tf.reshape(places, tf.shape(ids)))
        inputs = {
            "word_characters": tf.cast(characters, "int32"),
            "forward_words": forward,
            "backward_words": backward,
        }
        others = [name for name in self.model.input if name not in inputs]
        return {**inputs, **{name: batch[name] for name in others}}

    def tokens(self, batch):
        """Words of the text."""
        return tf.reduce_sum(batch["weights"])

    def targets(self, batch):
        """Words to predict, in either direction: dict of float32 scalars."""
        count = tf.reduce_sum(batch["weights"])
        return {"forward": count, "backward": count}

    def losses(self, batch, outputs):
        """Sums of `-log p`: dict of float32 scalars."""
        return {
            direction: tf.reduce_sum(outputs[f"{direction}_losses"] * batch["weights"])
            for direction in ("forward", "backward")
        }

    def metrics(self, batch, outputs):
        """None: the losses say it all."""
        return {}

    def report(self, means):
        """Adds `forward_perplexity`, `backward_perplexity`, and `perplexity`, their (geometric)
        mean: e to the mean of both losses, which is what bilm-tf reports."""
        forward, backward = means["forward_loss"], means["backward_loss"]
        perplexities = {
            "forward_perplexity": _exp(forward),
            "backward_perplexity": _exp(backward),
            "perplexity": _exp((forward + backward) / 2),
        }
        return {**means, **perplexities}


def _exp(x):
    return math.exp(x) if x < 700 else math.inf
