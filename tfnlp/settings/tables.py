"""The families, the tasks and what they can do by name: settings, and a line each for `--help`."""

from tfnlp.settings.albert import AlbertSettings
from tfnlp.settings.answer import AnswerSettings
from tfnlp.settings.bert import BertSettings
from tfnlp.settings.choose import ChooseSettings
from tfnlp.settings.classify import ClassifySettings
from tfnlp.settings.coref import CorefSettings
from tfnlp.settings.distilbert import DistilBertSettings
from tfnlp.settings.electra import ElectraPrediction, ElectraSettings
from tfnlp.settings.elmo import ElmoEvaluation, ElmoPrediction, ElmoSettings
from tfnlp.settings.embed import EmbedTaskSettings
from tfnlp.settings.encoders import MaskedEvaluation, MaskPrediction, PairPrediction
from tfnlp.settings.fill import FillSettings
from tfnlp.settings.glove import GloVeSettings
from tfnlp.settings.gpt import GPTEvaluation, GPTExamplesSettings, GPTPrediction, GPTSettings
from tfnlp.settings.labels import LabelsSettings
from tfnlp.settings.mpnet import MPNetSettings
from tfnlp.settings.nnlm import NNLMEvaluation, NNLMSettings
from tfnlp.settings.options import OWNERS, Settings
from tfnlp.settings.roberta import RobertaSettings, XlmRobertaSettings
from tfnlp.settings.roles import RolesSettings
from tfnlp.settings.seq2seq import Seq2SeqSettings
from tfnlp.settings.similarity import SimilaritySettings
from tfnlp.settings.tag import TagSettings
from tfnlp.settings.text import CasedExamplesSettings, ExamplesSettings, PairExamplesSettings
from tfnlp.settings.transformer import TransformerSettings
from tfnlp.settings.translation import TranslationEvaluation, TranslationPrediction
from tfnlp.settings.use import (
    EvaluateTask,
    EvaluationSettings,
    PairsEvaluation,
    PredictionSettings,
    PredictTask,
    SearchSettings,
)
from tfnlp.settings.word2vec import Word2VecSettings
from tfnlp.settings.word_vectors import VectorEvaluation, WordPrediction

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
    "xlm-roberta": (
        XlmRobertaSettings,
        "Pretrain an XLM-RoBERTa further, or with your vocabulary.",
    ),
    "albert": (AlbertSettings, "Pretrain an ALBERT: masked LM and sentence order."),
    "electra": (
        ElectraSettings,
        "Pretrain an ELECTRA: a small generator replaces tokens, the encoder finds them.",
    ),
    "mpnet": (MPNetSettings, "Pretrain an MPNet further, or with your vocabulary: masked LM."),
}
TASKS: dict[str, tuple[type[Settings], str]] = {
    settings.task: (settings, (settings.__doc__ or "").split("\n")[0].rstrip("."))
    for settings in (
        ClassifySettings,
        LabelsSettings,
        SimilaritySettings,
        ChooseSettings,
        AnswerSettings,
        TagSettings,
        RolesSettings,
        CorefSettings,
        EmbedTaskSettings,
        FillSettings,
    )
}
for _command, _table in (("pretrain", FAMILIES), ("finetune", TASKS)):
    OWNERS[_command] = {name: kind for name, (kind, _) in _table.items()}
# What `predict` does, by kind of model.
PREDICTIONS: tuple[type[PredictionSettings], ...] = (
    PredictTask,
    SearchSettings,
    PairPrediction,
    MaskPrediction,
    ElectraPrediction,
    GPTPrediction,
    TranslationPrediction,
    WordPrediction,
    ElmoPrediction,
)
_DRAWN = "masks are drawn when they are read"
# The sub-commands of `tfnlp examples`.
EXAMPLES: dict[str, tuple[type[ExamplesSettings], str]] = {
    "gpt": (GPTExamplesSettings, "windows of text"),
    "bert": (PairExamplesSettings, f"sentence pairs; {_DRAWN}"),
    "roberta": (ExamplesSettings, f"windows of sentences; {_DRAWN}"),
    "distilbert": (CasedExamplesSettings, f"windows of sentences; {_DRAWN}"),
    "xlm-roberta": (ExamplesSettings, f"windows of sentences; {_DRAWN}"),
    "albert": (PairExamplesSettings, f"pairs of segments, half of them swapped; {_DRAWN}"),
    "electra": (PairExamplesSettings, f"pairs of following segments; {_DRAWN}"),
    "mpnet": (ExamplesSettings, f"windows of sentences; {_DRAWN}"),
}
# What a model is measured on, by kind of model.
EVALUATIONS: tuple[type[EvaluationSettings], ...] = (
    MaskedEvaluation,
    GPTEvaluation,
    ElmoEvaluation,
    NNLMEvaluation,
    VectorEvaluation,
    TranslationEvaluation,
    EvaluateTask,
    PairsEvaluation,
)
