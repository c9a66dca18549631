"""What pretraining learns: losses with their counts, and measures of what was learnt."""

from tfnlp.objectives.cross_entropy import smoothed_cross_entropy
from tfnlp.objectives.distillation import Distillation
from tfnlp.objectives.keras_objective import KerasObjective
from tfnlp.objectives.objective import Objective
from tfnlp.objectives.pretraining import (
    BertPretraining,
    ElectraPretraining,
    ElmoPretraining,
    GloVe,
    GPTPretraining,
    NNLMPretraining,
    Word2Vec,
)
from tfnlp.objectives.translation import Translation

__all__ = [
    "BertPretraining", "Distillation", "ElectraPretraining", "ElmoPretraining", "GPTPretraining",
    "GloVe", "KerasObjective", "NNLMPretraining", "Objective", "Translation", "Word2Vec",
    "smoothed_cross_entropy",
]  # fmt: skip
