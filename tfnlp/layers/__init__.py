"""Keras 3 layers, one idea a file. Nothing here imports TensorFlow itself."""

from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.embeddings import PositionEmbedding, SegmentEmbedding, TokenEmbedding
from tfnlp.layers.heads import LogitBias, MaskedLMHead, NextSentenceHead, Pooler
from tfnlp.layers.normalization import LayerNorm
from tfnlp.layers.transformer import TransformerBlock

__all__ = [
    "Dropout",
    "LayerNorm",
    "LogitBias",
    "MaskedLMHead",
    "MultiHeadAttention",
    "NextSentenceHead",
    "Pooler",
    "PositionEmbedding",
    "SegmentEmbedding",
    "TokenEmbedding",
    "TransformerBlock",
]
