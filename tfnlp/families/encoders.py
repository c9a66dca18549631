"""What BERT and the encoders after it share as families.

`encoder_family` fills a record with it. The family's name is that of its function in
`tfnlp.models` and of its module in `tfnlp.checkpoints`; both are imported when they are needed.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tfnlp.families import fitting
from tfnlp.families.checked import text_flag
from tfnlp.families.export_checks import check_format, chosen, only_savedmodel
from tfnlp.families.family import Examples, Family, Fitting, Measured
from tfnlp.families.masked_text import MaskedText, sizes_of_config
from tfnlp.families.packing import packed_pretrainer, was_packed
from tfnlp.families.preparation import kept_vocabulary
from tfnlp.families.saved import saved_pair
from tfnlp.families.sentences import (
    of_tokens,
    sentences_module,
    settings_to_save,
    vector_graphs,
)
from tfnlp.families.starts import model_to_go_on_from
from tfnlp.families.strings import string_vectors
from tfnlp.families.subwords import WORDPIECE, Subwords
from tfnlp.settings.examples import CasedExamplesSettings, ExamplesSettings, PairExamplesSettings
from tfnlp.settings.sizes import CHANGED_SIZES
from tfnlp.settings.use import EvaluateSettings, ExportSettings

_ROWS = {  # of examples, by `MaskedText.second`
    None: "windows of sentences",
    "random": "sentence pairs",
    "swapped": "pairs of segments, half of them swapped",
    "following": "pairs of following segments",
}
EVALUATION = {"text": None, "batch_size": 32, "seq_length": None, "batches": 100, "seed": 1}
EXPORTS = (
    "seq_length", "format", "fill", "top", "weights", "litert", "onnx", "combined", "sentences",
    "pooling",
)  # fmt: skip


def encoder_family(name: str, text: MaskedText, **own: Any) -> Family:
    """Return the record of an encoder."""
    if text.second is not None:
        examples_config = PairExamplesSettings
    else:
        examples_config = CasedExamplesSettings if text.subwords.cased else ExamplesSettings
    summary = f"{_ROWS[text.second]}; masks are drawn when they are read"
    shared = {
        "checkpoints": f"config.json beside Hugging Face's weights of {own['title']}",
        "examples": Examples(summary, examples_config, text.examples),
        "sections": {
            "arguments": (name, frozenset({"name", "dtype", "packed"})),
            "heads": (f"{name}_pretrainer", frozenset({"name", "encoder"})),
        },
        "pretrainer": f"{name}_pretrainer",
        "start": functools.partial(start, name),
        "row": ("seq_length", "num_layers", "hidden_size"),
        "prepare": text.prepare,
        "restore": restore,
        "recognise": lambda folder, names, model_type: model_type == name,
        "read": functools.partial(read, name),
        "saved": saved_pair,
        "saved_layout": "bert",
        "evaluate": functools.partial(evaluate, text.batches),
        "evaluation": EVALUATION,
        "export": functools.partial(export, functools.partial(save, name)),
        "exports": EXPORTS,
        "vectors": vectors,
        "sentences": sentences,
    }
    return Family(name=name, **{**shared, **own})


def encoder_fitting(name: str, subwords: Subwords = WORDPIECE, **own: Any) -> Fitting:
    """Return how an encoder is fine-tuned."""
    shared = {
        "reader": fitting.bert_reader,
        "fine_tuned": fitting.fine_tuned_encoder,
        "packs": True,
        "features": fitting.encoder_features,
        "keep_vocabulary": subwords.keep,
        "restore_tokenizer": subwords.restore,
        "task_files": functools.partial(task_files, name),
        "write_tokenizer": functools.partial(write_tokenizer, name),
    }
    return Fitting(**{**shared, **own})


def _files(name: str) -> Any:
    """Return the published files of a family, such as `tfnlp.checkpoints.bert.BERT_FILES`."""
    return getattr(importlib.import_module(f"tfnlp.checkpoints.{name}"), f"{name.upper()}_FILES")


def encoder_sizes(name: str, config: Any, before: Any) -> dict[str, Any]:
    """Return the encoder's arguments: see `MaskedText.sizes`."""
    from tfnlp import models
    from tfnlp.checkpoints.encoder_config import config_of

    published = getattr(models, f"{name.upper()}_{config.size.upper()}")
    old = None if before is None else config_of(_files(name), before.encoder)
    return sizes_of_config(config, published, old)


def read(name: str, path: str, dtype: str | None = None) -> Any:
    """Return the `Pretrained` of published files: see `Family.read`."""
    from tfnlp.checkpoints.encoders import load_encoder

    return load_encoder(_files(name), path, dtype=dtype)


def start(name: str, config: Any) -> Any:
    """Return the model of the family `name` that `config.start` names, or None."""
    words = tuple(name for name in ("vocab", "cased") if hasattr(config, name))
    before = model_to_go_on_from(config, name, (*CHANGED_SIZES, "max_positions"), words)
    heads = {} if before is None or before.pretrainer is None else before.pretrainer.output
    if before is not None and "mlm_logits" not in heads:
        raise ValueError(f"{config.start} has no masked-LM head to go on with; give one that has")
    return before


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the encoder of a run."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.families.recognition import run_family

    family = run_family(path, run)
    has_case = hasattr(family.config, "cased")
    lowercase = text_flag(path, run, "lowercase") if has_case else None
    encoder, pretrainer = family.build(run["arguments"], run["heads"], dtype)
    return Pretrained(
        encoder,
        pretrainer,
        run["arguments"],
        make_tokenizer=lambda: family.fitting.restore_tokenizer(path, lowercase),
        vocabulary=kept_vocabulary(path),
        lowercase=lowercase,
    )


