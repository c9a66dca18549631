"""Attention: all layers and heads as a grid with one scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.families.encoder import Encoder, encode
from tfnlp.families.gpt import GPT
from tfnlp.families.translator import Translator
from tfnlp.runs.attention_maps import (
    blocks_of,
    encoder_attention,
    encoder_of,
    first_inputs,
    scores_of,
    shown_tokens,
)
from tfnlp.runs.task_run import TaskRun
from tfnlp.show.picture import Picture, finished, loaded_model, plotly
from tfnlp.tasks.sequences import encode_examples

_MOST = 64  # tokens whose names fit beside a map


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMap:
    """What the heads of a layer look at.

    Attributes:
        layer: Its number, from 1.
        part: Of an encoder-decoder "source", "target" or "target to source"; else "".
        scores: Probabilities float32 `[N, T, S]`: of N heads, row t says at what token t looks.
        tokens: The T tokens that look.
        context: The S tokens that are looked at.
    """

    layer: int
    part: str
    scores: np.ndarray
    tokens: list[str]
    context: list[str]

    @property
    def name(self) -> str:
        """Layer and part in words."""
        return f"layer {self.layer}" + f", {self.part}" * bool(self.part)


def attention(model: Any, text: str | Sequence[str], layer: int | None = None) -> Picture:
    """Show what each head of each layer looks at.

    Args:
        model: A BERT or an encoder after it, a GPT, a Transformer or a seq2seq model with
            attention; a task that was fine-tuned on one of the first two; or a path or name.
        text: A text, also with masks, or the texts of a pair. Of a model that translates a
            sentence, alone or with a translation in place of the model's own.
        layer: One of the layers, from 1, with the names of its tokens; None: all.

    Returns:
        a `Picture` whose `values` are `AttentionMap`s.

    Raises:
        ValueError: for a model without attention, or a layer that it does not have.
    """
    model = loaded_model(model)
    texts = [text] if isinstance(text, str) else list(text)
    maps = list(_maps(model, texts))
    if layer is not None:
        if not 1 <= layer <= maps[-1].layer:
            raise ValueError(f"`layer` {layer} must be from 1 to {maps[-1].layer}")
        maps = [one for one in maps if one.layer == layer]
    lines = [
        f"{one.name}: {len(one.scores)} heads, {len(one.tokens)} tokens look at {len(one.context)}"
        for one in maps
    ]
    return Picture(figure=_grid(maps, " | ".join(texts)), values=maps, text="\n".join(lines))


def _maps(model: Any, texts: list[str]) -> Iterator[AttentionMap]:
    family = model.family
    if not isinstance(family, Encoder | GPT | Translator):
        raise ValueError(f"{model.path} is {family.title}, which has no attention to show")
    if isinstance(family, Translator):
        yield from _of_translation(model, *texts)
        return
    encoder, inputs, tokenizer = _encoder(model, texts)
    ids = np.asarray(inputs["input_word_ids"])[0]
    tokens = shown_tokens(tokenizer, ids)
    for number, scores in enumerate(encoder_attention(encoder, inputs), 1):
        yield AttentionMap(number, "", scores[0], tokens, tokens)


def _encoder(model: Any, texts: list[str]) -> tuple[keras.Model, dict[str, Any], Any]:
    """Return an encoder, its inputs of one row, and the tokenizer."""
    if isinstance(model, TaskRun):
        made = model.task_model
        example = made.task.examples_of([texts])
        encoded = encode_examples(made.reader, made.task, example, whole=made.features is None)
        encoder = encoder_of(made)
        if encoder is None:
            raise ValueError(
                f"{model.path} was fine-tuned from a module, whose layers are not seen"
            )
        return encoder, first_inputs(encoder, encoded), made.reader.tokenizer
    if isinstance(model.family, Encoder):
        return model.encoder, encode(model, *texts)[0], model.tokenizer
    reader = model.family.sentence_reader(model)
    segments, _, _ = reader.read([tf.constant([" ".join(texts)])])
    packed = reader.pack(segments, model.config["max_positions"])
    return model.encoder, {name: packed[name] for name in model.encoder.input}, model.tokenizer


def _of_translation(
    model: Any, sentence: str, translation: str | None = None
) -> Iterator[AttentionMap]:
    if "attention" not in model.encoder.output:
        raise ValueError(f"{model.path} was made without attention, which there is none to show of")
    if translation is None:
        (translation,) = model.predict([sentence])
    source, target = model.tokenizer.tokenize([sentence, translation]).to_list()
    end = model.tokenizer.end_id
    ids = np.array([[*source, end]], np.int32)
    inputs = {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "target_word_ids": np.array([[end, *target]], np.int32),
    }
    read, said = ([*shown_tokens(model.tokenizer, part), "(end)"] for part in (source, target))
    if "encoder_outputs" not in model.encoder.output:
        scores = np.asarray(model.encoder(inputs)["attention"])  # [1, T, S]
        yield AttentionMap(1, "target to source", scores, said, read)
        return
    begun = ["(start)", *said[:-1]]
    of_source, of_target, across = transformer_attention(model.encoder, inputs)
    for number, scores in enumerate(of_source, 1):
        yield AttentionMap(number, "source", scores[0], read, read)
    for number, (own, other) in enumerate(zip(of_target, across, strict=True), 1):
        yield AttentionMap(number, "target", own[0], begun, begun)
        yield AttentionMap(number, "target to source", other[0], said, read)


def transformer_attention(
    model: keras.Model, inputs: dict[str, Any]
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the probabilities of each block: the encoder's, the decoder's own and to the source.

    They are float32 `[B, N, S, S]`, `[B, N, T, T]` and `[B, N, T, S]`.
    """
    starts = [model.get_layer(f"{part}_dropout").output for part in ("encoder", "decoder")]
    x, y = keras.Model(model.input, starts)(inputs)
    outputs = model(inputs, training=False)
    real = keras.ops.not_equal(inputs["input_mask"], 0)
    states = [x, *outputs["encoder_outputs"]]
    of_source = scores_of(model.output["encoder_outputs"], states, mask=real)
    context, states = outputs["encoder_output"], [y, *outputs["decoder_outputs"]]
    decoder = model.output["decoder_outputs"]
    across = scores_of(decoder, states, context=context, context_mask=real)
    of_target = []
    for block, y in zip(blocks_of(decoder), states, strict=False):
        y = block.attention_norm(y) if block.norm_first else y
        of_target.append(np.asarray(block.attention(y, return_scores=True)[1]))
    return of_source, of_target, across


