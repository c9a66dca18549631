"""Reusable SavedModels: export, load as Keras layers, inspect.

`KerasLayer`, `load` and `resolve` stand for those of `tensorflow_hub`, so that a tutorial needs
`import tfnlp.hub as hub` as its only change.
"""

from tfnlp.hub.inspection.audit import Audit, audit
from tfnlp.hub.inspection.inspect import Inspection, inspect
from tfnlp.hub.loading.exported import (
    saved_elmo,
    saved_encoder,
    saved_family,
    saved_kind,
    saved_tokenizer,
)
from tfnlp.hub.loading.layer import Layer
from tfnlp.hub.loading.layer import Layer as KerasLayer
from tfnlp.hub.loading.saved_model import load_module as load
from tfnlp.hub.loading.saved_model import resolve
from tfnlp.hub.modules.bert import BertPreprocessorModule, export_bert
from tfnlp.hub.modules.elmo import ElmoModule, export_elmo, running_layers, sentence_layers
from tfnlp.hub.modules.fine_tuned import FineTunedModule, export_fine_tuned
from tfnlp.hub.modules.gpt import GPTModule, GPTPreprocessorModule, export_gpt
from tfnlp.hub.modules.task_model import TaskModel
from tfnlp.hub.modules.text_generation import TextGenerator
from tfnlp.hub.modules.translation import TranslationModule, Translator, export_translator
from tfnlp.hub.modules.word_vectors import WordVectorsModule, export_word_vectors
from tfnlp.hub.saving.export import export
from tfnlp.hub.saving.keras_module import KerasModule
from tfnlp.hub.saving.save import save

__all__ = [
    "Audit",
    "BertPreprocessorModule",
    "ElmoModule",
    "FineTunedModule",
    "GPTModule",
    "GPTPreprocessorModule",
    "Inspection",
    "KerasLayer",
    "KerasModule",
    "Layer",
    "TaskModel",
    "TextGenerator",
    "TranslationModule",
    "Translator",
    "WordVectorsModule",
    "audit",
    "export",
    "export_bert",
    "export_elmo",
    "export_fine_tuned",
    "export_gpt",
    "export_translator",
    "export_word_vectors",
    "inspect",
    "load",
    "resolve",
    "running_layers",
    "save",
    "saved_elmo",
    "saved_encoder",
    "saved_family",
    "saved_kind",
    "saved_tokenizer",
    "sentence_layers",
]
