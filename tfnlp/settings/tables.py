"""The families, the tasks and what they can do by name: settings, and a line each for `--help`."""

from tfnlp.settings.elmo import ElmoEvaluation, ElmoPrediction, ElmoSettings
from tfnlp.settings.encoders import (
    AlbertSettings,
    BertSettings,
    DistilBertSettings,
    ElectraPrediction,
    ElectraSettings,
    MaskedEvaluation,
    MaskPrediction,
    MPNetSettings,
    PairPrediction,
    RobertaSettings,
    XlmRobertaSettings,
)
from tfnlp.settings.gpt import GPTEvaluation, GPTExamplesSettings, GPTPrediction, GPTSettings
from tfnlp.settings.options import OWNERS, with_summaries
from tfnlp.settings.tasks import (
    AnswerSettings,
    ChooseSettings,
    ClassifySettings,
    CorefSettings,
    EmbedTaskSettings,
    FillSettings,
    LabelsSettings,
    RolesSettings,
    ScoresSettings,
    SimilaritySettings,
    TagSettings,
)
from tfnlp.settings.text import CasedExamplesSettings, ExamplesSettings, PairExamplesSettings
from tfnlp.settings.translation import (
    Seq2SeqSettings,
    TransformerSettings,
    TranslationEvaluation,
    TranslationPrediction,
)
from tfnlp.settings.use import (
    EvaluateTask,
    EvaluationSettings,
    PairsEvaluation,
    PredictionSettings,
    PredictTask,
    SearchSettings,
)
from tfnlp.settings.word_vectors import (
    GloVeSettings,
    NNLMEvaluation,
    NNLMSettings,
    VectorEvaluation,
    Word2VecSettings,
    WordPrediction,
)

# In the order of their history.
FAMILIES = with_summaries({
    "word2vec": Word2VecSettings,
    "glove": GloVeSettings,
    "nnlm": NNLMSettings,
    "seq2seq": Seq2SeqSettings,
    "transformer": TransformerSettings,
    "elmo": ElmoSettings,
    "gpt": GPTSettings,
    "bert": BertSettings,
    "roberta": RobertaSettings,
    "distilbert": DistilBertSettings,
    "xlm-roberta": XlmRobertaSettings,
    "albert": AlbertSettings,
    "electra": ElectraSettings,
    "mpnet": MPNetSettings,
})  # fmt: skip
TASKS = with_summaries({
    settings.task: settings
    for settings in (
        ClassifySettings, LabelsSettings, SimilaritySettings, ScoresSettings, ChooseSettings,
        AnswerSettings, TagSettings, RolesSettings, CorefSettings, EmbedTaskSettings, FillSettings,
    )
})  # fmt: skip
for _command, _table in (("pretrain", FAMILIES), ("finetune", TASKS)):
    OWNERS[_command] = {name: kind for name, (kind, _) in _table.items()}
# What `predict` does, by kind of model.
PREDICTIONS: tuple[type[PredictionSettings], ...] = (
    PredictTask, SearchSettings, PairPrediction, MaskPrediction, ElectraPrediction, GPTPrediction,
    TranslationPrediction, WordPrediction, ElmoPrediction,
)  # fmt: skip
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
    MaskedEvaluation, GPTEvaluation, ElmoEvaluation, NNLMEvaluation, VectorEvaluation,
    TranslationEvaluation, EvaluateTask, PairsEvaluation,
)  # fmt: skip
