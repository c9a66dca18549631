"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019) as a family."""

import os
from collections.abc import Callable
from typing import Any

from tfnlp.families import examples, fitting
from tfnlp.families.checked import whole_number
from tfnlp.families.continuations import GPT_PREDICTION
from tfnlp.families.export_checks import check_format, only_savedmodel
from tfnlp.families.family import Examples, Family, Fitting, Measured
from tfnlp.families.gpt_text import perplexities, prepare
from tfnlp.families.packing import packed_pretrainer, was_packed
from tfnlp.families.plans import GPT_PLAN
from tfnlp.families.saved import saved_pair
from tfnlp.families.sentences import of_tokens, sentences_module, vector_graphs
from tfnlp.families.starts import model_to_go_on_from
from tfnlp.families.strings import string_vectors
from tfnlp.families.token_text import read_token_text
from tfnlp.settings.examples import GPTExamplesSettings
from tfnlp.settings.gpt import SIZES, GPTSettings
from tfnlp.settings.sizes import CHANGED_SIZES
from tfnlp.settings.use import EvaluateSettings, ExportSettings

_FILES = ("params_shapes.json", "params_0.npy", "hparams.json", "encoder.json")  # OpenAI's
_MODEL_TYPES = ("openai-gpt", "gpt2")


def start(config: GPTSettings) -> Any:
    """Return the GPT that `config.start` names, or None."""
    return model_to_go_on_from(config, "gpt", (*CHANGED_SIZES, "max_positions"), ("vocab",))


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the GPT of a run."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.text import gpt_tokenizer

    whole_number(path, run, "training.seq_length")
    vocabulary = os.path.join(path, "vocab")
    encoder, pretrainer = GPT.build(run["arguments"], {}, dtype)
    return Pretrained(
        encoder,
        pretrainer,
        run["arguments"],
        make_tokenizer=lambda: gpt_tokenizer(vocabulary),
        vocabulary=vocabulary,
    )


