"""Settings of an NNLM."""

import dataclasses
from typing import Any, ClassVar

from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import LAYOUT_HELP, LAYOUTS, TEXT_HELP, WordTextSettings
from tfnlp.settings.training import TrainingSettings
from tfnlp.settings.word_vectors import VectorEvaluation


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=5, batch_size=512, learning_rate=1e-3, warmup=0.01, schedule="linear",
    optimizer="bert_adamw", weight_decay=0.0, clip_norm=1.0,
)  # fmt: skip
class NNLMSettings(TrainingSettings, WordTextSettings):
    """The next word from the vectors of the words before it."""

    context: int = option(4, "words to predict the next one from", at_least=1, group="model")
    embedding_size: int = option(128, "width of the word vectors", at_least=1, group="model")
    hidden_size: int = option(256, "tanh units; 0: none, with --direct", at_least=0, group="model")
    direct: bool = option(False, "connect the word vectors to the softmax directly", group="model")
    dropout: float = option(0.2, "dropout rate", at_least=0, below=1, group="model")
    samples: int = option(
        0, "words in the sampled softmax, or of noise; 0: all, always", at_least=0, group="model"
    )
    loss: str = option(
        "softmax",
        "how the next word is found: softmax; hierarchical: by a softmax along a Huffman tree; "
        "nce: noise-contrastive estimation, with --samples",
        choices=("softmax", "hierarchical", "nce"), group="model",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class NNLMEvaluation(VectorEvaluation):
    """The perplexity of a text, or what the word vectors know."""

    of: ClassVar[str] = "an NNLM"
    one_of: ClassVar[tuple[str, ...]] = ("text", "analogies", "similarity")
    text: Any = option(None, TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)
    tokenize: bool = option(
        False, "split punctuation off the words first, if the text has not been tokenized yet"
    )
    batch_size: int = option(512, "words at a time", at_least=1)

    def check(self) -> None:
        """Check the fields, and that there is one thing to measure on."""
        super().check()
        others = (self.analogies, self.similarity)
        if self.text is not None and any(one is not None for one in others):
            raise ValueError("a text is measured apart from `analogies` and `similarity`")
