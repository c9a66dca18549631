"""What a SavedModel could do to the machine that loads or calls it, read from its graph."""

import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tensorflow.core.framework import node_def_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from tfnlp.hub.inspection.saved_graph import Nodes, called, foreign_ops, reached
from tfnlp.hub.loading.checks import check_saved_model, read_graph
from tfnlp.hub.loading.saved_model import only_module

READS, WRITES, CODE = "reads files", "writes files", "runs other code"
NETWORK, NATIVE, UNKNOWN = "reaches other machines", "native parser", "unknown operation"
_NOTES = (NATIVE, UNKNOWN)  # that a module may well need
# What TensorFlow's operations do besides computing.
EFFECTS: dict[str, str] = {
    name: effect
    for effect, names in {
        READS: """
            CSVDataset CSVDatasetV2 DTensorRestoreV2 ExperimentalCSVDataset ExperimentalLMDBDataset
            ExperimentalMatchingFilesDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
            FixedLengthRecordReader FixedLengthRecordReaderV2 FixedUnigramCandidateSampler
            GenerateVocabRemapping InitializeTableFromTextFile InitializeTableFromTextFileV2
            LMDBDataset LMDBReader ListSnapshotChunksDataset LoadAndRemapMatrix LoadDataset
            MatchingFiles MatchingFilesDataset ReadFile RecordInput Restore RestoreSlice RestoreV2
            Skipgram SnapshotChunkDataset SnapshotDatasetReader SnapshotNestedDatasetReader
            TFRecordDataset TFRecordDatasetV2 TFRecordReader TFRecordReaderV2 TextLineDataset
            TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2
        """,
        WRITES: """
            CacheDataset CacheDatasetV2 CalibrationStatisticsSaver CreateSummaryDbWriter
            CreateSummaryFileWriter DatasetToTFRecord DebugIdentity DebugIdentityV2 DebugIdentityV3
            DebugNanCount DebugNumericSummary DistributedSave DumpTensor
            ExperimentalDatasetToTFRecord MergeV2Checkpoints PrintV2 Save SaveDataset SaveDatasetV2
            SaveSlices SaveV2 SnapshotDataset SnapshotDatasetV2 WriteFile
        """,
        CODE: """
            EagerPyFunc PyFunc PyFuncStateless XlaCustomCall XlaCustomCallV2
        """,
        NETWORK: """
            DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4
            RegisterDataset RegisterDatasetV2 RemoteCall RpcCall RpcClient RpcServer RpcServerStart
        """,
        NATIVE: """
            DecodeAndCropJpeg DecodeBmp DecodeCompressed DecodeGif DecodeImage DecodeJpeg
            DecodeJSONExample DecodeJxl DecodePng DecodeProtoV2 DecodeWav DecodeWebP
            ExtractJpegShape FastWordpieceTokenizeWithOffsets ParseTensor SentencepieceOp
            TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize
            TFText>FastWordpieceDetokenize XlaCallModule
        """,
    }.items()
    for name in names.split()
}
# A path in an attribute, without which the operation touches no file.
_OPTIONAL = {
    "FixedUnigramCandidateSampler": ("vocab_file", ""),
    "PrintV2": ("output_stream", "file://"),
}
_SAVER = {"Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2"}
_SAVER |= {"MergeV2Checkpoints"}
_TABLES = {"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"}
_PATH = re.compile(r"^(/|~|[A-Za-z]:[\\/])|^\w[\w+.-]*://|(^|[\\/])\.\.([\\/]|$)")


@dataclass(frozen=True)
class Finding:
    """What an operation of a graph does.

    Attributes:
        effect: "reads files", "writes files", "runs other code", "reaches other machines", "native
            parser" or "unknown operation".
        operation: its type.
        function: the graph's function that it is in; "" for the graph itself.
        paths: paths and addresses that stand beside it in the graph.
    """

    effect: str
    operation: str
    function: str
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f" in {self.function}" if self.function else ""
        return f"{self.operation}{place}{''.join(f' {path}' for path in self.paths)}"


@dataclass(frozen=True)
class Audit:
    """Result of `audit`; `str` gives it as lines, `to_dict()` is ready for JSON.

    Attributes:
        path: folder of the SavedModel.
        findings: what its operations do, without reading its own assets and variables.
        operations: number of operations that were looked at.
    """

    path: str
    findings: tuple[Finding, ...]
    operations: int

    @property
    def dangers(self) -> tuple[Finding, ...]:
        """Findings other than native parsers and unknown operations."""
        return tuple(one for one in self.findings if one.effect not in _NOTES)

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, strings and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"  {one.effect:<22} {one}" for one in self.findings]
        end = "nothing else" if self.findings else "reads its own variables and assets alone"
        return "\n".join([self.path, *lines, f"  {end}; {self.operations:,} operations"])