def evaluate(
    batches: Callable[..., Any],
    loaded: Any,
    config: EvaluateSettings,
    objective: Callable[[Any], Any] | None = None,
) -> Measured:
    """Return the losses and accuracies of the pretraining heads on held-out text.

    `batches` is `MaskedText.batches`; `objective` is a function of the pretrainer to the task,
    None: `BertPretraining`.
    """
    from tfnlp import training
    from tfnlp.data import TokenizedCorpus, masked_positions
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.objectives import BertPretraining

    if loaded.pretrainer is None:
        raise ValueError(
            f"{loaded.path} has neither a masked-LM nor a next-sentence head to evaluate"
        )
    positions = loaded.config["max_positions"]
    length = config.seq_length or min(128, positions)
    if length > positions:
        raise ValueError(f"`seq_length` {length} is longer than the model's {positions} positions")
    documents = list(documents_of(config.text, config.layout))
    packed = was_packed(loaded)
    made = batches(
        TokenizedCorpus.build(documents, loaded.tokenizer),
        loaded.tokenizer,
        batch_size=config.batch_size,
        seq_length=length,
        max_predictions=masked_positions(length),
        seed=config.seed,
        pack=packed,
    )
    model = packed_pretrainer(loaded) if packed else loaded.pretrainer
    task = (objective or BertPretraining)(model)
    trainer = training.Trainer(task, training.AdamW(), 1e-4)
    results = trainer.evaluate(made.evaluation_batches(config.batches))
    return Measured(results, "\n".join(f"{n:28s}{value:.4f}" for n, value in results.items()))


def vectors(loaded: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to the encoder's outputs that the exported pair would be."""
    from tfnlp.hub import BertPreprocessorModule

    return string_vectors(loaded, BertPreprocessorModule, special=2)


def sentences(loaded: Any, settings: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to one vector each: see `Family.sentences`."""
    return of_tokens(loaded.encoder, fitting.bert_reader(loaded), loaded, settings)


def save(name: str, loaded: Any, config: ExportSettings) -> None:
    """Write Hugging Face's files, or the encoder and its pooling for sentence-transformers."""
    from tfnlp.checkpoints.encoders import save_encoder

    model, sentences = loaded.pretrainer or loaded.encoder, None
    tokenizer = None if loaded.vocabulary is None else loaded.tokenizer
    if config.format == "sentence-transformers":
        if tokenizer is None:
            raise ValueError(f"{loaded.path} has no vocabulary, which sentence-transformers needs")
        model, sentences = loaded.encoder, settings_to_save(loaded)
    save_encoder(_files(name), model, config.output, tokenizer, config.overwrite, sentences)


def task_files(name: str) -> Any:
    """Return how fine-tuned checkpoints of the family `name` are read and written."""
    from tfnlp.checkpoints.encoder_tasks import encoder_task_files

    return encoder_task_files(_files(name))


def write_tokenizer(name: str, folder: str, reader: Any, arguments: dict[str, Any]) -> None:
    """Write the files of a vocabulary: see `Fitting.write_tokenizer`."""
    _files(name).tokenizer.write(folder, reader.tokenizer, arguments.get("max_positions", 512))


def export(
    save: Callable[[Any, ExportSettings], None], loaded: Any, config: ExportSettings
) -> dict[str, str]:
    """Write `encoder` and `preprocessor`, one module that fills masks, or what `save` writes."""
    from tfnlp import hub
    from tfnlp.hub.modules.fill import export_fill

    pair_only = ("seq_length", "weights", "litert", "onnx", "combined")
    for name in chosen(config, pair_only) if config.fill else ():
        raise ValueError(f"`{name}` is for the pair, not for `fill`")
    if config.top is not None and not config.fill:
        raise ValueError("`top` is for `fill`")
    formats = ("huggingface", "sentence-transformers")
    if check_format(config, formats, loaded.family.title) != "savedmodel":
        others = tuple(name for name in EXPORTS if name not in ("format", "top"))
        only_savedmodel(config, others)
        save(loaded, config)
        return {"checkpoint": config.output}
    if config.sentences or config.pooling:
        reader = fitting.bert_reader(loaded)
        return sentences_module(loaded, config, loaded.encoder, reader)
    if config.fill:
        top = 5 if config.top is None else config.top
        return {"module": export_fill(
            config.output, loaded.pretrainer, loaded.tokenizer, top, config.overwrite
        )}  # fmt: skip
    positions = loaded.config["max_positions"]
    length = min(128 if config.seq_length is None else config.seq_length, positions)
    graphs = vector_graphs(loaded, config, fitting.bert_reader(loaded), length)
    paths = hub.export_bert(
        config.output,
        loaded.encoder,
        loaded.tokenizer,
        loaded.pretrainer,
        seq_length=length,
        overwrite=config.overwrite,
        weights=config.weights,
        litert=graphs.litert,
        family=loaded.family.name,
        onnx=graphs.onnx,
        beside=graphs.beside,
        combined=config.combined,
    )
    names = ("module",) if config.combined else ("encoder", "preprocessor")
    paths = (paths,) if config.combined else paths
    return {**dict(zip(names, paths, strict=True)), **graphs.paths()}
