"""What a folder's own library makes of texts, beside what tfnlp makes of them.

The other library runs in a process of its own, see `verify_peer.py`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.cards import write_section
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import MODULES
from tfnlp.data.texts import texts_of
from tfnlp.extras import MissingPackage
from tfnlp.families.recognition import place_of
from tfnlp.families.sentences import text_reader
from tfnlp.settings.use import VerifySettings
from tfnlp.text.lines import shortened

TOLERANCE = 1e-4
_PEER = pathlib.Path(__file__).with_name("verify_peer.py")
_TITLE = "Compared with the library that it is for"
_COUNT = 50  # texts
_LENGTH = 512  # tokens
# Of several names of transformers for one output the first that there is.
_NAMES = {
    "mlm_logits": ("prediction_logits", "logits"),
    "next_sentence_logits": ("seq_relationship_logits", "logits"),
    "sentence_order_logits": ("sop_logits",),
    "pooled_output": ("pooler_output",),
    "sequence_output": ("last_hidden_state",),
    "start_logits": ("start_logits",),
    "end_logits": ("end_logits",),
    **dict.fromkeys(
        ("discriminator_logits", "lm_logits", "class_logits", "label_logits", "score",
         "scores", "tag_logits", "choice_logits"), ("logits",),
    ),
}  # fmt: skip
_OF_TOKENS = ("mlm_", "lm_", "discriminator_", "tag_", "start_", "end_", "sequence_", "hidden_")
# Up to what is added to all of them, which tfnlp does not keep.
_UP_TO_A_SUM = ("start_logits", "end_logits", "choice_logits")
_IDS, _STATES = "ids", "hidden states"
TEXTS = (
    "The robin sang to the girl in the garden.",
    "Is this a test? Yes: version 2.0 (2026), 50% off; call 555-0199!",
    "It didn't work, so they're re-running it -- at 3.5e-4, isn't it?",
    "Visit https://example.com/a?b=c&d=1#top or write to someone@example.org.",
    "for i in range(10):\tprint(f\"{i:>3}\", end='')",
    "  leading,  double  and trailing   spaces  ",
    "ALL CAPITALS, camelCase, snake_case, kebab-case and Mixed Letters",
    "naïve café, façade, Ångström, Dvořák; decomposed: cafe\u0301",
    "“Curly quotes”, ‘single ones’, – dashes —, ellipsis…, № ½ ² ™",
    "$1,234.56 + €7 = ¥100? 1/2 < 3 > 2; a|b\\c ~ `x` ^ {y} [z] @w #v",
    "Die Straße über den Fluß heißt „Große Allee“.",
    "Le garçon n'a pas mangé l'œuf d'hier soir.",
    "El niño pingüino preguntó: ¿dónde está mañana?",
    "Быстрая лиса прыгает через ленивую собаку.",
    "Η γρήγορη αλεπού πηδά πάνω από τον ΣΚΥΛΟΣ.",
    "快速的棕色狐狸跳过了懒狗。",
    "吾輩は猫である。名前はまだ無い。カタカナ ｶﾀｶﾅ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다.",
    "الثعلب البني السريع يقفز فوق الكلب الكسول.",
    "השועל המהיר קופץ מעל הכלב העצלן.",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है।",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ",
    "Emoji: 😀 👩‍👩‍👧 🇫🇷 👍🏽, zero\u200bwidth, no\u00a0break",
    "Donaudampfschifffahrtsgesellschaftskapitän" * 6,
    "A.",
    "A long text is cut where the model's positions end. " * 60,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Gap:
    """The largest difference of one output.

    Attributes:
        name: of the output, "ids" or "sentence vectors".
        value: relative to the largest number of its batch, if that is above 1; of "ids" how many
            texts and pairs differ; inf of what tfnlp does not read.
        text: the text, or the texts, where it is.
    """

    name: str
    value: float
    text: str

    @property
    def is_small(self) -> bool:
        """Whether it is what rounding makes."""
        return self.value <= (0 if self.name == _IDS else TOLERANCE)

    def __str__(self) -> str:
        shown = f"{self.value:.1e}"
        if self.name == _IDS:
            shown = f"{self.value:.0f} differ" if self.value else "equal"
        text = "" if self.name == _IDS and self.is_small else f"`{self.text}`"
        return f"| {self.name} | {shown} | {text} |"


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `tfnlp.verify` found; printed it is a table in Markdown.

    Attributes:
        gaps: a `Gap` for each output.
        texts: how many texts were compared.
        versions: those of the other libraries.
    """

    gaps: list[Gap]
    texts: int
    versions: dict[str, str]

    @property
    def is_equal(self) -> bool:
        """Whether all ids are equal and all numbers within 1e-4."""
        return all(gap.is_small for gap in self.gaps)

    def __str__(self) -> str:
        by = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        table = ["| output | largest gap | text |", "|---|---:|---|", *map(str, self.gaps)]
        large = [gap.name for gap in self.gaps if not gap.is_small]
        said = f"not equal: {', '.join(large)}" if large else f"all are equal within {TOLERANCE:g}"
        return "\n".join([f"{self.texts} texts, beside {by}: {said}.", "", *table])


