"""Any functional Keras model as a Reusable SavedModel."""

import contextlib
import os

from tfnlp.hub.saving.compact import CompactWeights, check_kind, report
from tfnlp.hub.saving.export_checks import (
    check_default,
    check_model,
    check_objects,
    check_signatures,
    check_vocabulary,
    keys_of,
)
from tfnlp.hub.saving.front_end import FrontEnd, TextModule
from tfnlp.hub.saving.litert import check_file, convert, written
from tfnlp.hub.saving.module import KerasModule, input_spec
from tfnlp.hub.saving.save import as_saved, check_free, save


def export(
    model,
    directory,
    signatures=None,
    default=None,
    objects=None,
    preprocessor=None,
    pair=False,
    weights=None,
    litert=None,
    overwrite=False,
    probe=None,
):
    """Writes a Keras model as a SavedModel that anybody loads, calls and fine-tunes without tfnlp.

    The module's `__call__(inputs, training=False)` takes and returns what the model does: a
    tensor, or lists and dicts of them. It has `variables`, `trainable_variables` and
    `regularization_losses`: those of weights, and of SavedModels in trainable layers; what layers
    give to `add_loss`, activity regularizers for instance, is not among them. Moving averages and
    other state that layers assign while training follow `module(x, training=True)`. Tables,
    assets and loaded SavedModels in layers go along.

    Args:
        model: a functional or built Sequential `keras.Model`.
        directory: path of the SavedModel, which must not exist.
        signatures: dict of name to what is served under it: list of names of outputs, None for
            all, or the name of one of `objects`. Default: all as "serving_default". Inputs have
            the names of the Keras inputs. Outputs have the names of their keys, of lists in dicts
            with a number (`encoder_outputs_0`), and without keys the name of the layer that made
            them.
        default: name of the output that `outputs["default"]` repeats; for outputs in a dict.
        objects: dict of name to Keras model: callable sub-objects with the same interface, such as
            `mlm` of a BERT. They share the weights that the models share.
        preprocessor: what makes the model's inputs from strings `[B]`: a `BertPreprocessorModule`,
            a `GPTPreprocessorModule`, a module that `tf.saved_model.load` gave, any trackable
            object whose `__call__` is a `tf.function`; or a Keras model or layer, such as
            `keras.layers.TextVectorization`. The module then goes from strings to outputs, and has
            the `preprocessor` and the `encoder` (with the `objects`) as sub-objects.
        pair: write two modules instead, `directory/encoder` and `directory/preprocessor`.
        weights: "bfloat16" or "int8": a module for inference, whose matrices are stored so; see
            `tfnlp.hub.saving.compact.CompactWeights`. It has no `trainable_variables`, and computes the
            same with `training=True`. The size that it has and would have, and the largest
            difference of an output, are printed; `tfnlp.hub.saving.compact.report` gives the numbers.
        litert: path of a LiteRT file to write as well, of what "serving_default" serves of the
            model, from its inputs (not from strings), of lengths that the preprocessor gives; see
            `tfnlp.hub.saving.litert.convert`.
        overwrite: replace earlier exports.
        probe: inputs of the model for the difference that is printed; None: random ones.

    Returns:
        The path; with `pair` those of encoder and preprocessor.

    Raises:
        ValueError: if something can't be exported, or an argument does not fit the model.
        FileExistsError: if there is something already.
        OSError: if it can't be written; nothing half-written stays.
    """
    objects = dict(objects or {})
    signatures = {"serving_default": None} if signatures is None else dict(signatures)
    check_model(model, "model")
    check_objects(objects)
    check_default(model, default)
    check_signatures(signatures, model, default, objects)
    if weights is not None:
        check_kind(weights)
    if pair and preprocessor is None:
        raise ValueError("pair=True writes a preprocessor too; give one as preprocessor=")
    directory = os.fspath(directory)
    path = os.path.join(directory, "encoder") if pair else directory
    preprocessor_path = os.path.join(directory, "preprocessor") if pair else None
    for each in [path, preprocessor_path] if pair else [path]:
        check_free(each, overwrite)
        if litert is not None:
            check_file(litert, each, overwrite)

    front = None
    if preprocessor is not None:
        check_vocabulary(model, preprocessor)
        with as_saved():
            front = FrontEnd(preprocessor, input_spec(model))
    lite = None
    if litert is not None:
        served = signatures.get("serving_default")
        if isinstance(served, str):
            sub_model = objects[served]
            lite = convert(sub_model, input_spec(sub_model), None, weights)
        else:
            spec = input_spec(model) if front is None else front.specs
            lite = convert(model, spec, served, weights)
    stored = CompactWeights([model, *objects.values()], weights) if weights else None
    with as_saved():
        encoder = KerasModule(model, default, stored)
        for name, sub_model in objects.items():
            repeated = default if default in keys_of(sub_model) else None
            setattr(encoder, name, KerasModule(sub_model, repeated, stored))
        module = encoder if front is None or pair else TextModule(front, encoder)
        functions = {
            name: getattr(encoder, x).signature() if isinstance(x, str) else module.signature(x)
            for name, x in signatures.items()
        }
        packed = {"serving_default": front.signature()} if pair else None
    with written(litert, lite), _tables_named(model):
        save(module, path, functions, overwrite)
        if pair:
            save(front.module, preprocessor_path, packed, overwrite)
    if weights is not None:
        print(f"weights as {weights}: {report(path, model, objects, probe)}")
    return (path, preprocessor_path) if pair else path


@contextlib.contextmanager
def _tables_named(model):
    """TensorFlow's complaint about what only a graph knows of, in a line."""
    try:
        yield
    except AssertionError as error:
        if "untracked" not in str(error):
            raise
        raise ValueError(
            f"model {model.name} uses a table or loaded module that none of its layers holds; "
            "make it an attribute of the layer that uses it"
        ) from error
