"""Masked words and sentence pairs with a loaded BERT: what `tfnlp predict bert` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfnlp.configs import option
from tfnlp.families.family import Prediction
from tfnlp.families.use_config import ModelConfig

if TYPE_CHECKING:
    import tensorflow as tf

    from tfnlp.convert.pretrained import Pretrained


@dataclasses.dataclass(kw_only=True)
class PredictBert(ModelConfig):
    """Arguments of `tfnlp predict bert`."""

    text: list[str] = option(
        [], "sentences with [MASK]; none: a sentence a line from stdin", positional=True
    )
    pair: str | None = option(None, "second sentence: does it follow the (one) text?")
    top: int = option(5, "guesses a mask", at_least=1)
    attention: str | None = option(None, "draw the last layer's attention map", metavar="PNG")


def check_texts(config: PredictBert) -> None:
    """Check that there is something to fill.

    Raises:
        ValueError: for no text, or one without a mask.
    """
    if not config.text:
        raise ValueError("no text: give sentences as arguments or on standard input")
    if config.pair is None and not config.attention:
        missing = [text for text in config.text if "[MASK]" not in text]
        if missing:
            raise ValueError(f"{missing[0]!r} has no [MASK] to fill; write one, or use `pair`")


def predict(loaded: Any, config: PredictBert) -> list[Any]:
    """Return for each text the guesses of each mask, or the probability that `pair` follows."""
    if config.pair is not None:
        return [follows(loaded, text, config.pair) for text in config.text]
    return [fill_masks(loaded, text, config.top) for text in config.text]


def lines(loaded: Any, config: PredictBert) -> Iterator[str]:
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
    """Return a text (with `[MASK]`s) and an optional second one as the encoder's inputs.

    Returns:
        `(inputs, positions)`: int32 `[1, T]` each, and the positions of the masks.

    Raises:
        ValueError: if the text is longer than the model's positions.
    """
    import tensorflow as tf

    from tfnlp.hub.modules.fill import masked_pieces

    tokenizer = loaded.tokenizer
    ids = masked_pieces(tokenizer, tf.constant([text]))[0][0].numpy().tolist()
    first = [tokenizer.cls_id, *ids, tokenizer.sep_id]
    second = []
    if pair is not None:
        second = [*tokenizer.tokenize(tf.constant([pair]))[0].numpy().tolist(), tokenizer.sep_id]
    limit = loaded.config["max_positions"]
    if len(first) + len(second) > limit:
        raise ValueError(
            f"text of {len(first) + len(second)} tokens, but the model reads {limit}; shorten it"
        )
    row = tf.constant([first + second], "int32")  # [1, T]
    inputs = {
        "input_word_ids": row,
        "input_mask": tf.ones_like(row),
        "input_type_ids": tf.constant([[0] * len(first) + [1] * len(second)], "int32"),
    }
    return inputs, [i for i, token in enumerate(first) if token == tokenizer.mask_id]


def fill_masks(loaded: Pretrained, text: str, top: int) -> list[list[tuple[str, float]]]:
    """Return for each mask of `text` a list of `(token, probability)`, most probable first."""
    from tfnlp.hub.modules.fill import best_tokens, check_head

    inputs, positions = encode(loaded, text)
    if not positions:
        return []
    check_head(loaded.pretrainer)
    outputs = _pretrainer_outputs(loaded, inputs, positions)
    values, ids = best_tokens(outputs["mlm_logits"][0], loaded.tokenizer, top)  # [P, top]
    vocabulary = loaded.tokenizer.vocabulary
    return [
        [(vocabulary[i], float(p)) for i, p in zip(row, probabilities, strict=True)]
        for row, probabilities in zip(ids.numpy(), values.numpy(), strict=True)
    ]


def follows(loaded: Pretrained, text: str, pair: str) -> float:
    """Return the probability that `pair` is the sentence after `text`.

    Raises:
        ValueError: if the model has no next-sentence head.
    """
    import tensorflow as tf

    if loaded.pretrainer is None or "next_sentence_logits" not in loaded.pretrainer.output:
        raise ValueError("the model has no next-sentence head")
    inputs, _ = encode(loaded, text, pair)
    logits = _pretrainer_outputs(loaded, inputs, [0])["next_sentence_logits"]
    return float(tf.nn.softmax(logits)[0, 0])


def draw_attention(loaded: Pretrained, text: str, path: str) -> None:
    """Draw the attention map of the last layer for `text` as a PNG file."""
    from tfnlp.pictures import attention_maps, plot_attention

    inputs, _ = encode(loaded, text)
    last = len(loaded.encoder.output["encoder_outputs"]) - 1
    tokens = [loaded.tokenizer.vocabulary[i] for i in inputs["input_word_ids"][0].numpy()]
    maps = attention_maps(loaded.encoder, inputs, last)
    plot_attention(maps, tokens, path, f"layer {last + 1}")


def _pretrainer_outputs(
    loaded: Pretrained, inputs: dict[str, tf.Tensor], positions: list[int]
) -> dict[str, Any]:
    import tensorflow as tf

    if "mlm_logits" in loaded.pretrainer.output:
        inputs = {**inputs, "masked_lm_positions": tf.constant([positions], "int32")}
    return loaded.pretrainer(inputs)


BERT_PREDICTION = Prediction(
    name="bert",
    summary="Fill in [MASK], or tell whether one sentence follows another, with a BERT.",
    config=PredictBert,
    predict=predict,
    lines=lines,
    check=check_texts,
    blank_lines=False,
)
