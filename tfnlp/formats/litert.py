"""LiteRT (TensorFlow Lite): graphs of ids for phones and browsers. They are only written."""

from tfnlp.formats.graph import Graph


class LiteRT(Graph):
    """A `.tflite` file of texts of one length; see `tfnlp.hub.saving.litert`."""

    name = "litert"
    title = "a graph for LiteRT"
