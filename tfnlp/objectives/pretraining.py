"""What models learn in pretraining: BERT, ELECTRA, GPT, ELMo, an NNLM, word2vec and GloVe."""

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.cross_entropy import (
    TiedSoftmax,
    best_class,
    cross_entropy,
    masked_softmax,
    whole_sums,
)
from tfnlp.objectives.objective import (
    Batch,
    Objective,
    Sums,
    Tensors,
    perplexity,
    with_perplexity,
)
from tfnlp.optional_tensorflow import tf

_PAIR_LABELS = ("next_sentence", "sentence_order")
_PADDING = 261  # the character that fills up a word


class BertPretraining(Objective):
    """Masked LM (BERT, section 3.1), next-sentence prediction and sentence order (ALBERT, 3.1).

    `loss = -mean_p log softmax(mlm_logits_p)[id_p] - mean_b log softmax(pair_logits_b)[label_b]`,
    each mean taken over the real targets of the whole global batch.

    Args:
        model: a pretrainer with some of the outputs `mlm_logits`, `next_sentence_logits` and
            `sentence_order_logits`; each that it has is learnt.

    Batch: the model's inputs and, as its heads need them, int32 `masked_lm_ids` `[B, P]`, float32
    `masked_lm_weights` `[B, P]` (1 for real predictions), int32 `next_sentence_labels` `[B]`
    (0: B follows A, 1: B is random), int32 `sentence_order_labels` `[B]` (0: B follows A, 1: A
    follows B). Of packed rows the labels are `[B, S]`, and float32 `next_sentence_weights` or
    `sentence_order_weights` `[B, S]` are 1 for real pairs.

    Raises:
        ValueError: for a model without any of these outputs.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        self.masked_lm = "mlm_logits" in model.output
        self.pair_labels = tuple(n for n in _PAIR_LABELS if f"{n}_logits" in model.output)
        if not (self.masked_lm or self.pair_labels):
            raise ValueError(f"model has no head to learn; its outputs are {sorted(model.output)}")
        self._softmax = masked_softmax(model) if self.masked_lm else None

    def outputs(self, batch: Batch, training: bool) -> Tensors:
        """Return the model's outputs and, of its own masked LM, `mlm_sums`: loss and hits."""
        if self._softmax is None:
            return super().outputs(batch, training)
        softmax, model = self._softmax
        outputs = model(self.inputs(batch), training=training)
        rest = outputs["mlm_logits"], batch["masked_lm_ids"], batch["masked_lm_weights"]
        return {**outputs, "mlm_sums": softmax.sums(outputs["mlm_hidden"], *rest)}

    def targets(self, batch: Batch) -> Tensors:
        counts = {}
        if self.masked_lm:
            counts["masked_lm"] = ops.sum(batch["masked_lm_weights"])
        for name in self.pair_labels:
            counts[name] = ops.sum(_pair_weights(batch, name))
        return counts

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        sums = {}
        if self.masked_lm:
            sums["masked_lm"] = _masked_sums(batch, outputs)[0]
        for name in self.pair_labels:
            losses = cross_entropy(outputs[f"{name}_logits"], batch[f"{name}_labels"])  # [B]
            sums[name] = ops.sum(losses * _pair_weights(batch, name))
        return sums

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        hits = {}
        if self.masked_lm:
            hits["masked_lm_accuracy"] = ("masked_lm", _masked_sums(batch, outputs)[1])
        for name in self.pair_labels:
            guess = best_class(outputs[f"{name}_logits"])
            right = ops.cast(guess == batch[f"{name}_labels"], "float32")
            hits[f"{name}_accuracy"] = (name, ops.sum(right * _pair_weights(batch, name)))
        return hits


def _masked_sums(batch: Batch, outputs: Batch) -> tuple[Tensor, Tensor]:
    """Return the sums of losses and of hits at masked positions."""
    if "mlm_sums" in outputs:
        return outputs["mlm_sums"]
    ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
    return whole_sums(outputs["mlm_logits"], ids, weights)


def _pair_weights(batch: Batch, name: str) -> Tensor:
    """Return which pairs count, float32 `[B]` or `[B, S]`."""
    weights = batch.get(f"{name}_weights")
    return ops.ones_like(batch[f"{name}_labels"], "float32") if weights is None else weights


