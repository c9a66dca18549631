"""ALBERT (Lan et al. 2020) as a family."""

import dataclasses
import functools
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import encoders, fitting
from tfnlp.families.albert_text import ALBERT_TEXT, keep_vocabulary, restore_tokenizer
from tfnlp.families.config import (
    MaskedTextConfig,
    PositionConfig,
    StartConfig,
    TrainingConfig,
)
from tfnlp.families.examples_config import BertExamplesConfig
from tfnlp.families.family import Examples, Family, Fitting
from tfnlp.families.masks import PredictBert, mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.use_config import ExportConfig

SIZES = {
    name: f"ALBERT_{name.upper()}"
    for name in ("tiny", "mini", "small", "medium", "base", "large", "xlarge", "xxlarge")
}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None,
    steps={"help": "updates (default: 10000, or those of the epochs)"},
    batch_size=32, learning_rate=5e-4, warmup=0.1, schedule="linear", optimizer="bert_adamw",
    weight_decay=0.01, clip_norm=1.0, dropout=0.0,
    vocab={"help": "spiece.model; built from the text if absent"},
)  # fmt: skip
class AlbertConfig(TrainingConfig, PositionConfig, StartConfig, MaskedTextConfig):
    """Masked LM and sentence order; for small models on one machine.

    The paper (section 4.1): LAMB, 1.76e-3 at its peak, batches of 4,096 rows of 512 tokens,
    125,000 steps, spans of up to three words masked together (here single tokens, or whole words
    with `whole_word`).
    """

    default_steps = 10_000
    cased: bool = option(False, "keep case and accents", group="text")
    size: str = option(
        "tiny", "size; base, large, xlarge and xxlarge are the paper's",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
@redefine(vocab={"help": "spiece.model; built from --input if absent, by one process"})
class AlbertExamplesConfig(BertExamplesConfig):
    """Pairs of segments, half of them swapped; masks are drawn when they are read."""


@dataclasses.dataclass(kw_only=True)
@redefine(pair={"help": "second text: does it follow the (one) text, or come before it?"})
class PredictAlbert(PredictBert):
    """Arguments of `tfnlp predict albert`."""


def read(path: str, dtype: str | None = None) -> Any:
    """Return the ALBERT of Hugging Face's files."""
    from tfnlp import convert

    return convert.load_albert(path, dtype=dtype)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds files of an ALBERT."""
    return model_type == ALBERT.name


def save(loaded: Any, config: ExportConfig) -> None:
    """Write Hugging Face's files."""
    from tfnlp import convert

    model = loaded.pretrainer or loaded.encoder
    convert.save_albert(model, config.output, loaded.tokenizer, config.overwrite)


def _model_functions() -> tuple[Any, Any]:
    from tfnlp import models

    return models.albert, models.albert_pretrainer


def _files() -> Any:
    from tfnlp.convert.albert import ALBERT_FILES

    return ALBERT_FILES


ALBERT = Family(
    name="albert",
    title="an ALBERT",
    summary="Pretrain an ALBERT: masked LM and sentence order.",
    config=AlbertConfig,
    sizes=SIZES,
    sections=encoders.sections(_model_functions),
    start=functools.partial(encoders.start, lambda: ALBERT),
    build=functools.partial(encoders.build, _model_functions),
    row=encoders.ROW,
    prepare=ALBERT_TEXT.prepare,
    restore=encoders.restore,
    recognise=recognise,
    read=read,
    checkpoints="config.json beside Hugging Face's weights of an ALBERT",
    saved=encoders.saved,
    saved_layout="bert",
    evaluate=functools.partial(encoders.evaluate, ALBERT_TEXT.batches),
    evaluation=encoders.EVALUATION,
    export=functools.partial(encoders.export, save),
    exports=encoders.EXPORTS,
    vectors=encoders.vectors,
    fitting=Fitting(
        reader=fitting.bert_reader,
        fine_tuned=fitting.fine_tuned_encoder,
        features=fitting.encoder_features,
        keep_vocabulary=keep_vocabulary,
        restore_tokenizer=restore_tokenizer,
        task_files=functools.partial(encoders.task_files, _files),
    ),
    examples=Examples(
        "pairs of segments, half of them swapped; masks are drawn when they are read",
        AlbertExamplesConfig,
        ALBERT_TEXT.examples,
    ),
    plan=masked_plan(
        "albert",
        "albert_pretrainer",
        prefix="albert-",
        sizes=tuple(SIZES),
        vocab_size=30000,
        label="sentence_order_labels",
    ),
    prediction=mask_prediction(
        "albert",
        "Fill in [MASK], or tell whether one text follows another, with an ALBERT.",
        PredictAlbert,
        "[MASK]",
    ),
)