def verified(loaded: Any, folder: str, config: VerifySettings) -> Verification:
    """Return how far a model is from what its own library makes of its folder."""
    place = place_of(folder)
    if place.model_type is None and MODULES not in place.names:
        raise ValueError(
            f"{config.folder} is no folder of Hugging Face's; write one of a run: tfnlp export "
            f"--model {config.folder} --output DIR --format huggingface"
        )
    if config.card and (folder != config.folder or not os.access(folder, os.W_OK)):
        raise ValueError(f"`card`: {config.folder} is no folder that can be written")
    given = TEXTS if config.texts is None else texts_of(config.texts, "texts")
    texts = [text for text in given if text.strip()][:_COUNT]
    if not texts:
        raise ValueError("`texts` has no text")
    arguments = loaded.config
    if not isinstance(loaded, Pretrained):
        arguments = loaded.config["backbone"]["arguments"]
    length = min(_LENGTH, arguments["max_positions"])
    found: dict[str, list[tuple[float, str]]] = collections.defaultdict(list)
    with _answers(config.python or sys.executable, folder, texts, length) as answers:
        versions = next(answers)
        for rows, stored in answers:
            shown = [_shown(dict.fromkeys(texts[i] for part in row for i in part)) for row in rows]
            for name, values in _gaps(loaded, texts, rows, stored, length).items():
                found[name] += zip(np.where(np.isnan(values), np.inf, values), shown, strict=True)
    if _IDS not in found:
        raise ValueError(
            f"no text fits the {length} positions of {config.folder}; give shorter `texts`"
        )
    worst = {name: max(each, key=lambda pair: pair[0]) for name, each in found.items()}
    worst[_IDS] = sum(value for value, _ in found[_IDS]), worst[_IDS][1]
    listed = [Gap(name, float(value), text) for name, (value, text) in worst.items()]
    result = Verification(listed, len(texts), versions)
    if config.card:
        write_section(folder, _TITLE, str(result))
    return result


def _shown(texts: Iterable[str]) -> str:
    return shortened(" / ".join(texts), 60).replace("|", "/").replace("`", "'")


@contextlib.contextmanager
def _answers(python: str, folder: str, texts: list[str], length: int) -> Iterator[Iterator[Any]]:
    """Yield what the other library says: first its versions, then rows and arrays of each batch."""
    with tempfile.TemporaryDirectory() as place:
        given, stderr = os.path.join(place, "texts.json"), os.path.join(place, "stderr")
        with open(given, "w", encoding="utf-8") as file:
            json.dump(texts, file)
        command = [python, str(_PEER), os.path.abspath(folder), given, str(length), place]
        with open(stderr, "wb") as errors:
            try:
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=errors, text=True,
                    env={**os.environ, "PYTHONSAFEPATH": "1"},
                )  # fmt: skip
            except OSError as error:
                raise ValueError(f"`python` {python} can't be run: {error.strerror}") from error
        try:
            yield _read(process, python, place)
        finally:
            process.kill()
            process.communicate()


def _read(process: subprocess.Popen, python: str, place: str) -> Iterator[Any]:
    """Yield what a peer has written; raise its error if it ends with one."""
    for number, line in enumerate(process.stdout):
        said = json.loads(line)
        if not number:
            yield said
            continue
        path = os.path.join(place, said[0])
        with np.load(path) as file:
            arrays = dict(file)
        os.remove(path)
        yield said[1], arrays
    if process.wait():
        text = pathlib.Path(place, "stderr").read_text("utf-8", "replace").strip()
        last = text.splitlines()[-1] if text else f"exit code {process.returncode}"
        missing = re.search(r"No module named '(torch|transformers|sentence_transformers)'", last)
        if missing:
            name = missing[1].replace("_", "-")
            raise MissingPackage(
                f"{python} has no {name}: {python} -m pip install torch transformers "
                "sentence-transformers, or give `python`, an interpreter that has them"
            )
        raise ValueError(f"transformers can't read it: {last}")


def _gaps(
    loaded: Any, texts: list[str], rows: list[Any], stored: Mapping[str, np.ndarray], length: int
) -> dict[str, np.ndarray]:
    """Return for each output how far each row is from what the other library has."""
    if "in/input_ids" not in stored:
        return _vector_gaps(loaded, texts, stored)
    found = gaps(outputs_of(loaded, stored), stored)
    states = [name for name in found if name.startswith("hidden_") or name == "sequence_output"]
    result = {_IDS: _differing_ids(loaded, texts, rows, stored, length)}
    if states:
        result[_STATES] = np.max([found.pop(name) for name in states], 0)
    return {**result, **found}


