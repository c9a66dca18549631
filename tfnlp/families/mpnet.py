"""MPNet (Song et al. 2020) as a family."""

from tfnlp import models
from tfnlp.checkpoints.mpnet import MPNET_FILES
from tfnlp.families.encoder import Encoder
from tfnlp.families.roberta import Roberta
from tfnlp.families.vocabularies import TOKENIZER_JSON


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
