"""Masked words and sentence pairs: what `tfnlp predict` does with BERT and later encoders."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfnlp.families.family import Prediction
from tfnlp.pictures import plot_attention
from tfnlp.settings.encoders import PredictMasks, PredictPairs

if TYPE_CHECKING:
    import tensorflow as tf

    from tfnlp.checkpoints.pretrained import Pretrained


_PAIR_HEADS = ("next_sentence_logits", "sentence_order_logits")  # 0: the second text follows


def check_texts(mask: str, config: PredictPairs) -> None:
    """Check that there is something to fill."""
    if config.pair is None and not config.attention:
        missing = [text for text in config.text if mask not in text]
        if missing:
            raise ValueError(f"{missing[0]!r} has no {mask} to fill; write one")


def predict(loaded: Any, config: PredictPairs) -> list[Any]:
    """Return for each text the guesses of each mask, or the probability that `pair` follows."""
    if config.pair is not None:
        return [follows(loaded, text, config.pair) for text in config.text]
    return [fill_masks(loaded, text, config.top) for text in config.text]


def lines(loaded: Any, config: PredictPairs) -> Iterator[str]:
    """Yield what `predict` returns as lines."""
    for text in config.text:
        (result,) = predict(loaded, config.replace(text=[text]))
        if config.pair is not None:
            yield f"{result:.3f}  {text} | {config.pair}\n"
            continue
        for guesses in result:
            shown = "  ".join(f"{token} {probability:.3f}" for token, probability in guesses)
            yield f"{text}\n  {shown}\n"
    if config.attention and config.pair is None:
        draw_attention(loaded, config.text[0], config.attention)
        yield f"attention map: {config.attention}\n"


def encode(
    loaded: Pretrained, text: str, pair: str | None = None
) -> tuple[dict[str, tf.Tensor], list[int]]:
    """Return texts as the encoder's inputs, int32 `[1, T]` each, and the positions of the masks."""
    import tensorflow as tf

    from tfnlp.hub.modules.fill import masked_pieces
    from tfnlp.text.task_readers import BertReader

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
    from tfnlp.hub.modules.fill import best_tokens, check_head, tokens_and_texts

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
    import tensorflow as tf

    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    head = next((name for name in _PAIR_HEADS if name in outputs), None)
    if head is None:
        raise ValueError("the model has no next-sentence head")
    inputs, _ = encode(loaded, text, pair)
    logits = _pretrainer_outputs(loaded, inputs, [0])[head]
    return float(tf.nn.softmax(logits)[0, 0])


def draw_attention(loaded: Pretrained, text: str, path: str) -> None:
    """Draw the attention map of the last layer for `text` as a PNG file."""
    import numpy as np

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
    import tensorflow as tf

    if "mlm_logits" in loaded.pretrainer.output:
        inputs = {**inputs, "masked_lm_positions": tf.constant([positions], "int32")}
    return loaded.pretrainer(inputs)


def mask_prediction(name: str, title: str, mask: str, pairs: bool) -> Prediction:
    """Return the record of `tfnlp predict NAME`; `pairs`: of a family with a head for pairs."""
    more = ", or tell whether one text follows another," if pairs else ""
    return Prediction(
        name=name,
        summary=f"Fill in {mask}{more} with {title}.",
        config=PredictPairs if pairs else PredictMasks,
        predict=predict,
        lines=lines,
        check=functools.partial(check_texts, mask),
        blank_lines=False,
    )