def _grid(maps: list[AttentionMap], title: str) -> Any:
    """Return a figure with a row for each layer and a column for each head."""
    heads = max(len(one.scores) for one in maps)
    few = len(maps) < 4
    columns = min(heads, 4) if few else heads
    rows = [
        (one, range(first, min(first + columns, len(one.scores))))
        for one in maps
        for first in range(0, len(one.scores), columns)
    ]
    named = few and max(len(x) for one in maps for x in (one.tokens, one.context)) <= _MOST
    width, height = (max(len(n) * 15 + 90, 240) for n in (maps[-1].context, maps[-1].tokens))
    if not named:
        width, height = (320, 320) if few else (105, 105)
    gap = 85 if named else 12
    total_width, total_height = columns * (width + gap), len(rows) * (height + gap)
    figure = plotly("subplots").make_subplots(
        rows=len(rows), cols=columns,
        horizontal_spacing=gap / total_width if columns > 1 else 0,
        vertical_spacing=gap / total_height if len(rows) > 1 else 0,
        column_titles=None if few else [f"head {n}" for n in range(1, columns + 1)],
        row_titles=None if few else [one.name for one, _ in rows],
        subplot_titles=[
            f"{one.name}, head {n + 1}" if n is not None else ""
            for one, numbers in rows
            for n in [*numbers, *[None] * (columns - len(numbers))]
        ] if few else None,
    )  # fmt: skip
    for row, (one, numbers) in enumerate(rows, 1):
        x, y = (
            [f"{place} {token}" for place, token in enumerate(names)]
            for names in (one.context, one.tokens)
        )
        for column, head in enumerate(numbers, 1):
            heat = plotly().Heatmap(
                z=np.round(one.scores[head].astype("float32"), 4), x=x, y=y, coloraxis="coloraxis",
                hovertemplate="%{y} looks at %{x}: %{z:.3f}<extra>"
                f"{one.name}, head {head + 1}</extra>",
            )  # fmt: skip
            figure.add_trace(heat, row, column)
            ticks = dict(showticklabels=named, tickfont_size=10, row=row, col=column)
            places = [dict(tickvals=a, ticktext=b) for a, b in ((x, one.context), (y, one.tokens))]
            figure.update_xaxes(**ticks, **places[0], tickangle=-60)
            figure.update_yaxes(**ticks, **places[1], autorange="reversed")
    blues = plotly("colors").sequential.Blues
    steps = [(n / (len(blues) - 1)) ** 2 for n in range(len(blues))]  # small ones can be told apart
    figure.update_layout(
        coloraxis={
            "cmin": 0, "cmax": 1, "colorscale": [list(x) for x in zip(steps, blues, strict=True)],
            "colorbar": {"len": min(1.0, 420 / total_height), "y": 1, "yanchor": "top",
                         "thickness": 12},
        }
    )  # fmt: skip
    finished(figure, title, total_width + 190, total_height + 130)
    return figure.update_annotations(font_size=11)
