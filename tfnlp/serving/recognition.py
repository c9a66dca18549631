"""Which actions a module offers, by what `inspect` says of it."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.hub import Inspection
from tfnlp.hub.inspection.callables import Call
from tfnlp.serving.actions import tasks, texts, vectors
from tfnlp.serving.actions.action import Action
from tfnlp.serving.actions.outputs import outputs
from tfnlp.serving.actions.values import array_of, call_of

_SERVED = ("serving_default", "default")
_WORDS = "words.txt"  # the asset of word vectors
_SMALLEST = 8  # numbers of a vector; fewer are taken for scores of a module by others


def actions_of(found: Inspection, module: Any) -> list[Action]:
    """Return the actions of one module; raise ValueError if it takes no strings."""
    signatures = {f.name: f.calls[0] for f in found.signatures}
    if "generate" in signatures:
        return [texts.write(_signature(module, "generate"))]
    name = next((name for name in _SERVED if name in signatures), None)
    if name is not None and _takes_text(signatures[name]):
        call, described = _signature(module, name), signatures[name]
    else:
        described = _own_call(found)
        if described is None:
            raise ValueError(_refusal(found))
        call = _named(module, next(iter(described.arguments)))
    if "attention" in signatures and "translation" in _outputs(described):
        return [texts.translate(call, _signature(module, "attention"))]
    action = _of_task(described, call, module)
    if action is not None:
        return [action]
    return _of_vectors(found, described, call) or [outputs(call, list(described.arguments))]


def _of_task(described: Call, call: Callable, module: Any) -> Action | None:
    """Return the action of one of tfnlp's modules, by the names of its inputs and outputs."""
    given, got = set(described.arguments), set(_outputs(described))
    pairs = given == {"text_a", "text_b"}
    if pairs or given == {"text"}:
        if got == {"label", "probabilities"}:
            return tasks.classify(call, _labels(module), pairs)
        if got == {"labels", "probabilities"}:
            return tasks.several_labels(call, _labels(module), pairs)
        if got == {"score"}:
            return tasks.similarity(call, pairs)
        if got == {"tags", "tokens", "probabilities"}:
            return tasks.tag(call)
        if got == {"text", "tokens", "probabilities"}:
            return texts.fill(call)
    if given == {"text", "predicate"} and "tags" in got:
        return tasks.tag(call, roles=True)
    if given == {"text", "choices"} and "choice" in got:
        return tasks.choose(call, described.arguments["choices"].shape[1])
    if given == {"question", "context"} and {"answer", "start", "end"} <= got:
        return tasks.answer(call)
    if given == {"sentences"} and {"translation", "score"} <= got:
        return texts.translate(call, None)
    if given == {"inputs"} and {"texts", "scores", "rows"} == got:
        return vectors.search(call)
    return None


def _of_vectors(found: Inspection, described: Call, call: Callable) -> list[Action]:
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


def _takes_text(described: Call) -> bool:
    """Return whether a signature takes strings, and beside them at most numbers of words."""
    specs = described.arguments
    others = {name for name, spec in specs.items() if spec.dtype != tf.string}
    return bool(set(specs) - others) and others <= {"predicate"}


def _own_call(found: Inspection) -> Call | None:
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
                return Call(call.args[:1], {}, call.names, {}, call.outputs)
    return None


def _outputs(described: Call) -> dict[str, Any]:
    """Return the outputs by name; the name of a single tensor is ""."""
    return described.outputs if isinstance(described.outputs, dict) else {"": described.outputs}


def _signature(module: Any, name: str) -> Callable[..., dict[str, Any]]:
    return call_of(module.signatures[name])


def _named(module: Any, name: str) -> Callable[..., dict[str, Any]]:
    """Return a module's own call as a function of a named list."""

    def call(**inputs: Any) -> dict[str, Any]:
        found = module(tf.constant(inputs[name], "string"))
        found = found if isinstance(found, dict) else {"": found}
        return {key: tf.nest.map_structure(array_of, value) for key, value in found.items()}

    return call


def _labels(module: Any) -> list[str] | None:
    labels = getattr(module, "labels", None)
    return [label.decode("utf-8", "replace") for label in labels().numpy()] if labels else None


def _refusal(found: Inspection) -> str:
    taken = sorted({name for f in found.signatures for name in f.calls[0].arguments})
    return (
        f"{found.path} takes no text" + (f", but {', '.join(taken)}" if taken else "") + "; the "
        "playground needs a module from strings, or a folder with its preprocessor beside it: "
        "`tfnlp inspect` shows what a module takes"
    )
