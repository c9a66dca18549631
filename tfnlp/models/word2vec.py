"""One vector for each word: word2vec and GloVe.

word2vec (Mikolov et al. 2013) learns it from the words around the word, GloVe (Pennington, Socher &
Manning 2014) from how often words are near others.
"""

import keras

from tfnlp.layers import (
    CBOWLoss,
    GloVeLoss,
    HierarchicalCBOWLoss,
    HierarchicalSkipGramLoss,
    NCECBOWLoss,
    NCESkipGramLoss,
    SkipGramLoss,
    SubwordEmbedding,
    WordEmbedding,
)
from tfnlp.layers.base import DType, check_positive

LOSSES = {
    "negative": {"skipgram": SkipGramLoss, "cbow": CBOWLoss},
    "hierarchical": {"skipgram": HierarchicalSkipGramLoss, "cbow": HierarchicalCBOWLoss},
    "nce": {"skipgram": NCESkipGramLoss, "cbow": NCECBOWLoss},
}


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
    loss: str = "negative",
    depth: int | None = None,
    dtype: DType = None,
    name: str = "word2vec",
) -> keras.Model:
    """Return skip-gram or CBOW over blocks of text, with one of three losses.

    The vectors are the rows of the layer `word_embedding`, initially uniform in +-1/(2H); those of
    words (or nodes) as outputs, the kernel of the layer `loss`, are initially zero (both as in
    word2vec.c).
    With `buckets` the model is fastText: `word_embedding` is a `SubwordEmbedding`, whose n-grams
    must be set, see there.

    Args:
        vocab_size: words V.
        hidden_size: width H.
        architecture: "skipgram" (see `SkipGramLoss`) or "cbow" (see `CBOWLoss`).
        loss: "negative" for negative sampling, "hierarchical" for a softmax by a tree (see
            `HierarchicalSkipGramLoss`), "nce" for noise-contrastive estimation (see
            `NCESkipGramLoss`). The latter two need `set_counts` of the layer `loss`, see there.
        depth: of "hierarchical", the longest path of the tree; None: that of a balanced tree.
        window: W, the largest number of words on either side.
        negatives: k, the total weight of the negatives of a pair.
        samples: N, negatives drawn for a block.
        block: L, centres in a block.
        buckets: rows for character n-grams; None: words have only a vector of their own.
        most_subwords: the largest number of n-grams of a word; needed with `buckets`.
        dtype: a Keras dtype policy; None takes the global one. The losses are float32.

    Inputs: dict of int32 as from `tfnlp.data.WordBlocks`: `input_word_ids` `[B, L + 2W]`, `left`
    and `right` `[B, L]`, and but for "hierarchical" `negative_ids` `[B, N]`.

    Outputs: dict of `word_emb` `[B, L + 2W, H]` and `losses` float32 `[B]`, the sum over each
    block's pairs (CBOW: centres).

    Raises:
        ValueError: for an unknown architecture or loss, sizes below 1, negatives not above 0, or a
            depth below that of a balanced tree.
    """
    if architecture not in LOSSES.get(loss, {}):
        raise ValueError(f"there is no loss={loss!r} with architecture={architecture!r}")
    check_positive(window=window, samples=samples, block=block)
    if loss == "hierarchical":
        drawn, more_loss = {}, {"depth": depth}
    else:
        drawn, more_loss = {"negative_ids": samples}, {"negatives": negatives}
    sizes = {"input_word_ids": block + 2 * window, "left": block, "right": block, **drawn}
    inputs = {key: keras.Input((size,), dtype="int32", name=key) for key, size in sizes.items()}
    more = {"dtype": dtype, "name": "word_embedding"}
    if buckets is None:
        table = WordEmbedding(vocab_size, hidden_size, **more)
    else:
        table = SubwordEmbedding(vocab_size, hidden_size, buckets, most_subwords or 0, **more)
    vectors = table(inputs["input_word_ids"])
    layer = LOSSES[loss][architecture](vocab_size, window, **more_loss, dtype=dtype, name="loss")
    named = {name: inputs[name] for name in inputs if name != "input_word_ids"}
    losses = layer(vectors, word_ids=inputs["input_word_ids"], **named)
    return keras.Model(inputs, {"word_emb": vectors, "losses": losses}, name=name)


def glove(
    vocab_size: int,
    hidden_size: int = 100,
    x_max: float = 100.0,
    alpha: float = 0.75,
    dtype: DType = None,
    name: str = "glove",
) -> keras.Model:
    """Return the model of the cells of a co-occurrence matrix, see `GloVeLoss`.

    The vectors w are the rows of the layer `word_embedding`, w~ those of the kernel of the layer
    `loss`. As in the paper, `w + w~` are the vectors to use.

    Args:
        vocab_size: words V.
        hidden_size: width H.
        x_max: the count from which all cells weigh the same.
        alpha: the exponent of the weights below.
        dtype: a Keras dtype policy; None takes the global one. The losses are float32.

    Inputs: dict as from `tfnlp.data.CooccurrenceBatches`: `input_word_ids` and `context_ids` int32
    `[B]`, `counts` float32 `[B]`.

    Outputs: dict of `word_emb` `[B, H]` and `losses` float32 `[B]`.

    Raises:
        ValueError: for sizes below 1, or an x_max or alpha that `GloVeLoss` refuses.
    """
    inputs = {
        key: keras.Input((), dtype=kind, name=key)
        for key, kind in (
            ("input_word_ids", "int32"),
            ("context_ids", "int32"),
            ("counts", "float32"),
        )
    }
    table = WordEmbedding(vocab_size, hidden_size, dtype=dtype, name="word_embedding")
    vectors = table(inputs["input_word_ids"])  # [B, H]
    losses = GloVeLoss(vocab_size, x_max, alpha, dtype=dtype, name="loss")(
        vectors,
        word_ids=inputs["input_word_ids"],
        context_ids=inputs["context_ids"],
        counts=inputs["counts"],
    )
    return keras.Model(inputs, {"word_emb": vectors, "losses": losses}, name=name)
