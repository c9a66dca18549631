"""Loaded models that translate: BLEU, translations, attention maps, modules."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.families.family import Measured, Prediction
from tfnlp.families.preparation import write_lines
from tfnlp.families.sentences import of_tokens
from tfnlp.pictures import can_draw, matplotlib_module, plot_attention, plot_lengths
from tfnlp.settings.translation import PredictTranslation
from tfnlp.settings.use import EvaluateSettings, ExportSettings

TRANSLATION_MEASURES = {
    "source": None, "target": None, "batch_size": 32, "beams": 4, "length_penalty": 0.6,
    "report": None,
}  # fmt: skip
_PART = 8192  # sentences that are translated at once
TRANSLATION_EXPORTS = ("beams", "length_penalty")
TRANSLATION_NEEDS = ("source", "target")


def evaluate(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return BLEU, of the whole text and by the length of its sentences.

    With `report`, translations and a plot of BLEU by length are written to that folder.
    """
    from tfnlp.data import read_parallel
    from tfnlp.hub import Translator
    from tfnlp.objectives.translation import bleu_by_length, corpus_bleu, sacrebleu

    sacrebleu()
    text = read_parallel(paths(config.source), paths(config.target))
    translator = Translator(loaded.decoder, loaded.tokenizer, config.beams, config.length_penalty)
    translations = translator(text.sources, config.batch_size, progress=True)
    bleu, signature = corpus_bleu(translations, text.targets)
    lengths = bleu_by_length(text.sources, translations, text.targets)
    shown = [f"BLEU {bleu:.2f} of {len(translations):,} sentences ({signature})"]
    if text.left_out:
        shown.append(f"  {text.left_out:,} pairs with an empty side are left out")
    for row in lengths:
        words = f"{row.shortest} to {row.longest} words"
        shown.append(f"  {words:18s}{row.count:6,} sentences  {row.bleu:6.2f}")
    if config.report:
        os.makedirs(config.report, exist_ok=True)
        write_lines(os.path.join(config.report, "translations.txt"), translations)
        if can_draw("lengths.png"):
            plot_lengths({"": lengths}, os.path.join(config.report, "lengths.png"))
        shown.append(f"report: {config.report}")
    rows = [row._asdict() for row in lengths]
    return Measured({"bleu": bleu, "signature": signature, "lengths": rows}, "\n".join(shown))


def paths(source: Any) -> list[str]:
    """Return one path or several as a list."""
    return [os.fspath(source)] if isinstance(source, str | os.PathLike) else list(source)


def vectors(loaded: Any) -> Callable[[list[str]], list[str]]:
    """Return the function of strings to translations that the exported module would be."""
    from tfnlp.hub import Translator

    return Translator(loaded.decoder, loaded.tokenizer)


def sentences(loaded: Any, settings: Any) -> Callable[[list[str]], Any]:
    """Return the function of sentences to one vector each, of the encoder's last layer."""
    import keras

    from tfnlp.text.task_readers import SourceReader

    inputs = {name: loaded.encoder.input[name] for name in ("input_word_ids", "input_mask")}
    outputs = {"sequence_output": loaded.encoder.output["encoder_output"]}
    model = keras.Model(inputs, outputs)
    return of_tokens(model, SourceReader(loaded.tokenizer), loaded, settings)


def export(loaded: Any, config: ExportSettings) -> dict[str, str]:
    """Write a module of sentences to translations."""
    from tfnlp import hub

    beams = 4 if config.beams is None else config.beams
    penalty = 0.6 if config.length_penalty is None else config.length_penalty
    translator = hub.Translator(loaded.decoder, loaded.tokenizer, beams, penalty)
    return {"module": hub.export_translator(
        config.output, loaded.encoder, translator, config.overwrite
    )}  # fmt: skip


def predict(loaded: Any, config: PredictTranslation) -> list[str]:
    """Return the translations, and draw the attention of the first one."""
    _check_picture(loaded, config)
    translations = [text for part in _parts(loaded, config) for text in part]
    if config.attention:
        _draw(loaded, config.text[0], translations[0], config.attention)
    return translations


def lines(loaded: Any, config: PredictTranslation) -> Iterator[str]:
    """Yield a translation a line, those of a part of the sentences at a time."""
    _check_picture(loaded, config)
    first = None
    for part in _parts(loaded, config):
        first = part[0] if first is None else first
        yield "".join(f"{translation}\n" for translation in part)
    if config.attention:
        _draw(loaded, config.text[0], first, config.attention)
        print(f"attention: {config.attention}", file=sys.stderr)


def _parts(loaded: Any, config: PredictTranslation) -> Iterator[list[str]]:
    """Yield the translations of consecutive sentences; those of similar length share a batch."""
    from tfnlp.hub import Translator

    translator = Translator(loaded.decoder, loaded.tokenizer, config.beams, config.length_penalty)
    for first in range(0, len(config.text), _PART):
        yield translator(config.text[first : first + _PART])


def _check_picture(loaded: Any, config: PredictTranslation) -> None:
    """Raise an error, before anything is computed, if attention is wanted and can't be drawn."""
    if config.attention:
        matplotlib_module()
        if "attention" not in loaded.encoder.output:
            raise ValueError("a model without attention has none to draw; leave `attention` away")


def _draw(loaded: Any, sentence: str, translation: str, path: str) -> None:
    import numpy as np

    tokenizer = loaded.tokenizer
    source, target = tokenizer.tokenize([sentence, translation]).to_list()
    end = tokenizer.end_id
    ids = np.array([[*source, end]], np.int32)
    outputs = loaded.encoder(
        {
            "input_word_ids": ids,
            "input_mask": np.ones_like(ids),
            "target_word_ids": np.array([[end, *target]], np.int32),
        }
    )
    scores = np.asarray(outputs["attention"])[0]
    scores = scores if scores.ndim == 3 else scores[None]  # [N, T, S]
    pieces = [[_shown(tokenizer, i) for i in [*side, end]] for side in (source, target)]
    plot_attention(scores, pieces[1], path, columns=pieces[0])


def _shown(tokenizer: Any, token: int) -> str:
    if token == tokenizer.end_id:
        return "(end)"
    return tokenizer.detokenize([[token]])[0].numpy().decode("utf-8", "replace").strip()


TRANSLATION_PREDICTION = Prediction(
    name="translation",
    summary="Translate sentences, and show which words the model attended to for each word.",
    config=PredictTranslation,
    predict=predict,
    lines=lines,
)
