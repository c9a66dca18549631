"""Functions that assemble the layers into functional Keras models, and their published sizes."""

from tfnlp.models.beam_search import beam_search
from tfnlp.models.bert import (
    BERT_BASE,
    BERT_LARGE,
    BERT_MEDIUM,
    BERT_MINI,
    BERT_SMALL,
    BERT_TINY,
    bert,
    bert_pretrainer,
)
from tfnlp.models.bert_tasks import bert_for_tasks, bert_task, encoder_for_tasks
from tfnlp.models.distilbert import (
    DISTILBERT_BASE,
    DISTILBERT_MEDIUM,
    DISTILBERT_MINI,
    DISTILBERT_SMALL,
    DISTILBERT_TINY,
    copy_teacher,
    distilbert,
    distilbert_pretrainer,
)
from tfnlp.models.electra import (
    ELECTRA_BASE,
    ELECTRA_LARGE,
    ELECTRA_MINI,
    ELECTRA_SMALL,
    ELECTRA_TINY,
    electra,
    electra_discriminator,
    electra_pretrainer,
)
from tfnlp.models.elmo import (
    ELMO_MEDIUM,
    ELMO_MINI,
    ELMO_ORIGINAL,
    ELMO_SMALL,
    elmo,
    elmo_lstm,
    elmo_pretrainer,
)
from tfnlp.models.feature_tasks import FEATURES, feature_task, select_layers
from tfnlp.models.generation import generate
from tfnlp.models.gpt import (
    GPT,
    GPT2_LARGE,
    GPT2_MEDIUM,
    GPT2_SMALL,
    GPT2_XL,
    GPT_MINI,
    gpt,
    gpt_pretrainer,
)
from tfnlp.models.gpt_decoder import GPTDecoder
from tfnlp.models.gpt_tasks import gpt_task, gpt_with_extra_tokens
from tfnlp.models.nnlm import NNLM, nnlm, nnlm_pretrainer
from tfnlp.models.sampling import greedy, sample
from tfnlp.models.seq2seq import (
    SEQ2SEQ_BAHDANAU,
    SEQ2SEQ_LUONG,
    SEQ2SEQ_MINI,
    SEQ2SEQ_SUTSKEVER,
    seq2seq,
)
from tfnlp.models.seq2seq_decoder import Seq2SeqDecoder
from tfnlp.models.transformer import (
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    TRANSFORMER_MINI,
    transformer,
)
from tfnlp.models.transformer_decoder import TransformerDecoder
from tfnlp.models.word2vec import word2vec

__all__ = [
    "BERT_BASE",
    "BERT_LARGE",
    "BERT_MEDIUM",
    "BERT_MINI",
    "BERT_SMALL",
    "BERT_TINY",
    "DISTILBERT_BASE",
    "DISTILBERT_MEDIUM",
    "DISTILBERT_MINI",
    "DISTILBERT_SMALL",
    "DISTILBERT_TINY",
    "ELECTRA_BASE",
    "ELECTRA_LARGE",
    "ELECTRA_MINI",
    "ELECTRA_SMALL",
    "ELECTRA_TINY",
    "ELMO_MEDIUM",
    "ELMO_MINI",
    "ELMO_ORIGINAL",
    "ELMO_SMALL",
    "FEATURES",
    "GPT",
    "GPT2_LARGE",
    "GPT2_MEDIUM",
    "GPT2_SMALL",
    "GPT2_XL",
    "GPTDecoder",
    "GPT_MINI",
    "SEQ2SEQ_BAHDANAU",
    "SEQ2SEQ_LUONG",
    "SEQ2SEQ_MINI",
    "SEQ2SEQ_SUTSKEVER",
    "Seq2SeqDecoder",
    "NNLM",
    "TRANSFORMER_BASE",
    "TRANSFORMER_BIG",
    "TRANSFORMER_MINI",
    "TransformerDecoder",
    "beam_search",
    "bert",
    "bert_for_tasks",
    "bert_pretrainer",
    "bert_task",
    "copy_teacher",
    "distilbert",
    "distilbert_pretrainer",
    "electra",
    "electra_discriminator",
    "electra_pretrainer",
    "elmo",
    "elmo_lstm",
    "elmo_pretrainer",
    "encoder_for_tasks",
    "feature_task",
    "generate",
    "gpt",
    "gpt_pretrainer",
    "gpt_task",
    "gpt_with_extra_tokens",
    "greedy",
    "nnlm",
    "nnlm_pretrainer",
    "sample",
    "select_layers",
    "seq2seq",
    "transformer",
    "word2vec",
]
