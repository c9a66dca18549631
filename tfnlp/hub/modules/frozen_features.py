"""Layers of a frozen backbone, computed once as the inputs of a task network."""

import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.data.labelled.batches import bucket_lengths, token_batches
from tfnlp.files import written_whole
from tfnlp.hub.modules.elmo import all_layers, sentence_layers
from tfnlp.hub.traced import Untracked, without_seeds
from tfnlp.tasks.sequences import EncodedExamples
from tfnlp.training.prediction import forward, is_compiled

_NAMES = ("input_word_ids", "input_mask", "input_type_ids")
_BATCH_TOKENS = 4096  # per batch of an encoder
_PART_TOKENS = 16384  # whose sequences are sorted by length, and whose layers are in memory
_MULTIPLE = 32  # of lengths, where each is compiled


class _Features(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, encoder: keras.Model | None, layers: Sequence[int]) -> None:
        super().__init__()
        self._encoder, self._layers = Untracked(encoder), Untracked(list(layers))

    @property
    def encoder(self) -> keras.Model | None:
        """The frozen model."""
        return self._encoder.value

    @property
    def chosen(self) -> list[int]:
        """The indices of the layers."""
        return self._layers.value


class EncoderFeatures(_Features):
    """Layers of a BERT or GPT, indices into `[embedding_output, *encoder_outputs]`."""

    def __init__(self, encoder: keras.Model, layers: Sequence[int]) -> None:
        super().__init__(encoder, layers)
        self.size = encoder.output["sequence_output"].shape[-1]
        self.variables = [v.value for v in without_seeds(encoder)]  # seeds differ between runs

    def layers(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Return float32 `[N, T, L, D]` of a dict of int32 `[N, T]`, zeros at padding."""
        encoder = self.encoder
        outputs = encoder({name: inputs[name] for name in encoder.input}, training=False)
        every = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        stacked = tf.stack([tf.cast(every[i], "float32") for i in self.chosen], 2)
        return stacked * tf.cast(inputs["input_mask"], "float32")[:, :, None, None]


class ElmoFeatures(_Features):
    """Layers of an ELMo for sentences of words.

    Args:
        module: a `tfnlp.hub.ElmoModule`, or the function that `saved_elmo` returns.
        layers: indices into `[word_emb twice, lstm_outputs1, ...]`.
        size: their width, 2P.
        encoder: the Keras model whose weights the module has; None for a SavedModel.
        loaded: the SavedModel; it is then exported too.
    """

    def __init__(
        self,
        module: Callable[[dict], dict[str, tf.Tensor]],
        layers: Sequence[int],
        size: int,
        encoder: keras.Model | None = None,
        loaded: Any = None,
    ) -> None:
        super().__init__(encoder, layers)
        self._module, self._loaded, self.size = Untracked(module), loaded, size
        source = module if loaded is None else loaded
        self.variables = list(getattr(source, "variables", ()))

    def table(self, words: tf.RaggedTensor) -> tf.Tensor:
        """Return float32 `[1 + sum W, L, D]` of strings ragged `[S, (W)]`; row 0 is zeros."""
        lengths = tf.cast(words.row_lengths(), "int32")
        outputs = self._module.value({"tokens": words.to_tensor(""), "sequence_len": lengths})
        every = all_layers(outputs)
        stacked = tf.stack([tf.cast(every[i], "float32") for i in self.chosen], 2)
        real = tf.sequence_mask(lengths, tf.shape(stacked)[1])
        rows = tf.boolean_mask(stacked, real)  # [sum W, L, D]
        return tf.pad(rows, [[1, 0], [0, 0], [0, 0]])

    def of_sentences(self, sentences: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        """Yield float32 `[n, L, D]` for each list of words."""
        for layers in sentence_layers(self._module.value, sentences):
            yield layers[self.chosen].transpose(1, 0, 2)


class WordRows:
    """Row numbers in a table of features for the words of distinct texts; row 0 is padding.

    A repeated text, such as the context of many questions, keeps its rows.
    """

    def __init__(self) -> None:
        self._first = {}  # text to its first row
        self.sentences, self.words = [], [""]

    def add(self, words: tf.RaggedTensor) -> np.ndarray:
        """Return the rows of strings ragged `[S, (W)]`: int32 `[1 + sum W]`, the first is 0."""
        rows = [[0]]
        for sentence in words.to_list():
            key = tuple(sentence)
            first = self._first.get(key)
            if first is None:
                first = self._first[key] = len(self.words)
                self.sentences.append([word.decode("utf-8", "replace") for word in sentence])
                self.words.extend(self.sentences[-1])
            rows.append(range(first, first + len(sentence)))
        return np.concatenate(rows).astype(np.int32)

    def table(self, features: ElmoFeatures, cache: str | None = None) -> np.ndarray:
        """Return the features of all words so far, `[R, L, D]`, see `feature_table`."""
        key = zlib.crc32("\n".join(" ".join(s) for s in self.sentences).encode())
        parts = features.of_sentences(self.sentences)
        return feature_table(parts, len(self.words), features, key, cache)


def sequence_table(
    encoded: EncodedExamples, features: EncoderFeatures, cache: str | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the features of packed sequences in one table `[R, L, D]`, see `feature_table`.

    The second result is the rows of each sequence, of the shape of its `input_mask`.
    """
    masks = encoded.inputs["input_mask"]
    rows, first, key = [], 1, 0
    for number, mask in enumerate(masks):
        count = int(mask.sum())
        row = np.zeros(mask.shape, np.int32)
        row[mask > 0] = np.arange(first, first + count)
        rows.append(row)
        first += count
        key = zlib.crc32(encoded.inputs["input_word_ids"][number].tobytes(), key)
    table = feature_table(_of_sequences(encoded, features), first, features, key, cache)
    return table, rows


def _of_sequences(encoded: EncodedExamples, features: EncoderFeatures) -> Iterator[np.ndarray]:
    """Yield float32 `[n, L, D]` for each sequence of each example, in their order."""
    columns = [encoded.inputs[name] for name in _NAMES]
    sequences = [
        np.stack(rows)  # [3, n]
        for example in zip(*columns, strict=True)
        for rows in zip(
            *(x.reshape(-1, encoded.window or x.shape[-1]) for x in example), strict=True
        )
    ]
    call = forward(features.encoder, ["embedding_output", "encoder_outputs"])
    weights = call.weights()
    sizes = np.array([sequence.shape[1] for sequence in sequences])
    lengths = bucket_lengths(sizes, len(sizes), _MULTIPLE if is_compiled() else 8)
    part = (np.cumsum(sizes) - sizes) // _PART_TOKENS  # sorted inside of a part, which is kept
    for first, last in itertools.pairwise([*np.unique(part, return_index=True)[1], len(sizes)]):
        found = {}
        for length, rows, real in token_batches(
            sizes[first:last], lengths, _BATCH_TOKENS, full=is_compiled()
        ):
            batch = np.zeros((3, len(rows), length), np.int32)
            for place, row in enumerate(rows):
                sequence = sequences[first + row]
                batch[:, place, : sequence.shape[1]] = sequence
            outputs = call(dict(zip(_NAMES, batch, strict=True)), weights)
            every = [outputs["embedding_output"], *outputs["encoder_outputs"]]
            layers = np.stack([every[i] for i in features.chosen], 2)  # [B, T, L, D]
            for row, values, mask in zip(rows[:real], layers, batch[1], strict=False):
                found[row] = values[mask > 0].astype(np.float32)
        for row in range(last - first):
            yield found.pop(row)


def feature_table(
    parts: Iterable[np.ndarray],
    count: int,
    features: EncoderFeatures | ElmoFeatures,
    key: int,
    cache: str | None = None,
) -> np.ndarray:
    """Return features as one table `[R, L, D]` whose row 0 is zeros.

    It is float32 in memory; with a `cache`, a folder that several runs may share, it is float16,
    mapped from disk. R is the `count`; `parts` are `[n, L, D]` each, in order, iterated only if the
    cache has no such table; `key` tells the texts from others there.
    """
    path = None
    if cache is not None:
        for variable in features.variables:
            key = zlib.crc32(np.ascontiguousarray(variable), key)
        key = zlib.crc32(str(features.chosen).encode(), key)
        path = os.path.join(cache, f"features-{key:08x}-{count}.npy")
        if os.path.exists(path):
            return np.load(path, mmap_mode="r")
        os.makedirs(cache, exist_ok=True)
    shape = (count, len(features.chosen), features.size)
    parts = ProgressBar(parts, desc="frozen features", unit="texts")
    if path is None:
        table = np.zeros(shape, np.float32)  # the precision of the exported module
        first = 1
        for part in parts:
            table[first : first + len(part)] = part
            first += len(part)
        return table
    # Not a memory-mapped file: on a full disk writing to it would end the process.
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    with written_whole(path) as partial, open(partial, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(2 * math.prod(shape[1:])))  # row 0
        for part in parts:
            file.write(np.asarray(part, "<f2").tobytes())
    return np.load(path, mmap_mode="r")
