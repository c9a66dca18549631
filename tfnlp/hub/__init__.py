"""Writing Reusable SavedModels."""

from tfnlp.hub.bert import BertPreprocessorModule, bert_encoder_module, export_bert
from tfnlp.hub.elmo import ElmoModule, export_elmo
from tfnlp.hub.elmo_layers import running_layers, sentence_layers
from tfnlp.hub.module import KerasModule
from tfnlp.hub.save import save

__all__ = [
    "BertPreprocessorModule",
    "ElmoModule",
    "KerasModule",
    "bert_encoder_module",
    "export_bert",
    "export_elmo",
    "running_layers",
    "save",
    "sentence_layers",
]
