"""A module with its actions: loaded from wherever `tfnlp inspect` finds it, and recognised."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.families.recognition import best_run, opened_modules
from tfnlp.hub import Inspection, audit, inspect, load, saved_tokenizer
from tfnlp.hub.loading.checks import read_about
from tfnlp.hub.loading.saved_model import saved_models
from tfnlp.hub.loading.traces import Trace
from tfnlp.hub.modules.fill import fill_masks
from tfnlp.layers import SentencePooling
from tfnlp.runs.front_door import export
from tfnlp.serving import texts, vectors
from tfnlp.serving.action import Action, Row, array_of, of_task, outputs
from tfnlp.tasks import TASKS, Task
from tfnlp.text.words import is_splitter
from tfnlp.training.run import is_run

_ENCODERS = ("encoder", "model")
_PREPROCESSOR = "preprocessor"
_NO_MASKS = (
    "This module can't fill masks. `tfnlp export --fill` writes one that does, of a model with a "
    "masked-LM head."
)
_NO_ATTENTION = "This module does not return its attention: its model has none."
_ALONE = "Neighbours need the folder with `model` and `preprocessor` in it."
_SERVED = ("serving_default", "default")
_WORDS = "words.txt"  # the asset of word vectors
_SMALLEST = 8  # numbers of a vector; fewer are taken for scores of a module by others
_TOP = 5
STREAM = "stream"  # of keys of rows that are iterators, of which the next one is computed
CLOSE = "close"  # of keys of rows that are iterators, which are closed
_MEAN = "the mean of `sequence_output` over the tokens of a text"


@dataclass
class ServedModule:
    """What is served: actions by name, what its README.md says, and what it can't do."""

    path: str
    actions: dict[str, Action]
    card: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self, key: Hashable, rows: list[Row]) -> list[Row]:
        """Return the results of rows, for `tfnlp.serving.batching.Batcher`."""
        name, *_ = key
        if name == STREAM:
            return [next(stream, None) for stream in rows]
        if name == CLOSE:
            return [stream.close() for stream in rows]
        return self.actions[name].run(rows)

    def described(self) -> dict[str, Any]:
        """Return what the page shows."""
        name = os.path.basename(self.path.rstrip("/")) or self.path
        return {
            "name": name,
            "card": self.card,
            "actions": [action.described() for action in self.actions.values()],
            "notes": self.notes,
        }


def load_served(path: str | os.PathLike, trusted: bool = False) -> ServedModule:
    """Load a module, or export a run and load that, and find out what it can do.

    Args:
        path: what `tfnlp.inspect` takes, or the folder of a run.
        trusted: serve a module with `tfnlp.hub.Audit.dangers`, too.
    """
    path = os.fspath(path)
    with _opened(path) as folders:
        dangers = [] if trusted else [one for x in folders for one in audit(x).dangers]
        if dangers:
            raise ValueError(
                f"`module` {path} {dangers[0].effect} ({dangers[0]}), as `tfnlp inspect --audit` "
                "says; give `trusted` to serve it all the same"
            )
        return _loaded(path, [inspect(folder) for folder in folders])


@contextlib.contextmanager
def _opened(path: str) -> Iterator[list[str]]:
    """Yield the folders of modules; of a run those that it exports, into a temporary folder."""
    if os.path.isdir(path) and is_run(best_run(path)):
        with tempfile.TemporaryDirectory() as folder:
            module = os.path.join(folder, "module")
            export(path, module)
            yield saved_models(module)
    else:
        with opened_modules(path) as folders:
            yield folders


def _loaded(path: str, found: list[Inspection]) -> ServedModule:
    modules = [load(one.path) for one in found]
    names = [os.path.basename(one.path) for one in found]
    card = next((one.card for one in found if one.card), {})
    if names[0] in _ENCODERS and names[1:] == [_PREPROCESSOR]:
        actions, notes = _of_pair(found, modules)
    else:
        actions, notes = _of_one(found[0], modules[0])
    return ServedModule(path, {action.name: action for action in actions}, card, notes)


def _of_one(found: Inspection, module: Any) -> tuple[list[Action], list[str]]:
    names = {function.name for function in found.functions}
    if {"encoder", _PREPROCESSOR} <= names:  # of `tfnlp export --combined`
        taken = reads_ids(found, "encoder")
        if taken:
            encode = _reading(taken, module.encoder)
            return pair_actions(module.preprocessor, encode), [_NO_MASKS]
    actions = actions_of(found, module)
    known = {action.name for action in actions}
    if "write" in known:
        return actions, [_ALONE]
    if "translate" in known and not actions[0].options:
        return actions, [_NO_ATTENTION]
    return actions, []


