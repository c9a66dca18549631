"""The families of models: one record each, in the order of their history.

A family names the pieces of its model in all packages: sizes, recipe, text, loss, checkpoints,
fine-tuning, modules and predictions. To add one, write its file and add its record here.
"""

from tfnlp.families.albert import ALBERT
from tfnlp.families.bert import BERT
from tfnlp.families.distilbert import DISTILBERT
from tfnlp.families.electra import ELECTRA
from tfnlp.families.elmo import ELMO
from tfnlp.families.family import Family
from tfnlp.families.glove import GLOVE
from tfnlp.families.gpt import GPT
from tfnlp.families.nnlm import NNLM
from tfnlp.families.roberta import ROBERTA
from tfnlp.families.seq2seq import SEQ2SEQ
from tfnlp.families.transformer import TRANSFORMER
from tfnlp.families.word2vec import WORD2VEC

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(WORD2VEC, GLOVE, NNLM, SEQ2SEQ, TRANSFORMER, ELMO, GPT),
        *(BERT, ROBERTA, DISTILBERT, ALBERT, ELECTRA),
    )
}

__all__ = ["FAMILIES", "Family"]
