"""ELMo (Peters et al. 2018) as a family."""

import os
from collections.abc import Callable
from typing import Any

from tfnlp.families import fitting
from tfnlp.families.checked import stated
from tfnlp.families.elmo_text import held_out_windows, perplexities, prepare, word_measures
from tfnlp.families.export_checks import check_format, chosen, only_savedmodel
from tfnlp.families.family import Family, Fitting, Measured
from tfnlp.families.neighbours import ELMO_PREDICTION
from tfnlp.families.plans import ELMO_PLAN
from tfnlp.families.preparation import tokenized
from tfnlp.families.sentences import of_words
from tfnlp.families.starts import model_to_go_on_from, refuse_with_start
from tfnlp.settings.elmo import CHANGED_SIZES, RESETS, SIZES, ElmoSettings
from tfnlp.settings.use import EvaluateSettings, ExportSettings


def start(config: ElmoSettings) -> Any:
    """Return the ELMo that `config.start` names, or None."""
    before = model_to_go_on_from(config, "elmo", CHANGED_SIZES)
    if before is not None and before.words is not None:
        why = f"can't be given with `start` {config.start}, which has a vocabulary"
        refuse_with_start(config, ("vocab", "max_vocab", "min_count"), why)
    return before


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the ELMo of a run."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.text import read_words

    reset = stated(path, run, "training.reset", RESETS)
    heads = {**run["heads"], "resets": reset != "never"}
    encoder, pretrainer = ELMO.build(run["arguments"], heads, dtype)
    words = read_words(os.path.join(path, "vocab.txt"))
    return Pretrained(encoder, pretrainer, run["arguments"], words=words)


def read(path: str, dtype: str | None = None) -> Any:
    """Return the ELMo of bilm-tf's or AllenNLP's files."""
    from tfnlp import checkpoints

    return checkpoints.load_elmo(path, dtype=dtype)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds the weights of an ELMo."""
    return any(name.endswith(".hdf5") for name in names)


def saved(path: str) -> Any:
    """Return an exported ELMo: it has no Keras model, but gives vectors and can be fine-tuned."""
    from tfnlp.checkpoints.pretrained import Pretrained

    return Pretrained(None, None, {})


def evaluate(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return the perplexities of a run over all tokens of a text, with the full softmax."""
    from tfnlp import training
    from tfnlp.data import LanguageModelCorpus
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.objectives import ElmoPretraining

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


def vectors(loaded: Any) -> Callable[[list[str]], Any]:
    """Return the module: a function of strings whose words are separated by spaces."""
    import tensorflow as tf

    from tfnlp.hub import ElmoModule
    from tfnlp.hub.loading.saved_model import load_module

    module = load_module(loaded.path) if loaded.encoder is None else ElmoModule(loaded.encoder)
    return lambda texts: module(tf.constant(texts))


def sentences(loaded: Any, settings: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to one vector each: see `Family.sentences`.

    The last layer is the mix of all, as in the `default` of the module; 0 are the word vectors.
    """
    import tensorflow as tf

    module = vectors(loaded)
    first = module(["a"])
    names = ["word_emb", *(f"lstm_outputs{i}" for i in range(1, len(first))), "elmo"]
    names = [name for name in names if name in first]
    if not -len(names) <= settings.layer < len(names):
        raise ValueError(
            f"`layer` {settings.layer} must be from {-len(names)} to {len(names) - 1}: "
            f"{', '.join(names)}"
        )
    name = names[settings.layer]

    def states(words: Any) -> Any:
        texts = tf.strings.reduce_join(words, -1, separator=" ")
        return module(texts)[name]

    return of_words(states, first[name].shape[-1], settings, "an ELMo")


def export(loaded: Any, config: ExportSettings) -> dict[str, str]:
    """Write a module, or the files of bilm-tf and AllenNLP."""
    from tfnlp import checkpoints, hub

    names = ("trainable", "cache", "l2")
    if check_format(config, ("bilm",), "an ELMo") != "savedmodel":
        only_savedmodel(config, names)
        checkpoints.save_elmo(config.output, loaded.encoder, loaded.pretrainer, config.overwrite)
        return {"checkpoint": config.output}
    module = hub.export_elmo(
        config.output, loaded.encoder, overwrite=config.overwrite, **chosen(config, names)
    )
    return {"module": module}


ELMO = Family(
    name="elmo",
    title="an ELMo",
    config=ElmoSettings,
    sizes=SIZES,
    sections={
        "arguments": ("elmo", frozenset({"name", "dtype"})),
        "heads": ("elmo_pretrainer", frozenset({"name", "encoder", "dropout", "resets"})),
    },
    start=start,
    pretrainer="elmo_pretrainer",
    row=("window", "num_layers", "units"),
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
    sentences=sentences,
    fitting=Fitting(
        reader=fitting.word_reader,
        features=fitting.elmo_features,
        word_embeddings=True,
    ),
    plan=ELMO_PLAN,
    prediction=ELMO_PREDICTION,
)  # fmt: skip
