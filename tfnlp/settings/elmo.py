"""Settings of an ELMo."""

import os
from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.text import (
    LAYOUT_HELP,
    LAYOUTS,
    TOKENIZE_HELP,
    MeasuredTextSettings,
    WordTextSettings,
)
from tfnlp.settings.training import MOST_LAYERS, RematSettings, StartSettings, TrainingSettings
from tfnlp.settings.use import PredictionSettings

CHANGED_SIZES = ("num_layers", "units", "projection_size", "num_highway")
RESETS = ("never", "document", "sentence")


class ElmoSettings(
    TrainingSettings, RematSettings, StartSettings, WordTextSettings,
    batch_size=128, learning_rate=0.2, warmup=0.0, schedule="constant", optimizer="adagrad",
    weight_decay=0.0, clip_norm=10.0,
):  # fmt: skip
    """Pretrain an ELMo: a bidirectional language model over characters.

    The recipe is that of bilm-tf.
    """

    size: str = option(
        "small", "published size, or mini: a fortieth of the original's work, for a CPU",
        choices=("mini", "small", "medium", "original"), group="model",
    )  # fmt: skip
    num_layers: int | None = option(
        None, "LSTM layers a direction, instead of the size's",
        at_least=1, at_most=MOST_LAYERS, group="model",
    )  # fmt: skip
    units: int | None = option(None, "LSTM cells, instead of the size's", at_least=1, group="model")
    projection_size: int | None = option(
        None, "width of word vectors and LSTM outputs, instead of the size's",
        at_least=1, group="model",
    )  # fmt: skip
    num_highway: int | None = option(
        None, "highway layers, instead of the size's",
        at_least=0, at_most=MOST_LAYERS, group="model",
    )  # fmt: skip
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1, group="model")
    samples: int = option(
        8192, "words in the sampled softmax; 0: all, always", at_least=0, group="model"
    )
    window: int = option(
        20, "words of back-propagation", at_least=1, group="text", record="training"
    )
    reset: str = option(
        "never", "where the LSTM state, which goes on from window to window, is zeroed",
        choices=RESETS, group="text", record="training",
    )  # fmt: skip


class ElmoPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of an ELMo, which finds words that are used in one sense."""

    of: ClassVar[str] = "an ELMo"
    reads_stdin: ClassVar[bool] = False
    word: str | None = option(
        None, "print its nearest neighbours in --corpus; texts are sentences that hold it, words "
        "between spaces",
    )  # fmt: skip
    corpus: Any = option(
        None,
        "text to look for neighbours in; may be given several times, also a glob in quotes",
        metavar="FILE", const="append",
    )  # fmt: skip
    layout: str = option("auto", f"of --corpus; {LAYOUT_HELP}", choices=LAYOUTS)
    tokenize: bool = option(False, TOKENIZE_HELP)
    same: bool = option(False, "only neighbours that are --word too")
    top: int = option(5, "neighbours a sentence", at_least=1)
    layer: str = option(
        "lstm_outputs1", "vectors to compare: word_emb, lstm_outputs1, lstm_outputs2, ..."
    )
    input: Any = option(None, "with --hdf5: a sentence a line", metavar="FILE")
    hdf5: str | None = option(None, "write all layers of --input to this file", metavar="FILE")
    carry_state: bool = option(
        False, "with --hdf5: carry the LSTM state from sentence to sentence, as bilm-tf does"
    )

    def check_texts(self) -> None:
        """Check that there is something to do, and that files can be written."""
        if not (self.word or self.hdf5):
            raise ValueError("nothing to do: give `word` and `corpus`, or `input` and `hdf5`")
        if self.word and not (self.corpus and self.text):
            raise ValueError("`word` needs sentences that hold it, and `corpus`")
        if self.hdf5 and not self.input:
            raise ValueError("`hdf5` needs `input`, a file of sentences")
        for sentence in self.text if self.word else ():
            if self.word not in sentence.split():
                raise ValueError(f"{self.word!r} is not a word of {sentence!r} (split at spaces)")
        if self.hdf5 and os.path.exists(self.hdf5):
            raise FileExistsError(f"{self.hdf5} exists; delete it or choose another `hdf5`")


class ElmoEvaluation(MeasuredTextSettings):
    """The perplexities of a text in both directions."""

    of: ClassVar[str] = "an ELMo"
    tokenize: bool = option(False, TOKENIZE_HELP)
    batch_size: int | None = option(None, "rows at a time (default: as in training)", at_least=1)
