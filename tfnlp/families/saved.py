"""Exported modules as pretrained models."""

from typing import Any


def saved_pair(path: str) -> Any:
    """Return the encoder and the tokenizer of the modules of a BERT or a GPT."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.hub import saved_encoder, saved_tokenizer

    return Pretrained(saved_encoder(path), None, {}, make_tokenizer=lambda: saved_tokenizer(path))
