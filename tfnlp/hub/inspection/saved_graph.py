"""The functions, signatures and variables that the graph file of a SavedModel describes."""

import itertools
import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import node_def_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_object_graph_pb2, struct_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow.python.saved_model import nested_structure_coder

from tfnlp.files import first_line
from tfnlp.hub.loading.checks import graph_file, read_graph
from tfnlp.hub.loading.traces import Trace

Nodes = Sequence[node_def_pb2.NodeDef]
_LISTS = ("variables", "trainable_variables", "regularization_losses")
_NOT_SHOWN = {*_LISTS, "non_trainable_variables", "signatures", "keras_api", "optimizer"}
_KERAS_LOSSES = "call_and_return_"  # functions that Keras 2 saves beside each `__call__`
_INIT_OPS = ("__saved_model_init_op", "__saved_model_train_op")
# Operations that `import tensorflow_text` registers, besides names that begin with "TFText>".
TENSORFLOW_TEXT = frozenset(
    """
    CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets
    FindSourceOffsets MaxSpanningTree NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize
    RegexSplitWithOffsets RougeL SentenceFragments SentenceFragmentsV2 SentencepieceDetokenizeOp
    SentencepieceIdToStringOp SentencepieceOp SentencepieceStringToIdOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets
    TokenizerFromLogits UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets
    WordpieceTokenizeWithOffsets
    """.split()
)


@dataclass(frozen=True)
class Function:
    """A function of a SavedModel, or a signature, which takes tensors by name."""

    name: str  # `mlm`, `tokenize.get_tokens`, ...; "" for the module itself
    calls: tuple[Trace, ...]


@dataclass(frozen=True)
class Variable:
    """A variable: its name, shape, dtype, and whether it can be trained."""

    name: str
    shape: tf.TensorShape
    dtype: tf.DType
    trainable: bool

    @property
    def parameters(self) -> int:
        """Number of elements; 0 if the shape is not known."""
        return self.shape.num_elements() or 0


