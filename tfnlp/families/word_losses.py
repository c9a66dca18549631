"""Losses over the words of a vocabulary, which word2vec and NNLM choose from."""

from typing import Any


def loss_arguments(loss: str, default: str, counts: Any) -> dict[str, Any]:
    """Return the arguments of a model for a loss; none for its default.

    `counts`, int `[V]`, says how often each word is in the training text.
    """
    from tfnlp.layers.hierarchical_softmax import huffman_tree

    if loss == default:
        return {}
    if loss != "hierarchical":
        return {"loss": loss}
    if len(counts) < 2:
        raise ValueError("`loss` hierarchical needs a vocabulary of 2 words or more")
    return {"loss": loss, "depth": huffman_tree(counts).shape[1]}