class ElectraPretraining(Objective):
    """Masked LM of the generator and replaced-token detection (ELECTRA, section 2, equation 1).

    `loss = -mean_p log softmax(mlm_logits_p)[id_p]
        + weight mean_t (-r_t log sigmoid(d_t) - (1 - r_t) log(1 - sigmoid(d_t)))`

    p runs over the masked positions and t over the real tokens of the whole global batch; d are the
    discriminator's logits, and r_t is 1 where the discriminator reads another token than the text
    has. A sample that equals the token of the text is not replaced. Nothing flows back from the
    discriminator through the samples.

    Args:
        model: from `tfnlp.models.electra_pretrainer`.
        discriminator_weight: weight of the second mean, the paper's 50.

    Batch: the model's inputs, see `tfnlp.data.SentencePairs`; other entries are not read.
    """

    def __init__(self, model: keras.Model, discriminator_weight: float = 50.0) -> None:
        super().__init__(model)
        self.discriminator_weight = discriminator_weight

    def targets(self, batch: Batch) -> Tensors:
        return {
            "masked_lm": ops.sum(batch["masked_lm_weights"]),
            "discriminator": ops.sum(ops.cast(batch["input_mask"], "float32")),
        }

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        """Return the sum of each loss over its targets, the discriminator's with its weight."""
        discriminator = ops.binary_crossentropy(
            outputs["replaced"], outputs["discriminator_logits"], from_logits=True
        )  # [B, T]
        real = ops.cast(batch["input_mask"], "float32")
        return {
            "masked_lm": _masked_sums(batch, outputs)[0],
            "discriminator": self.discriminator_weight * ops.sum(discriminator * real),
        }

    def metrics(self, batch: Batch, outputs: Batch) -> Sums:
        """Return numerators over masked positions, or over real tokens.

        `masked_lm_accuracy` of the generator and `discriminator_accuracy`; the shares of tokens
        that are `replaced`, that the discriminator calls `marked`, and that are both, `found`.
        """
        real = ops.cast(batch["input_mask"], "float32")
        replaced = outputs["replaced"] * real  # [B, T]
        marked = ops.cast(outputs["discriminator_logits"] > 0, "float32") * real
        sums = {
            "discriminator_accuracy": ops.cast(replaced == marked, "float32") * real,
            "replaced": replaced,
            "marked": marked,
            "found": replaced * marked,
        }
        return {
            "masked_lm_accuracy": ("masked_lm", _masked_sums(batch, outputs)[1]),
            **{name: ("discriminator", ops.sum(value)) for name, value in sums.items()},
        }

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with the discriminator's loss without weight, precision and recall.

        `precision = found / marked`, 0 where nothing was marked, and `recall = found / replaced`
        take the place of `marked` and `found`; without replaced tokens there is neither.
        """
        if "found" not in means:
            return means
        kept = {name: x for name, x in means.items() if name not in ("marked", "found")}
        found, marked, replaced = (means[name] for name in ("found", "marked", "replaced"))
        if "discriminator_loss" in kept:
            kept["discriminator_loss"] /= self.discriminator_weight
        if not replaced:
            return kept
        precision = found / marked if marked else 0.0
        rates = {"discriminator_precision": precision, "discriminator_recall": found / replaced}
        return {**kept, **rates}


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


class Word2Vec(Objective):
    """The loss of a `word2vec` model, the mean over pairs of a word and a neighbour.

    CBOW has one pair for each word: the mean of its neighbours, and itself.

    Args:
        model: from `tfnlp.models.word2vec`.
        words_per_block: words of the text that a block covers, with those that subsampling leaves
            out; used only for the speed that is shown.

    Batch: see `tfnlp.data.WordBlocks`.
    """

    def __init__(self, model: keras.Model, words_per_block: float | None = None) -> None:
        super().__init__(model)
        self.words_per_block = words_per_block
        self._of_means = model.get_layer("loss").of_means

    def tokens(self, batch: Batch) -> Tensor | None:
        """Return the words of the text, see `words_per_block`."""
        if self.words_per_block is None:
            return None
        return self.words_per_block * ops.cast(ops.shape(batch["left"])[0], "float32")

    def targets(self, batch: Batch) -> Tensors:
        pairs = batch["left"] + batch["right"]  # [B, L]
        if self._of_means:
            pairs = ops.minimum(pairs, 1)
        return {"pairs": ops.cast(ops.sum(pairs), "float32")}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"pairs": ops.sum(outputs["losses"])}


class GloVe(Objective):
    """`mean over cells (i, j) of f(X_ij) (w_i . w~_j + b_i + b~_j - log X_ij)^2`.

    Pennington, Socher & Manning 2014, equation 8, divided by the number of cells.

    Args:
        model: from `tfnlp.models.glove`.

    Batch: see `tfnlp.data.CooccurrenceBatches`.
    """

    def tokens(self, batch: Batch) -> Tensor:
        return ops.sum(ops.cast(batch["counts"] > 0, "float32"))

    def targets(self, batch: Batch) -> Tensors:
        return {"cells": self.tokens(batch)}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"cells": ops.sum(outputs["losses"])}


class NNLMPretraining(Objective):
    """`loss = -mean_t log p(w_t | w_{t-n+1} .. w_{t-1})` (Bengio et al. 2003, section 2).

    The paper's penalty, the squares of the weights, is the optimizer's weight decay here.

    Args:
        model: from `tfnlp.models.nnlm_pretrainer`.

    Batch: see `tfnlp.data.Ngrams`.
    """

    def tokens(self, batch: Batch) -> Tensor:
        return ops.sum(batch["weights"])

    def targets(self, batch: Batch) -> Tensors:
        return {"lm": ops.sum(batch["weights"])}

    def losses(self, batch: Batch, outputs: Batch) -> Tensors:
        return {"lm": ops.sum(outputs["losses"] * batch["weights"])}

    def report(self, means: dict[str, float]) -> dict[str, float]:
        """Return the means with `perplexity` per word."""
        return with_perplexity(means, "lm_loss")
