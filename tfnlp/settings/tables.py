"""The families and the tasks by name: their settings, and a line each for `--help`."""

from tfnlp.settings.albert import AlbertSettings
from tfnlp.settings.answer import AnswerSettings
from tfnlp.settings.bert import BertSettings
from tfnlp.settings.choose import ChooseSettings
from tfnlp.settings.classify import ClassifySettings
from tfnlp.settings.distilbert import DistilBertSettings
from tfnlp.settings.electra import ElectraSettings
from tfnlp.settings.elmo import ElmoSettings
from tfnlp.settings.embed import EmbedTaskSettings
from tfnlp.settings.fill import FillSettings
from tfnlp.settings.glove import GloVeSettings
from tfnlp.settings.gpt import GPTSettings
from tfnlp.settings.labels import LabelsSettings
from tfnlp.settings.nnlm import NNLMSettings
from tfnlp.settings.options import Settings
from tfnlp.settings.roberta import RobertaSettings
from tfnlp.settings.roles import RolesSettings
from tfnlp.settings.seq2seq import Seq2SeqSettings
from tfnlp.settings.similarity import SimilaritySettings
from tfnlp.settings.tag import TagSettings
from tfnlp.settings.transformer import TransformerSettings
from tfnlp.settings.word2vec import Word2VecSettings

# In the order of their history.
FAMILIES: dict[str, tuple[type[Settings], str]] = {
    "word2vec": (
        Word2VecSettings,
        "Pretrain word2vec: one vector a word, from the words around it.",
    ),
    "glove": (
        GloVeSettings,
        "Pretrain GloVe: one vector a word, from how often it is near each other word.",
    ),
    "nnlm": (
        NNLMSettings,
        "Pretrain an NNLM: the next word from the vectors of the few before it.",
    ),
    "seq2seq": (
        Seq2SeqSettings,
        "Train a recurrent encoder-decoder to translate, with attention or without.",
    ),
    "transformer": (TransformerSettings, "Train a Transformer to translate."),
    "elmo": (ElmoSettings, "Pretrain an ELMo: a bidirectional language model over characters."),
    "gpt": (GPTSettings, "Pretrain a GPT: the next token."),
    "bert": (BertSettings, "Pretrain a BERT: masked LM and next sentence."),
    "roberta": (RobertaSettings, "Pretrain a RoBERTa: masked LM on windows of whole sentences."),
    "distilbert": (
        DistilBertSettings,
        "Pretrain a DistilBERT: masked LM, with or without a teacher.",
    ),
    "albert": (AlbertSettings, "Pretrain an ALBERT: masked LM and sentence order."),
    "electra": (
        ElectraSettings,
        "Pretrain an ELECTRA: a small generator replaces tokens, the encoder finds them.",
    ),
}
TASKS: dict[str, tuple[type[Settings], str]] = {
    "classify": (ClassifySettings, "A class for a text or a pair of texts"),
    "labels": (LabelsSettings, "Any number of labels for a text or a pair of texts"),
    "similarity": (SimilaritySettings, "A number for a pair of texts"),
    "choose": (ChooseSettings, "Which of several texts goes on from a text"),
    "answer": (AnswerSettings, "The part of a document that answers a question (SQuAD)"),
    "tag": (TagSettings, "A tag for each word: parts of speech, entities"),
    "roles": (RolesSettings, "The role of each word for a predicate (semantic role labelling)"),
    "embed": (
        EmbedTaskSettings,
        "Vectors of sentences: pairs, triplets, ratings, or texts alone",
    ),
    "fill": (
        FillSettings,
        "Masked words: go on with a BERT's masked language model on your text",
    ),
}
