"""ELECTRA (Clark et al. 2020) as a family."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from tfnlp.families import encoders, fitting
from tfnlp.families.family import Measured
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.plans import masked_plan
from tfnlp.families.preparation import Preparation
from tfnlp.families.replaced import ELECTRA_PREDICTION, discriminator
from tfnlp.families.starts import refuse_with_start
from tfnlp.families.subwords import WORDPIECE
from tfnlp.settings.electra import SIZES, ElectraSettings
from tfnlp.settings.use import EvaluateSettings, ExportSettings

GENERATOR_SIZES = {"base": 1 / 3}  # of other sizes 1/4: the paper, table 6


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `electra_pretrainer`."""
    if before is None:
        size = config.generator_size or GENERATOR_SIZES.get(config.size, 0.25)
        return {"generator_size": size, "initializer_range": config.initializer_range}
    block = before.encoder.get_layer("layer_0")
    smaller = before.pretrainer.get_layer("generator_layer_0")
    widths = [one.output_norm.gamma.shape[0] for one in (smaller, block)]
    return {
        "generator_size": widths[0] / widths[1],
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


def _copy_weights(before: Any, encoder: Any, pretrainer: Any) -> None:
    old = {variable.path: variable for variable in before.pretrainer.trainable_variables}
    for variable in pretrainer.trainable_variables:
        variable.assign(old[variable.path])


def objective(pretrainer: Any, weight: float) -> Any:
    """Return the task of generator and discriminator."""
    from tfnlp.objectives import ElectraPretraining

    return ElectraPretraining(pretrainer, weight)


ELECTRA_TEXT = MaskedText(
    title="ELECTRA",
    subwords=WORDPIECE,
    second="following",
    sizes=functools.partial(encoders.encoder_sizes, "electra"),
    heads=_heads,
    copy_weights=_copy_weights,
)


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what ELECTRA's pretraining needs: masked pairs and both losses."""
    task = functools.partial(objective, weight=config.discriminator_weight)
    return dataclasses.replace(ELECTRA_TEXT, objective=task).prepare(config, before, strategy)


def start(config: ElectraSettings) -> Any:
    """Return the ELECTRA that `config.start` names, or None."""
    if config.start is not None:
        refuse_with_start(config, ("generator_size",), "can't be changed with `start`")
    before = encoders.start("electra", config)
    if before is not None and "replaced" not in before.pretrainer.output:
        raise ValueError(
            f"{config.start} is a generator alone; give a run, or a checkpoint of both"
        )
    return before


def read(path: str, dtype: str | None = None) -> Any:
    """Return the ELECTRA of Hugging Face's files."""
    from tfnlp import checkpoints

    return checkpoints.load_electra(path, dtype=dtype)


def evaluate(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return losses and accuracies of the pretraining heads on held-out text."""
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    if "discriminator_logits" in outputs and "mlm_logits" not in outputs:
        raise ValueError(
            f"{loaded.path} has no generator, whose samples the discriminator is measured on"
        )
    task = None
    if "replaced" in outputs:
        trained = {} if loaded.run is None else loaded.run.get("training", {})
        weight = trained.get("discriminator_weight", ElectraSettings.discriminator_weight)
        task = functools.partial(objective, weight=weight)
    return encoders.evaluate(ELECTRA_TEXT.batches, loaded, config, task)


def export(loaded: Any, config: ExportSettings) -> dict[str, str]:
    """Write `encoder` and `preprocessor`, or the files of other libraries."""
    if config.format == "sentence-transformers":  # the encoder without heads
        return encoders.export(functools.partial(encoders.save, "electra"), loaded, config)

    def save(_: Any, config: ExportSettings) -> None:
        from tfnlp import checkpoints

        model = loaded.pretrainer or loaded.encoder
        tokenizer = None if loaded.vocabulary is None else loaded.tokenizer
        checkpoints.save_electra(model, config.output, tokenizer, config.overwrite)

    alone = loaded
    if loaded.pretrainer is not None and "discriminator_logits" in loaded.pretrainer.output:
        alone = dataclasses.replace(loaded, pretrainer=discriminator(loaded))
    return encoders.export(save, alone, config)


def _plan_task(task: Callable, sizes: dict[str, Any], arguments: Any) -> Any:
    from tfnlp.objectives import ElectraPretraining

    return ElectraPretraining(task(sizes, arguments).model)


_PLAN = masked_plan("electra", SIZES, vocab_size=30522)
ELECTRA = encoders.encoder_family(
    "electra",
    ELECTRA_TEXT,
    title="an ELECTRA",
    config=ElectraSettings,
    sizes=SIZES,
    start=start,
    prepare=prepare,
    read=read,
    evaluate=evaluate,
    export=export,
    exports=tuple(name for name in encoders.EXPORTS if name not in ("fill", "top")),
    fitting=encoders.encoder_fitting(
        "electra",
        fine_tuned=functools.partial(fitting.fine_tuned_encoder, hidden="gelu"),
    ),
    plan=dataclasses.replace(_PLAN, task=functools.partial(_plan_task, _PLAN.task)),
    prediction=ELECTRA_PREDICTION,
)  # fmt: skip