class SavedGraph:
    """The graph of a SavedModel. Its methods raise ValueError where the file is inconsistent."""

    def __init__(self, path: str) -> None:
        self.file = graph_file(path)
        graphs = list(read_graph(path).meta_graphs)
        # TensorFlow 1 may write several: one for training and one for inference.
        graph = next((g for g in graphs if "train" not in g.meta_info_def.tags), graphs[0])
        self.tags = tuple(graph.meta_info_def.tags)
        self.only_graph = len(graphs) == 1
        self.version = graph.meta_info_def.tensorflow_version
        self.is_tf1 = not graph.object_graph_def.nodes
        self._nodes, self._graph = graph.object_graph_def.nodes, graph
        self._traces = graph.object_graph_def.concrete_functions
        library = graph.graph_def.library
        self._functions = {f.signature.name: f.node_def for f in library.function}
        self._gradients = {g.registered_op_type for g in library.registered_gradients}

    def damaged(self, reason: str) -> ValueError:
        """Return the error to raise for a damaged graph."""
        return ValueError(
            f"{self.file} is damaged: {reason}; export or download the SavedModel again"
        )

    @property
    def kind(self) -> str:
        """TensorFlow's identifier of the root object's class."""
        return self._nodes[0].user_object.identifier if self._nodes else ""

    def has(self, name: str) -> bool:
        """Return whether the module will have an attribute after loading."""
        return not self.is_tf1 and name in self._children(0)

    def functions(self) -> tuple[Function, ...]:
        """Return the module itself, its functions, and those of its direct sub-objects.

        Functions that were not traced have no calls.
        """
        return tuple(self._functions_of(0, "", deeper=True)) if self._nodes else ()

    def signatures(self) -> tuple[Function, ...]:
        """Return the signatures, sorted by name."""
        found = []
        for name, signature in sorted(self._graph.signature_def.items()):
            if name not in _INIT_OPS:
                inputs = {k: self._tensor(x) for k, x in sorted(signature.inputs.items())}
                outputs = {k: self._tensor(x) for k, x in sorted(signature.outputs.items())}
                found.append(Function(name, (Trace((), inputs, outputs),)))
        return tuple(found)

    def variables(self) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
        """Return all `Variable`s in the files, and those that `module.variables` lists.

        In the first tuple `trainable` is the variable's own flag, in the second it says whether
        `trainable_variables` lists it.
        """
        if self.is_tf1:
            return self._tf1_variables(), ()
        places = [i for i, n in enumerate(self._nodes) if n.WhichOneof("kind") == "variable"]
        trained = set(self._listed("trainable_variables"))
        stored = tuple(self._variable(i, self._nodes[i].variable.trainable) for i in places)
        listed = self._listed("variables")
        if not set(listed) <= set(places):
            raise self.damaged("its list of variables holds other objects")
        return stored, tuple(self._variable(i, i in trained) for i in listed)

    def count(self, name: str) -> int:
        """Return the length of a list of the root, such as `regularization_losses`."""
        return len(self._listed(name))

    def lost_gradients(self, function: Function) -> bool:
        """Return whether the `Function` has operations whose gradient was not saved."""
        node = 0
        for part in [*function.name.split("."), "__call__"]:
            node = self._children(node).get(part, node)
        names = reached(self._nodes[node].function.concrete_functions, self._functions)
        return any(
            one.attr["_gradient_op_type"].s.decode("utf-8", "replace") not in self._gradients
            for name in names & self._functions.keys()
            for one in self._functions[name]
            if "_gradient_op_type" in one.attr
        )

    def operations(self) -> set[str]:
        """Return the types of all operations, without calls of the graph's own functions."""
        parts = [self._graph.graph_def.node, *self._functions.values()]
        return {node.op for nodes in parts for node in nodes} - self._functions.keys()

    def _children(self, node: int) -> dict[str, int]:
        children = {c.local_name: c.node_id for c in self._nodes[node].children}
        if not all(0 <= i < len(self._nodes) for i in children.values()):
            raise self.damaged("it refers to an object that is missing")
        return children

    def _listed(self, name: str) -> list[int]:
        """Return the node numbers of the items of a list of the root."""
        if not self.has(name):
            return []
        items = self._children(self._children(0)[name]).items()
        return [i for _, i in sorted((int(k), i) for k, i in items if k.isdecimal())]

    def _functions_of(self, node: int, name: str, deeper: bool) -> list[Function]:
        kind = self._nodes[node].WhichOneof("kind")
        if kind in ("function", "bare_concrete_function"):
            return [self._function(node, name)]
        if kind != "user_object":
            return []
        children, found = self._children(node), []
        if "__call__" in children:
            found.append(self._function(children["__call__"], name))
        for child, place in children.items():
            is_object = self._nodes[place].WhichOneof("kind") == "user_object"
            if _is_public(child) and (deeper or not is_object):
                inner = f"{name}.{child}".lstrip(".")
                found += self._functions_of(place, inner, deeper=False)
        return found

    def _function(self, place: int, name: str) -> Function:
        node = self._nodes[place]
        if node.WhichOneof("kind") == "bare_concrete_function":
            inputs, outputs = self._trace(node.bare_concrete_function.concrete_function_name)
            specs = tf.nest.flatten(inputs, expand_composites=True)
            specs = [x for x in specs if isinstance(x, tf.TypeSpec)]
            words = node.bare_concrete_function.argument_keywords
            named = dict(zip(words, specs, strict=False))
            return Function(name, (Trace((), named, outputs),))
        traces = [self._trace(c) for c in node.function.concrete_functions]
        if not traces:
            return Function(name, ())
        names, defaults = self._parameters(node.function.function_spec)
        return Function(
            name, tuple(Trace(args, kw, out, names, defaults) for (args, kw), out in traces)
        )

    def _parameters(
        self, spec: saved_object_graph_pb2.FunctionSpec
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the names of the positional parameters, and a dict of defaults."""
        found = self._decoded(spec.fullargspec)
        names, defaults = getattr(found, "args", None), getattr(found, "defaults", None) or ()
        more = getattr(found, "kwonlydefaults", None) or {}
        readable = isinstance(names, list) and all(isinstance(n, str) for n in names)
        if not (readable and isinstance(defaults, tuple | list) and isinstance(more, dict)):
            raise self.damaged("the parameters of a function are not readable")
        defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
        return tuple(names[1:] if spec.is_method else names), {**defaults, **more}

    def _trace(self, name: str) -> tuple[tuple[tuple, dict[str, Any]], Any]:
        """Return ((args, kwargs), outputs) of a graph."""
        if name not in self._traces:
            raise self.damaged(f"the function {name!r} is missing")
        inputs = self._decoded(self._traces[name].canonicalized_input_signature)
        outputs = self._decoded(self._traces[name].output_signature)
        pair = inputs if isinstance(inputs, tuple) and len(inputs) == 2 else (None, None)
        if not (isinstance(pair[0], tuple) and isinstance(pair[1], dict)):
            raise self.damaged(f"the arguments of the function {name!r} are not readable")
        return (pair[0], dict(sorted(pair[1].items()))), outputs

    def _decoded(self, proto: struct_pb2.StructuredValue) -> Any:
        try:
            return nested_structure_coder.decode_proto(proto)
        except Exception as error:  # damage causes KeyError, TypeError, ValueError, ...
            reason = first_line(error)[:200]
            if "has not been registered" in reason:
                raise ValueError(f"{self.file} needs another library: {reason}") from error
            raise self.damaged(f"an argument's description is not readable ({reason})") from error

    def _tensor(self, info: meta_graph_pb2.TensorInfo) -> tf.TypeSpec:
        shape, dtype = self._shape_and_dtype(info.tensor_shape, info.dtype, "a signature's tensor")
        if info.WhichOneof("encoding") == "coo_sparse":
            return tf.SparseTensorSpec(shape, dtype)
        return tf.TensorSpec(shape, dtype)

    def _variable(self, place: int, trainable: bool) -> Variable:
        saved = self._nodes[place].variable
        what = f"the variable {saved.name!r}"
        shape, dtype = self._shape_and_dtype(saved.shape, saved.dtype, what)
        return Variable(saved.name, shape, dtype, trainable)

    def _shape_and_dtype(self, shape: Any, dtype: int, what: str) -> tuple:
        try:
            return tf.TensorShape(shape), tf.as_dtype(dtype)
        except (TypeError, ValueError) as error:
            raise self.damaged(f"{what} is not readable ({error})") from error

    def _tf1_variables(self) -> tuple[Variable, ...]:
        """Return the variables without shapes; these are in the index."""
        collections = self._graph.collection_def
        found = {}
        for key in ("variables", "trainable_variables"):
            for data in collections[key].bytes_list.value if key in collections else ():
                try:
                    variable = variable_pb2.VariableDef.FromString(data)
                except DecodeError as error:
                    raise self.damaged("a variable is not readable") from error
                whole = variable.save_slice_info_def.full_name  # of a partitioned one
                name = whole or variable.variable_name.split(":")[0]
                trained = key == "trainable_variables" or name in found and found[name].trainable
                found[name] = Variable(name, tf.TensorShape(None), tf.float32, trained)
        return tuple(found.values())


def is_name(text: str) -> bool:
    """Return whether `text` can be an attribute or a keyword argument."""
    return text.isidentifier() and not keyword.iskeyword(text)


def _is_public(name: str) -> bool:
    hidden = name in _NOT_SHOWN or name.startswith(("_", _KERAS_LOSSES))
    return is_name(name) and not hidden


def foreign_ops(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the operations that TensorFlow alone does not register, sorted, by library.

    A library that is not known is "". The result does not depend on whether tensorflow_text is
    imported.
    """
    found = {}
    for name in sorted(set(names)):
        if name in TENSORFLOW_TEXT or name.startswith("TFText>"):
            found.setdefault("tensorflow_text", []).append(name)
        elif ">" in name or op_def_registry.get(name) is None:  # only libraries have namespaces
            found.setdefault("", []).append(name)
    return {library: tuple(ops) for library, ops in found.items()}


def called(node: node_def_pb2.NodeDef) -> Iterator[str]:
    """Yield the names of the functions that an operation calls, and its own."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (one.name for one in value.list.func)


def reached(names: Iterable[str], functions: Mapping[str, Nodes]) -> set[str]:
    """Return all that is called by functions of these names, with them."""
    seen, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += itertools.chain.from_iterable(map(called, functions.get(name, ())))
    return seen
