"""Objectives of training, decoding of outputs, and measures."""

from tfnlp.tasks.bert_pretraining import BertPretraining
from tfnlp.tasks.distillation import Distillation
from tfnlp.tasks.electra_pretraining import ElectraPretraining
from tfnlp.tasks.elmo_pretraining import ElmoPretraining
from tfnlp.tasks.fine_tuning import FineTuning
from tfnlp.tasks.glove import GloVe
from tfnlp.tasks.gpt_finetuning import GPTFineTuning
from tfnlp.tasks.gpt_pretraining import GPTPretraining
from tfnlp.tasks.keras_task import KerasTask
from tfnlp.tasks.label_smoothing import smoothed_cross_entropy
from tfnlp.tasks.nnlm_pretraining import NNLMPretraining
from tfnlp.tasks.prediction import predict, predictor
from tfnlp.tasks.sentence_training import SentenceTraining
from tfnlp.tasks.task import Task
from tfnlp.tasks.task_distillation import TaskDistillation
from tfnlp.tasks.task_encoder import TaskEncoder
from tfnlp.tasks.task_spec import TaskSpec
from tfnlp.tasks.translation import Translation
from tfnlp.tasks.word2vec import Word2Vec
from tfnlp.tasks.word_similarity import answer_analogies, rate_pairs

__all__ = [
    "BertPretraining",
    "Distillation",
    "ElectraPretraining",
    "ElmoPretraining",
    "FineTuning",
    "GPTFineTuning",
    "GPTPretraining",
    "GloVe",
    "KerasTask",
    "NNLMPretraining",
    "SentenceTraining",
    "Task",
    "TaskDistillation",
    "TaskEncoder",
    "TaskSpec",
    "Translation",
    "Word2Vec",
    "answer_analogies",
    "predict",
    "predictor",
    "rate_pairs",
    "smoothed_cross_entropy",
]