def read(path: str, dtype: str | None = None) -> Any:
    """Return the GPT of OpenAI's or Hugging Face's files."""
    from tfnlp import checkpoints

    return checkpoints.load_gpt(path, dtype=dtype)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds files of a GPT or GPT-2."""
    return any(name in _FILES for name in names) or model_type in _MODEL_TYPES


def evaluate(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return the perplexity per token and per word of a whole text."""
    from tfnlp import training
    from tfnlp.data import PackedDocuments, TokenWindows
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.objectives import GPTPretraining

    if loaded.pretrainer is None:
        raise ValueError(f"{loaded.path} is trained for vectors of sentences; give `pairs`")
    positions = loaded.config["max_positions"]
    trained = loaded.run["training"]["seq_length"] if loaded.run else positions
    window = config.seq_length or trained
    if not 1 <= window <= positions:
        raise ValueError(f"`seq_length` {window} must be from 1 to the model's {positions}")
    text = read_token_text(documents_of(config.text, config.layout, True), loaded.tokenizer)
    sizes = {"batch_size": config.batch_size, "window": min(window, text.tokens)}
    if was_packed(loaded):
        model = packed_pretrainer(loaded)
        windows = PackedDocuments(text.stream, loaded.tokenizer.end_id, **sizes)
    else:
        model, windows = loaded.pretrainer, TokenWindows(text.stream, **sizes)
    task = GPTPretraining(model, text.tokens_per_word)
    window = windows.window
    batches = windows.evaluation_batches(stride=config.stride or -(-window // 2))
    results = training.Trainer(task, training.AdamW(), 0.0).evaluate(batches)
    counts = {"lines": text.lines, "words": text.words, "tokens": text.tokens}
    return Measured(
        {**results, **counts},
        f"{text.tokens:,} tokens: {text.words:,} words and the ends of {text.lines:,} lines\n"
        f"{perplexities(results)}",
    )


def vectors(loaded: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to the model's outputs that the exported pair would be."""
    from tfnlp.hub import GPTPreprocessorModule

    return string_vectors(loaded, GPTPreprocessorModule, special=0)


def sentences(loaded: Any, settings: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to one vector each: see `Family.sentences`."""
    return of_tokens(loaded.encoder, _sentence_reader(loaded), loaded, settings)


def _sentence_reader(loaded: Any) -> Any:
    """Return the reader of texts without special tokens."""
    from tfnlp.text.task_readers import GPTReader

    return GPTReader(loaded.tokenizer, None)


def export(loaded: Any, config: ExportSettings) -> dict[str, str]:
    """Write `model` and `preprocessor`, or Hugging Face's files."""
    from tfnlp import checkpoints, hub

    if check_format(config, ("huggingface",), "a GPT") != "savedmodel":
        only_savedmodel(config, ("weights", "litert", "onnx", "sentences", "pooling"))
        checkpoints.save_gpt(config.output, loaded.pretrainer, loaded.tokenizer, config.overwrite)
        return {"checkpoint": config.output}
    if config.sentences or config.pooling:
        return sentences_module(loaded, config, loaded.encoder, _sentence_reader(loaded))
    if loaded.pretrainer is None:
        raise ValueError(f"{loaded.path} is trained for vectors of sentences; export `sentences`")
    length = 128 if config.seq_length is None else config.seq_length
    length = min(length, loaded.config["max_positions"])
    graphs = vector_graphs(loaded, config, _sentence_reader(loaded), length)
    model, preprocessor = hub.export_gpt(
        config.output,
        loaded.pretrainer,
        loaded.tokenizer,
        seq_length=length,
        overwrite=config.overwrite,
        weights=config.weights,
        graphs=graphs,
        title=str(loaded.path),
    )
    return {"model": model, "preprocessor": preprocessor, **graphs.paths()}


def _task_files() -> Any:
    from tfnlp.checkpoints.gpt_tasks import gpt_task_files

    return gpt_task_files()


def _write_tokenizer(folder: str, reader: Any, arguments: dict[str, Any]) -> None:
    """Write the files of a vocabulary: see `Fitting.write_tokenizer`."""
    from tfnlp.checkpoints.gpt_tasks import ENDS
    from tfnlp.checkpoints.tokenizers.byte_pairs import write_byte_pairs, write_task_tokens

    special = reader.special
    if special is not None and len(set(special)) < len(special):
        return  # of a loaded module: one token stands for three
    ends = None if special is None else ENDS
    positions = arguments.get("max_positions", 512)
    write_byte_pairs(folder, reader.tokenizer)
    write_task_tokens(folder, reader.tokenizer, arguments["vocab_size"], ends, positions)


GPT = Family(
    name="gpt",
    title="a GPT",
    config=GPTSettings,
    sizes=SIZES,
    sections={"arguments": ("gpt", frozenset({"name", "dtype", "packed"}))},
    start=start,
    pretrainer="gpt_pretrainer",
    row=("seq_length", "num_layers", "hidden_size"),
    prepare=prepare,
    restore=restore,
    recognise=recognise,
    read=read,
    checkpoints="OpenAI's params_*.npy or hparams.json, or Hugging Face's config.json of a GPT",
    saved=saved_pair,
    saved_layout="gpt",
    evaluate=evaluate,
    evaluation={"text": None, "batch_size": 16, "seq_length": None, "stride": None},
    export=export,
    exports=("seq_length", "format", "weights", "litert", "onnx", "sentences", "pooling"),
    vectors=vectors,
    sentences=sentences,
    fitting=Fitting(
        reader=fitting.gpt_reader,
        fine_tuned=fitting.fine_tuned_gpt,
        features=fitting.gpt_features,
        learning_rates=(5e-4, 6.25e-5),
        warmup=0.002,
        keep_vocabulary=fitting.keep_bpe,
        restore_tokenizer=fitting.restore_bpe,
        task_files=_task_files,
        write_tokenizer=_write_tokenizer,
        language_model=True,
        both_orders=True,
        sentence_reader=_sentence_reader,
    ),
    examples=Examples(
        "windows of text",
        GPTExamplesSettings,
        examples.gpt_examples,
    ),
    plan=GPT_PLAN,
    prediction=GPT_PREDICTION,
)
