"""Check of a SavedModel's files, with errors that name the file that is missing or damaged.

TensorFlow's own messages name the tensor, the table or nothing, and it allocates the memory that
an index states before it looks at the length of the file.
"""

import json
import math
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf import message, text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from tfnlp import __version__
from tfnlp.checksums import check_files, checksums
from tfnlp.files import first_line, write_text

GRAPHS = ("saved_model.pb", "saved_model.pbtxt")
RECORD = "assets.extra/tfnlp.json"  # what tfnlp knows of a module that it exported
_AGAIN = "export or download it again"
_SHARD = re.compile(r"variables\.data-(\d{5})-of-(\d{5})$")


def is_saved_model(path: str) -> bool:
    """Return whether a local folder holds the graph file of a SavedModel."""
    return any(os.path.isfile(os.path.join(path, name)) for name in GRAPHS)


def check_saved_model(path: str, tensors: bool = False) -> None:
    """Check that a SavedModel of TensorFlow 1 or 2 is complete.

    It finds: a graph that is missing, empty, cut off or undecodable; an index of variables that is
    missing or damaged; variable files that are missing, or too short for the tensors of the index;
    assets that are missing. With `tensors` it also finds a changed byte in the variable files, by
    the CRC32C of each tensor: `tf.saved_model.load` notices it too, but does not name the file.

    It does not find a changed byte that leaves the graph decodable, or one in an asset: a
    SavedModel has no reliable checksum of these. `check_record` does.
    """
    for meta in read_graph(path).meta_graphs:
        for name in _assets(meta):
            file = f"{path}/assets/{name}"
            if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise ValueError(
                    f"{path} names the asset {name!r}; expected a file inside of {path}/assets; "
                    f"{_AGAIN}"
                )
            if not _is_file(file):
                raise FileNotFoundError(f"{file} is missing, an asset of the SavedModel; {_AGAIN}")
        _check_variables(path, meta, tensors)


def write_record(path: str, about: dict[str, Any] | None = None) -> None:
    """Write the checksums of a new SavedModel beside it, where TensorFlow reads nothing."""
    files = checksums(path, [GRAPHS[0], "assets", "variables"])
    os.makedirs(os.path.join(path, os.path.dirname(RECORD)), exist_ok=True)
    model = {} if about is None else {"model": about}
    text = json.dumps({"tfnlp": __version__, **model, "files": files}, indent=2)
    write_text(os.path.join(path, RECORD), text + "\n")


def check_record(path: str) -> None:
    """Check that the files of a SavedModel are those that tfnlp exported; of others nothing."""
    record, remedy = _record(path), f"{_AGAIN}, or delete {RECORD} if the change was meant"
    if record is not None:
        check_files(path, record["files"], f"{path}/{RECORD}", remedy)


def read_about(path: str) -> dict[str, Any]:
    """Return the facts that were written with a SavedModel; {} if there are none."""
    try:
        found = (_record(path) or {}).get("model")
    except ValueError:
        return {}  # `check_record` says so
    return found if isinstance(found, dict) else {}


def _record(path: str) -> dict[str, Any] | None:
    file = f"{path}/{RECORD}"
    if not _is_file(file):
        return None
    try:
        record = json.loads(_read(file))
        record["files"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is damaged ({_reason(error)}); {_AGAIN}") from error
    return record


def graph_file(path: str) -> str:
    """Return the graph file of a SavedModel."""
    file = next((f for f in (f"{path}/{name}" for name in GRAPHS) if _is_file(f)), None)
    if file is None:
        raise FileNotFoundError(f"{path} is not a SavedModel: it has no {GRAPHS[0]}; {_AGAIN}")
    return file


def read_graph(path: str) -> saved_model_pb2.SavedModel:
    """Read the graph file of a SavedModel."""
    file = graph_file(path)
    content, graph = _read(file), saved_model_pb2.SavedModel()
    try:
        if file.endswith(".pb"):
            graph.ParseFromString(content)
        else:
            text_format.Parse(content.decode(), graph)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is cut off or damaged ({_reason(error)}); {_AGAIN}") from error
    if not graph.meta_graphs:
        raise ValueError(f"{file} has {len(content)} bytes and no graph in them; {_AGAIN}")
    return graph


def _assets(meta: meta_graph_pb2.MetaGraphDef) -> Iterator[str]:
    """Yield the names of the files in `assets`; TensorFlow 1 lists them in a collection."""
    for asset in meta.asset_file_def:
        yield asset.filename
    for packed in meta.collection_def["saved_model_assets"].any_list.value:
        asset = meta_graph_pb2.AssetFileDef()
        if packed.Unpack(asset):
            yield asset.filename


def _check_variables(path: str, meta: meta_graph_pb2.MetaGraphDef, tensors: bool) -> None:
    prefix = f"{path}/variables/variables"
    if not _is_file(f"{prefix}.index"):
        # TensorFlow 2 always writes one, TensorFlow 1 where there are variables.
        kinds = ("VarHandleOp", "VariableV2", "Variable")
        if meta.object_graph_def.nodes or any(n.op in kinds for n in meta.graph_def.node):
            raise FileNotFoundError(f"{prefix}.index is missing; {_AGAIN}")
        return
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    except Exception as error:  # damage causes any of TensorFlow's errors, or of Python's
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
            f"are cut off or belong to another index; {_AGAIN}"
        )
    for name in sorted(shapes) if tensors else ():
        try:
            reader.get_tensor(name)
        except Exception as error:
            raise ValueError(
                f"{prefix}.data-* are cut off or damaged: {name!r} cannot be read "
                f"({_reason(error)}); {_AGAIN}"
            ) from error


def _shards_size(prefix: str) -> int:
    """Return the bytes of all variable files; raise FileNotFoundError if one is missing."""
    folder, name = posixpath.split(prefix)
    found = [match for match in map(_SHARD.match, sorted(tf.io.gfile.listdir(folder))) if match]
    count = int(found[0][2]) if found else 1
    names = [f"{name}.data-{k:05}-of-{count:05}" for k in range(count)]
    for shard in names:
        if not _is_file(f"{folder}/{shard}"):
            raise FileNotFoundError(f"{folder}/{shard} is missing; {_AGAIN}")
    return sum(tf.io.gfile.stat(f"{folder}/{shard}").length for shard in names)


def _is_file(file: str) -> bool:
    return tf.io.gfile.exists(file) and not tf.io.gfile.isdir(file)


def _read(file: str) -> bytes:
    try:
        with tf.io.gfile.GFile(file, "rb") as stream:
            return stream.read()
    except tf.errors.OpError as error:
        raise OSError(f"{file} cannot be read ({error.message})") from error


def _reason(error: Exception) -> str:
    return first_line(error)[:200]
