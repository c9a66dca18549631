"""The training steps that `tfnlp plan` compiles: tasks without values, shapes of their batches."""

from collections.abc import Iterable
from typing import Any

from tfnlp.families.family import Plan


def _rates(arguments: Any) -> dict[str, Any]:
    return {
        "dropout": arguments.dropout,
        "attention_dropout": arguments.dropout,
        "dtype": arguments.dtype,
    }


def masked_plan(name: str, sizes: Iterable[str], vocab_size: int, label: str = "") -> Plan:
    """Return the plan of a masked language model.

    `label` is that of a pair of segments in the batch, such as "next_sentence_labels"; "": none.
    """

    def task(sizes: dict[str, Any], arguments: Any) -> Any:
        from tfnlp import models
        from tfnlp.objectives import BertPretraining

        model = getattr(models, name)(**{**sizes, **_rates(arguments)})
        return BertPretraining(getattr(models, f"{name}_pretrainer")(model))

    def batch(sizes: dict[str, Any], arguments: Any) -> dict[str, tuple]:
        labels = {label: ((arguments.rows,), "int32")} if label else {}
        return {**masked_batch(arguments), **labels}

    return Plan(
        lengths=dict.fromkeys(sizes, 128),
        prefix=f"{name}-",
        vocab_size=vocab_size,
        task=task,
        batch=batch,
        options=("predictions",),
        pretrain={"length": "--seq-length", "predictions": "--max-predictions"},
    )


def masked_batch(arguments: Any) -> dict[str, tuple]:
    """Return the shapes of a masked batch without labels of pairs."""
    from tfnlp.data import masked_positions

    rows, length = arguments.rows, arguments.length
    predictions = arguments.predictions or masked_positions(length)
    tokens, masked = (rows, length), (rows, predictions)
    return {
        "input_word_ids": (tokens, "int32"),
        "input_mask": (tokens, "int32"),
        "input_type_ids": (tokens, "int32"),
        "masked_lm_positions": (masked, "int32"),
        "masked_lm_ids": (masked, "int32"),
        "masked_lm_weights": (masked, "float32"),
    }


def _gpt_task(sizes: dict[str, Any], arguments: Any) -> Any:
    from tfnlp import models
    from tfnlp.objectives import GPTPretraining

    return GPTPretraining(models.gpt_pretrainer(models.gpt(**sizes, **_rates(arguments))))


def _gpt_batch(sizes: dict[str, Any], arguments: Any) -> dict[str, tuple]:
    tokens = (arguments.rows, arguments.length)
    return {
        "input_word_ids": (tokens, "int32"),
        "input_mask": (tokens, "int32"),
        "targets": (tokens, "int32"),
        "weights": (tokens, "float32"),
    }


def _elmo_task(sizes: dict[str, Any], arguments: Any) -> Any:
    """Return the task of both language models.

    Words that come twice go through the character network twice: a step that looks at distinct
    words only is for devices whose shapes may depend on the data, see `ElmoPretraining`.
    """
    import numpy as np

    from tfnlp import models
    from tfnlp.models.elmo import MAX_CHARACTERS
    from tfnlp.objectives import ElmoPretraining
    from tfnlp.settings.elmo import ElmoSettings

    encoder = models.elmo(**sizes, dropout=arguments.dropout, dtype=arguments.dtype)
    samples = ElmoSettings.samples if arguments.samples is None else arguments.samples
    pretrainer = models.elmo_pretrainer(
        encoder, arguments.vocab_size, samples or None, dropout=arguments.dropout
    )
    characters = np.zeros((arguments.vocab_size, MAX_CHARACTERS), "int16")
    return ElmoPretraining(pretrainer, characters, arguments.rows, distinct=False)


def _elmo_batch(sizes: dict[str, Any], arguments: Any) -> dict[str, tuple]:
    window = (arguments.rows, arguments.length)
    words = ("forward_ids", "backward_ids", "forward_targets", "backward_targets")
    return {**{name: (window, "int32") for name in words}, "weights": (window, "float32")}


GPT_PLAN = Plan(
    lengths={
        "gpt": 512,
        "mini": 512,
        **dict.fromkeys(("gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl"), 1024),
    },
    prefix="gpt-",
    vocab_size=40478,
    task=_gpt_task,
    batch=_gpt_batch,
)
ELMO_PLAN = Plan(
    lengths=dict.fromkeys(("mini", "small", "medium", "original"), 20),
    prefix="elmo-",
    vocab_size=793471,
    task=_elmo_task,
    batch=_elmo_batch,
    options=("samples",),
    loss_scale=lambda arguments: arguments.length / 2,
    in_encoder=False,
    pretrain={"length": "--window", "samples": "--samples"},
)
