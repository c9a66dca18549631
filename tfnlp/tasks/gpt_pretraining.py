"""What GPT learns from raw text: the next token."""

import math

import tensorflow as tf

from tfnlp.tasks.task import Task


class GPTPretraining(Task):
    """`loss = -mean_t log softmax(lm_logits_t)[target_t]` (Radford et al. 2018, eq. 1).

    Args:
        model: from `tfnlp.models.gpt_pretrainer`.
        tokens_per_word: tokens that a word of the text has on average; `report` then adds the
            perplexity per word, which, unlike that per token, can be compared between tokenizers.

    Batch: the model's inputs and, int32 `[B, T]`, `targets`, float32 `[B, T]`, `weights` (1 for
    targets that count), as from `tfnlp.data.TokenWindows`.

    Raises:
        ValueError: for a model without `lm_logits`.
    """

    def __init__(self, model, tokens_per_word=None):
        super().__init__(model)
        if "lm_logits" not in model.output:
            raise ValueError(
                "model has no output `lm_logits`; build it with tfnlp.models.gpt_pretrainer"
            )
        self.tokens_per_word = tokens_per_word

    def targets(self, batch):
        """Number of tokens to predict: dict of a float32 scalar."""
        return {"lm": tf.reduce_sum(batch["weights"])}

    def losses(self, batch, outputs):
        """Sum of `-log p`: dict of a float32 scalar."""
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["targets"], logits=outputs["lm_logits"]
        )  # [B, T]
        return {"lm": tf.reduce_sum(losses * batch["weights"])}

    def metrics(self, batch, outputs):
        """None: the loss says it all."""
        return {}

    def report(self, means):
        """Adds `perplexity` (per token) and, where it is known how many tokens a word has,
        `word_perplexity = exp(loss * tokens / words)`."""
        report = {**means, "perplexity": _exp(means["lm_loss"])}
        if self.tokens_per_word is not None:
            report["word_perplexity"] = _exp(means["lm_loss"] * self.tokens_per_word)
        return report


def _exp(x):
    return math.exp(x) if x < 700 else math.inf