def _vector_gaps(
    loaded: Any, texts: list[str], stored: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    result = {}
    for name, theirs in stored.items():
        prompt = name.partition("/")[2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of texts that are cut
            ours = loaded.embed(texts, prompt=prompt or None)
        shown = f"sentence vectors, prompt {prompt}" if prompt else "sentence vectors"
        result[shown] = _largest(ours - theirs, theirs)
    return result


def _differing_ids(
    loaded: Any, texts: list[str], rows: list[Any], stored: Mapping[str, np.ndarray], length: int
) -> np.ndarray:
    """Return for each row 1 if its ids or types are others, else 0."""
    if isinstance(loaded, Pretrained):
        reader = loaded.family.sentence_reader(loaded)
        if loaded.sentences is not None:  # sentence-transformers' own tokenizer adds no prompt
            reader = text_reader(reader, dataclasses.replace(loaded.sentences, prompt=""))
    else:
        reader = loaded.task_model.reader
    columns = zip(*(choice for row in rows for choice in row), strict=True)
    segments, _, _ = reader.read([tf.constant([texts[i] for i in column]) for column in columns])
    packed = {name: x.numpy() for name, x in reader.pack(segments, length).items()}
    mask, theirs_mask = packed["input_mask"] != 0, stored["in/attention_mask"] != 0
    theirs_mask = theirs_mask.reshape(-1, theirs_mask.shape[-1])
    names = {"input_word_ids": "in/input_ids", "input_type_ids": "in/token_type_ids"}
    wrong = np.zeros(len(mask))
    for name, key in names.items():
        for i, theirs in enumerate(stored[key].reshape(theirs_mask.shape) if key in stored else ()):
            wrong[i] += not np.array_equal(packed[name][i][mask[i]], theirs[theirs_mask[i]])
    return (wrong.reshape(len(rows), -1).sum(1) > 0).astype("float64")


def outputs_of(loaded: Any, stored: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what a model makes of the inputs of transformers that are `stored`."""
    if isinstance(loaded, Pretrained):
        model = loaded.pretrainer or loaded.encoder
    else:
        model = loaded.task_model.model
    found = model(_inputs_of(stored, model))
    return {key: [np.asarray(y) for y in x] if isinstance(x, list) else np.asarray(x)
            for key, x in found.items()}  # fmt: skip


def _inputs_of(stored: Mapping[str, np.ndarray], model: keras.Model) -> dict[str, np.ndarray]:
    """Return the inputs of a model of tfnlp for those of transformers."""
    ids, mask = stored["in/input_ids"], stored["in/attention_mask"]
    types = stored.get("in/token_type_ids", np.zeros_like(ids))
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
    if "masked_lm_positions" in model.input:
        inputs["masked_lm_positions"] = np.tile(np.arange(ids.shape[-1]), (len(ids), 1))
    if len(model.input["input_mask"].shape) > ids.ndim:  # of one sequence an example
        inputs = {key: x[:, None] for key, x in inputs.items()}
        inputs["extract_positions"] = mask.sum(-1, keepdims=True) - 1
    return {key: x.astype("int32") for key, x in inputs.items() if key in model.input}


def gaps(found: Mapping[str, Any], stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return for each output how far each row is from what transformers has of it, `[B]`.

    Logits of transformers that tfnlp has not have the gap inf.
    """
    states = [found.get("embedding_output"), *found.get("encoder_outputs", ())]
    pairs = {f"hidden_{i}": (x, (f"hidden_{i}",)) for i, x in enumerate(states[:-1])}
    pairs.update({name: (x, _NAMES[name]) for name, x in found.items() if name in _NAMES})
    mask = stored["in/attention_mask"] != 0
    result, used = {}, set()
    for name, (ours, names) in pairs.items():
        key = next((key for key in names if key in stored), None)
        if key is None:
            continue
        used.add(key)
        theirs = stored[key]
        ours = np.reshape(ours, theirs.shape)
        if name in _UP_TO_A_SUM:
            real = mask if name != "choice_logits" else np.ones(ours.shape, bool)
            ours, theirs = (x - np.mean(x, -1, where=real, keepdims=True) for x in (ours, theirs))
        if name.startswith(_OF_TOKENS):
            real = mask.reshape(*mask.shape, *[1] * (theirs.ndim - mask.ndim))
            ours, theirs = np.where(real, ours, 0), np.where(real, theirs, 0)
        result[name] = _largest(ours - theirs, theirs)
    for key in stored:
        if "logits" in key and key not in used:
            result[f"{key}, which tfnlp does not read"] = np.full(len(mask), np.inf)
    return result


def _largest(difference: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return the largest difference of each row, relative to the largest number if above 1."""
    rows = np.abs(difference).reshape(len(difference), -1).max(1)
    return rows / max(1.0, np.abs(theirs).max())
