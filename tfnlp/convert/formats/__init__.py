"""File formats of weights and vectors: each reader returns named numpy arrays."""
