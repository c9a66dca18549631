"""Training of sentence vectors: by ranking, by rated similarities, by classes of pairs."""

from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.cross_entropy import best_class, cross_entropy
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors, without_padding
from tfnlp.objectives.ranking import ranking_losses, unit

_VECTORS = "sentence_embeddings"
_OF_POSITIONS = {"input_word_ids", "input_mask", "input_type_ids"}


class SentenceTraining(Objective):
    """`sum_i w_i L_i / sum_i w_i` over the examples of a batch, each of S texts.

    With u and v the vectors of the first two texts, `L_i` is by `loss`

        ranking  see `objectives.ranking.ranking_losses`: the second text among all texts of the
                 global batch, further ones as hard negatives; of two equal texts, whose vectors
                 differ by dropout, this is SimCSE (Gao et al. 2021, section 3)
        cosine   `(cos(u, v) - y_i)^2` (Reimers and Gurevych 2019, Sentence-BERT, section 3)
        softmax  `-log softmax(W [u; v; |u - v|] + b)[y_i]` (the same)

    Ranking compares all examples of the global batch, whatever parts it is computed in: vectors are
    computed first, without a gradient; then the gradient of the loss with respect to each vector;
    then parts one by one with that gradient (Gao et al. 2021, "Scaling Deep Contrastive Learning
    Batch Size under Memory Limited Setup", section 3). Held-out losses compare the examples of the
    share that a replica has.

    Args:
        model: from `tfnlp.models.siamese`.
        loss: see above.
        temperature: of ranking.
        both_ways: of ranking, also the first text among all first ones.
        sizes: the loss is the mean over vectors that are cut to so many numbers, beside the whole
            ones (Kusupati et al. 2022, Matryoshka representations, equation 1, equal weights).

    Batch: the model's inputs `[B, S, T]`; `labels` `[B]`, of "cosine" float32, of "softmax" int32;
    of "ranking" `text_ids` int32 `[B, S]`, equal for equal texts; `weights` float32 `[B]`.

    Raises:
        ValueError: for a size outside [1, D].
    """

    trims = True

    def __init__(
        self,
        model: keras.Model,
        loss: str = "ranking",
        temperature: float = 0.05,
        both_ways: bool = True,
        sizes: Sequence[int] = (),
    ) -> None:
        super().__init__(model)
        size = model.output[_VECTORS].shape[-1]
        if not all(1 <= n <= size for n in sizes):
            raise ValueError(
                f"`sizes` {tuple(sizes)} must be from 1 to {size}, those of the vectors"
            )
        if loss == "softmax" and sizes:
            raise ValueError("`sizes` is for the losses ranking and cosine; leave it out")
        self.loss, self.temperature, self.both_ways = loss, temperature, both_ways
        self.sizes = tuple(sorted({*sizes, size}))
        self.compares = loss == "ranking"

    def trimmed(self, batch: Batch) -> Batch:
        mask = batch["input_mask"]
        names = set(self.model.input)
        if mask.shape[-1] is not None or not names <= _OF_POSITIONS:
            return batch
        return without_padding(batch, names)

    def targets(self, batch: Batch) -> Tensors:
        return {self.loss: ops.sum(batch["weights"])}

    def compared(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return what the losses of other examples depend on."""
        return {
            "vectors": ops.cast(outputs[_VECTORS], "float32"),
            "text_ids": batch["text_ids"],
            "weights": batch["weights"],
        }

    def comparison(self, whole: Tensors) -> Tensors:
        """Return loss and rank of each example, float32 `[N]`, among N examples."""
        texts, width = self.model.output[_VECTORS].shape[1:]
        vectors = ops.reshape(whole["vectors"], (-1, texts, width))  # gathered, of unknown shape
        found = [
            ranking_losses(
                vectors[..., :size],
                ops.reshape(whole["text_ids"], (-1, texts)),
                whole["weights"],
                self.temperature,
                self.both_ways,
            )
            for size in self.sizes
        ]
        losses = sum(losses for losses, _ in found) / len(found)
        return {"loss": losses * whole["weights"], "first": found[-1][1] * whole["weights"]}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        if self.loss == "ranking":
            return {self.loss: ops.sum(self._rows(batch, outputs)["loss"])}
        if self.loss == "cosine":
            losses = self._squares(outputs[_VECTORS], batch["labels"])
        else:
            losses = cross_entropy(outputs["class_logits"], batch["labels"])
        return {self.loss: ops.sum(losses * batch["weights"])}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators: of ranking the share that ranks first, of classes that is right."""
        if self.loss == "ranking":
            found = {"ranking_accuracy": self._rows(batch, outputs)["first"]}
        elif self.loss == "softmax":
            right = ops.equal(best_class(outputs["class_logits"]), batch["labels"])
            found = {"softmax_accuracy": ops.cast(right, "float32") * batch["weights"]}
        else:
            found = {}
        return {name: (self.loss, ops.sum(value)) for name, value in found.items()}

    def _squares(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return `(cos(u, v) - y)^2` `[B]`, the mean over the sizes."""
        found = []
        for size in self.sizes:
            e = unit(vectors[..., :size])
            cosines = ops.sum(e[:, 0] * e[:, 1], -1)  # [B]
            found.append(ops.square(cosines - labels))
        return sum(found) / len(found)

    def _rows(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return what `comparison` does of a part of the global batch, with the whole's gradient.

        The loss is linear in the vectors then, with the slopes that the comparison gave.
        """
        own = self.compared(batch, outputs)
        if "compared/slopes" not in batch:
            return self.comparison(own)
        rows = {name: batch[f"compared/{name}"] for name in ("loss", "first")}
        change = own["vectors"] - ops.stop_gradient(own["vectors"])  # 0, with a gradient
        linear = ops.sum(change * batch["compared/slopes"], (1, 2))  # [B]
        return {**rows, "loss": rows["loss"] + linear}
