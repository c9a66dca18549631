"""The loss of coreference: which spans are mentions, and which mention each of them follows."""

from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.models.coreference import NEVER
from tfnlp.objectives.objective import Batch, Objective, Tensors


class CoreferenceLoss(Objective):
    """`loss = sum_spans BCE(m_s, is mention s) / K - sum_i log P(gold antecedents of i) / K`.

    The first sum is over all spans of a document, the second over its K kept ones, the share of the
    words that `tfnlp.models.Coreference` keeps. `P` is a softmax over the antecedents of a span and
    none, whose score is 0; gold are all of its cluster, or none if there are no such (Lee et al.
    2017, section 5). The first term teaches mentions that stay alone in their cluster.

    Args:
        model: has the outputs of `tfnlp.models.Coreference`.

    Batch: the model's inputs, `labels` int32 `[B, W, M]`, the number from 1 on of the cluster of
    the span of w + 1 words from each word, 0: no mention; float32 `weights` `[B]`, 0 for documents
    that do not count.
    """

    def targets(self, batch: Batch) -> Tensors:
        share = self.model.get_layer("coreference").kept
        words = ops.sum(ops.cast(batch["word_positions"] > 0, "float32"), axis=1)
        kept = ops.sum(ops.ceil(words * share) * batch["weights"])
        return {"mention": kept, "antecedent": kept}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        labels = ops.swapaxes(batch["labels"], 1, 2)  # [B, M, W]
        scores = outputs["mention_logits"]
        losses = ops.softplus(scores) - ops.where(labels > 0, scores, 0.0)
        mentions = ops.sum(ops.where(scores > NEVER / 2, losses, 0.0), axis=(1, 2))
        antecedents = ops.sum(self._antecedents(labels, outputs), axis=1)
        weights = batch["weights"]
        return {
            "mention": ops.sum(mentions * weights),
            "antecedent": ops.sum(antecedents * weights),
        }

    def _antecedents(self, labels: Tensor, outputs: Batch) -> Tensor:
        """Return `-log P` of kept spans: `[B, K]`, 0 of those that are not there."""
        own, others = kept_labels(labels, outputs)
        scores = outputs["antecedent_logits"]
        none = ops.zeros_like(scores[..., :1])
        scores = ops.concatenate([none, scores], axis=-1)  # [B, K, 1 + A]
        gold = ops.logical_and(own[..., None] > 0, ops.equal(own[..., None], others))
        gold = ops.logical_and(gold, scores[..., 1:] > NEVER / 2)
        alone = ops.logical_not(ops.any(gold, axis=-1, keepdims=True))
        gold = ops.concatenate([alone, gold], axis=-1)
        right = ops.logsumexp(ops.where(gold, scores, NEVER), axis=-1)
        losses = ops.logsumexp(scores, axis=-1) - right
        return ops.where(outputs["span_logits"] > NEVER / 2, losses, 0.0)


def kept_labels(labels: Tensor, outputs: Batch) -> tuple[Tensor, Tensor]:
    """Return the clusters of kept spans `[B, K]` and of their antecedents `[B, K, A]`."""
    flat = ops.reshape(labels, (-1, ops.shape(labels)[1] * ops.shape(labels)[2]))
    own = ops.take_along_axis(flat, outputs["spans"], axis=1)
    places = outputs["antecedents"]
    shape = ops.shape(places)
    found = ops.take_along_axis(own, ops.reshape(places, (-1, shape[1] * shape[2])), axis=1)
    return own, ops.reshape(found, (-1, shape[1], shape[2]))
