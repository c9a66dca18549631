"""Layers: their vectors of words in context, the nearest of a word, and mixes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.checkpoints import Pretrained
from tfnlp.data import TaggedSentence
from tfnlp.data.labelled.tag_schemes import split_sentence
from tfnlp.data.texts import texts_of
from tfnlp.families.elmo import Elmo, marked
from tfnlp.families.fitting import Tunable
from tfnlp.hub.modules.frozen_features import EncoderFeatures, sequence_table
from tfnlp.layers import ScalarMix
from tfnlp.runs.task_run import TaskRun
from tfnlp.show.picture import Picture, finished, loaded_model, name_of, plotly
from tfnlp.show.word_map import nearest
from tfnlp.tasks import Tag
from tfnlp.tasks.sequences import encode_examples
from tfnlp.text.word_vectors import unit
from tfnlp.text.words import MARKS

_MOST = 2000  # texts whose words are compared
_AROUND = 3  # words before and after


def neighbours(
    model: Any,
    word: str,
    texts: Any = None,
    among: Any = None,
    top: int = 5,
) -> Picture:
    """Show which words are nearest to a word, of cosines, in each layer of a model.

    Args:
        model: A BERT or an encoder after it, a GPT or an ELMo; word vectors; or a path or name.
        word: The word, in any case.
        texts: Sentences that hold it; of word vectors none.
        among: Texts whose words are compared, at most 2,000; of each the nearest word alone, and
            none of `texts`.
        top: Neighbours.

    Returns:
        a `Picture` whose `values` are a dict by layer of lists, one for each of `texts`, of
        `(cosine, words of the text, place of the neighbour)`, best first. Of word vectors
        they are `(word, cosine)`.

    Raises:
        ValueError: for a word that a sentence or the vectors lack, or a model of another kind.
    """
    model = loaded_model(model)
    if isinstance(model, Pretrained) and model.word_vectors is not None:
        if among is not None or (texts is not None and len(texts)):
            raise ValueError(
                f"{model.path} has one vector for each word: leave `texts` and `among` out"
            )
        return nearest(model.word_vectors, word, top)
    check_contexts(model)
    if texts is None or among is None or not len(texts):
        raise ValueError(
            f"{model.path} has a vector for each place of a word: give `texts`, sentences that "
            "hold it, and `among`, texts whose words are compared"
        )
    texts = texts_of(texts, "texts")
    queries = [split_sentence(text, MARKS) for text in texts]
    places = [_place(query, word) for query in queries]
    asked = set(texts)
    others = [text for text in dict.fromkeys(texts_of(among, "among")) if text not in asked]
    sentences = [x for x in (split_sentence(text, MARKS) for text in others[:_MOST]) if x.words]
    if not sentences:
        raise ValueError("`among` has no texts beside `texts`")
    layers = word_layers(model, [*queries, *sentences])
    ends = np.cumsum([len(x.words) for x in [*queries, *sentences]])
    rows = [end - len(q.words) + p for end, q, p in zip(ends, queries, places, strict=False)]
    first = ends[len(queries) - 1]
    starts = np.array([0, *ends[len(queries) : -1] - first])  # of the sentences' words
    found = {}
    for name, vectors in layers.items():
        cosines = unit(vectors[rows]) @ unit(vectors[first:]).T  # [Q, W]
        best = np.maximum.reduceat(cosines, starts, axis=1)  # [Q, sentences]
        order = np.argsort(-best, axis=1, kind="stable")[:, :top]
        found[name] = [
            [_found(row, sentences[n], starts[n]) for n in numbers]
            for row, numbers in zip(cosines, order, strict=True)
        ]
    shown = [marked(list(q.words), p) for q, p in zip(queries, places, strict=True)]
    return Picture(figure=_by_layer(found, shown), values=found, text=_lines(found, shown))


def _place(sentence: TaggedSentence, word: str) -> int:
    for place, other in enumerate(sentence.words):
        if other.lower() == word.lower():
            return place
    raise ValueError(f"`word` {word!r} is not a word of {sentence.text!r:.80}")


def _found(cosines: np.ndarray, sentence: TaggedSentence, start: int) -> tuple[float, list, int]:
    of_sentence = cosines[start : start + len(sentence.words)]
    place = int(of_sentence.argmax())
    return float(of_sentence[place]), list(sentence.words), place


def check_contexts(model: Any) -> None:
    """Raise ValueError for a model that has no vectors of words in context, layer by layer."""
    if not isinstance(model, Pretrained) or not isinstance(model.family, Tunable):
        raise ValueError(
            f"{model.path} is {model.title}; expected a pretrained model with vectors in context: "
            "a BERT or an encoder after it, a GPT or an ELMo"
        )


def word_layers(model: Any, sentences: Sequence[TaggedSentence]) -> dict[str, np.ndarray]:
    """Return the vectors of all words in each layer, float32 `[W, D]`, the lowest layer first.

    That of a word is the vector of its first piece, of a GPT of its last; of an ELMo the lowest
    is that of its letters.
    """
    features = model.family.features(model, "sum-all")[0]
    if not isinstance(features, EncoderFeatures):
        table = np.concatenate(list(features.of_sentences(s.words for s in sentences)))
        return dict(zip(layer_names(model), table.swapaxes(0, 1), strict=True))
    features = EncoderFeatures(model.encoder, range(len(layer_names(model))))
    length = min(128, model.config.get("max_positions", 128))
    task = Tag(labels=("", "x"), max_length=length, stride=length // 2)
    encoded = encode_examples(model.family.sentence_reader(model), task, sentences, whole=False)
    table, rows = sequence_table(encoded, features)
    row_of = np.zeros(int(encoded.splits[-1]), np.int64)
    for chosen, words, of_table in zip(
        encoded.chosen, encoded.windows["token_word"], rows, strict=True
    ):
        row_of[words[chosen]] = of_table[chosen]
    return {name: table[row_of, n] for n, name in enumerate(layer_names(model))}


def layer_names(model: Any) -> list[str]:
    """Return the names of a model's layers, the lowest first."""
    outputs = model.encoder.output
    if "encoder_outputs" in outputs:
        return ["embeddings", *(f"layer {n}" for n, _ in enumerate(outputs["encoder_outputs"], 1))]
    return mixed_layers(model.family, 1 + sum(name.startswith("lstm_outputs") for name in outputs))


