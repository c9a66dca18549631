"""word2vec (Mikolov et al. 2013): one vector for each word, learnt from the words around it."""

import keras

from tfnlp.layers import CBOWLoss, SkipGramLoss, SubwordEmbedding, WordEmbedding
from tfnlp.layers.types import DType
from tfnlp.models.sizes import check_positive

ARCHITECTURES = {"skipgram": SkipGramLoss, "cbow": CBOWLoss}


def word2vec(
    vocab_size: int,
    hidden_size: int = 100,
    architecture: str = "skipgram",
    window: int = 5,
    negatives: float = 5.0,
    samples: int = 16,
    block: int = 32,
    buckets: int | None = None,
    most_subwords: int | None = None,
    dtype: DType = None,
    name: str = "word2vec",
) -> keras.Model:
    """Return skip-gram or CBOW with negative sampling over blocks of text.

    The vectors are the rows of the layer `word_embedding`, initially uniform in +-1/(2H); those of
    words as outputs, the kernel of the layer `loss`, are initially zero (both as in word2vec.c).
    With `buckets` the model is fastText: `word_embedding` is a `SubwordEmbedding`, whose n-grams
    must be set, see there.

    Args:
        vocab_size: words V.
        hidden_size: width H.
        architecture: "skipgram" (see `SkipGramLoss`) or "cbow" (see `CBOWLoss`).
        window: W, the largest number of words on either side.
        negatives: k, the total weight of the negatives of a pair.
        samples: N, negatives drawn for a block.
        block: L, centres in a block.
        buckets: rows for character n-grams; None: words have only a vector of their own.
        most_subwords: the largest number of n-grams of a word; needed with `buckets`.
        dtype: a Keras dtype policy; None takes the global one. The losses are float32.
        name: name of the model.

    Inputs: dict of int32 as from `tfnlp.data.WordBlocks`: `input_word_ids` `[B, L + 2W]`, `left`
    and `right` `[B, L]`, `negative_ids` `[B, N]`.

    Outputs: dict of `word_emb` `[B, L + 2W, H]` and `losses` float32 `[B]`, the sum over each
    block's pairs (CBOW: centres).

    Raises:
        ValueError: for an unknown architecture, sizes below 1, or negatives not above 0.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"architecture={architecture!r} is unknown; choose one of {sorted(ARCHITECTURES)}"
        )
    check_positive(window=window, samples=samples, block=block)
    inputs = {
        key: keras.Input((size,), dtype="int32", name=key)
        for key, size in (
            ("input_word_ids", block + 2 * window),
            ("left", block),
            ("right", block),
            ("negative_ids", samples),
        )
    }
    more = {"dtype": dtype, "name": "word_embedding"}
    if buckets is None:
        table = WordEmbedding(vocab_size, hidden_size, **more)
    else:
        table = SubwordEmbedding(vocab_size, hidden_size, buckets, most_subwords or 0, **more)
    vectors = table(inputs["input_word_ids"])
    loss = ARCHITECTURES[architecture](vocab_size, window, negatives, dtype=dtype, name="loss")
    losses = loss(
        vectors,
        word_ids=inputs["input_word_ids"],
        left=inputs["left"],
        right=inputs["right"],
        negative_ids=inputs["negative_ids"],
    )
    return keras.Model(inputs, {"word_emb": vectors, "losses": losses}, name=name)
