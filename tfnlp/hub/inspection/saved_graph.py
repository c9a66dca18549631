"""What saved_model.pb says of a module, without loading it or running any of it."""

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.saved_model import nested_structure_coder

from tfnlp.hub.inspection.usage import is_name
from tfnlp.hub.loading.archives import GRAPHS
from tfnlp.hub.saving.callables import Call, Function, Variable
from tfnlp.hub.saving.graph_operations import Operations

_LISTS = ("variables", "trainable_variables", "regularization_losses")
_NOT_SHOWN = {*_LISTS, "non_trainable_variables", "signatures", "keras_api", "optimizer"}
_KERAS_LOSSES = "call_and_return_"  # what Keras 2 saves beside each `__call__`
_INIT_OPS = ("__saved_model_init_op", "__saved_model_train_op")


class SavedGraph:
    """The graph of a SavedModel. Wherever it contradicts itself, a ValueError says so.

    Args:
        path: folder of a SavedModel that passed `tfnlp.hub.saving.checks.check_saved_model`.
    """

    def __init__(self, path):
        self.file, saved = _parsed(path)
        graphs = list(saved.meta_graphs)
        # Several are of TensorFlow 1: one to train with, one not.
        graph = next((g for g in graphs if "train" not in g.meta_info_def.tags), graphs[0])
        self.tags = tuple(graph.meta_info_def.tags)
        self.only_graph = len(graphs) == 1
        self.version = graph.meta_info_def.tensorflow_version
        self.is_tf1 = not graph.object_graph_def.nodes
        self.assets = tuple(a.filename for a in graph.asset_file_def)
        self._nodes, self._graph = graph.object_graph_def.nodes, graph
        self._traces = graph.object_graph_def.concrete_functions
        self.operations = Operations(graph.graph_def)

    def damaged(self, reason):
        """The error to raise."""
        return ValueError(
            f"{self.file} is damaged: {reason}; export or download the SavedModel again"
        )

    @property
    def kind(self):
        """What TensorFlow calls the class of the root object."""
        return self._nodes[0].user_object.identifier if self._nodes else ""

    @property
    def lists_variables(self):
        """Whether the module will have `variables` after loading."""
        return not self.is_tf1 and "variables" in self._children(0)

    @property
    def lists_trainable(self):
        """Whether it will have `trainable_variables`."""
        return not self.is_tf1 and "trainable_variables" in self._children(0)

    @property
    def is_keras_export(self):
        """Whether it bears the marks of Keras 3's `ExportArchive`."""
        return not self.is_tf1 and "_misc_assets" in self._children(0)

    def functions(self):
        """`Function`s: the module itself, its functions, those of objects one level down; without
        calls if they were not traced."""
        return tuple(self._functions_of(0, "", deeper=True)) if self._nodes else ()

    def signatures(self):
        """`Function`s, by name."""
        found = []
        for name, signature in sorted(self._graph.signature_def.items()):
            if name not in _INIT_OPS:
                inputs = {k: self._tensor(x) for k, x in sorted(signature.inputs.items())}
                outputs = {k: self._tensor(x) for k, x in sorted(signature.outputs.items())}
                found.append(Function(name, (Call((), inputs, (), {}, outputs),)))
        return tuple(found)

    def variables(self):
        """All `Variable`s that the files hold, and those that `module.variables` lists. Of the
        first, `trainable` is what the variable says, of the second whether it is listed."""
        if self.is_tf1:
            return self._tf1_variables(), ()
        places = [i for i, n in enumerate(self._nodes) if n.WhichOneof("kind") == "variable"]
        trained = set(self._listed("trainable_variables"))
        stored = tuple(self._variable(i, self._nodes[i].variable.trainable) for i in places)
        listed = self._listed("variables")
        if not set(listed) <= set(places):
            raise self.damaged("what it lists as variables are none")
        return stored, tuple(self._variable(i, i in trained) for i in listed)

    def count(self, name):
        """How many there are in a list of the root, `regularization_losses` for one."""
        return len(self._listed(name))

    def lost_gradients(self, function):
        """Whether the calls of the `Function` have operations whose gradient was not saved."""
        node = 0
        for part in [*function.name.split("."), "__call__"]:
            node = self._children(node).get(part, node)
        return self.operations.lost_gradients(self._nodes[node].function.concrete_functions)

    def _children(self, node):
        children = {c.local_name: c.node_id for c in self._nodes[node].children}
        if not all(0 <= i < len(self._nodes) for i in children.values()):
            raise self.damaged("it refers to an object that it does not hold")
        return children

    def _listed(self, name):
        """Places of what a list of the root holds."""
        if self.is_tf1 or name not in self._children(0):
            return []
        items = self._children(self._children(0)[name]).items()
        return [i for _, i in sorted((int(k), i) for k, i in items if k.isdecimal())]

    def _functions_of(self, node, name, deeper):
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

    def _function(self, place, name):
        node = self._nodes[place]
        if node.WhichOneof("kind") == "bare_concrete_function":
            trace = self._trace(node.bare_concrete_function.concrete_function_name)
            (args, kwargs), outputs = trace
            specs = tf.nest.flatten((args, kwargs), expand_composites=True)
            specs = [x for x in specs if isinstance(x, tf.TypeSpec)]
            words = node.bare_concrete_function.argument_keywords
            named = dict(zip(words, specs, strict=False))
            return Function(name, (Call((), named, (), {}, outputs),))
        traces = [self._trace(c) for c in node.function.concrete_functions]
        if not traces:
            return Function(name, ())
        names, defaults = self._parameters(node.function.function_spec)
        return Function(
            name, tuple(Call(args, kw, names, defaults, out) for (args, kw), out in traces)
        )

    def _parameters(self, spec):
        """Names of those that can be given by position, and a dict of defaults."""
        found = self._decoded(spec.fullargspec)
        names, defaults = getattr(found, "args", None), getattr(found, "defaults", None) or ()
        more = getattr(found, "kwonlydefaults", None) or {}
        readable = isinstance(names, list) and all(isinstance(n, str) for n in names)
        if not (readable and isinstance(defaults, tuple | list) and isinstance(more, dict)):
            raise self.damaged("the parameters of a function are not readable")
        defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))
        return tuple(names[1:] if spec.is_method else names), {**defaults, **more}

    def _trace(self, name):
        """((args, kwargs), outputs) of a graph."""
        if name not in self._traces:
            raise self.damaged(f"the function {name!r} is missing")
        inputs = self._decoded(self._traces[name].canonicalized_input_signature)
        outputs = self._decoded(self._traces[name].output_signature)
        pair = inputs if isinstance(inputs, tuple) and len(inputs) == 2 else (None, None)
        if not (isinstance(pair[0], tuple) and isinstance(pair[1], dict)):
            raise self.damaged(f"the arguments of the function {name!r} are not readable")
        return (pair[0], dict(sorted(pair[1].items()))), outputs

    def _decoded(self, proto):
        try:
            return nested_structure_coder.decode_proto(proto)
        except Exception as error:  # damage shows as KeyError, TypeError, ValueError, ...
            reason = str(error).split("\n")[0][:200]
            if "has not been registered" in reason:
                raise ValueError(f"{self.file} needs another library: {reason}") from error
            raise self.damaged(f"an argument's description is not readable ({reason})") from error

    def _tensor(self, info):
        try:
            shape, dtype = tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype)
        except (TypeError, ValueError) as error:
            raise self.damaged(f"a signature's tensor is not readable ({error})") from error
        if info.WhichOneof("encoding") == "coo_sparse":
            return tf.SparseTensorSpec(shape, dtype)
        return tf.TensorSpec(shape, dtype)

    def _variable(self, place, trainable):
        saved = self._nodes[place].variable
        try:
            shape, dtype = tf.TensorShape(saved.shape), tf.as_dtype(saved.dtype)
        except (TypeError, ValueError) as error:
            raise self.damaged(f"the variable {saved.name!r} is not readable ({error})") from error
        return Variable(saved.name, shape, dtype, trainable)

    def _tf1_variables(self):
        """Names alone: shapes are in the index."""
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


def _is_public(name):
    hidden = name in _NOT_SHOWN or name.startswith(("_", _KERAS_LOSSES))
    return is_name(name) and not hidden


def _parsed(path):
    """The name of the graph's file, and its content."""
    file = next(f for f in (f"{path}/{name}" for name in GRAPHS) if tf.io.gfile.exists(f))
    with tf.io.gfile.GFile(file, "rb") as stream:
        data = stream.read()
    if file.endswith(".pb"):
        return file, saved_model_pb2.SavedModel.FromString(data)
    return file, text_format.Parse(data.decode(), saved_model_pb2.SavedModel())
