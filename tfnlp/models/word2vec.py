"""word2vec (Mikolov et al. 2013): one vector a word, learnt from the words around it."""

import keras

from tfnlp.layers import CBOWLoss, SkipGramLoss, SubwordEmbedding, WordEmbedding

ARCHITECTURES = {"skipgram": SkipGramLoss, "cbow": CBOWLoss}


def word2vec(
    vocab_size,
    hidden_size=100,
    architecture="skipgram",
    window=5,
    negatives=5.0,
    samples=16,
    block=32,
    buckets=None,
    most_subwords=None,
    dtype=None,
    name="word2vec",
):
    """Skip-gram or CBOW with negative sampling as a functional model over blocks of text.

    The vectors are the rows of the layer `word_embedding`, at first uniform in +-1/(2H); those of
    words as outputs, the kernel of the layer `loss`, are zero at first (both as in word2vec.c).
    With `buckets` it is fastText: `word_embedding` is a `SubwordEmbedding`, which has to be told
    of the n-grams, see there.

    Args:
        vocab_size: words V.
        hidden_size: width H.
        architecture: "skipgram" (see `SkipGramLoss`) or "cbow" (see `CBOWLoss`).
        window: W, words on either side at most.
        negatives: k, what the negatives of a pair weigh together.
        samples: N, negatives drawn for a block.
        block: L, centres in a block.
        buckets: rows for character n-grams; None: words have a vector of their own alone.
        most_subwords: n-grams of a word at most; needed with `buckets`.
        dtype: a Keras dtype policy; None takes the global one. The losses are float32.
        name: name of the model.

    Inputs: dict of int32 as from `tfnlp.data.WordBlocks`: `input_word_ids` `[B, L + 2W]`, `left`
    and `right` `[B, L]`, `negative_ids` `[B, N]`.

    Outputs: dict of `word_emb` `[B, L + 2W, H]` and `losses` float32 `[B]`, the sum over each
    block's pairs (CBOW: centres).

    Raises:
        ValueError: for another architecture, or sizes below 1.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"architecture={architecture!r} is unknown; choose one of {sorted(ARCHITECTURES)}"
        )
    for key, value in (("window", window), ("samples", samples), ("block", block)):
        if value < 1:
            raise ValueError(f"{key}={value} must be at least 1")
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
