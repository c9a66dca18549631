"""RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020) and MPNet (Song et al. 2020)."""

from typing import Any

from tfnlp import models
from tfnlp.checkpoints.encoders import MPNET_FILES, ROBERTA_FILES, XLM_ROBERTA_FILES
from tfnlp.families.encoder import Encoder
from tfnlp.families.vocabularies import TOKENIZER_JSON, BytePairs
from tfnlp.text import RobertaTokenizer, train_roberta_bpe


class _RobertaBytePairs(BytePairs):
    """GPT-2's byte pairs with other special tokens."""

    kind = "roberta byte pairs"
    tokenizer = RobertaTokenizer
    train = staticmethod(train_roberta_bpe)

    def training(self, settings: Any) -> dict[str, Any]:
        return {}  # they are of one kind


class Roberta(Encoder):
    """Masked LM on windows of whole sentences."""

    name, title = "roberta", "a RoBERTa"
    sizes = {
        "tiny": models.ROBERTA_TINY,
        "mini": models.ROBERTA_MINI,
        "small": models.ROBERTA_SMALL,
        "medium": models.ROBERTA_MEDIUM,
        "base": models.ROBERTA_BASE,
        "large": models.ROBERTA_LARGE,
    }
    encoder, pretrainer = staticmethod(models.roberta), staticmethod(models.roberta_pretrainer)
    files = ROBERTA_FILES
    subwords = _RobertaBytePairs()
    mask = "<mask>"
    task_hidden = "tanh"
    plan_lengths = dict.fromkeys(sizes, 512)  # the paper's rows; all of its training has them
    plan_vocab_size = 50265


class XlmRoberta(Roberta):
    """The same network, with a vocabulary of a hundred languages that is given."""

    name, title = "xlm-roberta", "an XLM-RoBERTa"
    files = XLM_ROBERTA_FILES
    subwords = TOKENIZER_JSON
    plan_vocab_size = 250002


class MPNet(Encoder):
    """Masked LM alone, without the permutations of the paper."""

    name, title = "mpnet", "an MPNet"
    sizes = Roberta.sizes  # of which base is the paper's (section 3.1)
    encoder, pretrainer = staticmethod(models.mpnet), staticmethod(models.mpnet_pretrainer)
    files = MPNET_FILES
    subwords = TOKENIZER_JSON
    mask = "<mask>"
    task_hidden = "tanh"
    plan_lengths = dict.fromkeys(sizes, 512)  # as RoBERTa (section 3.1)
    plan_vocab_size = 30527
