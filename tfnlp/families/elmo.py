"""ELMo (Peters et al. 2018) as a family."""

import dataclasses
import os
import zlib
from collections.abc import Iterator
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import fitting
from tfnlp.families.config import (
    LAYOUT_HELP,
    LAYOUTS,
    StartConfig,
    TrainingConfig,
    WordTextConfig,
    refuse_with_start,
)
from tfnlp.families.family import Family, Fitting, Measured, Prediction
from tfnlp.families.plans import ELMO_PLAN
from tfnlp.families.preparation import (
    Preparation,
    Vocabulary,
    documents,
    same_folder,
    tokenized,
    word_vocabulary,
)
from tfnlp.families.use_config import (
    EvaluateConfig,
    ExportConfig,
    ModelConfig,
    check_format,
    chosen,
    only_savedmodel,
)

SIZES = {name: f"ELMO_{name.upper()}" for name in ("mini", "small", "medium", "original")}
_CHANGED = ("num_layers", "units", "projection_size", "num_highway")


@dataclasses.dataclass(kw_only=True)
@redefine(
    batch_size=128, learning_rate=0.2, warmup=0.0, schedule="constant", optimizer="adagrad",
    weight_decay=0.0, clip_norm=10.0,
)  # fmt: skip
class ElmoConfig(TrainingConfig, StartConfig, WordTextConfig):
    """The next and the previous word; the recipe of bilm-tf."""

    size: str = option(
        "small", "published size, or mini: a fortieth of the original's work, for a CPU",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip
    num_layers: int | None = option(
        None, "LSTM layers a direction, instead of the size's", at_least=1, group="model"
    )
    units: int | None = option(None, "LSTM cells, instead of the size's", at_least=1, group="model")
    projection_size: int | None = option(
        None, "width of word vectors and LSTM outputs, instead of the size's",
        at_least=1, group="model",
    )  # fmt: skip
    num_highway: int | None = option(
        None, "highway layers, instead of the size's", at_least=0, group="model"
    )
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1, group="model")
    samples: int = option(
        8192, "words in the sampled softmax; 0: all, always", at_least=0, group="model"
    )
    window: int = option(20, "words of back-propagation", group="text", record="training")
    reset: str = option(
        "never", "where the LSTM state, which goes on from window to window, is zeroed",
        choices=("never", "document", "sentence"), group="text", record="training",
    )  # fmt: skip


def start(config: ElmoConfig) -> Any:
    """Return the ELMo that `config.start` names, or None."""
    from tfnlp.families.recognition import load_pretrained

    if config.start is None:
        return None
    if same_folder(config.start, config.output):
        raise ValueError(
            f"`start` and `output` are the same folder, {config.output}; give a new `output`, or "
            "leave `start` out to resume the run"
        )
    refuse_with_start(config, _CHANGED, "can't be changed with `start`")
    before = load_pretrained(config.start, family=ELMO)
    if before.words is not None:
        why = f"can't be given with `start` {config.start}, which has a vocabulary"
        refuse_with_start(config, ("vocab", "max_vocab", "min_count"), why)
    return before


