"""What pretraining learns: losses with their counts, and measures of what was learnt."""

from tfnlp.objectives.bert_pretraining import BertPretraining
from tfnlp.objectives.distillation import Distillation
from tfnlp.objectives.electra_pretraining import ElectraPretraining
from tfnlp.objectives.elmo_pretraining import ElmoPretraining
from tfnlp.objectives.glove import GloVe
from tfnlp.objectives.gpt_pretraining import GPTPretraining
from tfnlp.objectives.keras_objective import KerasObjective
from tfnlp.objectives.label_smoothing import smoothed_cross_entropy
from tfnlp.objectives.nnlm_pretraining import NNLMPretraining
from tfnlp.objectives.objective import Objective
from tfnlp.objectives.translation import Translation
from tfnlp.objectives.word2vec import Word2Vec
from tfnlp.objectives.word_similarity import answer_analogies, rate_pairs

__all__ = [
    "BertPretraining",
    "Distillation",
    "ElectraPretraining",
    "ElmoPretraining",
    "GPTPretraining",
    "GloVe",
    "KerasObjective",
    "NNLMPretraining",
    "Objective",
    "Translation",
    "Word2Vec",
    "answer_analogies",
    "rate_pairs",
    "smoothed_cross_entropy",
]
