"""Writing Reusable SavedModels."""

from tfnlp.hub.bert import BertPreprocessorModule, bert_encoder_module, export_bert
from tfnlp.hub.elmo import ElmoModule, export_elmo
from tfnlp.hub.elmo_layers import running_layers, sentence_layers
from tfnlp.hub.gpt import GPTModule, GPTPreprocessorModule, export_gpt
from tfnlp.hub.module import KerasModule
from tfnlp.hub.save import save
from tfnlp.hub.text_generation import TextGenerator

__all__ = [
    "BertPreprocessorModule",
    "ElmoModule",
    "GPTModule",
    "GPTPreprocessorModule",
    "KerasModule",
    "TextGenerator",
    "bert_encoder_module",
    "export_bert",
    "export_elmo",
    "export_gpt",
    "running_layers",
    "save",
    "sentence_layers",
]
