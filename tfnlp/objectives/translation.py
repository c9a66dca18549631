"""Training of an encoder-decoder on pairs of sentences, and BLEU, computed by sacreBLEU."""

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import keras
from keras import ops

from tfnlp.extras import needed
from tfnlp.layers.base import Tensor
from tfnlp.objectives.cross_entropy import smoothed_cross_entropy
from tfnlp.objectives.objective import Batch, Objective, Sums, Tensors, with_perplexity


class Translation(Objective):
    """Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4).

    `loss = mean_t -sum_v q_tv log softmax(lm_logits_t)_v`, `q_t = (1 - epsilon) onehot(target_t)
    + epsilon / V`, over the real targets of the global batch.

    Args:
        model: from `tfnlp.models.transformer` or `tfnlp.models.seq2seq`.
        label_smoothing: epsilon.

    Batch: the model's inputs and, `[B, T]`, int32 `target_ids`, the tokens to predict (the
    decoder's inputs shifted by one place), and float32 `weights` (1 for real targets).

    Metrics: `token_accuracy`; `nll`, the mean of `-log p` without smoothing; `perplexity`, its
    exponential.
    """

    def __init__(self, model: keras.Model, label_smoothing: float = 0.1) -> None:
        super().__init__(model)
        self.label_smoothing = label_smoothing

    def tokens(self, batch: Batch) -> Tensor:
        source = ops.sum(ops.cast(batch["input_mask"], "float32"))
        return source + ops.sum(batch["weights"])

    def targets(self, batch: Batch) -> Tensors:
        return {"translation": ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        losses = smoothed_cross_entropy(
            outputs["lm_logits"], batch["target_ids"], self.label_smoothing
        )  # [B, T]
        return {"translation": ops.sum(losses * batch["weights"])}

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators of accuracy and plain loss, over the number of tokens to predict."""
        logits, ids, weights = outputs["lm_logits"], batch["target_ids"], batch["weights"]
        of_target = ops.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]
        right = ops.cast(of_target >= ops.max(logits, -1), "float32")  # [B, T]
        plain = smoothed_cross_entropy(logits, ids, 0.0)
        return {
            "token_accuracy": ("translation", ops.sum(right * weights)),
            "nll": ("translation", ops.sum(plain * weights)),
        }

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `perplexity = exp(nll)`."""
        return with_perplexity(means, "nll")


class LengthScore(NamedTuple):
    """BLEU of the `count` sentences whose sources have `shortest` to `longest` words."""

    shortest: int
    longest: int
    count: int
    bleu: float


def sacrebleu() -> ModuleType:
    """Return `sacrebleu.metrics`; call it before slow work."""
    return needed("sacrebleu.metrics", "sacrebleu", "translation", "BLEU")


def corpus_bleu(translations: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Return BLEU in percent and sacreBLEU's signature, which says how it was computed.

    `BLEU = 100 min(1, exp(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)` over the corpus, p_n the share of
    n-grams of the translations that the references have, c and r the lengths of both (Papineni et
    al. 2002), with mteval's tokens ("13a") and case-sensitive (Post 2018).
    """
    metric = sacrebleu().BLEU()
    score = metric.corpus_score(list(translations), [list(references)])
    return score.score, str(metric.get_signature())


def bleu_by_length(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    groups: int = 6,
) -> list[LengthScore]:
    """Return BLEU of sentences grouped by the length of their sources in words.

    There are at most so many groups, each with about as many sentences; sources of one length are
    in one group.
    """
    lengths = [len(source.split()) for source in sources]
    ordered = sorted(lengths)
    # A group ends with all sentences of the length at which it is full.
    ends = {ordered[-(-len(ordered) * i // groups) - 1] for i in range(1, groups + 1)}
    scores, start = [], ordered[0]
    for end in sorted(ends):
        rows = [i for i, length in enumerate(lengths) if start <= length <= end]
        score, _ = corpus_bleu([translations[i] for i in rows], [references[i] for i in rows])
        scores.append(LengthScore(start, end, len(rows), score))
        start = end + 1
    return scores
