"""Conversion of published checkpoints to tfnlp models, and back."""

from tfnlp.convert.albert import load_albert, save_albert
from tfnlp.convert.bert import google_tensors, huggingface_tensors, load_bert, save_huggingface
from tfnlp.convert.distilbert import load_distilbert, save_distilbert
from tfnlp.convert.electra import load_electra, save_electra
from tfnlp.convert.elmo.loading import load_elmo
from tfnlp.convert.elmo.saving import save_elmo
from tfnlp.convert.formats.tensors import Tensors
from tfnlp.convert.formats.weight_files import open_tensors
from tfnlp.convert.gpt.loading import load_gpt
from tfnlp.convert.gpt.saving import save_gpt
from tfnlp.convert.keras_hub import from_keras_hub, to_keras_hub
from tfnlp.convert.pretrained import Pretrained
from tfnlp.convert.roberta import load_roberta, save_roberta
from tfnlp.convert.word_vectors import read_word_vectors, write_word_vectors

__all__ = [
    "Pretrained",
    "Tensors",
    "from_keras_hub",
    "google_tensors",
    "huggingface_tensors",
    "load_albert",
    "load_bert",
    "load_distilbert",
    "load_electra",
    "load_elmo",
    "load_gpt",
    "load_roberta",
    "open_tensors",
    "read_word_vectors",
    "save_albert",
    "save_distilbert",
    "save_electra",
    "save_elmo",
    "save_gpt",
    "save_huggingface",
    "save_roberta",
    "to_keras_hub",
    "write_word_vectors",
]
