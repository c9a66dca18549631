"""Heads of task models: layers on the outputs of an encoder, by the kind of output."""

import abc
from collections.abc import Callable
from typing import ClassVar

import keras
from keras import ops

from tfnlp.layers import CRF, Dropout
from tfnlp.layers.base import Initializer, Tensor
from tfnlp.models.coreference import Coreference

Outputs = dict[str, Tensor]
Layer = Callable[[Tensor], Tensor]


def _same(h: Tensor) -> Tensor:
    return h


class Head(abc.ABC):
    """What a task model has above its encoder; arguments as of `bert_task`.

    Attributes:
        of_tokens: whether it stands on the vectors of tokens, not of whole sequences.
        of_documents: whether a row is a document, in windows one after the other.
        packs: whether rows of several examples can have it.
        several: whether each sequence of an example has an output of its own.
        least: the least K; 0: it has no classes.
    """

    name: ClassVar[str]
    of_tokens: ClassVar[bool] = False
    of_documents: ClassVar[bool] = False
    packs: ClassVar[bool] = True
    several: ClassVar[bool] = False
    least: ClassVar[int] = 0

    def __init__(
        self, classes: int | None, sequences: int, crf: float, window: int | None, width: int | None
    ) -> None:
        self.classes, self.sequences, self.crf = classes, sequences, crf
        self.window, self.width = window, width


class SequenceHead(Head):
    """`W sum_c h_c + b`, of a layer named "classifier"."""

    def _dense(self, h: Tensor, initializer: keras.Initializer, bias: bool = True) -> Tensor:
        dense = keras.layers.Dense(
            self.classes or 1,
            use_bias=bias,
            kernel_initializer=initializer,
            dtype="float32",
            name="classifier",
        )
        return dense(ops.cast(h, "float32"))

    def outputs(self, h: Tensor, initializer: keras.Initializer) -> Outputs:
        """Return the named outputs, float32, of h `[B, C, F]`, the kernel filled by `initializer`.

        Of packed rows h is `[B, S, C, F]`, and S follows B in what is returned.
        """
        total = ops.sum(ops.cast(h, "float32"), axis=-2)
        return {f"{self.name}_logits": self._dense(total, initializer)}  # [B, K]


class ClassHead(SequenceHead):
    """`class_logits` `[B, K]`."""

    name, least = "class", 2


class LabelHead(SequenceHead):
    """`label_logits` `[B, K]`, of any number of the K classes at once."""

    name, least = "label", 1


class ScoreHead(SequenceHead):
    """`score` `[B]`."""

    name = "score"

    def outputs(self, h: Tensor, initializer: keras.Initializer) -> Outputs:
        total = ops.sum(ops.cast(h, "float32"), axis=-2)
        return {"score": self._dense(total, initializer)[..., 0]}


class ScoresHead(SequenceHead):
    """`scores` `[B, K]`, numbers of any size."""

    name, least = "scores", 1

    def outputs(self, h: Tensor, initializer: keras.Initializer) -> Outputs:
        return {"scores": super().outputs(h, initializer)["scores_logits"]}


class ChoiceHead(SequenceHead):
    """`choice_logits = w . h_c` `[B, C]`, the same w for each sequence c.

    A bias would not change a softmax over the choices.
    """

    name, packs, several = "choice", False, True

    def outputs(self, h: Tensor, initializer: keras.Initializer) -> Outputs:
        return {"choice_logits": self._dense(h, initializer, bias=False)[..., 0]}


class TokenHead(Head):
    """A head on the vectors of tokens."""

    of_tokens: ClassVar[bool] = True

    @abc.abstractmethod
    def outputs(self, h: Tensor, real: Tensor, initializer: Initializer, **_: Layer) -> Outputs:
        """Return the named outputs, float32, of h `[B, T, F]`; `real` is bool `[B, T]`.

        Tags take `drop`, the dropout on h; spans `above`, what stands between h and the vectors
        that ends are found in.
        """


class TagHead(TokenHead):
    """`tag_logits = W h_t + b` `[B, T, K]`, of a layer named "classifier".

    With a CRF they are the emissions of a layer named "crf", which is part of the model.
    """

    name, least = "tag", 1

    def outputs(
        self, h: Tensor, real: Tensor, initializer: Initializer, drop: Layer = _same, **_: Layer
    ) -> Outputs:
        dense = keras.layers.Dense(
            self.classes, kernel_initializer=initializer, dtype="float32", name="classifier"
        )
        logits = dense(ops.cast(drop(h), "float32"))
        if self.crf:
            logits = CRF(self.classes, rate=self.crf, name="crf")(logits)
        return {"tag_logits": logits}