def _of_pair(found: list[Inspection], modules: list[Any]) -> tuple[list[Action], list[str]]:
    """Return the actions of an encoder, or a GPT's model, with its preprocessor."""
    encoder, preprocessor = modules
    encode = _reading(reads_ids(found[0]), encoder)
    if "generate" in encoder.signatures:
        written = actions_of(found[0], encoder)
        return [*written, *pair_actions(preprocessor, encode)], []
    if not has_mlm(found[0]):
        return pair_actions(preprocessor, encode), [_NO_MASKS]
    folder = os.path.dirname(found[0].path)
    return pair_actions(preprocessor, encode, encoder.mlm, folder), []


def _reading(names: set[str], encoder: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return an encoder as a function of a dict that may hold more than it reads."""
    return lambda packed: encoder({name: packed[name] for name in names})


def actions_of(found: Inspection, module: Any) -> list[Action]:
    """Return the actions of one module; raise ValueError if it takes no strings."""
    signatures = {f.name: f.calls[0] for f in found.signatures}
    if "generate" in signatures:
        return [texts.write(_signature(module, "generate"), module)]
    name = next((name for name in _SERVED if name in signatures), None)
    task = None if name is None else _task(found, signatures[name])
    specs = () if name is None else signatures[name].arguments.values()
    if task is not None or specs and all(spec.dtype == tf.string for spec in specs):
        call, described = _signature(module, name), signatures[name]
    else:
        described = _own_call(found)
        if described is None:
            taken = sorted({given for one in signatures.values() for given in one.arguments})
            raise ValueError(
                f"{found.path} takes no text"
                + (f", but {', '.join(taken)}" if taken else "")
                + "; the playground needs a module from strings, or a folder with its preprocessor "
                "beside it: `tfnlp inspect` shows what a module takes"
            )
        call, task = _named(module, next(iter(described.arguments))), _task(found, described)
    if task is not None:
        examples = read_about(found.path).get("examples")
        splitter = _stated(found).get("splitter")
        known = (splitter,) if is_splitter(splitter) else ()
        labels = module.labels().numpy() if hasattr(module, "labels") else None
        if labels is not None:
            labels = [label.decode("utf-8", "replace") for label in labels]
        playground = task.playground(described.arguments, labels, *known)
        return [of_task(task.name, playground, call, examples)]
    given, got = set(described.arguments), set(_outputs(described))
    if "attention" in signatures and "translation" in got:
        return [texts.translate(call, _signature(module, "attention"))]
    if given == {"sentences"} and {"translation", "score"} <= got:
        return [texts.translate(call, None)]
    if given == {"text"} and got == {"text", "tokens", "probabilities"}:
        return [texts.fill(call)]
    if given == {"inputs"} and got == {"texts", "scores", "rows"}:
        return [vectors.search(call)]
    return _of_vectors(found, described, call) or [outputs(call, list(described.arguments))]


def _task(found: Inspection, described: Trace) -> type[Task] | None:
    """Return the task of a module: what it states, or what its inputs and outputs fit."""
    name = _stated(found).get("task")
    task = TASKS.get(name) if isinstance(name, str) else None
    if task is not None and task.playground is not None:
        return task
    given, got = set(described.arguments), set(_outputs(described))
    shown = (task for task in TASKS.values() if task.playground is not None)
    return next((task for task in shown if task.playground.fits(given, got)), None)


def _stated(found: Inspection) -> dict[str, Any]:
    """Return the config of the task that a module states."""
    stated = read_about(found.path).get("task")
    return stated if isinstance(stated, dict) else {}


def _of_vectors(found: Inspection, described: Trace, call: Callable) -> list[Action]:
    """Return the actions of a module from one string to one vector; none for another module."""
    if len(described.arguments) != 1:
        return []
    (given,) = described.arguments
    name = _vector(_outputs(described))
    if name is None:
        return []

    def embed(strings: list[str]) -> np.ndarray:
        return call(**{given: strings})[name]

    shown = "the module's output" if name == "" else f"the output `{name}`"
    actions = [vectors.neighbours(embed, shown)]
    if _WORDS in found.assets:
        path = os.path.join(found.path, "assets", _WORDS)
        with tf.io.gfile.GFile(path) as file:
            words = file.read().split("\n")[:-1]
        subwords = any("subword" in v.name for v in found.variables)
        actions.insert(0, vectors.nearest_words(embed, words, subwords))
    return actions


def _vector(described: dict[str, tf.TypeSpec]) -> str | None:
    """Return the name of the output that is a vector for each text."""
    names = [
        name
        for name, spec in described.items()
        if isinstance(spec, tf.TensorSpec)
        and spec.dtype.is_floating
        and spec.shape.rank == 2
        and (spec.shape[1] or 0) >= _SMALLEST
    ]
    return "default" if "default" in names else names[0] if len(names) == 1 else None


def _own_call(found: Inspection) -> Trace | None:
    """Return the call of the module itself that takes one batch of strings."""
    for function in found.functions:
        for call in function.calls if not function.name else ():
            first, *others = call.arguments.values() or [None]
            fixed = not any(isinstance(x, tf.TypeSpec) for x in tf.nest.flatten(others))
            text = isinstance(first, tf.TensorSpec) and first.dtype == tf.string
            if (
                text
                and fixed
                and first.shape.rank == 1
                and call.arguments.get("training") is not True
            ):
                return Trace(call.args[:1], {}, call.outputs, call.names)
    return None


def _outputs(described: Trace) -> dict[str, Any]:
    """Return the outputs by name; the name of a single tensor is ""."""
    return described.outputs if isinstance(described.outputs, dict) else {"": described.outputs}


def _signature(module: Any, name: str) -> Callable[..., dict[str, Any]]:
    """Return a module's signature as a function of named lists to a dict of arrays."""

    def call(**inputs: Any) -> dict[str, Any]:
        tensors = {key: tf.convert_to_tensor(x) for key, x in inputs.items()}
        return _arrays(module.signatures[name](**tensors))

    return call


def _named(module: Any, name: str) -> Callable[..., dict[str, Any]]:
    """Return a module's own call as a function of a named list."""

    def call(**inputs: Any) -> dict[str, Any]:
        found = module(tf.constant(inputs[name], "string"))
        return _arrays(found if isinstance(found, dict) else {"": found})

    return call


def _arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {key: tf.nest.map_structure(array_of, value) for key, value in found.items()}


def pair_actions(
    preprocess: Callable, encode: Callable, mlm: Callable | None = None, folder: str | None = None
) -> list[Action]:
    """Return the actions of an encoder and its preprocessor.

    Args:
        preprocess: strings to a dict of int32 `[B, T]`, `input_mask` among them.
        encode: such a dict to a dict with `sequence_output`.
        mlm: the same with `masked_lm_positions` to a dict with `mlm_logits`; or None.
        folder: that of both modules, for the tokenizer that masks need.
    """
    mean = SentencePooling("mean")

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def means(strings: tf.Tensor) -> tf.Tensor:
        packed = preprocess(strings)
        return mean(encode(packed)["sequence_output"], mask=packed["input_mask"])  # [B, H]

    def embed(strings: list[str]) -> np.ndarray:
        return means(tf.constant(strings)).numpy()

    actions = [vectors.neighbours(embed, _MEAN)]
    if mlm is not None:
        actions.insert(0, _fill(mlm, folder))
    return actions


def _fill(mlm: Callable, folder: str) -> Action:
    tokenizer = saved_tokenizer(folder)
    positions = read_about(f"{folder}/encoder").get("max_positions") or 512

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def filled(text: tf.Tensor) -> dict[str, tf.Tensor]:
        def logits(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
            return mlm(inputs)["mlm_logits"]

        return fill_masks(text, tokenizer, logits, positions, min(_TOP, tokenizer.vocab_size))

    def call(text: list[str]) -> dict[str, Any]:
        return _arrays(filled(tf.constant(text)))

    return texts.fill(call)


def has_mlm(found: Inspection) -> bool:
    """Return whether an encoder has a masked-LM head, and reads what `fill_masks` gives it."""
    calls = [call for f in found.functions if f.name == "mlm" for call in f.calls]
    names = {"input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions"}
    return any(set(next(iter(call.arguments.values()))) == names for call in calls)


def reads_ids(found: Inspection, name: str = "") -> set[str]:
    """Return the inputs of a module that takes a dict of ids; an empty set for another one.

    With a name it is a sub-object of the module that is called.
    """
    for function in found.functions:
        for call in function.calls if function.name == name else ():
            first = next(iter(call.arguments.values()), None)
            if isinstance(first, dict) and {"input_word_ids", "input_mask"} <= set(first):
                return set(first)
    return set()
