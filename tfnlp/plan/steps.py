"""The training steps of BERT, ELMo and GPT with uninitialised weights.

Only shapes matter to a compiler: weights and optimizer slots are made without being filled, so a
model of a billion weights takes neither time nor the host's memory.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp import models, training
from tfnlp.data import masked_positions
from tfnlp.models.elmo import MAX_CHARACTERS
from tfnlp.tasks import BertPretraining, ElmoPretraining, GPTPretraining, Task
from tfnlp.training.step import Step

Sizes = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A training step of one replica, ready to be compiled.

    Args:
        model: the pretrainer, a Keras model.
        function: of the tensors that `specs` describe; updates weights and slots in place.
        specs: tuple of `tf.TensorSpec`.
        optimizer: built.
        state: further tensors and variables on the device.
    """

    model: keras.Model
    function: Callable
    specs: tuple[tf.TensorSpec, ...]
    optimizer: Any
    state: tuple

    @property
    def parameters(self) -> int:
        """Number of trained weights."""
        return sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients, which replicas exchange in a step."""
        return sum(_bytes(v) for v in self.model.trainable_variables)

    @property
    def argument_bytes(self) -> dict[str, int]:
        """Bytes of the step's arguments by kind, without the padding of tiles."""
        return {
            "weights": self.gradient_bytes,
            "slots": sum(_bytes(v) for v in self.optimizer.slots.values()),
            "state": sum(_bytes(v) for v in self.state),
            "batch": sum(_bytes(s) for s in self.specs),
        }


