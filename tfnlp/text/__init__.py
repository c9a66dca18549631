"""Strings to ids inside the TensorFlow graph, and what BERT does with the ids."""

from tfnlp.text.masking import mask_tokens
from tfnlp.text.packing import pack_segments
from tfnlp.text.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
    train_wordpiece,
    write_vocabulary,
)
from tfnlp.text.wordpiece import WordPieceTokenizer

__all__ = [
    "SPECIAL_TOKENS",
    "WordPieceTokenizer",
    "mask_tokens",
    "pack_segments",
    "read_vocabulary",
    "train_wordpiece",
    "write_vocabulary",
]
