"""What a SavedModel offers, read from its files without loading it."""

from collections import Counter
from dataclasses import dataclass, fields, is_dataclass

import tensorflow as tf

from tfnlp.hub.inspection.saved_graph import SavedGraph
from tfnlp.hub.inspection.text_table import as_text
from tfnlp.hub.inspection.usage import quoted, usage
from tfnlp.hub.loading.folders import saved_models
from tfnlp.hub.saving.callables import Function, Variable
from tfnlp.hub.saving.checks import check_saved_model
from tfnlp.hub.saving.graph_operations import foreign_ops

TEXT = "tensorflow_text"


@dataclass(frozen=True)
class Inspection:
    """What `inspect` found. `print` shows it as a table; `to_dict()` is ready for JSON.

    Attributes:
        path: folder of the SavedModel.
        interface: "reusable" (callable, and lists its variables), "callable", "keras2" (saved by
            tf_keras or Keras 2), "keras3" (written by `model.export`), "functions" (some, but not
            callable), "signatures" or "tf1".
        tensorflow_version: of the TensorFlow that wrote it.
        functions: tuple of `Function`s that were traced: the module itself, whose name is "",
            its functions and sub-objects (`mlm`, `tokenize.get_special_tokens_dict`).
        signatures: tuple of `Function`s.
        variables: tuple of `Variable`s, those of `module.variables`; where it lists none, all.
        stored_variables: how many variables the files hold, those of sub-objects too.
        regularization_losses: how many the module lists.
        assets: dict of file to its size in bytes.
        foreign_ops: dict of library ("tensorflow_text", or "" where it isn't known) to the names
            of the operations that have to be registered before loading.
        obstacle: why it can't be fine-tuned, or None.
        size: dict of "graph", "variables" and "assets" to their bytes on disk.
        usage: three statements of Python that load and call it, or None.
    """

    path: str
    interface: str
    tensorflow_version: str
    functions: tuple[Function, ...]
    signatures: tuple[Function, ...]
    variables: tuple[Variable, ...]
    stored_variables: int
    regularization_losses: int
    assets: dict
    foreign_ops: dict
    obstacle: str | None
    size: dict
    usage: str | None

    @property
    def parameters(self):
        """Numbers in `variables`."""
        return sum(v.parameters for v in self.variables)

    @property
    def trainable_parameters(self):
        """Those of them that can be trained."""
        return sum(v.parameters for v in self.variables if v.trainable)

    @property
    def traced_for_training(self):
        """Whether there is a trace with `training=True`."""
        own = [c for f in self.functions if not f.name for c in f.calls]
        return any(c.arguments.get("training") is True for c in own)

    def to_dict(self):
        """Dicts, lists, strings and numbers; of a size that is open, None."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {**own, "parameters": self.parameters, "fine_tunable": self.obstacle is None}

    def __str__(self):
        return as_text(self)


def inspect(handle):
    """Looks at a SavedModel without loading it or running any of it.

    Args:
        handle: what `tfnlp.hub.loading.resolve` takes, or a folder of numbered versions, of which the
            last is taken.

    Returns:
        an `Inspection`.

    Raises:
        FileNotFoundError: if there is no SavedModel, or a file of it is missing.
        ValueError: if it is something else, is damaged, or several in one folder.
        OSError: if it can't be read or fetched.
    """
    folders = saved_models(handle)
    if len(folders) > 1:
        raise ValueError(f"{handle} holds {len(folders)} SavedModels; give {' or '.join(folders)}")
    path = folders[0]
    check_saved_model(path)
    graph = SavedGraph(path)
    traced, signatures = graph.functions(), graph.signatures()
    functions = tuple(f for f in traced if f.calls)
    stored, listed = graph.variables()
    stored = _with_stored_shapes(path, stored, graph)
    variables = listed if graph.lists_variables else stored
    foreign = foreign_ops(graph.operations.names)
    assets = _files(path, "assets")
    return Inspection(
        path=path,
        interface=_interface(graph, functions),
        tensorflow_version=graph.version,
        functions=functions,
        signatures=signatures,
        variables=variables,
        stored_variables=len(stored),
        regularization_losses=graph.count("regularization_losses"),
        assets=assets,
        foreign_ops=foreign,
        obstacle=_obstacle(graph, traced, variables),
        size={
            "graph": _size(graph.file),
            "variables": sum(_files(path, "variables").values()),
            "assets": sum(assets.values()),
        },
        usage=_usage(path, graph, functions, signatures, [TEXT] if TEXT in foreign else []),
    )


def _interface(graph, functions):
    names = {f.name for f in functions}
    if graph.is_tf1:
        return "tf1"
    if graph.kind.startswith("_tf_keras"):
        return "keras2"
    if "" in names:
        return "reusable" if graph.lists_variables else "callable"
    if not names:
        return "signatures"
    return "keras3" if graph.is_keras_export else "functions"


def _obstacle(graph, functions, variables):
    """Why the module can't be fine-tuned, or None."""
    own = next((f for f in functions if not f.name), None)
    if graph.is_tf1:
        return "it is of TensorFlow 1, whose variables TensorFlow 2 only reads"
    if own is None:
        return "it is not callable, only its functions or signatures are"
    if not own.calls:
        return "its __call__ was not traced before it was saved"
    if not any(v.trainable for v in variables):
        return "none of its variables is trainable" if variables else "it has no variables"
    if not graph.lists_trainable:
        return "it lists no trainable_variables, which are lost when a tf.Module is saved"
    outputs = tf.nest.flatten([c.outputs for c in own.calls])
    if not any(getattr(x, "dtype", tf.string).is_floating for x in outputs):
        return "it returns no floats"
    if graph.lost_gradients(own):
        return "gradients of its own operations were not saved (experimental_custom_gradients)"
    return None