class SpanHead(TokenHead):
    """`start_logits = s . h_t` and `end_logits = e . h'_t` `[B, T]` where t is real, else -1e9.

    BERT, section 4.2; h' is what stands `above` h. There is no bias: it would not change a softmax
    over the positions.
    """

    name, packs = "span", False

    def outputs(
        self, h: Tensor, real: Tensor, initializer: Initializer, above: Layer = _same, **_: Layer
    ) -> Outputs:
        outputs = {}
        for name, vectors in (("start", h), ("end", above(h))):
            dense = keras.layers.Dense(
                1,
                use_bias=False,
                kernel_initializer=initializer.clone(),  # itself would give both the same values
                dtype="float32",
                name=name,
            )
            logits = dense(ops.cast(vectors, "float32"))[..., 0]  # [B, T]
            outputs[f"{name}_logits"] = ops.where(real, logits, -1e9)
        return outputs


class MentionHead(Head):
    """What `tfnlp.models.Coreference` returns of the words of a document.

    Inputs beside the others: int32 `word_positions` `[B, T]`, where the words stand among the
    tokens of all windows, then zeros. T is a multiple of the window.
    """

    name, packs, of_documents = "mention", False, True

    def inputs(self, seq_length: int | None) -> dict[str, Tensor]:
        """Return the symbolic input that a model of documents has beside those of windows."""
        return {"word_positions": keras.Input((seq_length,), dtype="int32", name="word_positions")}

    def windows(self, x: Tensor) -> Tensor:
        """Return x `[B, T, ...]` as windows `[B T / window, window, ...]`."""
        return ops.reshape(x, (-1, self.window, *x.shape[2:]))

    def outputs(
        self, h: Tensor, positions: Tensor, initializer: keras.Initializer, dropout: float
    ) -> Outputs:
        """Return the named outputs, float32, of the vectors of windows `[N, window, F]`."""
        scores = Coreference(
            self.width,
            dropout=dropout,
            kernel_initializer=initializer,
            dtype="float32",
            name="coreference",
        )
        return scores(ops.cast(h, "float32"), positions)


HEADS = {head.name: head for head in (
    ClassHead, LabelHead, ScoreHead, ScoresHead, ChoiceHead, TagHead, SpanHead, MentionHead,
)}  # fmt: skip


def head_of(
    output: str,
    num_classes: int | None,
    sequences: int,
    crf: float = 0.0,
    both_orders: bool = False,
    window: int | None = None,
    width: int | None = None,
) -> Head:
    """Return the head of a kind of output; `both_orders`: other than choices may have sequences.

    Raises:
        ValueError: if the arguments of a task model do not fit together.
    """
    if output not in HEADS:
        raise ValueError(f"output={output!r} must be one of {', '.join(map(repr, HEADS))}")
    head = HEADS[output](num_classes, sequences, crf, window, width)
    if bool(head.least) != (num_classes is not None) or (num_classes or 0) < head.least:
        raise ValueError(f"num_classes={num_classes} does not fit output={output!r}")
    fits = sequences == 1 or (both_orders and not head.of_tokens)
    if not (sequences > 1 if head.several else fits):
        raise ValueError(f"sequences={sequences} does not fit output={output!r}")
    if not crf >= 0 or crf and not isinstance(head, TagHead):
        raise ValueError(f"crf={crf} does not fit output={output!r}; only tags have a rate above 0")
    if any((x is not None) != head.of_documents for x in (window, width)):
        raise ValueError(f"window={window} and width={width} do not fit output={output!r}")
    return head


def fold(x: Tensor, sequences: int) -> Tensor:
    """Return `[B, C, ...]` as `[C*B, ...]`: all first sequences, then all second ones."""
    return ops.concatenate([x[:, c] for c in range(sequences)], axis=0)


def unfold(x: Tensor, sequences: int) -> Tensor:
    """Return `[C*B, ...]` as `[B, C, ...]`."""
    return ops.stack(ops.split(x, sequences, axis=0), axis=1)


def hidden_layer(
    h: Tensor, activation: str, dropout: float, initializer: keras.Initializer
) -> Tensor:
    """Return `f(V drop(h) + c)`, float32 `[B, H]`, of a layer named "hidden".

    The activation f is a name of Keras, `dropout` the rate on h, the initializer that of V.
    """
    h = Dropout(dropout, name="hidden_dropout")(ops.cast(h, "float32"))
    dense = keras.layers.Dense(
        h.shape[-1],
        activation=activation,  # Keras's "gelu" is the exact one
        kernel_initializer=initializer,
        dtype="float32",
        name="hidden",
    )
    return dense(h)


def crf_of(model: keras.Model) -> CRF | None:
    """Return the layer that a model with `tag_logits` scores sequences of tags with, or None."""
    found = [layer for layer in model._flatten_layers() if isinstance(layer, CRF)]
    return found[0] if found else None
