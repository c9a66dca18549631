"""The parts of a `tokenizer.json` of the tokenizers library, executed in the TensorFlow graph."""

from tfnlp.text.pipeline.normalizers import steps_of
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.tokenizer import CONFIG, FILE, PipelineTokenizer, lowercases

__all__ = ["CONFIG", "FILE", "NotExact", "PipelineTokenizer", "lowercases", "steps_of"]
