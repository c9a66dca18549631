"""ELMo as a module from strings to vectors, for export and for use in Python."""

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.hub.saving.keras_module import regularization_loss, regularization_losses
from tfnlp.hub.saving.save import save_module
from tfnlp.hub.traced import Traced, Untracked, named
from tfnlp.models import elmo_lstm
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, MAX_CHARACTERS, character_ids
from tfnlp.text.assets import line_number_table, lines_asset
from tfnlp.text.lines import read_lines
from tfnlp.training.prediction import forward
from tfnlp.training.randomness import layer_seeds, seeded

TRAINABLE = ("mix", "all")
_CHUNK = 1024  # words per batch
_WORDS, _TIME = 512, 16  # in JAX their numbers are rounded up to multiples of these
_BLANK = re.compile("[ \t\r\v\f]")  # separates the words of a sentence


class ElmoModule(Traced):
    """Module from sentences to contextual vectors, with the interface of `google/elmo/3`.

    `module(inputs, training=False)` takes strings `[B]`, split at spaces (and tabs and line ends),
    or a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int32 `[B]`, clipped to 0..T. It
    returns a dict: `word_emb` `[B, T, P]`, `lstm_outputs1`, `lstm_outputs2` and `elmo`
    `[B, T, 2P]`, all zero at padding, and `default` `[B, 2P]`, the mean of `elmo` over the real
    tokens of a row. A row's values depend on its own tokens only.

    The character network is the slower part of an ELMo. It runs once for each distinct word of a
    batch, over as many characters as the longest word has; words of `cache` are looked up. This
    does not change the vectors.

    Args:
        encoder: from `tfnlp.models.elmo`.
        trainable: "mix": the mixing scalars only (one for the word vectors, one for each LSTM
            layer, and gamma), as in the published module; or "all": all weights, with dropout when
            `training`.
        cache: path of a file of words, one per line, whose vectors are computed in advance; only
            for `trainable="mix"`, because training the character network would change them.
        l2: lambda of `lambda sum_j s_j^2` over the mixing scalars s (Peters et al. 2018, section
            3.4), listed in `regularization_losses` with the losses of the encoder's regularizers.
    """

    kind = "elmo"  # what the module states of itself

    def __init__(
        self,
        encoder: keras.Model,
        trainable: str = "mix",
        cache: str | os.PathLike | None = None,
        l2: float = 0.0,
    ) -> None:
        super().__init__(encoder)
        if trainable not in TRAINABLE:
            raise ValueError(f"trainable={trainable!r} must be one of {', '.join(TRAINABLE)}")
        if cache is not None and trainable == "all":
            raise ValueError('cache needs trainable="mix": trained characters change all words')
        if not l2 >= 0:
            raise ValueError(f"l2={l2} must be at least 0")
        char_cnn, mix = encoder.get_layer("char_cnn"), encoder.get_layer("scalar_mix")
        self._encoder, self._lstm = Untracked(encoder), Untracked(elmo_lstm(encoder))
        self._char_cnn, self._mix = Untracked(char_cnn), Untracked(mix)
        self._all = trainable == "all"
        self._margin = max(width for width, _ in char_cnn.filters)
        self._state_shape = encoder.get_layer("bilm").state_shape
        self._cache = None
        if cache is not None:
            strings = tf.TensorSpec([None], "string")
            self._cache = WordCache(
                cache,
                tf.function(self._from_characters, input_signature=[strings], autograph=False),
            )
        if self._cache is not None:
            self.variables.append(self._cache.vectors)
        trained = (encoder if self._all else mix).trainable_variables
        self.trainable_variables = [v.value for v in trained]
        self.regularization_losses = regularization_losses(trained)
        if l2:
            scalars = mix.scalars.value
            self.regularization_losses.append(
                regularization_loss(lambda: l2 * tf.reduce_sum(tf.square(scalars)))
            )
        for training in (False, True):  # trace all calls that a user may make
            for inputs in (_TEXT, _TOKENS):
                self.__call__.get_concrete_function(inputs, training=training)

    @tf.function(autograph=False)
    def __call__(
        self, inputs: tf.Tensor | dict[str, tf.Tensor], training: bool = False
    ) -> dict[str, tf.Tensor]:
        if not isinstance(inputs, dict):
            words = tf.strings.split(inputs)  # ragged [B, (T)]
            inputs = {
                "tokens": words.to_tensor(""),
                "sequence_len": tf.cast(words.row_lengths(), "int32"),
            }
        return self._outputs(inputs["tokens"], inputs["sequence_len"], training and self._all)

    def signatures(self) -> dict[str, Callable]:
        """Return the signatures of the published module, for `tfnlp.hub.save`.

        `serving_default`, which servers call, is `default`.
        """
        of_text = named(lambda text: self(text), text=_TEXT)
        of_tokens = named(lambda **tokens: self(tokens), **_TOKENS)
        return {"default": of_text, "serving_default": of_text, "tokens": of_tokens}

    @tf.function(autograph=False)
    def _outputs(
        self, tokens: tf.Tensor, lengths: tf.Tensor, training: bool
    ) -> dict[str, tf.Tensor]:
        # One graph for strings and tokens; without dropout also for both values of `training`.
        distinct, index, mask = bounded_words(tokens, lengths)
        if self._cache is None:
            vectors = self._from_characters(distinct)  # [N, P]
        else:
            vectors = self._cache.lookup(distinct, self._from_characters)
        inputs = {
            "word_embeddings": tf.gather(vectors, index),
            "word_mask": mask,
            "state": tf.zeros((tf.shape(tokens)[0], *self._state_shape)),
        }
        scope = contextlib.nullcontext()
        if training:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            encoder = self._encoder.value
            scope = seeded(encoder, layer_seeds(encoder, seed))
        with scope:
            outputs = dict(self._lstm.value(inputs, training=training))
        del outputs["state"]
        return outputs if self._all else self._mixed(outputs, mask[:, 2:])

    def _mixed(self, outputs: dict[str, tf.Tensor], real: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the same outputs, with `elmo` and `default` mixed from constant layers.

        Otherwise a gradient tape would store the activations of the LSTMs and go back through
        them, for the gradient of four numbers.
        """
        outputs = {name: tf.stop_gradient(x) for name, x in outputs.items()}
        mixed = self._mix.value(all_layers(outputs), mask=real)
        mixed = tf.where(real[:, :, None], mixed, tf.zeros((), mixed.dtype))  # [B, T, 2P]
        count = tf.maximum(tf.reduce_sum(tf.cast(real, "float32"), 1, keepdims=True), 1.0)
        mean = tf.reduce_sum(tf.cast(mixed, "float32"), 1) / count
        return {**outputs, "elmo": mixed, "default": tf.cast(mean, mixed.dtype)}

    def _from_characters(self, words: tf.Tensor) -> tf.Tensor:
        """Return vectors `[N, P]` of strings `[N]`."""
        return self._char_cnn.value(character_ids(words, trim=self._margin))


class ElmoInJax:
    """What `ElmoModule(encoder)` returns of words and their numbers, where Keras runs on JAX.

    Shapes are rounded up, because each one is compiled.
    """

    def __init__(self, encoder: keras.Model) -> None:
        lstm, char_cnn = elmo_lstm(encoder), encoder.get_layer("char_cnn")
        self._state_shape = encoder.get_layer("bilm").state_shape
        self.variables = [v.value for v in encoder.variables]
        self._layers = forward(lstm, [name for name in lstm.output if name != "state"])
        ids = keras.Input((MAX_CHARACTERS,), dtype="int32", name="ids")
        self._vectors = forward(keras.Model({"ids": ids}, {"vectors": char_cnn(ids)}), ["vectors"])

    def __call__(self, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """Return the outputs of `tokens`, strings `[B, T]`, and `sequence_len` `[B]`."""
        tokens, lengths = tf.convert_to_tensor(inputs["tokens"]), inputs["sequence_len"]
        batch, time = tokens.shape
        rows = 2 ** max(0, batch - 1).bit_length() - batch
        tokens = tf.pad(tokens, [[0, rows], [0, -time % _TIME]])
        lengths = tf.pad(tf.cast(lengths, "int32"), [[0, rows]])
        words, index, mask = bounded_words(tokens, lengths)
        characters = character_ids(words).numpy()  # [N, C]
        characters = np.pad(characters, ((0, -len(characters) % _WORDS), (0, 0)))
        vectors = self._vectors({"ids": characters})["vectors"]
        outputs = self._layers(
            {
                "word_embeddings": vectors[index.numpy()],  # [B, T + 2, P]
                "word_mask": mask.numpy(),
                "state": np.zeros((batch + rows, *self._state_shape), "float32"),
            }
        )
        return {name: tf.constant(x[:batch, :time]) for name, x in outputs.items() if x.ndim == 3}


def bounded_words(tokens: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the words that an ELMo reads of sentences `[B, T]`, each one once.

    These are N distinct strings; their numbers, int32 `[B, T + 2]`, with the words that begin and
    end a sentence; and the mask of real ones, `[B, T + 2]`. Lengths `[B]` are clipped to 0..T.
    """
    time = tf.shape(tokens)[1]
    lengths = tf.clip_by_value(lengths, 0, time)
    places = tf.range(time + 2)[None]  # [1, T + 2]
    mask = places < lengths[:, None] + 2
    # Padding is read as `<S>`: each batch holds that word already.
    words = tf.pad(tokens, [[0, 0], [1, 1]], constant_values=BEGIN_OF_SENTENCE)
    words = tf.where(mask, words, BEGIN_OF_SENTENCE)
    words = tf.where(places == lengths[:, None] + 1, END_OF_SENTENCE, words)  # [B, T + 2]
    distinct, index = tf.unique(tf.reshape(words, [-1]))  # [N]
    return distinct, tf.reshape(index, tf.shape(words)), mask


_TEXT = tf.TensorSpec([None], "string", name="text")
_TOKENS = {
    "tokens": tf.TensorSpec([None, None], "string", name="tokens"),
    "sequence_len": tf.TensorSpec([None], "int32", name="sequence_len"),
}


def export_elmo(
    directory: str | os.PathLike,
    encoder: keras.Model,
    trainable: str = "mix",
    cache: str | os.PathLike | None = None,
    l2: float = 0.0,
    overwrite: bool = False,
) -> str:
    """Write `ElmoModule(encoder, trainable, cache, l2)` as a SavedModel; return its path."""
    return save_module(lambda _: ElmoModule(encoder, trainable, cache, l2), directory, overwrite)


class WordCache(tf.__internal__.tracking.AutoTrackable):
    """Table from the words of a file to vectors, which `embed` computes in advance.

    The words travel as an asset of the SavedModel and the vectors as a variable, so that a large
    vocabulary is not part of the graph. The asset is a normalized copy of the file, which may
    change, repeat a word, or have line ends that TensorFlow would read as part of a word.
    """

    def __init__(self, path: str | os.PathLike, embed: Callable[[tf.Tensor], tf.Tensor]) -> None:
        super().__init__()
        words = read_cache_words(path)
        self.vectors = _vectors([word.encode() for word in words], embed)
        self.asset = lines_asset("words.txt", words)
        self._rows = line_number_table(self.asset)

    def lookup(self, words: tf.Tensor, otherwise: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        """Return the vectors `[N, P]` of strings `[N]`; `otherwise` computes missing ones."""
        rows = self._rows.lookup(words)  # [N], -1 for missing words
        vectors = tf.gather(self.vectors, tf.maximum(rows, 0))  # [N, P]
        missing = tf.where(rows < 0)  # [M, 1]
        return tf.cond(
            tf.size(missing) > 0,
            lambda: tf.tensor_scatter_nd_update(
                vectors, missing, otherwise(tf.gather_nd(words, missing))
            ),
            lambda: vectors,
        )


def read_cache_words(path: str | os.PathLike) -> list[str]:
    """Return the distinct words of a file in UTF-8, one a line, in its order."""
    words, source = {}, f"cache {path}"
    for number, word in enumerate(read_lines(path, "cache"), start=1):
        if _BLANK.search(word):
            raise ValueError(f"{source} has {word[:50]!r} in line {number}; expected one word")
        words[word] = None
    words.pop("", None)
    if not words:
        raise ValueError(f"{source} holds no words; give a file with one word per line")
    return list(words)


def _vectors(words: list[bytes], embed: Callable[[tf.Tensor], tf.Tensor]) -> tf.Variable:
    """Return a variable `[V, P]`. Words of similar length share a batch, for less padding."""
    order = sorted(range(len(words)), key=lambda i: len(words[i]))
    total, variable = len(words), None
    with ProgressBar(
        desc="word vectors", total=total, unit="words", disable=total <= _CHUNK
    ) as bar:
        for start in range(0, total, _CHUNK):
            rows = order[start : start + _CHUNK]
            values = embed(tf.constant([words[i] for i in rows]))
            if variable is None:
                shape = (total, values.shape[-1])
                variable = tf.Variable(tf.zeros(shape, values.dtype), trainable=False, name="cache")
            variable.scatter_update(tf.IndexedSlices(values, tf.constant(rows)))
            bar.update(len(rows))
    return variable


def sentence_layers(
    module: Callable[[dict], dict[str, tf.Tensor]],
    sentences: Iterable[Sequence[str]],
    tokens: int = 4096,
) -> Iterator[np.ndarray]:
    """Yield for each sentence all layers of the biLM, float32 `[L + 1, n, 2P]`, in order.

    Layer 0 is the word vector, once for each direction (as bilm-tf writes it). Sentences of
    similar length share a batch. This does not change their vectors: each sentence starts from a
    state of zeros.

    Args:
        module: a `tfnlp.hub.ElmoModule`, or the result of `tfnlp.hub.saved_elmo`.
        sentences: iterable of lists of words; an empty list gives `[L + 1, 0, 2P]`.
        tokens: approximate number of tokens per batch.
    """
    sentences = iter(sentences)
    while chunk := list(itertools.islice(sentences, max(1, tokens // 8))):
        layers = [None] * len(chunk)
        order = sorted(range(len(chunk)), key=lambda i: -len(chunk[i]))
        while order:
            longest = max(1, len(chunk[order[0]]))
            count = max(1, tokens // longest)
            rows, order = order[:count], order[count:]
            lengths = [len(chunk[i]) for i in rows]
            words = [[*chunk[i], *[""] * (longest - len(chunk[i]))] for i in rows]
            outputs = module({"tokens": tf.constant(words), "sequence_len": tf.constant(lengths)})
            stacked = _stacked(outputs)  # [L + 1, B, T, 2P]
            for row, (i, length) in enumerate(zip(rows, lengths, strict=True)):
                layers[i] = stacked[:, row, :length].copy()
        yield from layers


def running_layers(
    encoder: keras.Model, sentences: Iterable[Sequence[str]]
) -> Iterator[np.ndarray]:
    """Yield the layers of `sentence_layers`, but keep the LSTM state between sentences.

    bilm-tf's `dump_bilm_embeddings` does so: a sentence's vectors depend on all sentences before
    it. `encoder` is from `tfnlp.models.elmo`.
    """
    lstm, char_cnn = elmo_lstm(encoder), encoder.get_layer("char_cnn")
    shape = (1, *encoder.get_layer("bilm").state_shape)

    @tf.function(
        input_signature=[tf.TensorSpec([None], "string"), tf.TensorSpec([1, None, None])],
        autograph=False,
    )
    def run(words: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = char_cnn(character_ids(words))[None]
        inputs = {
            "word_embeddings": vectors,
            "word_mask": tf.ones((1, tf.size(words)), "bool"),
            "state": tf.ensure_shape(state, shape),
        }
        return lstm(inputs)

    state = tf.zeros(shape)
    for words in sentences:
        outputs = dict(run(tf.constant([BEGIN_OF_SENTENCE, *words, END_OF_SENTENCE]), state))
        state = outputs["state"]
        yield _stacked(outputs)[:, 0]


def all_layers(outputs: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    """Return all layers of a biLM, `[B, T, 2P]` each; the first is the word vectors, twice."""
    found = [tf.concat([outputs["word_emb"]] * 2, -1)]
    while f"lstm_outputs{len(found)}" in outputs:
        found.append(outputs[f"lstm_outputs{len(found)}"])
    return found


def _stacked(outputs: dict[str, tf.Tensor]) -> np.ndarray:
    """Return them as one array `[L + 1, B, T, 2P]`."""
    return tf.cast(tf.stack(all_layers(outputs)), "float32").numpy()
