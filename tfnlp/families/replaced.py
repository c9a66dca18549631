"""Tokens that look replaced: what `tfnlp predict` does with an ELECTRA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfnlp.families.family import Prediction
from tfnlp.families.masks import encode
from tfnlp.settings.electra import PredictElectra

if TYPE_CHECKING:
    import keras

    from tfnlp.checkpoints.pretrained import Pretrained


def discriminator(loaded: Pretrained) -> keras.Model:
    """Return the model that tells for each token whether it was replaced."""
    from tfnlp import models

    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    if "discriminator_logits" not in outputs:
        raise ValueError(f"{loaded.path} has no discriminator's head to find replaced tokens with")
    head = loaded.pretrainer.get_layer("discriminator_head")
    return models.electra_discriminator(loaded.encoder, head)


def predict(loaded: Pretrained, config: PredictElectra) -> list[list[tuple[str, float]]]:
    """Return for each text its tokens with the probabilities that they were replaced."""
    import tensorflow as tf

    from tfnlp.hub.modules.fill import tokens_and_texts

    model, found = discriminator(loaded), []
    for text in config.text:
        inputs, _ = encode(loaded, text)
        logits = model(inputs)["discriminator_logits"]
        tokens, _ = tokens_and_texts(loaded.tokenizer, inputs["input_word_ids"][0, 1:-1])
        pairs = zip(tokens.numpy(), tf.sigmoid(logits)[0, 1:-1].numpy(), strict=True)
        found.append([(token.decode("utf-8", "replace"), float(p)) for token, p in pairs])
    return found


def lines(loaded: Pretrained, config: PredictElectra) -> Iterator[str]:
    """Yield a line for each text: its tokens, those that look replaced as `[token 0.93]`."""
    for text in config.text:
        (tokens,) = predict(loaded, config.replace(text=[text]))
        yield (
            " ".join(
                f"[{token} {p:.2f}]" if p >= config.threshold else token for token, p in tokens
            )
            + "\n"
        )


ELECTRA_PREDICTION = Prediction(
    name="electra",
    summary="Mark the tokens of a text that look replaced, with an ELECTRA.",
    config=PredictElectra,
    predict=predict,
    lines=lines,
    blank_lines=False,
)
