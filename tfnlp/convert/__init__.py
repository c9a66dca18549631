"""Other people's checkpoints to tfnlp models, and back."""

from tfnlp.convert.bert import Converted, load_bert
from tfnlp.convert.bert_export import google_tensors, huggingface_tensors, save_huggingface
from tfnlp.convert.tensors import Tensors, open_tensors

__all__ = [
    "Converted",
    "Tensors",
    "google_tensors",
    "huggingface_tensors",
    "load_bert",
    "open_tensors",
    "save_huggingface",
]
