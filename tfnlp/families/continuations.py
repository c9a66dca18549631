"""Texts that a loaded GPT continues: what `tfnlp predict gpt` does."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tfnlp.configs import option
from tfnlp.families.family import Prediction
from tfnlp.families.use_config import ModelConfig


@dataclasses.dataclass(kw_only=True)
class PredictGPT(ModelConfig):
    """Arguments of `tfnlp predict gpt`."""

    text: list[str] = option(
        [], "texts to continue; none: a text a line from stdin", positional=True, metavar="prompt"
    )
    max_new_tokens: int = option(100, "tokens to add at most", at_least=1)
    temperature: float = option(0.8, "0: always the most probable token")
    top_k: int = option(0, "draw from so many tokens; 0: all")
    top_p: float = option(0.95, "draw from the fewest with this probability")
    beams: int | None = option(None, "search with so many beams in place of drawing", at_least=1)
    samples: int = option(1, "continuations a prompt", at_least=1)
    seed: int = option(0, "of the first continuation")
    bf16: bool = option(False, "weights in bfloat16")


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
