"""Word vectors: a word's neighbours, and a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from tfnlp.checkpoints import Pretrained
from tfnlp.show.picture import Picture, finished, loaded_model, plotly
from tfnlp.text import WordVectors
from tfnlp.text.word_vectors import unit

_FEW = 30  # words that are laid out by their two main directions


def words(model: Any, words: Sequence[str] = (), top: int = 300) -> Picture:
    """Show a map of word vectors of length 1.

    Up to 30 words stand where their first two principal components are, so that differences such
    as those of analogies stay; more are laid out by t-SNE, so that neighbours stay together.

    Args:
        model: Word vectors of any kind, or a path or name.
        words: The words; none: the most frequent.
        top: How many of the most frequent.

    Returns:
        a `Picture` whose `values` are a dict of each word to its place `(x, y)`.

    Raises:
        ValueError: for a model without word vectors, or a word that has none.
    """
    vectors = model
    if not isinstance(model, WordVectors):
        model = loaded_model(model)
        vectors = model.word_vectors if isinstance(model, Pretrained) else None
    if vectors is None:
        raise ValueError(
            f"{model.path} is {model.title}, not word vectors; give a word2vec or GloVe"
        )
    chosen = list(dict.fromkeys(words)) or vectors.words[:top]
    if len(chosen) < 3:
        raise ValueError(f"`words` {chosen} are too few for a map; give three or more")
    table = unit(np.stack([vectors.vector(word) for word in chosen]))  # [N, D]
    if len(chosen) <= _FEW:
        places = PCA(2).fit_transform(table)
    else:
        near = min(30.0, (len(chosen) - 1) / 3)
        places = TSNE(perplexity=near, metric="cosine", random_state=0).fit_transform(table)
    cosines = table @ table.T
    np.fill_diagonal(cosines, -1)
    order = np.argsort(-cosines, axis=1)[:, :5]
    near_ones = ["<br>".join(f"{chosen[n]} {row[n]:.2f}" for n in best)
                 for row, best in zip(cosines, order, strict=True)]  # fmt: skip
    figure = plotly().Figure(
        plotly().Scatter(
            x=places[:, 0], y=places[:, 1], text=chosen, mode="markers+text",
            textposition="top center", textfont_size=11, customdata=near_ones,
            marker={"size": 5, "color": np.arange(len(chosen)), "colorscale": "Viridis"},
            hovertemplate="<b>%{text}</b><br>%{customdata}<extra></extra>",
        )
    )  # fmt: skip
    axis = {"showticklabels": False, "zeroline": False, "showgrid": False}
    figure.update_layout(xaxis=axis, yaxis={**axis, "scaleanchor": "x"})
    size = 560 if len(chosen) <= _FEW else 1000
    finished(figure, f"A map of {len(chosen)} words", size * 1.2, size)
    values = {word: (float(x), float(y)) for word, (x, y) in zip(chosen, places, strict=True)}
    return Picture(figure=figure, values=values, text=f"{len(chosen)} words")


def nearest(vectors: WordVectors, word: str, top: int) -> Picture:
    """Return the words whose vectors are nearest to that of a word, see `neighbours`."""
    found = vectors.most_similar(word, topn=top)
    names, cosines = zip(*found, strict=True)
    bars = plotly().Bar(x=cosines, y=names, orientation="h", texttemplate="%{x:.3f}")
    figure = plotly().Figure(bars)
    figure.update_yaxes(autorange="reversed").update_xaxes(title="cosine")
    finished(figure, f"Nearest to {word}", 560, 140 + 32 * len(names))
    text = "\n".join([word, *(f"  {cosine:.3f}  {name}" for name, cosine in found)])
    return Picture(figure=figure, values=found, text=text)