def prepare(config: ElmoConfig, before: Any, strategy: Any) -> Preparation:
    """Return what ELMo's pretraining needs: windows of running text, the losses of both LMs."""
    import tensorflow as tf

    from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
    from tfnlp.tasks import ElmoPretraining
    from tfnlp.text import read_words, write_words

    train_documents, valid_documents = (
        tokenized(part, config.tokenize) for part in documents(config)
    )
    known = None if before is None else before.words
    words = word_vocabulary(config, train_documents) if known is None else known
    train = LanguageModelCorpus.build(train_documents, words)
    valid = LanguageModelCorpus.build(valid_documents, words, lexicon=train.lexicon)
    windows = LanguageModelWindows(
        train,
        batch_size=config.batch_size,
        window=config.window,
        seed=config.seed,
        reset=config.reset,
    )
    held_out = held_out_windows(
        valid, config.batch_size, config.window, config.reset, strategy.num_replicas_in_sync
    )
    # A TPU's programs have fixed shapes.
    compiled = config.jit or isinstance(strategy, tf.distribute.TPUStrategy)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        width = encoder.get_layer("bilm").projection_size
        return (
            f"ELMo with {encoder.count_params() / 1e6:.2f} M parameters and a softmax over "
            f"{train.vocab_size:,} words ({train.vocab_size * (width + 1) / 1e6:.2f} M); "
            f"{train.num_tokens:,} tokens of {train.num_sentences:,} sentences, "
            f"{windows.steps_per_epoch:,} updates an epoch; held out: {valid.num_tokens:,} tokens"
        )

    return Preparation(
        batches=windows,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(words, read_words, write_words),
        arguments=_sizes(config, before),
        heads={"vocab_size": train.vocab_size, "num_samples": config.samples or None},
        unrecorded_heads={"dropout": config.dropout, "resets": config.reset != "never"},
        text={},
        corpus={"tokens": train.num_tokens, "crc32": zlib.crc32(train.ids.tobytes())},
        # All words that will be read have their characters here, those held out too.
        objective=lambda pretrainer: ElmoPretraining(
            pretrainer, valid.characters(), config.batch_size, distinct=not compiled
        ),
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches()),
        line=lambda when, results: f"held out, full softmax, {when}: {perplexities(results)}",
        first=before is not None,
        copy_weights=None if before is None else lambda e, p: _copy_weights(before, e, p),
        loss_scale=config.window / 2,
    )


def perplexities(results: dict[str, float]) -> str:
    """Return the perplexities of an evaluation as text."""
    return (
        f"perplexity {results['perplexity']:.2f} (forward {results['forward_perplexity']:.2f}, "
        f"backward {results['backward_perplexity']:.2f})"
    )


