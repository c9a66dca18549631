"""BERT (Devlin et al. 2019) as a family."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import examples, fitting
from tfnlp.families.bert_text import prepare
from tfnlp.families.config import (
    CHANGED_SIZES,
    PositionConfig,
    StartConfig,
    SubwordTextConfig,
    TrainingConfig,
    refuse_with_start,
)
from tfnlp.families.examples_config import BertExamplesConfig
from tfnlp.families.family import Examples, Family, Fitting, Measured
from tfnlp.families.masks import BERT_PREDICTION
from tfnlp.families.plans import BERT_PLAN
from tfnlp.families.preparation import same_folder
from tfnlp.families.use_config import (
    EvaluateConfig,
    ExportConfig,
    check_format,
    only_savedmodel,
)

SIZES = {
    name: f"BERT_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base", "large")
}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None,
    steps={"help": "updates (default: 10000, or those of the epochs)"},
    batch_size=32, learning_rate=5e-4, warmup=0.1, schedule="linear", optimizer="bert_adamw",
    weight_decay=0.01, clip_norm=1.0,
)  # fmt: skip
class BertConfig(TrainingConfig, PositionConfig, StartConfig, SubwordTextConfig):
    """Masked LM and next sentence; for small models on one machine.

    The paper: batches of 256, 1e-4 at its peak, 10,000 of 1,000,000 steps of warm-up (A.2).
    """

    default_steps = 10_000
    cased: bool = option(False, "keep case and accents", group="text")
    size: str = option("tiny", "published size", choices=tuple(SIZES), group="model")
    max_predictions: int | None = option(
        None, "masks a sequence (default 15 %)", at_least=1, group="text", record="training"
    )
    whole_word: bool = option(False, "mask whole words", group="text", record="training")


@dataclasses.dataclass(kw_only=True)
@redefine(
    text={
        "default": dataclasses.MISSING, "flag": "--train",
        "help": "text to learn from, given like --input of `tfnlp pretrain`",
    },
    valid={"flag": "--dev"},
    start={
        "default": dataclasses.MISSING, "flag": "--model", "help": "a BERT with its masked-LM head",
    },
    held_out={"help": "without --dev: share of --train held out"},
    seq_length={
        "default": None,
        "help": "tokens a training sequence (default: 128, or the model's positions if fewer)",
    },
    epochs=10, learning_rate={
        "default": None, "help": "peak learning rate (default: 1e-4, narrower than 768 3e-4)",
    },
    warmup=0.06,
    **{name: {"hidden": True} for name in (
        "vocab", "vocab_size", "cased", "examples", "size", "max_positions", "initializer_range",
        *CHANGED_SIZES,
    )},
)  # fmt: skip
class FillConfig(BertConfig):
    """Go on with the masked LM of a BERT on other text.

    The numbers are those of Gururangan et al. 2020 ("Don't stop pretraining", appendix): AdamW,
    1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """


def start(config: BertConfig) -> Any:
    """Return the BERT that `config.start` names, or None.

    Raises:
        ValueError: if training can't go on from it, or arguments contradict it.
    """
    from tfnlp.families.recognition import load_pretrained

    if config.start is None:
        return None
    if same_folder(config.start, config.output):
        raise ValueError(
            f"`output` {config.output} is the model that training starts from; give a new folder"
        )
    sizes = (*CHANGED_SIZES, "max_positions")
    refuse_with_start(config, sizes, "can't be changed with `start`")
    refuse_with_start(
        config, ("vocab", "cased"), "can't be given with `start`, which has a vocabulary"
    )
    before = load_pretrained(config.start)
    if before.family is not BERT:
        raise ValueError(f"{config.start} is {before.family.title}; only a BERT fills masked words")
    if before.pretrainer is None or "mlm_logits" not in before.pretrainer.output:
        raise ValueError(f"{config.start} has no masked-LM head to go on with; give one that has")
    return before


def settle(config: BertConfig, before: Any) -> BertConfig:
    """Return the config with a length and a rate that suit the model to go on from."""
    changes = {}
    if config.seq_length is None:
        changes["seq_length"] = min(128, before.config["max_positions"]) if before else 128
    if config.learning_rate is None:
        narrow = before is not None and before.config["hidden_size"] < 768
        changes["learning_rate"] = 3e-4 if narrow else 1e-4
    return config.replace(**changes)


def build(arguments: dict[str, Any], heads: dict[str, Any], dtype: str | None) -> tuple[Any, Any]:
    """Return encoder and pretrainer with new weights."""
    from tfnlp import models

    encoder = models.bert(**arguments, dtype=dtype)
    return encoder, models.bert_pretrainer(encoder, **heads)


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the BERT of a run."""
    from tfnlp.convert.pretrained import Pretrained
    from tfnlp.families.checked import text_flag
    from tfnlp.text import WordPieceTokenizer

    lowercase = text_flag(path, run, "lowercase")
    vocabulary = os.path.join(path, "vocab.txt")
    encoder, pretrainer = build(run["arguments"], run["heads"], dtype)
    return Pretrained(
        encoder,
        pretrainer,
        run["arguments"],
        make_tokenizer=lambda: WordPieceTokenizer(vocabulary, lowercase=lowercase),
        vocabulary=vocabulary,
        lowercase=lowercase,
    )


