"""Writing Reusable SavedModels."""

from tfnlp.hub.bert import BertPreprocessorModule, bert_encoder_module, export_bert
from tfnlp.hub.module import KerasModule
from tfnlp.hub.save import save

__all__ = [
    "BertPreprocessorModule",
    "KerasModule",
    "bert_encoder_module",
    "export_bert",
    "save",
]
