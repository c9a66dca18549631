"""Conversion between the models of keras-hub and those of tfnlp; keras-hub is optional."""

from tfnlp.checkpoints.keras_hub.loading import from_keras_hub
from tfnlp.checkpoints.keras_hub.saving import to_keras_hub

__all__ = ["from_keras_hub", "to_keras_hub"]
