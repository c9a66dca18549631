"""Settings of word2vec, GloVe and the NNLM, whose use are vectors of words."""

from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.text import LAYOUT_HELP, LAYOUTS, TEXT_HELP, TOKENIZE_HELP, WordTextSettings
from tfnlp.settings.training import TrainingSettings
from tfnlp.settings.use import EvaluationSettings, PredictionSettings


class CountedTextSettings(WordTextSettings):
    """The text of models of frequent words, which leave all others out."""

    lowercase: bool = option(False, "lower-case the text", group="text", record="text")


class Word2VecSettings(
    TrainingSettings, CountedTextSettings,
    epochs=5, batch_size=96, warmup=0.0, schedule="linear",
    learning_rate={"default": None, "help": "peak learning rate (default: skipgram 0.3, cbow 0.6)"},
    optimizer="rowwise_adagrad", weight_decay=0.0, clip_norm=0.0, steps_per_call=100, min_count=5,
):  # fmt: skip
    """Pretrain word2vec: one vector a word, from the words around it.

    The recipe is that of word2vec.c.
    """

    architecture: str = option(
        "skipgram",
        "predict a word from each of its neighbours (skipgram) or from their mean (cbow)",
        choices=("skipgram", "cbow"), group="model",
    )  # fmt: skip
    loss: str = option(
        "negative",
        "how the word is found: negative: told from random words; hierarchical: by a softmax along "
        "a Huffman tree; nce: noise-contrastive estimation, random words with their probabilities",
        choices=("negative", "hierarchical", "nce"), group="model",
    )  # fmt: skip
    dimension: int = option(100, "numbers in a vector", at_least=1, group="model")
    window: int = option(
        5, "words on either side, at most; drawn for each word", at_least=1, at_most=32767,
        group="model",
    )  # fmt: skip
    negatives: float = option(
        5.0, "negatives a pair: those of the block weigh as much as so many",
        above=0, group="model",
    )  # fmt: skip
    samples: int | None = option(
        None, "negatives drawn for a block, shared by its pairs (default: skipgram 16, cbow 32)",
        at_least=1, group="model",
    )  # fmt: skip
    block: int = option(32, "words in a block", at_least=1, group="model")
    sample: float = option(
        1e-3, "words that are a larger share of the text are left out at random; 0: none",
        at_least=0, group="text", record="training",
    )  # fmt: skip
    subwords: bool = option(
        False,
        "as fastText: a word's vector is made of its character n-grams', so that unseen words "
        "have one",
        group="model",
    )  # fmt: skip
    min_n: int = option(3, "characters of the shortest n-grams", at_least=1, group="model")
    max_n: int = option(6, "characters of the longest n-grams", group="model")
    buckets: int = option(200_000, "vectors that the n-grams share", at_least=1, group="model")


class GloVeSettings(
    TrainingSettings, CountedTextSettings,
    epochs=25, batch_size=4096, learning_rate=0.3, warmup=0.0, schedule="constant",
    optimizer="rowwise_adagrad", weight_decay=0.0, clip_norm=0.0, steps_per_call=100, min_count=5,
):  # fmt: skip
    """Pretrain GloVe: one vector a word, from how often it is near each other word."""

    dimension: int = option(100, "numbers in a vector", at_least=1, group="model")
    x_max: float = option(
        100.0, "count from which all pairs of words weigh the same; large texts need more",
        above=0, group="model",
    )  # fmt: skip
    alpha: float = option(
        0.75, "exponent of the weights of pairs that are rarer", at_least=0, group="model"
    )
    window: int = option(
        10, "words on either side; a pair d words apart counts 1/d",
        at_least=1, group="text", record="training",
    )  # fmt: skip
    left_only: bool = option(
        False, "count only words before a word, not those after it",
        group="text", record="training",
    )  # fmt: skip


class NNLMSettings(
    TrainingSettings, WordTextSettings,
    epochs=5, batch_size=512, learning_rate=1e-3, warmup=0.01, schedule="linear",
    optimizer="bert_adamw", weight_decay=0.0, clip_norm=1.0,
):  # fmt: skip
    """Pretrain an NNLM: the next word from the vectors of the few before it."""

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


class VectorEvaluation(EvaluationSettings):
    """What word vectors know of analogies and of people's judgements."""

    of: ClassVar[str] = "word vectors"
    one_of: ClassVar[tuple[str, ...]] = ("analogies", "similarity")
    analogies: str | None = option(None, "questions such as questions-words.txt", metavar="FILE")
    similarity: Any = option(None, "pairs that people rated", metavar="FILE")
    most_frequent: int = option(30_000, "of the analogies: words looked at", at_least=1)

    def check(self) -> None:
        """Check the fields, and that there is something to measure on."""
        super().check()
        if all(getattr(self, name) is None for name in self.one_of):
            asked = " or ".join(f"`{name}`" for name in self.one_of)
            raise ValueError(f"there is nothing to measure on; give {asked}")


class NNLMEvaluation(VectorEvaluation):
    """The perplexity of a text, or what the word vectors know."""

    of: ClassVar[str] = "an NNLM"
    one_of: ClassVar[tuple[str, ...]] = ("text", "analogies", "similarity")
    text: Any = option(None, TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)
    tokenize: bool = option(False, TOKENIZE_HELP)
    batch_size: int = option(512, "words at a time", at_least=1)

    def check(self) -> None:
        """Check the fields, and that there is one thing to measure on."""
        super().check()
        others = (self.analogies, self.similarity)
        if self.text is not None and any(one is not None for one in others):
            raise ValueError("a text is measured apart from `analogies` and `similarity`")


class WordPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of word vectors, which finds the nearest words."""

    of: ClassVar[str] = "word vectors"
    reads_stdin: ClassVar[bool] = False
    text: list[str] = option(
        help="words, or one sum of words with spaces around + and -; with subwords any word goes",
        positional=True, metavar="word",
    )  # fmt: skip
    top: int = option(10, "words to print", at_least=1)

    def queries(self) -> list[str]:
        """Return the words, or the one sum of words."""
        text = " ".join(self.text)
        return [text] if {"+", "-"} & set(text.split()) else text.split()

    def check_texts(self) -> None:
        """Check the form of sums."""
        for query in self.queries():
            signed_words(query)


def signed_words(query: str) -> tuple[list[str], list[str]]:
    """Return the words of "king - man + woman", as `(positive, negative)`."""
    positive, negative, sign, words = [], [], "+", query.split()
    for place, word in enumerate(words):
        if place % 2:
            if word not in ("+", "-"):
                raise ValueError(f"{query!r} lacks a + or - before {word!r}")
            sign = word
        elif word in ("+", "-"):
            raise ValueError(f"{query!r} lacks a word beside {word!r}; put spaces around signs")
        else:
            (positive if sign == "+" else negative).append(word)
    if len(words) % 2 == 0:
        raise ValueError(f"{query!r} lacks a word at its end")
    return positive, negative
