"""Writing Reusable SavedModels."""

from tfnlp.hub.bert import BertPreprocessorModule, export_bert
from tfnlp.hub.elmo import ElmoModule, export_elmo
from tfnlp.hub.elmo_layers import running_layers, sentence_layers
from tfnlp.hub.export import export
from tfnlp.hub.fine_tuned import FineTunedModule, export_fine_tuned
from tfnlp.hub.gpt import GPTModule, GPTPreprocessorModule, export_gpt
from tfnlp.hub.inspection import Inspection, inspect
from tfnlp.hub.layer import Layer
from tfnlp.hub.loaded import saved_encoder
from tfnlp.hub.loaded_text import saved_elmo, saved_kind, saved_tokenizer
from tfnlp.hub.module import KerasModule
from tfnlp.hub.save import save
from tfnlp.hub.task_model import TaskModel
from tfnlp.hub.text_generation import TextGenerator
from tfnlp.hub.translation import TranslationModule, Translator, export_translator
from tfnlp.hub.word_vectors import WordVectorsModule, export_word_vectors

__all__ = [
    "BertPreprocessorModule",
    "ElmoModule",
    "FineTunedModule",
    "GPTModule",
    "GPTPreprocessorModule",
    "Inspection",
    "KerasModule",
    "Layer",
    "TaskModel",
    "TextGenerator",
    "TranslationModule",
    "Translator",
    "WordVectorsModule",
    "export",
    "export_bert",
    "export_elmo",
    "export_fine_tuned",
    "export_gpt",
    "export_translator",
    "export_word_vectors",
    "inspect",
    "running_layers",
    "save",
    "saved_elmo",
    "saved_encoder",
    "saved_kind",
    "saved_tokenizer",
    "sentence_layers",
]
