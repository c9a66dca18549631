"""One vector for each text, of models of every family."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.data import bucket_lengths, token_batches
from tfnlp.families.sizes import max_positions
from tfnlp.layers import SentencePooling
from tfnlp.models import sentence_encoder
from tfnlp.models.first_position import encoder_at_first
from tfnlp.models.sentence_encoder import hidden_states
from tfnlp.settings.use import POOLINGS, PairsEvaluation
from tfnlp.tasks.embed import Embed, score_sentences
from tfnlp.text.task_readers import PromptReader
from tfnlp.training.prediction import forward

Embedding = Callable[..., np.ndarray]  # of strings to vectors, float32 [N, D]
Done = Callable[[int], None] | None  # is told how many texts more are done

_TOKENS = 4096  # of a batch
_PART = 16_384  # texts that are sorted by length together
_LENGTH = 512  # tokens that are read of a text, if neither the model nor the user says


def sentence_settings(
    loaded: Pretrained,
    pooling: str | Sequence[str] | None = None,
    normalize: bool | None = None,
    layer: int = -1,
    max_length: int | None = None,
    prompt: str | None = None,
) -> SentenceSettings:
    """Return the settings: those given, else those that the model's folder states."""
    stated = loaded.sentences or SentenceSettings()
    if stated.refused and pooling is None:
        raise ValueError(
            f"{loaded.path} states {stated.refused}, which tfnlp does not compute; give `pooling` "
            "for vectors without that"
        )
    poolings = stated.pooling
    if pooling is not None:
        poolings = (pooling,) if isinstance(pooling, str) else tuple(pooling)
        if not poolings or not set(poolings) <= set(POOLINGS):
            raise ValueError(f"`pooling` {pooling!r} must be one of {', '.join(POOLINGS)}")
        if stated.modules and len(poolings) != len(stated.pooling):
            raise ValueError(
                f"`pooling` {pooling!r}: {len(stated.pooling)} poolings are what the layers after "
                f"it in {loaded.path} read"
            )
    if max_length is not None and max_length < 3:
        raise ValueError(f"`max_length` {max_length} must be 3 or more tokens")
    return dataclasses.replace(
        stated,
        pooling=poolings,
        normalize=stated.normalize if normalize is None else normalize,
        layer=layer,
        max_length=stated.max_length if max_length is None else max_length,
        prompt=stated.prompt if prompt is None else _prompt(loaded, stated.prompts, prompt),
    )


def _prompt(loaded: Pretrained, prompts: Mapping[str, str], prompt: str) -> str:
    """Return the text of a prompt, of which the folder knows the name or which is the text."""
    if prompt in prompts or not re.fullmatch(r"[\w.-]+", prompt):
        return prompts.get(prompt, prompt)
    known = f"{loaded.path} has {', '.join(prompts) or 'none'}"
    raise ValueError(
        f"`prompt` {prompt!r} is the name of no prompt; {known}. A text has a space or a colon"
    )


def text_reader(reader: Any, settings: SentenceSettings) -> Any:
    """Return the reader of a model for texts with a prompt, or in lower case."""
    changes = settings.prompt or settings.lowercase
    return PromptReader(reader, settings.prompt, settings.lowercase) if changes else reader


def prompt_tokens(reader: Any, settings: SentenceSettings, length: int) -> int:
    """Return how many tokens at the start of a text are the prompt's and not to be pooled.

    As sentence-transformers counts them: those of the prompt alone, without a last `[SEP]`.
    """
    if settings.include_prompt or not settings.prompt:
        return 0
    ids, _, _ = text_reader(reader, settings).read([tf.constant([""])])
    packed = reader.pack(ids, length)["input_word_ids"].numpy()[0]
    return len(packed) - int(packed[-1] == getattr(reader.tokenizer, "sep_id", None))


def network(
    model: Any, loaded: Pretrained, reader: Any, settings: SentenceSettings, length: int
) -> Any:
    """Return the model of tokens to one vector, on one of tokens to vectors."""
    return sentence_encoder(
        model,
        settings.pooling,
        settings.normalize,
        settings.layer,
        loaded.sentence_layers,
        prompt_tokens(reader, settings, length),
    )


