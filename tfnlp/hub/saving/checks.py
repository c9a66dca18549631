"""Which file of a SavedModel is missing or damaged.

TensorFlow's own messages name the tensor, the table or nothing at all, and it makes room for what
an index claims before it looks whether the file is that long.
"""

import math
import posixpath
import re

import tensorflow as tf
from google.protobuf import message, text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from tfnlp.hub.loading.archives import GRAPHS

_AGAIN = "export or download it again"
_SHARD = re.compile(r"variables\.data-(\d{5})-of-(\d{5})$")


def check_saved_model(path, tensors=False):
    """Looks whether a SavedModel of TensorFlow 1 or 2 is whole.

    These are seen: a graph that is absent, empty, cut off or undecodable; an index of variables
    that is absent or damaged; files of variables that are absent, or too short for the tensors
    of the index; assets that are absent. With `tensors` also a changed byte in the files of
    variables: TensorFlow keeps a CRC32C of each tensor and compares it whenever it reads one, so
    `tf.saved_model.load` notices it too, without naming the file.

    A changed byte that leaves the graph decodable, and any inside of an asset, are not: a
    SavedModel has no checksum of them that could be relied on.

    Args:
        path: folder of the SavedModel, local or `gs://`.
        tensors: read all variables too, which takes as long as loading them.

    Raises:
        FileNotFoundError: names the file that is absent.
        ValueError: names the file that is damaged, and how.
    """
    for meta in _graph(path).meta_graphs:
        for name in _assets(meta):
            _check_asset(path, name)
        _check_variables(path, meta, tensors)


def _graph(path):
    file = next((f for f in (f"{path}/{name}" for name in GRAPHS) if _is_file(f)), None)
    if file is None:
        raise FileNotFoundError(f"{path} is not a SavedModel: it has no {GRAPHS[0]}; {_AGAIN}")
    content, graph = _read(file), saved_model_pb2.SavedModel()
    try:
        if file.endswith(".pb"):
            graph.ParseFromString(content)
        else:
            text_format.Parse(content.decode(), graph)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"{file} is cut off or damaged ({reason}); {_AGAIN}") from error
    if not graph.meta_graphs:
        raise ValueError(f"{file} has {len(content)} bytes and no graph in them; {_AGAIN}")
    return graph


def _assets(meta):
    """Names of files in `assets`; those of TensorFlow 1 are listed in a collection."""
    for asset in meta.asset_file_def:
        yield asset.filename
    for packed in meta.collection_def["saved_model_assets"].any_list.value:
        asset = meta_graph_pb2.AssetFileDef()
        if packed.Unpack(asset):
            yield asset.filename


def _check_asset(path, name):
    file = f"{path}/assets/{name}"
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise ValueError(
            f"{path} names the asset {name!r}; expected a file inside of {path}/assets; {_AGAIN}"
        )
    if not _is_file(file):
        raise FileNotFoundError(f"{file} is missing, an asset of the SavedModel; {_AGAIN}")


def _check_variables(path, meta, tensors):
    prefix = f"{path}/variables/variables"
    if not _is_file(f"{prefix}.index"):
        if _has_variables(meta):
            raise FileNotFoundError(f"{prefix}.index is missing; {_AGAIN}")
        return
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    except Exception as error:  # damage shows as any of TensorFlow's errors, or as Python's
        raise ValueError(
            f"{prefix}.index is cut off or damaged ({_reason(error)}); {_AGAIN}"
        ) from error
    held = _shards_size(prefix)
    claimed = sum(
        math.prod(shape) * max(dtypes[name].size or 0, 1) for name, shape in shapes.items()
    )
    if claimed > held:
        raise ValueError(
            f"{prefix}.data-* hold {held} bytes, but the index lists tensors of {claimed}: they "
            f"are cut off or don't belong together; {_AGAIN}"
        )
    for name in sorted(shapes) if tensors else ():
        try:
            reader.get_tensor(name)
        except Exception as error:
            raise ValueError(
                f"{prefix}.data-* are cut off or damaged: {name!r} cannot be read "
                f"({_reason(error)}); {_AGAIN}"
            ) from error


def _has_variables(meta):
    """TensorFlow 2 always writes and reads an index, TensorFlow 1 where there are variables."""
    return bool(meta.object_graph_def.nodes) or any(
        node.op in ("VarHandleOp", "VariableV2", "Variable") for node in meta.graph_def.node
    )


def _shards_size(prefix):
    """Bytes of all files of variables, of which none may be missing."""
    folder, name = posixpath.split(prefix)
    found = [match for match in map(_SHARD.match, sorted(tf.io.gfile.listdir(folder))) if match]
    count = int(found[0][2]) if found else 1
    names = [f"{name}.data-{k:05}-of-{count:05}" for k in range(count)]
    for shard in names:
        if not _is_file(f"{folder}/{shard}"):
            raise FileNotFoundError(f"{folder}/{shard} is missing; {_AGAIN}")
    return sum(tf.io.gfile.stat(f"{folder}/{shard}").length for shard in names)


def _is_file(file):
    return tf.io.gfile.exists(file) and not tf.io.gfile.isdir(file)


def _read(file):
    try:
        with tf.io.gfile.GFile(file, "rb") as stream:
            return stream.read()
    except tf.errors.OpError as error:
        raise OSError(f"{file} cannot be read ({error.message})") from error


def _reason(error):
    lines = str(getattr(error, "message", None) or error).strip().split("\n")
    return lines[0][:200] or type(error).__name__
