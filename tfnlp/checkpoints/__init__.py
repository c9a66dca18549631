"""Conversion of published checkpoints to tfnlp models, and back."""

from tfnlp.checkpoints.electra import load_electra, save_electra
from tfnlp.checkpoints.elmo import load_elmo, save_elmo
from tfnlp.checkpoints.encoders import (
    google_tensors,
    huggingface_tensors,
    load_albert,
    load_bert,
    load_distilbert,
    load_roberta,
    save_albert,
    save_distilbert,
    save_huggingface,
    save_roberta,
)
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.gpt import load_gpt, save_gpt
from tfnlp.checkpoints.keras_hub import from_keras_hub, to_keras_hub
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.word_vectors import read_word_vectors, write_word_vectors

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
