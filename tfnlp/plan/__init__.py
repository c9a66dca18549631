"""What a training step needs on a TPU, found out by the TPU's own compiler, without a TPU."""