def _with_stored_shapes(path, variables, graph):
    """`variables`, of TensorFlow 1 with the shapes of the index, of others compared with it."""
    if not variables:
        return variables
    reader = tf.train.load_checkpoint(f"{path}/variables/variables")
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if graph.is_tf1:
        missing = [v.name for v in variables if v.name not in shapes]
        if not missing:
            return tuple(
                Variable(v.name, tf.TensorShape(shapes[v.name]), dtypes[v.name], v.trainable)
                for v in variables
            )
    else:
        held = Counter((tuple(shape), dtypes[name]) for name, shape in shapes.items())
        known = [v for v in variables if v.shape.is_fully_defined()]
        missing = [v.name for v in known if not held[tuple(v.shape), v.dtype]]
    if missing:
        raise ValueError(
            f"{path}/variables/variables.index does not go with {graph.file}: the variable "
            f"{missing[0]!r} is not in it; export or download the SavedModel again"
        )
    return variables


def _usage(path, graph, functions, signatures, imports):
    """Of the first thing that can be called, without dropout where there is a choice."""
    own = sorted(functions, key=lambda f: f.name != "")
    targets = [(f"module.{f.name}".rstrip("."), f) for f in own]
    targets += [(f"module.signatures[{quoted(f.name)}]", f) for f in signatures]
    tags = None if graph.only_graph else graph.tags
    for target, function in targets:
        calls = sorted(function.calls, key=lambda c: c.arguments.get("training") is True)
        for call in calls:
            code = usage(path, target, call, imports, tags)
            if code is not None:
                return code
    return None


def _files(path, folder):
    """Dict of file, relative to the folder, to its size."""
    root = f"{path}/{folder}"
    found = {}
    for place, _, names in tf.io.gfile.walk(root):
        for name in names:
            file = f"{place.rstrip('/')}/{name}"
            found[file[len(root) + 1 :]] = _size(file)
    return dict(sorted(found.items()))


def _size(file):
    return tf.io.gfile.stat(file).length


def _plain(x):
    if isinstance(x, tf.TypeSpec):
        return _spec(x)
    if is_dataclass(x) and hasattr(x, "outputs"):
        return {"arguments": _plain(x.arguments), "outputs": _plain(x.outputs)}
    if is_dataclass(x):
        return {f.name: _plain(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, dict):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(value) for value in x]
    if isinstance(x, tf.DType):
        return x.name
    if isinstance(x, tf.TensorShape):
        return None if x.rank is None else list(x)
    return x if x is None or isinstance(x, bool | int | float | str) else str(x)


def _spec(spec):
    kinds = {tf.RaggedTensorSpec: "ragged", tf.SparseTensorSpec: "sparse"}
    kind = kinds.get(type(spec), "dense" if isinstance(spec, tf.TensorSpec) else str(spec))
    found = {"dtype": _plain(getattr(spec, "dtype", None)), "kind": kind}
    if hasattr(spec, "shape"):
        found["shape"] = _plain(spec.shape)
    if kind == "ragged":
        found["ragged_rank"] = spec.ragged_rank
    return found
