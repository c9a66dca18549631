"""Strategies, optimizers, schedules, the trainer and checkpoints."""

from tfnlp.training.checkpoints import Checkpoints, average_checkpoints
from tfnlp.training.history import History
from tfnlp.training.loss_scaling import LossScaling
from tfnlp.training.optimizers import (
    LAMB,
    Adagrad,
    AdamW,
    Optimizer,
    RowwiseAdagrad,
    adam,
    bert_adamw,
    optimizer,
)
from tfnlp.training.prediction import predict, predictor
from tfnlp.training.schedules import (
    LayerRates,
    constant,
    cosine,
    inverse_sqrt,
    layer_groups,
    linear,
    noam,
    schedule,
)
from tfnlp.training.strategy import (
    STRATEGIES,
    default_strategy,
    device_kind,
    is_compiled,
    make_strategy,
    workers_of,
)
from tfnlp.training.trainer import Trainer
from tfnlp.training.workers import WorkerLost, Workers, read_cluster

__all__ = [
    "LAMB", "STRATEGIES", "Adagrad", "AdamW", "Checkpoints", "History", "LayerRates", "LossScaling",
    "Optimizer", "RowwiseAdagrad", "Trainer", "WorkerLost", "Workers", "adam",
    "average_checkpoints", "bert_adamw", "constant", "cosine", "default_strategy", "device_kind",
    "inverse_sqrt", "is_compiled", "layer_groups", "linear", "make_strategy", "noam", "optimizer",
    "predict", "predictor", "read_cluster", "schedule", "workers_of",
]  # fmt: skip
