"""The families of models, in the order of their history.

A family has the pieces of its model in all packages: sizes, recipe, text, loss, checkpoints,
fine-tuning, modules and predictions. To add one, write its file and add it here.
"""

from tfnlp.families.albert import Albert
from tfnlp.families.bert import Bert
from tfnlp.families.distilbert import DistilBert
from tfnlp.families.electra import Electra
from tfnlp.families.elmo import Elmo
from tfnlp.families.family import Family
from tfnlp.families.glove import GloVe
from tfnlp.families.gpt import GPT
from tfnlp.families.nnlm import NNLM
from tfnlp.families.roberta import MPNet, Roberta, XlmRoberta
from tfnlp.families.translator import Seq2Seq, Transformer
from tfnlp.families.word2vec import Word2Vec

FAMILIES: dict[str, Family] = {
    "word2vec": Word2Vec(),
    "glove": GloVe(),
    "nnlm": NNLM(),
    "seq2seq": Seq2Seq(),
    "transformer": Transformer(),
    "elmo": Elmo(),
    "gpt": GPT(),
    "bert": Bert(),
    "roberta": Roberta(),
    "distilbert": DistilBert(),
    "xlm-roberta": XlmRoberta(),
    "albert": Albert(),
    "electra": Electra(),
    "mpnet": MPNet(),
}

__all__ = ["FAMILIES", "Family"]
