"""Fine-tuning with a teacher: a model that was fine-tuned on the same task."""

from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.distillation import divergences
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors
from tfnlp.tasks.fine_tuning import FineTuning

LOSS = "distillation"  # its name beside that of the task's own loss
# Of each kind of task what the teacher said, in a batch.
SOFT = {
    "class": ("soft_logits",),
    "score": ("soft_scores",),
    "choice": ("soft_logits",),
    "tag": ("soft_logits",),
    "span": ("soft_start_logits", "soft_end_logits"),
}
SOFT_WEIGHTS = "soft_weights"
_OF_POSITIONS = {"tag": (*SOFT["tag"], SOFT_WEIGHTS), "span": SOFT["span"]}


class TaskDistillation(Objective):
    """`loss = a T^2 mean_i KL(softmax(t_i / T) || softmax(s_i / T)) + (1 - a) L`.

    Hinton et al. 2015, section 2: s_i are the logits of the model, t_i those of its teacher, and L
    is the loss of the task, see `FineTuning`. i runs over examples or, for tags, over words. For
    scores the first term is `a mean_i (s_i - t_i)^2`, for spans the mean of those of start and end,
    over the real positions. A language model's loss beside the task's keeps its own weight.

    The teacher is no part of this: what it says of the examples is in the batches. An example
    whose label is not known has the weight 0 in L alone.

    Args:
        task: the task without a teacher, of one of the kinds in `SOFT` and without a CRF.
        weight: a, above 0 and at most 1. With 1 the labels are not learnt.
        temperature: T; of scores it has no effect.

    Batch: that of `task`, with `weights` 0 where the label is not known; float32 `soft_weights`
    `[B]`, for tags `[B, T]` (1 where the teacher is learnt from, else 0); and float32 `soft_logits`
    `[B, K]`, of choices `[B, C]`, of tags `[B, K, T]`; `soft_scores` `[B]`; or `soft_start_logits`
    and `soft_end_logits` `[B, T]`, whatever stands at padding. Of packed rows `[B, S]` stands for
    `[B]`.
    """

    def __init__(self, task: FineTuning, weight: float = 0.5, temperature: float = 2.0) -> None:
        super().__init__(task.model)
        self.task, self.weight, self.temperature = task, weight, temperature
        self.trims = task.trims

    def trimmed(self, batch: Batch) -> Batch:
        small = self.task.trimmed(batch)
        if small is batch:
            return batch
        length = ops.shape(small["input_mask"])[-1]
        names = _OF_POSITIONS.get(self.task.kind, ())
        return {**small, **{name: batch[name][..., :length] for name in names}}

    def targets(self, batch: Batch) -> Tensors:
        """Return the number of labels, and of targets from the teacher: float32 scalars."""
        return {**self.task.targets(batch), LOSS: ops.sum(batch[SOFT_WEIGHTS])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets, times its weight: float32 scalars."""
        sums = self.task.losses(batch, outputs)
        sums[self.task.kind] = (1 - self.weight) * sums[self.task.kind]
        soft = ops.sum(self._soft_losses(batch, outputs) * batch[SOFT_WEIGHTS])
        return {**sums, LOSS: self.weight * soft}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        return self.task.metrics(batch, outputs)

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the task's means; each loss but the sum of all, `loss`, is freed of its weight."""
        report = self.task.report(means)
        own = f"{self.task.kind}_loss"
        if self.weight == 1:
            report.pop(own, None)  # 0 whatever it was
        for name, weight in ((f"{LOSS}_loss", self.weight), (own, 1 - self.weight)):
            if name in report:
                report[name] /= weight
        return report

    def _soft_losses(self, batch: Batch, outputs: Batch) -> Tensor:
        """Return the loss against the teacher of each example or tag, `[B]` or `[B, T]`."""
        kind, soft = self.task.kind, [batch[name] for name in SOFT[self.task.kind]]
        if kind == "score":
            return ops.square(ops.cast(outputs["score"], "float32") - soft[0])
        if kind == "span":
            real = ops.reshape(batch["input_mask"], ops.shape(soft[0])) != 0  # [B, T]
            parts = [
                self._divergences(outputs[f"{end}_logits"], ops.where(real, logits, -1e9))
                for end, logits in zip(("start", "end"), soft, strict=True)
            ]
            return sum(parts) / len(parts)
        logits = ops.swapaxes(soft[0], -1, -2) if kind == "tag" else soft[0]  # [B, T, K]
        return self._divergences(outputs[f"{kind}_logits"], logits)

    def _divergences(self, logits: Tensor, soft: Tensor) -> Tensor:
        return divergences(ops.cast(logits, "float32"), soft, self.temperature)