def _lines(found: dict[str, list], shown: list[str]) -> str:
    lines = []
    for number, sentence in enumerate(shown):
        lines.append(sentence)
        for name, of_sentences in found.items():
            lines += [f"  {name}"]
            lines += [f"    {c:.3f}  {marked(w, p)}" for c, w, p in of_sentences[number]]
    return "\n".join(lines)


def _by_layer(found: dict[str, list], shown: list[str]) -> Any:
    """Return a table for each sentence: a row for each layer, the highest at the top."""
    figure = plotly("subplots").make_subplots(
        rows=len(shown), cols=1, subplot_titles=shown, vertical_spacing=0.15 / len(shown)
    )
    top = max(len(x) for of_sentences in found.values() for x in of_sentences)
    for number in range(len(shown)):
        cells = [of_sentences[number] for of_sentences in found.values()]
        cells = [[*row, *[(np.nan, [""], 0)] * (top - len(row))] for row in cells]
        heat = plotly().Heatmap(
            z=[[c for c, _, _ in row] for row in cells], y=list(found),
            x=[str(n) for n in range(1, top + 1)], coloraxis="coloraxis",
            text=[[_bold(w, p, _AROUND) for _, w, p in row] for row in cells],
            customdata=[[_bold(w, p, 9) for _, w, p in row] for row in cells],
            texttemplate="%{text}", textfont_size=11,
            hovertemplate="%{customdata}<br>cosine %{z:.3f}<extra>%{y}</extra>",
        )  # fmt: skip
        figure.add_trace(heat, number + 1, 1)
    figure.update_xaxes(showticklabels=False)
    scale = [[0, "#f7fcf5"], [1, "#74c476"]]  # pale: text stands on it
    figure.update_layout(coloraxis={"colorscale": scale, "colorbar": {"title": "cosine"}})
    height = len(shown) * (34 * len(found) + 60)
    finished(figure, "Nearest words in context, by layer", 240 + 250 * top, height + 120)
    return figure.update_annotations(font_size=13)


def _bold(words: list[str], place: int, around: int) -> str:
    parts = [f"<b>{w}</b>" if n == place else w for n, w in enumerate(words)]
    return " ".join(parts[max(0, place - around) : place + around + 1])


def mixture(model: Any) -> Picture:
    """Show `softmax(s)` of each mix of layers (Peters et al. 2018, eq. 1 and figure 2).

    Args:
        model: A task that was fine-tuned on the layers of a frozen model, an ELMo, or a path.

    Returns:
        a `Picture` whose `values` are a dict of a mix's name to its shares by layer.

    Raises:
        ValueError: for a model that mixes no layers.
    """
    model = loaded_model(model)
    whole = model.task_model.model if isinstance(model, TaskRun) else model.encoder
    mixes = [x for x in getattr(whole, "layers", ()) if isinstance(x, ScalarMix)]
    if not mixes:
        raise ValueError(
            f"{model.path} mixes no layers; give an ELMo, or a task that was fine-tuned with "
            "`features`"
        )
    go, values, lines = plotly(), {}, []
    figure = go.Figure()
    for mix in mixes:
        names = mixed_layers(model.family, mix.num_layers)
        shares = tf.nn.softmax(mix.scalars).numpy()
        values[mix.name] = dict(zip(names, map(float, shares), strict=True))
        lines += [f"{mix.name}, gamma {float(np.asarray(mix.gamma)):.3f}"]
        lines += [f"  {name:12s}{share:.3f}" for name, share in values[mix.name].items()]
        figure.add_bar(x=names, y=shares, name=mix.name, texttemplate="%{y:.3f}")
    figure.update_yaxes(title="share in the mix", rangemode="tozero")
    finished(
        figure, f"Layers in the mix of {name_of(model)}", 160 + 90 * len(names) * len(mixes), 400
    )
    return Picture(figure=figure, values=values, text="\n".join(lines))


def mixed_layers(family: Any, count: int) -> list[str]:
    """Return names of the layers of a mix; an ELMo's has its word vectors, too."""
    if isinstance(family, Elmo):
        return ["letters", *(f"LSTM {n}" for n in range(1, count))]
    return [f"layer {n}" for n in range(1, count + 1)]
