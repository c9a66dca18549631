"""Settings of BERT and the encoders after it."""

from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.text import MaskedTextSettings, MeasuredTextSettings, PackSettings
from tfnlp.settings.training import PositionSettings, StartSettings, TrainingSettings
from tfnlp.settings.use import PredictionSettings

_SMALL = ("tiny", "mini", "small", "medium")  # sizes of all but ELECTRA
_PACK_PAIRS = {
    "help": "rows of several pairs of segments that do not see each other, each with its own "
    "positions (default: a pair a row)"
}


class EncoderSettings(
    TrainingSettings, PositionSettings, StartSettings, PackSettings, MaskedTextSettings,
    epochs=None, steps={"help": "updates (default: 10000, or those of the epochs)"},
    learning_rate=5e-4, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
):  # fmt: skip
    """The pretraining of BERT and the encoders after it; for small models on one machine."""

    default_steps = 10_000


class CasedEncoderSettings(EncoderSettings):
    """The same, of a vocabulary with or without case."""

    cased: bool = option(False, "keep case and accents", group="text")


class BertSettings(CasedEncoderSettings, pack=_PACK_PAIRS):
    """Pretrain a BERT: masked LM and next sentence.

    The paper: batches of 256, 1e-4 at its peak, 10,000 of 1,000,000 steps of warm-up (A.2).
    """

    size: str = option("tiny", "published size", choices=(*_SMALL, "base", "large"), group="model")


class RobertaSettings(
    EncoderSettings,
    optimizer="roberta_adamw", warmup=0.06, clip_norm=0.0,
    vocab={"help": "folder of vocab.json and merges.txt; built from the text if absent"},
):  # fmt: skip
    """Pretrain a RoBERTa: masked LM on windows of whole sentences.

    The paper (sections 3.1 and 5, table 9): batches of 8,192 rows of 512 tokens, 500,000 steps,
    6e-4 (base) or 4e-4 (large) at its peak, 24,000 or 30,000 of them of warm-up, b2 = 0.98,
    epsilon = 1e-6, no clipping.
    """

    size: str = option(
        "tiny", "size; base and large are the paper's", choices=(*_SMALL, "base", "large"),
        group="model",
    )  # fmt: skip


class XlmRobertaSettings(
    RobertaSettings,
    vocab={"help": "folder of tokenizer.json; none is learnt"},
):  # fmt: skip
    """Pretrain an XLM-RoBERTa further, or with your vocabulary.

    The paper (section 3): RoBERTa's masked LM on 100 languages, batches of 8,192 rows.
    """


class MPNetSettings(XlmRobertaSettings):
    """Pretrain an MPNet further, or with your vocabulary: masked LM.

    It goes without the permutations of the paper, whose recipe is RoBERTa's (section 3.1).
    """


class AlbertSettings(
    CasedEncoderSettings,
    pack=_PACK_PAIRS, dropout=0.0, vocab={"help": "spiece.model; built from the text if absent"},
):  # fmt: skip
    """Pretrain an ALBERT: masked LM and sentence order.

    The paper (section 4.1): LAMB, 1.76e-3 at its peak, batches of 4,096 rows of 512 tokens,
    125,000 steps, spans of up to three words masked together (here single tokens, or whole words
    with `whole_word`).
    """

    size: str = option(
        "tiny", "size; base, large, xlarge and xxlarge are the paper's",
        choices=(*_SMALL, "base", "large", "xlarge", "xxlarge"), group="model",
    )  # fmt: skip


class DistilBertSettings(
    CasedEncoderSettings,
    optimizer="adamw", warmup=0.05, weight_decay=0.0, clip_norm=5.0,
):  # fmt: skip
    """Pretrain a DistilBERT: masked LM, with or without a teacher.

    With one it also learns what that says of the same tokens. Rate, warm-up, decay and clipping are
    those of the released code; its batches have 250 rows.
    """

    size: str = option(
        "tiny", "published size base, or smaller; a teacher gives its widths and half its layers, "
        "unless this is given",
        choices=(*_SMALL, "base"), group="model",
    )  # fmt: skip
    teacher: Any = option(
        None, "run, checkpoint or hf:// name to learn from: an encoder with a masked-LM head, "
        "such as a BERT; the student gets its vocabulary and starts from some of its layers",
        metavar="DIR", group="teacher",
    )  # fmt: skip
    new_weights: bool = option(
        False, "do not start from the teacher's layers", group="teacher", record="training"
    )
    distillation_weight: float = option(
        5.0, "of the loss against the teacher's guesses", at_least=0, group="teacher",
        record="training",
    )  # fmt: skip
    masked_lm_weight: float = option(
        2.0, "of the masked-LM loss beside it", above=0, group="teacher", record="training"
    )
    cosine_weight: float = option(
        1.0, "of the loss of angles to the teacher's last vectors", at_least=0, group="teacher",
        record="training",
    )  # fmt: skip
    temperature: float = option(
        2.0, "that smooths the guesses of both", above=0, group="teacher", record="training"
    )
    soft_targets: str = option(
        "masked", "where the teacher's guesses are learnt: at masked tokens, or at all real ones",
        choices=("masked", "real"), group="teacher", record="training",
    )  # fmt: skip


class ElectraSettings(CasedEncoderSettings, pack=_PACK_PAIRS):
    """Pretrain an ELECTRA: a small generator replaces tokens, the encoder finds them.

    Rate, decay and clipping are those of the released code for the small size, which has batches
    of 128 and 10,000 of 1,000,000 steps of warm-up.
    """

    size: str = option(
        "tiny", "size (small, base and large: the published ones)",
        choices=("tiny", "mini", "small", "base", "large"), group="model",
    )  # fmt: skip
    generator_size: float | None = option(
        None, "the generator's width as a share of the discriminator's (default: 1/4, base 1/3)",
        above=0, at_most=1, group="model",
    )  # fmt: skip
    discriminator_weight: float = option(
        50.0, "of the discriminator's loss beside the generator's", above=0, group="training",
        record="training",
    )  # fmt: skip


class MaskedEvaluation(MeasuredTextSettings):
    """Losses and accuracies of the pretraining heads on a text."""

    of: ClassVar[str] = "a BERT or a later encoder"
    batch_size: int = option(32, "rows at a time", at_least=1)
    seq_length: int | None = option(None, "tokens a sequence (default: at most 128)", at_least=1)
    batches: int = option(100, "at most so many batches", at_least=1)
    seed: int = option(1, "of pairs and masks")


class MaskPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of encoders without a head for pairs of texts."""

    of: ClassVar[str] = "a RoBERTa, an XLM-RoBERTa, a DistilBERT or an MPNet"
    blank_lines: ClassVar[bool] = False
    pair: ClassVar[None] = None
    top: int = option(5, "guesses a mask", at_least=1)


class PairPrediction(MaskPrediction):
    """Arguments of `tfnlp predict` of encoders with a head for pairs of texts."""

    of: ClassVar[str] = "a BERT or an ALBERT"
    pair: str | None = option(None, "second text: does it follow the (one) text?")


class ElectraPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of an ELECTRA, which marks tokens that look replaced."""

    of: ClassVar[str] = "an ELECTRA"
    blank_lines: ClassVar[bool] = False
    threshold: float = option(
        0.5, "probability from which a token is marked", at_least=0, at_most=1
    )
