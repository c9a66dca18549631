"""Operations of a graph that need another library, or have lost their gradient."""

from collections.abc import Iterable

from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry

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


class Operations:
    """The operations of a graph and of the functions in it.

    Attributes:
        names: of all operations, without those of the graph's own functions.
    """

    def __init__(self, graph: graph_pb2.GraphDef) -> None:
        functions = {f.signature.name: f.node_def for f in graph.library.function}
        self.names = {node.op for node in graph.node}
        for nodes in functions.values():
            self.names.update(node.op for node in nodes)
        self.names -= functions.keys()
        self._functions = functions
        self._saved = {g.registered_op_type for g in graph.library.registered_gradients}

    def lost_gradients(self, functions: Iterable[str]) -> bool:
        """Return whether an operation's custom gradient was not saved, so that training fails.

        It may be one of the named functions or of those that they call.
        """
        names, seen = list(functions), set()
        while names:
            name = names.pop()
            if name in seen or name not in self._functions:
                continue
            seen.add(name)
            for node in self._functions[name]:
                names.append(node.op)
                for key, value in node.attr.items():
                    if value.HasField("func"):
                        names.append(value.func.name)
                    elif value.HasField("list"):
                        names += [f.name for f in value.list.func]
                    elif key == "_gradient_op_type":
                        if value.s.decode("utf-8", "replace") not in self._saved:
                            return True
        return False
