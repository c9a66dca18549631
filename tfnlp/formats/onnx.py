"""ONNX: graphs of ids for ONNX Runtime and whatever else reads them. They are only written."""

from tfnlp.formats.graph import Graph


class Onnx(Graph):
    """A `.onnx` file of any length of texts; see `tfnlp.hub.saving.onnx`."""

    name = "onnx"
    title = "a graph for ONNX Runtime"