def read(path: str, dtype: str | None = None) -> Any:
    """Return the BERT of Google's or Hugging Face's files."""
    from tfnlp import convert

    return convert.load_bert(path, dtype=dtype)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds files of a BERT."""
    if model_type is not None:
        return model_type == BERT.name
    return "bert_config.json" in names or "config.json" in names and "params_0.npy" not in names


def saved(path: str) -> Any:
    """Return the encoder and tokenizer of exported modules."""
    from tfnlp.families.saved import saved_pair

    return saved_pair(path)


def evaluate(loaded: Any, config: EvaluateConfig) -> Measured:
    """Return losses and accuracies of masked LM and next sentence on held-out text."""
    from tfnlp import training
    from tfnlp.data import BertPairs, TokenizedCorpus, masked_positions
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.tasks import BertPretraining

    if loaded.pretrainer is None:
        raise ValueError(
            f"{loaded.path} has neither a masked-LM nor a next-sentence head to evaluate"
        )
    positions = loaded.config["max_positions"]
    if config.seq_length > positions:
        raise ValueError(
            f"`seq_length` {config.seq_length} is longer than the model's {positions} positions"
        )
    documents = list(documents_of(config.text, config.layout))
    pairs = BertPairs(
        TokenizedCorpus.build(documents, loaded.tokenizer),
        loaded.tokenizer,
        batch_size=config.batch_size,
        seq_length=config.seq_length,
        max_predictions=masked_positions(config.seq_length),
        seed=config.seed,
    )
    trainer = training.Trainer(BertPretraining(loaded.pretrainer), training.AdamW(), 1e-4)
    results = trainer.evaluate(pairs.evaluation_batches(config.batches))
    return Measured(results, "\n".join(f"{n:28s}{value:.4f}" for n, value in results.items()))


def vectors(loaded: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to the encoder's outputs that the exported pair would be."""
    from tfnlp.families.strings import string_vectors
    from tfnlp.hub import BertPreprocessorModule

    return string_vectors(loaded, BertPreprocessorModule, special=2)


def export(loaded: Any, config: ExportConfig) -> dict[str, str]:
    """Write `encoder` and `preprocessor`, one module that fills masks, or other files."""
    from tfnlp import convert, hub
    from tfnlp.hub.modules.fill import export_fill

    if config.fill and config.seq_length is not None:
        raise ValueError("`seq_length` is for the pair; with `fill` texts are as long as they are")
    if config.fill and (config.weights or config.litert):
        name = "weights" if config.weights else "litert"
        raise ValueError(f"`{name}` is for the pair, not for `fill`")
    if config.top is not None and not config.fill:
        raise ValueError("`top` is for `fill`")
    if check_format(config, ("huggingface",), "a BERT") != "savedmodel":
        only_savedmodel(config, ("fill", "weights", "litert", "seq_length"))
        model = loaded.pretrainer or loaded.encoder
        convert.save_huggingface(model, config.output, loaded.vocabulary, loaded.lowercase)
        return {"checkpoint": config.output}
    if config.fill:
        top = 5 if config.top is None else config.top
        return {"module": export_fill(
            config.output, loaded.pretrainer, loaded.tokenizer, top, config.overwrite
        )}  # fmt: skip
    positions = loaded.config["max_positions"]
    encoder, preprocessor = hub.export_bert(
        config.output,
        loaded.encoder,
        loaded.tokenizer,
        loaded.pretrainer,
        seq_length=min(128 if config.seq_length is None else config.seq_length, positions),
        overwrite=config.overwrite,
        weights=config.weights,
        litert=config.litert,
    )
    written = {"encoder": encoder, "preprocessor": preprocessor}
    return written if config.litert is None else {**written, "litert": config.litert}


def _model_functions() -> tuple[Any, Any]:
    from tfnlp import models

    return models.bert, models.bert_pretrainer


BERT = Family(
    name="bert",
    title="a BERT",
    summary="Pretrain a BERT: masked LM and next sentence.",
    config=BertConfig,
    sizes=SIZES,
    sections={
        "arguments": (lambda: _model_functions()[0], frozenset({"name", "dtype"})),
        "heads": (lambda: _model_functions()[1], frozenset({"name", "encoder"})),
    },
    start=start,
    settle=settle,
    build=build,
    row=("seq_length", "num_layers", "hidden_size"),
    prepare=prepare,
    restore=restore,
    recognise=recognise,
    read=read,
    checkpoints="bert_config.json or config.json beside the weights of Google or Hugging Face",
    saved=saved,
    saved_layout="bert",
    evaluate=evaluate,
    evaluation={
        "text": None, "batch_size": 32, "seq_length": 128, "batches": 100, "seed": 1,
    },
    export=export,
    exports=("seq_length", "format", "fill", "top", "weights", "litert"),
    vectors=vectors,
    fitting=Fitting(
        reader=fitting.bert_reader,
        fine_tuned=fitting.fine_tuned_bert,
        features=fitting.encoder_features,
        keep_vocabulary=fitting.keep_wordpiece,
        restore_tokenizer=fitting.restore_wordpiece,
    ),
    examples=Examples(
        "sentence pairs; masks are drawn when they are read",
        BertExamplesConfig,
        examples.bert_examples,
    ),
    plan=BERT_PLAN,
    prediction=BERT_PREDICTION,
)  # fmt: skip
