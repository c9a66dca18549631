"""What pretraining learns: losses with their counts, and measures of what was learnt."""

from tfnlp.objectives.bert_pretraining import BertPretraining
from tfnlp.objectives.cross_entropy import smoothed_cross_entropy
from tfnlp.objectives.distillation import Distillation
from tfnlp.objectives.electra_pretraining import ElectraPretraining
from tfnlp.objectives.elmo_pretraining import ElmoPretraining
from tfnlp.objectives.gpt_pretraining import GPTPretraining
from tfnlp.objectives.keras_objective import KerasObjective
from tfnlp.objectives.objective import Objective
from tfnlp.objectives.translation import Translation
from tfnlp.objectives.word_vectors import GloVe, NNLMPretraining, Word2Vec

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
    "smoothed_cross_entropy",
]
