"""Keras 3 layers, one idea in each file. They run on every backend of Keras."""

from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.attention_lstm import AttentionLSTM
from tfnlp.layers.attention_scores import (
    AdditiveAttention,
    CosineAttention,
    DotAttention,
    GeneralAttention,
)
from tfnlp.layers.bilm import BiLM, ScalarMix, SentenceBoundaries
from tfnlp.layers.char_cnn import CharCNN, Highway
from tfnlp.layers.crf import CRF
from tfnlp.layers.dense import LowRank, LowRankUpdate
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.embeddings import (
    PositionEmbedding,
    RelativePositionBias,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
)
from tfnlp.layers.heads import (
    DiscriminatorHead,
    LogitBias,
    MaskedLMHead,
    NextSentenceHead,
    Pooler,
    ReplacedTokens,
)
from tfnlp.layers.hierarchical_softmax import (
    HierarchicalCBOWLoss,
    HierarchicalSkipGramLoss,
    HierarchicalSoftmax,
)
from tfnlp.layers.normalization import LayerNorm
from tfnlp.layers.projected_lstm import ProjectedLSTM
from tfnlp.layers.remat import rematerialization
from tfnlp.layers.sampled_softmax import NoiseContrastiveSoftmax, SampledSoftmax
from tfnlp.layers.sentence_pooling import SentencePooling
from tfnlp.layers.transformer import TransformerBlock
from tfnlp.layers.word_embedding import SubwordEmbedding, WordEmbedding
from tfnlp.layers.word_losses import (
    CBOWLoss,
    GloVeLoss,
    NCECBOWLoss,
    NCESkipGramLoss,
    SkipGramLoss,
)

__all__ = [
    "CRF", "AdditiveAttention", "AttentionLSTM", "BiLM", "CBOWLoss", "CharCNN",
    "CosineAttention", "DiscriminatorHead", "DotAttention", "Dropout", "GeneralAttention",
    "GloVeLoss", "HierarchicalCBOWLoss", "HierarchicalSkipGramLoss", "HierarchicalSoftmax",
    "Highway", "LayerNorm", "LogitBias", "LowRank", "LowRankUpdate", "MaskedLMHead",
    "MultiHeadAttention", "NCECBOWLoss", "NCESkipGramLoss", "NextSentenceHead",
    "NoiseContrastiveSoftmax", "Pooler", "PositionEmbedding", "ProjectedLSTM",
    "RelativePositionBias", "ReplacedTokens", "SampledSoftmax", "ScalarMix", "SegmentEmbedding",
    "SentenceBoundaries", "SentencePooling", "SinusoidalPositions", "SkipGramLoss",
    "SubwordEmbedding", "TokenEmbedding", "TransformerBlock", "WordEmbedding",
    "rematerialization",
]  # fmt: skip