def _bytes(x: Any) -> int:
    return int(np.prod(x.shape)) * tf.as_dtype(x.dtype).size


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Optimizer and schedule of a family."""

    optimizer: str
    weight_decay: float
    clip_norm: float
    schedule: str
    learning_rate: float


BERT = Recipe("adamw", 0.01, 1.0, "linear", 1e-4)
GPT = Recipe("adamw", 0.01, 1.0, "cosine", 2.5e-4)
ELMO = Recipe("adagrad", 0.0, 10.0, "constant", 0.2)


def bert_step(
    sizes: Sizes,
    batch: int,
    length: int,
    predictions: int | None = None,
    dropout: float = 0.1,
    bf16: bool = True,
    **options: Any,
) -> PlannedStep:
    """Return the step of masked LM and next sentence on `batch` rows of `length` tokens.

    Args:
        sizes: arguments of `tfnlp.models.bert`.
        predictions: masked positions per row; None: 15 %, at most 20 at length 128 (the paper's).
        dropout: rate of all dropouts.
        bf16: matrix products in bfloat16.
        options: see `planned_step`.
    """
    predictions = predictions or masked_positions(length)
    with _uninitialised():
        encoder = models.bert(
            **sizes, dropout=dropout, attention_dropout=dropout, dtype=_policy(bf16)
        )
        task = BertPretraining(models.bert_pretrainer(encoder))
    tokens, masked = (batch, length), (batch, predictions)
    return planned_step(
        task,
        {
            "input_word_ids": tf.TensorSpec(tokens, "int32"),
            "input_mask": tf.TensorSpec(tokens, "int32"),
            "input_type_ids": tf.TensorSpec(tokens, "int32"),
            "masked_lm_positions": tf.TensorSpec(masked, "int32"),
            "masked_lm_ids": tf.TensorSpec(masked, "int32"),
            "masked_lm_weights": tf.TensorSpec(masked, "float32"),
            "next_sentence_labels": tf.TensorSpec((batch,), "int32"),
        },
        BERT,
        **options,
    )


def gpt_step(
    sizes: Sizes,
    batch: int,
    length: int,
    dropout: float = 0.1,
    bf16: bool = True,
    **options: Any,
) -> PlannedStep:
    """Return the step of language modelling; arguments as of `bert_step`."""
    with _uninitialised():
        encoder = models.gpt(
            **sizes, dropout=dropout, attention_dropout=dropout, dtype=_policy(bf16)
        )
        task = GPTPretraining(models.gpt_pretrainer(encoder))
    tokens = (batch, length)
    return planned_step(
        task,
        {
            "input_word_ids": tf.TensorSpec(tokens, "int32"),
            "input_mask": tf.TensorSpec(tokens, "int32"),
            "targets": tf.TensorSpec(tokens, "int32"),
            "weights": tf.TensorSpec(tokens, "float32"),
        },
        GPT,
        **options,
    )


def elmo_step(
    sizes: Sizes,
    batch: int,
    length: int,
    vocab_size: int,
    samples: int = 8192,
    dropout: float = 0.1,
    bf16: bool = True,
    **options: Any,
) -> PlannedStep:
    """Return the step of both language models on `batch` windows of `length` words.

    A word that occurs twice goes through the character network twice: distinct words alone make
    shapes that depend on the data, which a TPU does not allow, see `ElmoPretraining`.

    Args:
        sizes: arguments of `tfnlp.models.elmo`.
        vocab_size: words of the softmax.
        samples: words of the sampled softmax; 0: the full one.
        dropout, bf16, options: as of `bert_step`.
    """
    with _uninitialised():
        encoder = models.elmo(**sizes, dropout=dropout, dtype=_policy(bf16))
        pretrainer = models.elmo_pretrainer(encoder, vocab_size, samples or None, dropout=dropout)
        characters = np.zeros((vocab_size, MAX_CHARACTERS), "int16")
        task = ElmoPretraining(pretrainer, characters, batch, distinct=False)
    window = (batch, length)
    words = ("forward_ids", "backward_ids", "forward_targets", "backward_targets")
    return planned_step(
        task,
        {
            **{name: tf.TensorSpec(window, "int32") for name in words},
            "weights": tf.TensorSpec(window, "float32"),
        },
        ELMO,
        loss_scale=length / 2,
        state=(task.characters, *task.state.values()),
        **options,
    )


def planned_step(
    task: Task,
    batch: Mapping[str, tf.TensorSpec],
    recipe: Recipe,
    *,
    optimizer: str | None = None,
    accumulation: int = 1,
    loss_scale: float = 1.0,
    state: Sequence[Any] = (),
) -> PlannedStep:
    """Return `Step.train` of one replica as a function of tensors alone.

    Args:
        task: see `tfnlp.tasks`.
        batch: dict of `tf.TensorSpec`.
        recipe: a `Recipe`.
        optimizer: name of another optimizer than the recipe's.
        accumulation, loss_scale: of `tfnlp.training.Trainer`.
        state: tensors and variables that the task keeps on the device.
    """
    built = training.optimizer(optimizer or recipe.optimizer, recipe.weight_decay)
    with _uninitialised():
        built.build(task.model.trainable_variables)
    steps = 1_000_000  # of the schedule; any number, as it is a constant of the program
    step = Step(
        task,
        built,
        training.schedule(recipe.schedule, recipe.learning_rate, steps, steps // 100),
        recipe.clip_norm,
        accumulation,
        jit_compile=False,  # its caller is compiled
        seed=0,
        replicas=1,
        loss_scale=loss_scale,
    )
    names = list(batch)

    def train(number: tf.Tensor, *tensors: tf.Tensor) -> Any:
        return step.train(dict(zip(names, tensors, strict=True)), number)

    specs = (tf.TensorSpec((), "int64"), *batch.values())
    return PlannedStep(task.model, train, specs, built, tuple(state))


def _policy(bf16: bool) -> str:
    return "mixed_bfloat16" if bf16 else "float32"


def _uninitialised() -> contextlib.AbstractContextManager:
    """Return a scope in which variables get memory that is not initialised."""

    def make(next_creator: Callable, **kwargs: Any) -> tf.Variable:
        value = kwargs["initial_value"]
        if callable(value):
            with tf.Graph().as_default():  # for shape and type, without computing it
                value = value()
        if value.shape.rank:  # the value of a scalar may matter
            kwargs["initial_value"] = tf.raw_ops.Empty(
                shape=value.shape.as_list(), dtype=value.dtype, init=False
            )
        return next_creator(**kwargs)

    return tf.variable_creator_scope(make)