def embedded(vectors: Embedding, texts: list[str], progress: bool = False) -> np.ndarray:
    """Return float32 `[N, D]`, computed in parts of `_PART` texts."""
    parts = [texts[i : i + _PART] for i in range(0, len(texts), _PART)] or [[]]
    with ProgressBar(total=len(texts), unit="texts", disable=not progress) as bar:
        return np.concatenate([vectors(part, bar.update) for part in parts])


def of_tokens(model: Any, reader: Any, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
    """Return a function of strings to vectors `[N, D]`; it warns of texts that are cut.

    Its second argument, if there is one, is a `Done`. The model is from token ids `[B, T]` to
    `sequence_output`, with or without other layers; for the reader see `tfnlp.text.task_readers`.
    """
    fixed = model.input["input_word_ids"].shape[1]  # a module may read one length
    length = min(read_length(loaded, settings), fixed or math.inf)
    if settings.layer == len(hidden_states(model)) - 1:
        settings = dataclasses.replace(settings, layer=-1)
    made = network(_at_first(model, settings), loaded, reader, settings, length)
    call, reader = forward(made, ["sentence_embedding"]), text_reader(reader, settings)

    def vectors(texts: list[str], done: Done = None) -> np.ndarray:
        ids, _, _ = reader.read([tf.constant(texts, "string")])
        packed = {k: x.numpy() for k, x in reader.pack(ids, length).items()}
        warn_of_cut(int(packed["is_cut"].sum()), len(texts), length)
        inputs = {name: packed[name] for name in made.input}
        weights = call.weights()

        def compute(rows: np.ndarray, width: int) -> np.ndarray:
            batch = {name: x[rows, :width] for name, x in inputs.items()}
            if fixed is not None:
                batch = {k: np.pad(x, [(0, 0), (0, fixed - width)]) for k, x in batch.items()}
            return call(batch, weights)["sentence_embedding"]

        sizes, spec = packed["input_mask"].sum(1), made.output["sentence_embedding"]
        return _by_length(sizes, compute, spec, done)

    return vectors


def _at_first(model: Any, settings: SentenceSettings) -> Any:
    """Return a model that computes of the last layer the first token alone, if that is enough."""
    first, all_pooled = None, settings.include_prompt or not settings.prompt
    if settings.pooling == ("cls",) and settings.layer == -1 and all_pooled:
        first = encoder_at_first(model)
    return model if first is None else first


def of_words(
    states: Callable[[Any], Any], size: int, settings: SentenceSettings, title: str
) -> Embedding:
    """Return a function of strings, split at white space, to vectors `[N, D]`.

    `states` is a function of strings ragged `[B, (T)]` to `[B, T, D]`, and `size` is D.
    """
    if settings.max_length is not None:
        raise ValueError(f"`max_length` is for models of tokens; {title} reads whole texts")
    pool = SentencePooling(settings.pooling, settings.normalize, dtype="float32")

    def vectors(texts: list[str], done: Done = None) -> np.ndarray:
        words = tf.strings.split(settings.prompt + tf.constant(texts, "string"))  # [N, (T)]

        def compute(rows: np.ndarray, width: int) -> np.ndarray:
            batch = tf.gather(words, rows)
            if not int(batch.row_lengths()[0]):  # the longest first: all are empty
                return np.zeros((len(rows), size), np.float32)
            found = states(batch)
            real = tf.sequence_mask(batch.row_lengths(), tf.shape(found)[1])
            return pool(found, mask=real).numpy()

        spec = keras.KerasTensor((None, size), "float32")
        return _by_length(words.row_lengths().numpy(), compute, spec, done)

    return vectors


def read_length(loaded: Pretrained, settings: SentenceSettings) -> int:
    """Return how many tokens of a text are read."""
    positions = max_positions(loaded)
    length = settings.max_length or min(_LENGTH, positions or _LENGTH)
    if positions and length > positions:
        raise ValueError(f"`max_length` {length} is longer than the model's {positions} positions")
    return length


def _by_length(sizes: np.ndarray, compute: Callable, spec: Any, done: Done = None) -> np.ndarray:
    """Return float32 `[N, D]`, computed in batches of similar length, of texts of `sizes` `[N]`.

    `compute` is a function of (rows int `[B]`, width) to `[B, D]`, which is the shape of `spec`.
    """
    found = np.zeros((len(sizes), spec.shape[-1]), np.float32)
    if len(sizes):
        sizes = np.maximum(sizes, 1)
        for width, rows, _ in token_batches(sizes, bucket_lengths(sizes, len(sizes)), _TOKENS):
            found[rows] = compute(rows, width)
            if done is not None:
                done(len(rows))
    return found


def warn_of_cut(cut: int, count: int, length: int) -> None:
    """Warn the caller of a function of strings of texts that were cut, if some were."""
    if cut:
        warnings.warn(
            f"{cut:,} of {count:,} texts are longer than {length} tokens and were cut",
            stacklevel=4,
        )


def string_vectors(
    loaded: Pretrained, preprocessor: Callable, special: int
) -> Callable[[list[str]], Any]:
    """Return a function of strings to the outputs of a model; it warns of texts that are cut.

    `preprocessor` is the class of the module that packs strings, made of a tokenizer and a length;
    it adds `special` tokens to a text.
    """
    length = min(128, max_positions(loaded) or 128)
    pack = preprocessor(loaded.tokenizer, length)
    call = None if loaded.saved else forward(loaded.encoder, list(loaded.encoder.output))

    def vectors(texts: list[str]) -> Any:
        inputs = pack(tf.constant(texts))
        full = np.flatnonzero(inputs["input_mask"].numpy().all(1))  # these may have been longer
        if len(full):
            tokens = loaded.tokenizer.tokenize(tf.gather(texts, full)).row_lengths().numpy()
            cut = int((tokens + special > length).sum())
            warn_of_cut(cut, len(texts), length)
        if call is None or not len(texts):  # a module reads one length
            return loaded.encoder(inputs)
        return _outputs_by_length(
            call, {name: inputs[name].numpy() for name in loaded.encoder.input}
        )

    return vectors


def _outputs_by_length(call: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs of a model for int32 `[N, T]`, computed in batches of similar length.

    Those with a time axis are `[N, T, ...]`, zeros at padding.
    """
    sizes = np.maximum(inputs["input_mask"].sum(1), 1)
    count, length = inputs["input_mask"].shape
    found, weights = None, call.weights()
    for width, rows, _ in token_batches(sizes, bucket_lengths(sizes, count), _TOKENS):
        outputs = call({name: x[rows, :width] for name, x in inputs.items()}, weights)
        if found is None:
            found = tf.nest.map_structure(
                lambda x: np.zeros(
                    (count, length, *x.shape[2:]) if x.ndim > 2 else (count, *x.shape[1:]), x.dtype
                ),
                outputs,
            )
        for whole, part in zip(tf.nest.flatten(found), tf.nest.flatten(outputs), strict=True):
            if part.ndim > 2:  # [B, T, ...]
                real = inputs["input_mask"][rows, :width, np.newaxis] > 0
                whole[rows, :width] = np.where(real, part, 0)
            else:
                whole[rows] = part
    return tf.nest.map_structure(tf.constant, found)


def measured_on_pairs(loaded: Pretrained, settings: PairsEvaluation) -> dict[str, Any]:
    """Return the measures of `tfnlp.tasks.embed.score_sentences`."""
    data = Embed.read(
        settings.pairs,
        text=settings.text_columns,
        label=settings.label,
        skip=settings.skip_bad_rows,
        name="pairs",
    )
    if data.skipped:
        warnings.warn(
            f"{len(data.skipped):,} rows left out, the first of them: {data.skipped[0]}",
            stacklevel=2,
        )
    texts = [text for example in data.examples for text in example.segments[:2]]
    results = score_sentences(data.examples, vectors_of_texts(loaded, texts))
    return {**results, "pairs": len(data.examples)}


def vectors_of_texts(loaded: Pretrained, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the vector of each distinct text, float32 `[D]`."""
    distinct = list(dict.fromkeys(texts))
    vectors = embedded(loaded.family.sentence_function(loaded, {}), distinct)
    return dict(zip(distinct, vectors, strict=True))
