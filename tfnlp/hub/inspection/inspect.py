"""Description of a SavedModel, read from its files without loading it."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import tensorflow as tf

from tfnlp.cards import read_card
from tfnlp.hub.inspection.saved_graph import Function, SavedGraph, Variable, foreign_ops
from tfnlp.hub.inspection.text_table import as_text
from tfnlp.hub.inspection.usage import EXAMPLE, quoted, usage
from tfnlp.hub.loading.checks import check_saved_model, read_about
from tfnlp.hub.loading.saved_model import only_module
from tfnlp.text.words import SPACES

TEXT = "tensorflow_text"


@dataclass(frozen=True)
class Inspection:
    """Result of `inspect`. `print` shows it as a table; `to_dict()` is ready for JSON.

    Attributes:
        path: folder of the SavedModel.
        interface: "reusable" (callable, and lists its variables), "callable", "keras2" (saved by
            tf_keras or Keras 2), "keras3" (written by `model.export`), "functions" (has functions,
            but is not callable), "signatures" or "tf1".
        tensorflow_version: version of the TensorFlow that wrote it.
        functions: tuple of the traced `Function`s: the module itself, named "", its functions and
            sub-objects (`mlm`, `tokenize.get_special_tokens_dict`).
        signatures: tuple of `Function`s.
        variables: tuple of `Variable`s, those of `module.variables`; if it lists none, all.
        stored_variables: number of variables in the files, including those of sub-objects.
        regularization_losses: number of losses that the module lists.
        assets: dict of file to its size in bytes.
        foreign_ops: dict of library ("tensorflow_text", or "" if it is not known) to the names of
            the operations that must be registered before loading.
        obstacle: why it can't be fine-tuned, or None.
        size: dict of "graph", "variables" and "assets" to their bytes on disk.
        usage: three Python statements that load and call it, or None.
        card: title, summary and facts of its README.md, see `tfnlp.cards`; {} if it has none.
    """

    path: str
    interface: str
    tensorflow_version: str
    functions: tuple[Function, ...]
    signatures: tuple[Function, ...]
    variables: tuple[Variable, ...]
    stored_variables: int
    regularization_losses: int
    assets: dict[str, int]
    foreign_ops: dict[str, tuple[str, ...]]
    obstacle: str | None
    size: dict[str, int]
    usage: str | None
    card: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Number of elements of `variables`."""
        return sum(v.parameters for v in self.variables)

    @property
    def trainable_parameters(self) -> int:
        """Number of elements of the trainable variables."""
        return sum(v.parameters for v in self.variables if v.trainable)

    @property
    def traced_for_training(self) -> bool:
        """Whether there is a trace with `training=True`."""
        own = [c for f in self.functions if not f.name for c in f.calls]
        return any(c.arguments.get("training") is True for c in own)

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, strings and numbers; None stands for an unknown size."""
        own = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {**own, "parameters": self.parameters, "fine_tunable": self.obstacle is None}

    def __str__(self) -> str:
        return as_text(self)


def inspect(handle: str | os.PathLike, shown: str | None = None) -> Inspection:
    """Describe a SavedModel without loading or running it.

    Args:
        handle: what `tfnlp.hub.resolve` takes, or a folder of numbered versions, of which the last
            one is read.
        shown: the path in `usage`; None: the module's.

    Raises:
        FileNotFoundError: if there is no SavedModel, or a file of it is missing.
        ValueError: if it is another format, is damaged, or the folder holds several.
    """
    path = only_module(handle)
    check_saved_model(path)
    graph = SavedGraph(path)
    traced, signatures = graph.functions(), graph.signatures()
    functions = tuple(f for f in traced if f.calls)
    stored, listed = graph.variables()
    stored = _with_stored_shapes(path, stored, graph)
    variables = listed if graph.has("variables") else stored
    foreign = foreign_ops(graph.operations())
    assets, task = _files(path, "assets"), read_about(path).get("task")
    imports = [TEXT] if TEXT in foreign else []
    code = _usage(shown or path, graph, functions, signatures, imports)
    if code is not None and isinstance(task, dict) and task.get("splitter") == SPACES:
        code = code.replace(EXAMPLE, "Hello , world !")
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
        usage=code,
        card=read_card(path),
    )


def _interface(graph: SavedGraph, functions: Sequence[Function]) -> str:
    names = {f.name for f in functions}
    if graph.is_tf1:
        return "tf1"
    if graph.kind.startswith("_tf_keras"):
        return "keras2"
    if "" in names:
        return "reusable" if graph.has("variables") else "callable"
    if not names:
        return "signatures"
    return "keras3" if graph.has("_misc_assets") else "functions"  # of Keras's `ExportArchive`


def _obstacle(
    graph: SavedGraph, functions: Sequence[Function], variables: Sequence[Variable]
) -> str | None:
    """Say why the module can't be fine-tuned; None if it can."""
    own = next((f for f in functions if not f.name), None)
    if graph.is_tf1:
        return "it is of TensorFlow 1, whose variables TensorFlow 2 can only read"
    if own is None:
        return "it is not callable itself; it has functions or signatures"
    if not own.calls:
        return "its __call__ was not traced before it was saved"
    if not any(v.trainable for v in variables):
        return "none of its variables is trainable" if variables else "it has no variables"
    if not graph.has("trainable_variables"):
        return "it lists no trainable_variables; saving a tf.Module drops them"
    outputs = tf.nest.flatten([c.outputs for c in own.calls])
    if not any(getattr(x, "dtype", tf.string).is_floating for x in outputs):
        return "it returns no floats"
    if graph.lost_gradients(own):
        return "its custom gradients were not saved (experimental_custom_gradients)"
    return None


def _with_stored_shapes(
    path: str, variables: tuple[Variable, ...], graph: SavedGraph
) -> tuple[Variable, ...]:
    """Check the variables against the index; those of TensorFlow 1 take their shapes from it."""
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
            f"{path}/variables/variables.index does not belong to {graph.file}: the variable "
            f"{missing[0]!r} is not in it; export or download the SavedModel again"
        )
    return variables


def _usage(
    path: str,
    graph: SavedGraph,
    functions: Sequence[Function],
    signatures: Sequence[Function],
    imports: Sequence[str],
) -> str | None:
    """Return code that calls the first function, with `training=False` if there is a choice."""
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


def _files(path: str, folder: str) -> dict[str, int]:
    """Return a dict of each file's path in the folder to its size."""
    root = f"{path}/{folder}"
    found = {}
    for place, _, names in tf.io.gfile.walk(root):
        for name in names:
            file = f"{place.rstrip('/')}/{name}"
            found[file[len(root) + 1 :]] = _size(file)
    return dict(sorted(found.items()))


def _size(file: str) -> int:
    return tf.io.gfile.stat(file).length


def _plain(x: Any) -> Any:
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


def _spec(spec: tf.TypeSpec) -> dict[str, Any]:
    kinds = {tf.RaggedTensorSpec: "ragged", tf.SparseTensorSpec: "sparse"}
    kind = kinds.get(type(spec), "dense" if isinstance(spec, tf.TensorSpec) else str(spec))
    found = {"dtype": _plain(getattr(spec, "dtype", None)), "kind": kind}
    if hasattr(spec, "shape"):
        found["shape"] = _plain(spec.shape)
    if kind == "ragged":
        found["ragged_rank"] = spec.ragged_rank
    return found
