"""Settings of word2vec."""

import dataclasses

from tfnlp.settings.options import option, redefine
from tfnlp.settings.training import TrainingSettings
from tfnlp.settings.word_vectors import CountedTextSettings


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=5, batch_size=96, learning_rate=0.3, warmup=0.0, schedule="linear",
    optimizer="rowwise_adagrad", weight_decay=0.0, clip_norm=0.0, steps_per_call=100, min_count=5,
)  # fmt: skip
class Word2VecSettings(TrainingSettings, CountedTextSettings):
    """One vector a word, from the words around it; the recipe of word2vec.c."""

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
        5,
        "words on either side, at most; drawn for each word",
        at_least=1,
        at_most=32767,
        group="model",
    )
    negatives: float = option(
        5.0, "negatives a pair: those of the block weigh as much as so many",
        above=0, group="model",
    )  # fmt: skip
    samples: int = option(
        16, "negatives drawn for a block, shared by its pairs", at_least=1, group="model"
    )
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
