"""GPT's pretraining: language modelling."""

import keras
from keras import ops

from tfnlp.objectives.cross_entropy import TiedSoftmax, whole_sums
from tfnlp.objectives.objective import Batch, Objective, Tensors, perplexity, with_perplexity


class GPTPretraining(Objective):
    """`loss = -mean_t log softmax(lm_logits_t)[target_t]` (Radford et al. 2018, eq. 1).

    Args:
        model: from `tfnlp.models.gpt_pretrainer`.
        tokens_per_word: tokens that a word of the text has on average; `report` then adds the
            perplexity per word, which can be compared between tokenizers, unlike that per token.

    Batch: the model's inputs and, int32 `[B, T]`, `targets`, float32 `[B, T]`, `weights` (1 for
    targets that count), as from `tfnlp.data.TokenWindows`.
    """

    def __init__(self, model: keras.Model, tokens_per_word: float | None = None) -> None:
        super().__init__(model)
        self.tokens_per_word = tokens_per_word
        tables = [layer for layer in model.layers if layer.name == "token_embedding"]
        self._softmax = TiedSoftmax(*tables) if tables else None

    def targets(self, batch: Batch) -> Tensors:
        return {"lm": ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        rest = outputs["lm_logits"], batch["targets"], batch["weights"]
        if self._softmax is None:
            return {"lm": whole_sums(*rest)[0]}
        return {"lm": self._softmax.sums(outputs["sequence_output"], *rest, hits=False)[0]}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `perplexity` (per token) and `word_perplexity`.

        `word_perplexity = exp(loss * tokens / words)`, only with `tokens_per_word`.
        """
        report = with_perplexity(means, "lm_loss")
        if self.tokens_per_word is not None and "lm_loss" in means:
            report["word_perplexity"] = perplexity(means["lm_loss"] * self.tokens_per_word)
        return report
