"""Texts that a loaded GPT continues: what `tfnlp predict gpt` does."""

from collections.abc import Iterator
from typing import Any

from tfnlp.families.family import Prediction
from tfnlp.settings.gpt import PredictGPT


def check_prompts(config: PredictGPT) -> None:
    """Check arguments before the model is loaded."""
    from tfnlp.hub.modules.text_generation import sampling

    sampling(config.temperature, config.top_k, config.top_p)
    if config.beams and config.samples > 1:
        raise ValueError("`samples` draws, `beams` does not; give one of them")


def predict(loaded: Any, config: PredictGPT) -> list[list[str]]:
    """Return the continuations of each prompt."""
    generator = _generator(loaded)
    return [
        ["".join(_pieces(generator, config, text, number)) for number in range(config.samples)]
        for text in config.text
    ]


def lines(loaded: Any, config: PredictGPT) -> Iterator[str]:
    """Yield each prompt and its continuation, token by token."""
    generator = _generator(loaded)
    between = "" if loaded.tokenizer.keeps_spaces else " "
    for text in config.text:
        for number in range(config.samples):
            yield text + between
            yield from _pieces(generator, config, text, number)
            yield "\n"


def _generator(loaded: Any) -> Any:
    from tfnlp.hub import TextGenerator

    return TextGenerator(loaded.encoder, loaded.tokenizer)


def _pieces(generator: Any, config: PredictGPT, text: str, number: int) -> Any:
    if config.beams:
        return generator([text], config.max_new_tokens, beams=config.beams)
    return generator.stream(
        text,
        config.max_new_tokens,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        seed=config.seed + number,
    )


GPT_PREDICTION = Prediction(
    name="gpt",
    summary="Continue texts with a GPT, as they are written.",
    config=PredictGPT,
    predict=predict,
    lines=lines,
    check=check_prompts,
)