def audit(handle: str | os.PathLike) -> Audit:
    """Say what a SavedModel could do besides computing, without loading or running it.

    A graph that reads no file but its assets and variables, writes none, runs no Python and reaches
    no address has no `dangers`. Native parsers (SentencePiece, images, StableHLO) read bytes of the
    module or of its inputs in C++; what a graph computes, and how long, is not looked at.

    Args:
        handle: what `tfnlp.hub.inspect` takes.

    Raises:
        FileNotFoundError: if there is no SavedModel, or a file of it is missing.
        ValueError: if it is another format, is damaged, or the folder holds several.
    """
    path = only_module(handle)
    check_saved_model(path)
    findings: list[Finding] = []
    count = 0
    for graph in read_graph(path).meta_graphs:
        signatures = {f.signature.name: f.signature for f in graph.graph_def.library.function}
        parts = {f.signature.name: f.node_def for f in graph.graph_def.library.function}
        live = _live(graph, parts)
        for name, nodes in [("", graph.graph_def.node), *parts.items()]:
            count += len(nodes)
            saver = bool(name) and name not in live  # only the graph's saver calls it
            files = _asset_inputs(graph, signatures.get(name))
            findings += _of_nodes(graph, name, nodes, saver, files, parts.keys())
    order = {effect: n for n, effect in enumerate((CODE, WRITES, READS, NETWORK, *_NOTES))}
    found = sorted(set(findings), key=lambda one: (order[one.effect], one.operation, one.function))
    return Audit(path, tuple(found), count)


def _of_nodes(
    graph: meta_graph_pb2.MetaGraphDef,
    name: str,
    nodes: Nodes,
    saver: bool,
    files: Collection[str],
    functions: Collection[str],
) -> Iterator[Finding]:
    """Yield what the operations of one function do; `files` are its paths of assets."""
    here = {node.name: node for node in nodes}
    paths = tuple(sorted({x for node in nodes for x in _strings(node) if _PATH.search(x)}))
    filename = graph.saver_def.filename_tensor_name.split(":")[0]
    for node in nodes:
        effect = EFFECTS.get(node.op)
        given = [x.split(":")[0] for x in node.input if not x.startswith("^")]
        if node.op in _OPTIONAL:
            attribute, begin = _OPTIONAL[node.op]
            value = node.attr[attribute].s.decode("utf-8", "replace")
            effect = effect if value and value.startswith(begin) else None
        elif node.op in _TABLES and given[1:2] and given[1] in files:
            effect = None
        elif node.op in _SAVER and (saver or not name and _follows(here, given[:1], filename)):
            effect = None
        elif effect is None and node.op not in functions and "" in foreign_ops([node.op]):
            effect = UNKNOWN
        if effect is not None:
            yield Finding(effect, node.op, name, () if effect in _NOTES else paths)


def _live(graph: meta_graph_pb2.MetaGraphDef, functions: Mapping[str, Nodes]) -> set[str]:
    """Return the functions that something else than the graph's saver calls."""
    saver = graph.saver_def
    of_saver = {x.split(":")[0] for x in (saver.save_tensor_name, saver.restore_op_name)}
    nodes = (node for node in graph.graph_def.node if node.name not in of_saver)
    names = itertools.chain.from_iterable(map(called, nodes))
    return reached([*graph.object_graph_def.concrete_functions, *names], functions)


def _asset_inputs(graph: meta_graph_pb2.MetaGraphDef, signature: Any) -> set[str]:
    """Return the tensors of a function, or of the graph itself, that are paths of assets."""
    if signature is None:
        return {asset.tensor_info.name.split(":")[0] for asset in graph.asset_file_def}
    saved = graph.object_graph_def
    trace = saved.concrete_functions.get(signature.name)
    if trace is None:
        return set()
    names = [argument.name for argument in signature.input_arg]
    bound = list(trace.bound_inputs)
    captured = names[len(names) - len(bound) :] if bound else []
    return {
        name
        for name, place in zip(captured, bound, strict=False)
        if 0 <= place < len(saved.nodes) and saved.nodes[place].WhichOneof("kind") == "asset"
    }


def _follows(
    nodes: Mapping[str, node_def_pb2.NodeDef], names: Sequence[str], filename: str
) -> bool:
    """Return whether strings are made of the saver's file name, and of no other path."""
    left, seen = list(names), set()
    while left:
        name = left.pop()
        if name not in seen and name != filename:
            node = nodes.get(name)
            if node is None or any(map(_PATH.search, _strings(node))):
                return False
            left += [x.split(":")[0] for x in node.input if not x.startswith("^")]
        seen.add(name)
    return filename in seen


def _strings(node: node_def_pb2.NodeDef) -> Iterator[str]:
    for value in node.attr.values():
        texts = [value.s, *value.list.s]
        if value.tensor.dtype == types_pb2.DT_STRING:
            texts += value.tensor.string_val
        yield from (text.decode("utf-8", "replace")[:200] for text in texts)
