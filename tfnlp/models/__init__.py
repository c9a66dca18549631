"""Functions that assemble the layers into functional Keras models, and their published sizes."""

from tfnlp.models.albert import (
    ALBERT_BASE,
    ALBERT_LARGE,
    ALBERT_MEDIUM,
    ALBERT_MINI,
    ALBERT_SMALL,
    ALBERT_TINY,
    ALBERT_XLARGE,
    ALBERT_XXLARGE,
    albert,
    albert_pretrainer,
)
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
from tfnlp.models.coreference import Coreference
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
from tfnlp.models.encoder_tasks import (
    bert_for_tasks,
    bert_task,
    encoder_for_tasks,
    gpt_task,
    gpt_with_extra_tokens,
    unpacked_task,
)
from tfnlp.models.feature_tasks import FEATURES, WORDS_ALONE, feature_task, select_layers
from tfnlp.models.generation import generate, greedy, sample
from tfnlp.models.gpt import (
    GPT,
    GPT2_LARGE,
    GPT2_MEDIUM,
    GPT2_SMALL,
    GPT2_XL,
    GPT_MINI,
    GPTDecoder,
    gpt,
    gpt_pretrainer,
)
from tfnlp.models.low_rank import (
    add_low_rank,
    count_trained,
    low_rank_updates,
    merge_low_rank,
    train_weights,
)
from tfnlp.models.nnlm import NNLM, nnlm, nnlm_pretrainer
from tfnlp.models.roberta import (
    ROBERTA_BASE,
    ROBERTA_LARGE,
    ROBERTA_MEDIUM,
    ROBERTA_MINI,
    ROBERTA_SMALL,
    ROBERTA_TINY,
    mpnet,
    mpnet_pretrainer,
    roberta,
    roberta_pretrainer,
)
from tfnlp.models.sentence_encoder import sentence_encoder, siamese
from tfnlp.models.seq2seq import (
    SEQ2SEQ_BAHDANAU,
    SEQ2SEQ_LUONG,
    SEQ2SEQ_MINI,
    SEQ2SEQ_SUTSKEVER,
    Seq2SeqDecoder,
    seq2seq,
)
from tfnlp.models.transformer import (
    TRANSFORMER_BASE,
    TRANSFORMER_BIG,
    TRANSFORMER_MINI,
    TransformerDecoder,
    transformer,
)
from tfnlp.models.word2vec import glove, word2vec

__all__ = [
    "ALBERT_BASE", "ALBERT_LARGE", "ALBERT_MEDIUM", "ALBERT_MINI", "ALBERT_SMALL",
    "ALBERT_TINY", "ALBERT_XLARGE", "ALBERT_XXLARGE", "BERT_BASE", "BERT_LARGE", "BERT_MEDIUM",
    "BERT_MINI", "BERT_SMALL", "BERT_TINY", "DISTILBERT_BASE", "DISTILBERT_MEDIUM",
    "DISTILBERT_MINI", "DISTILBERT_SMALL", "DISTILBERT_TINY", "ELECTRA_BASE", "ELECTRA_LARGE",
    "ELECTRA_MINI", "ELECTRA_SMALL", "ELECTRA_TINY", "ELMO_MEDIUM", "ELMO_MINI",
    "ELMO_ORIGINAL", "ELMO_SMALL", "FEATURES", "GPT", "GPT2_LARGE", "GPT2_MEDIUM", "GPT2_SMALL",
    "GPT2_XL", "GPT_MINI", "NNLM", "ROBERTA_BASE", "ROBERTA_LARGE", "ROBERTA_MEDIUM",
    "ROBERTA_MINI", "ROBERTA_SMALL", "ROBERTA_TINY", "SEQ2SEQ_BAHDANAU", "SEQ2SEQ_LUONG",
    "SEQ2SEQ_MINI", "SEQ2SEQ_SUTSKEVER", "TRANSFORMER_BASE", "TRANSFORMER_BIG",
    "TRANSFORMER_MINI", "WORDS_ALONE", "Coreference", "GPTDecoder", "Seq2SeqDecoder",
    "TransformerDecoder", "add_low_rank", "albert", "albert_pretrainer", "beam_search", "bert",
    "bert_for_tasks", "bert_pretrainer", "bert_task", "copy_teacher", "count_trained",
    "distilbert", "distilbert_pretrainer", "electra", "electra_discriminator",
    "electra_pretrainer", "elmo", "elmo_lstm", "elmo_pretrainer", "encoder_for_tasks",
    "feature_task", "generate", "glove", "gpt", "gpt_pretrainer", "gpt_task",
    "gpt_with_extra_tokens", "greedy", "low_rank_updates", "merge_low_rank", "mpnet",
    "mpnet_pretrainer", "nnlm", "nnlm_pretrainer", "roberta", "roberta_pretrainer", "sample",
    "select_layers", "sentence_encoder", "seq2seq", "siamese", "train_weights", "transformer",
    "unpacked_task", "word2vec",
]  # fmt: skip
