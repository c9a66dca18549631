"""ELECTRA (Clark et al. 2020) as a family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.electra import ELECTRA_FILES
from tfnlp.families.encoder import Encoder, encode
from tfnlp.families.family import Loader, Measured
from tfnlp.hub.modules.fill import tokens_and_texts
from tfnlp.objectives import BertPretraining, ElectraPretraining
from tfnlp.settings.encoders import ElectraPrediction, ElectraSettings, MaskedEvaluation

_GENERATOR_SIZES = {"base": 1 / 3}  # of other sizes 1/4: the paper, table 6


class Electra(Encoder):
    """A generator that fills masks and a discriminator that tells its tokens from the text's."""

    name, title = "electra", "an ELECTRA"
    prediction = ElectraPrediction
    sizes = {
        "tiny": models.ELECTRA_TINY,
        "mini": models.ELECTRA_MINI,
        "small": models.ELECTRA_SMALL,
        "base": models.ELECTRA_BASE,
        "large": models.ELECTRA_LARGE,
    }
    encoder, pretrainer = staticmethod(models.electra), staticmethod(models.electra_pretrainer)
    files = ELECTRA_FILES
    second = "following"
    task_hidden = "gelu"
    plan_vocab_size = 30522

    def start(self, settings: ElectraSettings, load: Loader) -> Pretrained | None:
        if settings.start is not None:
            settings.refuse(("generator_size",), "can't be changed with `start`")
        before = super().start(settings, load)
        if before is not None and "replaced" not in before.pretrainer.output:
            raise ValueError(
                f"{settings.start} is a generator alone; give a run, or a checkpoint of both"
            )
        return before

    def heads(self, settings: Any, before: Pretrained | None, batches: Any) -> dict[str, Any]:
        if before is None:
            size = settings.generator_size or _GENERATOR_SIZES.get(settings.size, 0.25)
            return {"generator_size": size, "initializer_range": settings.initializer_range}
        block = before.encoder.get_layer("layer_0")
        smaller = before.pretrainer.get_layer("generator_layer_0")
        widths = [one.output_norm.gamma.shape[0] for one in (smaller, block)]
        return {
            "generator_size": widths[0] / widths[1],
            "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
        }

    def objective(self, model: Model, settings: ElectraSettings) -> ElectraPretraining:
        return ElectraPretraining(model, settings.discriminator_weight)

    def copy_weights(self, before: Pretrained, encoder: Model, pretrainer: Model) -> None:
        old = {variable.path: variable for variable in before.pretrainer.trainable_variables}
        for variable in pretrainer.trainable_variables:
            variable.assign(old[variable.path])

    def evaluate(self, loaded: Pretrained, settings: MaskedEvaluation) -> Measured:
        outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
        if "discriminator_logits" in outputs and "mlm_logits" not in outputs:
            raise ValueError(
                f"{loaded.path} has no generator, whose samples the discriminator is measured on"
            )
        return super().evaluate(loaded, settings)

    def measured_objective(self, loaded: Pretrained, model: Model) -> Any:
        """Return the losses of both models, or of a generator alone."""
        if "replaced" not in loaded.pretrainer.output:
            return BertPretraining(model)
        trained = {} if loaded.run is None else loaded.run.get("training", {})
        weight = trained.get("discriminator_weight", ElectraSettings.discriminator_weight)
        return ElectraPretraining(model, weight)

    def check_prediction(self, settings: ElectraPrediction) -> None:
        settings.check_texts()

    def predict(
        self, loaded: Pretrained, settings: ElectraPrediction
    ) -> list[list[tuple[str, float]]]:
        """Return for each text its tokens with the probabilities that they were replaced."""
        model, found = discriminator(loaded), []
        for text in settings.text:
            inputs, _ = encode(loaded, text)
            logits = model(inputs)["discriminator_logits"]
            tokens, _ = tokens_and_texts(loaded.tokenizer, inputs["input_word_ids"][0, 1:-1])
            pairs = zip(tokens.numpy(), tf.sigmoid(logits)[0, 1:-1].numpy(), strict=True)
            found.append([(token.decode("utf-8", "replace"), float(p)) for token, p in pairs])
        return found

    def lines(self, loaded: Pretrained, settings: ElectraPrediction) -> Iterator[str]:
        """Yield a line for each text: its tokens, those that look replaced as `[token 0.93]`."""
        for text in settings.text:
            (tokens,) = self.predict(loaded, settings.replace(text=[text]))
            shown = (
                f"[{token} {p:.2f}]" if p >= settings.threshold else token for token, p in tokens
            )
            yield f"{' '.join(shown)}\n"

    def planned(self, sizes: dict[str, Any], preset: Any) -> ElectraPretraining:
        return ElectraPretraining(super().planned(sizes, preset).model)


def discriminator(loaded: Pretrained) -> Model:
    """Return the model that tells for each token whether it was replaced."""
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    if "discriminator_logits" not in outputs:
        raise ValueError(f"{loaded.path} has no discriminator's head to find replaced tokens with")
    head = loaded.pretrainer.get_layer("discriminator_head")
    return models.electra_discriminator(loaded.encoder, head)