def held_out_windows(corpus: Any, batch_size: int, window: int, reset: str, replicas: int) -> Any:
    """Return windows to evaluate on, in fewer rows than in training where the text is short."""
    from tfnlp.data import LanguageModelWindows

    # A row starts without context; let that be one window in ten.
    rows = min(batch_size, corpus.num_tokens // (10 * window)) // replicas * replicas
    rows = max(rows, replicas)
    window = min(window, max(1, corpus.num_tokens // rows))
    return LanguageModelWindows(corpus, batch_size=rows, window=window, reset=reset)


def _sizes(config: ElmoConfig, before: Any) -> dict[str, Any]:
    from tfnlp import models

    if before is not None:
        return {**before.config, "dropout": config.dropout}
    sizes = dict(getattr(models, SIZES[config.size]))
    sizes.update({n: getattr(config, n) for n in _CHANGED if getattr(config, n) is not None})
    return {**sizes, "dropout": config.dropout}


def _copy_weights(before: Any, encoder: Any, pretrainer: Any) -> None:
    encoder.set_weights(before.encoder.get_weights())
    if before.pretrainer is not None and before.words is not None:
        softmax = pretrainer.get_layer("softmax")
        kept = before.pretrainer.get_layer("softmax")
        softmax.kernel.assign(kept.kernel)
        softmax.bias.assign(kept.bias)


def build(arguments: dict[str, Any], heads: dict[str, Any], dtype: str | None) -> tuple[Any, Any]:
    """Return encoder and pretrainer with new weights."""
    from tfnlp import models

    encoder = models.elmo(**arguments, dtype=dtype)
    return encoder, models.elmo_pretrainer(encoder, **heads)


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the ELMo of a run."""
    from tfnlp.convert.pretrained import Pretrained
    from tfnlp.families.checked import find, wrong
    from tfnlp.text import read_words

    reset = find(path, run, "training.reset")
    if not isinstance(reset, str):
        wrong(path, "training.reset", reset, "a word")
    heads = {**run["heads"], "resets": reset != "never"}
    encoder, pretrainer = build(run["arguments"], heads, dtype)
    words = read_words(os.path.join(path, "vocab.txt"))
    return Pretrained(encoder, pretrainer, run["arguments"], words=words)


def read(path: str, dtype: str | None = None) -> Any:
    """Return the ELMo of bilm-tf's or AllenNLP's files."""
    from tfnlp import convert

    return convert.load_elmo(path, dtype=dtype)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds the weights of an ELMo."""
    return any(name.endswith(".hdf5") for name in names)


def saved(path: str) -> Any:
    """Return an exported ELMo: it has no Keras model, but gives vectors and can be fine-tuned."""
    from tfnlp.convert.pretrained import Pretrained

    return Pretrained(None, None, {})


def evaluate(loaded: Any, config: EvaluateConfig) -> Measured:
    """Return the perplexities of a run over all tokens of a text, with the full softmax."""
    from tfnlp import training
    from tfnlp.data import LanguageModelCorpus
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.tasks import ElmoPretraining

    if loaded.run is None:
        raise ValueError(
            f"{loaded.path} does not say which words it predicts; give a run of "
            "`tfnlp pretrain elmo`"
        )
    run = loaded.run
    tokenize = config.tokenize or run.get("text", {}).get("tokenize", False)
    documents = tokenized(list(documents_of(config.text, config.layout)), tokenize)
    corpus = LanguageModelCorpus.build(documents, loaded.words)
    trained = run["training"]
    windows = held_out_windows(
        corpus,
        config.batch_size or trained["batch_size"],
        trained["window"],
        trained["reset"],
        1,
    )
    task = ElmoPretraining(loaded.pretrainer, corpus.characters(), windows.batch_size)
    trainer = training.Trainer(task, training.Adagrad(), 0.0)
    results = trainer.evaluate(windows.evaluation_batches())
    return word_measures(corpus, results, perplexities(results))


def word_measures(corpus: Any, results: dict[str, float], shown: str) -> Measured:
    """Return perplexities with the counts of a text in words."""
    unknown = (corpus.ids >= corpus.vocab_size) | (corpus.ids == corpus.unknown_id)
    counts = {
        "sentences": corpus.num_sentences,
        "words": corpus.num_words,
        "unknown_words": int(unknown.sum()),
        "tokens": corpus.num_tokens,
    }
    return Measured(
        {**results, **counts},
        f"{counts['tokens']:,} tokens: {counts['words']:,} words "
        f"({counts['unknown_words']:,} of them not in the vocabulary) and the ends of "
        f"{counts['sentences']:,} sentences\nfull softmax: {shown}",
    )


def vectors(loaded: Any, texts: list[str]) -> Any:
    """Return the module's outputs for strings whose words are separated by spaces."""
    import tensorflow as tf

    from tfnlp.hub import ElmoModule
    from tfnlp.hub.loading.saved_model import load_module

    module = load_module(loaded.path) if loaded.encoder is None else ElmoModule(loaded.encoder)
    return module(tf.constant(texts))


def export(loaded: Any, config: ExportConfig) -> dict[str, str]:
    """Write a module, or the files of bilm-tf and AllenNLP."""
    from tfnlp import convert, hub

    names = ("trainable", "cache", "l2")
    if check_format(config, ("bilm",), "an ELMo") != "savedmodel":
        only_savedmodel(config, names)
        convert.save_elmo(config.output, loaded.encoder, loaded.pretrainer, config.overwrite)
        return {"checkpoint": config.output}
    module = hub.export_elmo(
        config.output, loaded.encoder, overwrite=config.overwrite, **chosen(config, names)
    )
    return {"module": module}


@dataclasses.dataclass(kw_only=True)
class PredictElmo(ModelConfig):
    """Arguments of `tfnlp predict elmo`."""

    text: list[str] = option(
        [], "with --word: sentences that hold it, words between spaces",
        positional=True, metavar="sentence",
    )  # fmt: skip
    word: str | None = option(None, "print its nearest neighbours in --corpus")
    corpus: Any = option(
        None,
        "text to look for neighbours in; may be given several times, also a glob in quotes",
        metavar="FILE", const="append",
    )  # fmt: skip
    layout: str = option("auto", f"of --corpus; {LAYOUT_HELP}", choices=LAYOUTS)
    tokenize: bool = option(
        False, "split punctuation off the words first, if the text has not been tokenized yet"
    )
    same: bool = option(False, "only neighbours that are --word too")
    top: int = option(5, "neighbours a sentence", at_least=1)
    layer: str = option(
        "lstm_outputs1", "vectors to compare: word_emb, lstm_outputs1, lstm_outputs2, ..."
    )
    input: str | None = option(None, "with --hdf5: a sentence a line", metavar="FILE")
    hdf5: str | None = option(None, "write all layers of --input to this file", metavar="FILE")
    carry_state: bool = option(
        False, "with --hdf5: carry the LSTM state from sentence to sentence, as bilm-tf does"
    )


def check_prediction(config: PredictElmo) -> None:
    """Check arguments before the model is loaded.

    Raises:
        ValueError: if there is nothing to do, or an argument lacks another.
        FileExistsError: if the HDF5 file exists.
    """
    if not (config.word or config.hdf5):
        raise ValueError("nothing to do: give `word` and `corpus`, or `input` and `hdf5`")
    if config.word and not (config.corpus and config.text):
        raise ValueError("`word` needs sentences that hold it, and `corpus`")
    if config.hdf5 and not config.input:
        raise ValueError("`hdf5` needs `input`, a file of sentences")
    for sentence in config.text if config.word else ():
        if config.word not in sentence.split():
            raise ValueError(f"{config.word!r} is not a word of {sentence!r} (split at spaces)")
    if config.hdf5 and os.path.exists(config.hdf5):
        raise FileExistsError(f"{config.hdf5} exists; choose another `hdf5`")


def predict(loaded: Any, config: PredictElmo) -> list[Any]:
    """Return for each sentence its `Neighbour`s, see `tfnlp.families.neighbours`."""
    from tfnlp.families.neighbours import neighbours

    return neighbours(loaded.encoder, config)


def lines(loaded: Any, config: PredictElmo) -> Iterator[str]:
    """Yield the neighbours of the word, and write the HDF5 file."""
    from tfnlp.families.neighbours import marked, write_layers

    if config.word:
        for sentence, found in zip(config.text, predict(loaded, config), strict=True):
            words = sentence.split()
            yield f"{marked(words, words.index(config.word))}\n"
            for cosine, sentence_words, place in found:
                yield f"  {cosine:.3f}  {marked(sentence_words, place)}\n"
    if config.hdf5:
        yield write_layers(loaded.encoder, config.input, config.hdf5, config.carry_state) + "\n"


def _model_functions() -> tuple[Any, Any]:
    from tfnlp import models

    return models.elmo, models.elmo_pretrainer


ELMO = Family(
    name="elmo",
    title="an ELMo",
    summary="Pretrain an ELMo: a bidirectional language model over characters.",
    config=ElmoConfig,
    sizes=SIZES,
    sections={
        "arguments": (lambda: _model_functions()[0], frozenset({"name", "dtype"})),
        "heads": (
            lambda: _model_functions()[1], frozenset({"name", "encoder", "dropout", "resets"})
        ),
    },
    start=start,
    build=build,
    prepare=prepare,
    restore=restore,
    recognise=recognise,
    read=read,
    checkpoints="options.json and weights in HDF5 of bilm-tf or AllenNLP",
    saved=saved,
    saved_layout="elmo",
    evaluate=evaluate,
    evaluation={"text": None, "tokenize": False, "batch_size": None},
    export=export,
    exports=("format", "trainable", "cache", "l2"),
    vectors=vectors,
    fitting=Fitting(
        reader=fitting.word_reader,
        features=fitting.elmo_features,
        word_embeddings=True,
    ),
    plan=ELMO_PLAN,
    prediction=Prediction(
        name="elmo",
        summary="Find words used in the same sense, or write all layers of a text, with an ELMo.",
        config=PredictElmo,
        predict=predict,
        lines=lines,
        check=check_prediction,
        reads_stdin=lambda config: False,
    ),
)  # fmt: skip
