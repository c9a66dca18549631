"""Keras 3 layers, one idea a file. Nothing here imports TensorFlow itself."""

from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.bilm import BiLM
from tfnlp.layers.boundaries import SentenceBoundaries
from tfnlp.layers.char_cnn import CharCNN
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.embeddings import PositionEmbedding, SegmentEmbedding, TokenEmbedding
from tfnlp.layers.heads import LogitBias, MaskedLMHead, NextSentenceHead, Pooler
from tfnlp.layers.highway import Highway
from tfnlp.layers.normalization import LayerNorm
from tfnlp.layers.projected_lstm import ProjectedLSTM
from tfnlp.layers.sampled_softmax import SampledSoftmax
from tfnlp.layers.scalar_mix import ScalarMix
from tfnlp.layers.transformer import TransformerBlock

__all__ = [
    "BiLM",
    "CharCNN",
    "Dropout",
    "Highway",
    "LayerNorm",
    "LogitBias",
    "MaskedLMHead",
    "MultiHeadAttention",
    "NextSentenceHead",
    "Pooler",
    "PositionEmbedding",
    "ProjectedLSTM",
    "SampledSoftmax",
    "ScalarMix",
    "SegmentEmbedding",
    "SentenceBoundaries",
    "TokenEmbedding",
    "TransformerBlock",
]
