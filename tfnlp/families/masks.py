"""Masked words, sentence pairs and attention maps of BERT and later encoders."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.checkpoints import Pretrained
from tfnlp.hub.modules.fill import best_tokens, check_head, masked_pieces, tokens_and_texts
from tfnlp.pictures import plot_attention
from tfnlp.text import BertReader

_PAIR_HEADS = ("next_sentence_logits", "sentence_order_logits")  # 0: the second text follows


def encode(
    loaded: Pretrained, text: str, pair: str | None = None
) -> tuple[dict[str, tf.Tensor], list[int]]:
    """Return texts as the encoder's inputs, int32 `[1, T]` each, and the positions of the masks."""
    tokenizer, limit = loaded.tokenizer, loaded.config["max_positions"]
    segments = [masked_pieces(tokenizer, tf.constant([text]))[0]]
    if pair is not None:
        segments.append(tokenizer.tokenize(tf.constant([pair])))
    reader = BertReader(tokenizer)
    special = reader.special_tokens(len(segments))
    length = special + sum(int(tf.size(segment.values)) for segment in segments)
    if length > limit:
        raise ValueError(f"text of {length} tokens, but the model reads {limit}; shorten it")
    packed = reader.pack(segments, length)
    inputs = {name: packed[name] for name in ("input_word_ids", "input_mask", "input_type_ids")}
    ids = inputs["input_word_ids"][0].numpy().tolist()
    return inputs, [i for i, token in enumerate(ids) if token == tokenizer.mask_id]


def fill_masks(loaded: Pretrained, text: str, top: int) -> list[list[tuple[str, float]]]:
    """Return for each mask of `text` a list of `(token, probability)`, most probable first."""
    inputs, positions = encode(loaded, text)
    if not positions:
        return []
    check_head(loaded.pretrainer)
    outputs = _pretrainer_outputs(loaded, inputs, positions)
    values, ids = best_tokens(outputs["mlm_logits"][0], loaded.tokenizer, top)  # [P, top]
    tokens, _ = tokens_and_texts(loaded.tokenizer, ids)
    return [
        [(token.decode("utf-8", "replace"), float(p)) for token, p in zip(*guesses, strict=True)]
        for guesses in zip(tokens.numpy(), values.numpy(), strict=True)
    ]


def follows(loaded: Pretrained, text: str, pair: str) -> float:
    """Return the probability that `pair` is the sentence after `text`."""
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    head = next((name for name in _PAIR_HEADS if name in outputs), None)
    if head is None:
        raise ValueError("the model has no next-sentence head")
    inputs, _ = encode(loaded, text, pair)
    logits = _pretrainer_outputs(loaded, inputs, [0])[head]
    return float(tf.nn.softmax(logits)[0, 0])


def draw_attention(loaded: Pretrained, text: str, path: str) -> None:
    """Draw the attention map of the last layer for `text` as a PNG file."""
    inputs, _ = encode(loaded, text)
    outputs = loaded.encoder(inputs)
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]  # [1, T, H] each
    last = len(states) - 2
    block = loaded.encoder.get_layer(f"layer_{last}")
    _, scores = block(states[last], mask=inputs["input_mask"] != 0, return_scores=True)
    tokens = [loaded.tokenizer.vocabulary[i] for i in inputs["input_word_ids"][0].numpy()]
    plot_attention(np.asarray(scores[0]), tokens, path, f"layer {last + 1}")


def _pretrainer_outputs(
    loaded: Pretrained, inputs: dict[str, tf.Tensor], positions: list[int]
) -> dict[str, Any]:
    if "mlm_logits" in loaded.pretrainer.output:
        inputs = {**inputs, "masked_lm_positions": tf.constant([positions], "int32")}
    return loaded.pretrainer(inputs)
