"""The shards of a folder of examples, and batches equal to those that are made of the text itself.

Rows are read from the shards in order. Masks are drawn when they are read, with (seed, step), as
for rows from a corpus in memory. After the last epoch of the shards the first one is read again,
with other masks.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import MaskedEpochs, RowPacker
from tfnlp.data.pretraining.sentence_pairs import LABELS
from tfnlp.data.shards.folder import HELD_OUT, MANIFEST, Folder, read_manifest
from tfnlp.data.shards.recipes import label_feature

_BUFFER = 1 << 22  # bytes per read of a shard

_TOKENS = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)


class Shards:
    """The shards of a folder of examples, the output of `tfnlp examples`, for a family or any.

    The existence and size of the files is checked first, their content when it is read. Attributes
    are those of the manifest, see docs/big_corpora.md, and `num_examples` of epoch 0.
    """

    shape: str | None = None  # that a subclass reads

    def __init__(self, directory: str | os.PathLike, model: str | None = None) -> None:
        self.folder, manifest = Folder(directory), read_manifest(directory)
        if manifest is None:
            raise FileNotFoundError(
                f"{directory} holds no {MANIFEST}; is it the --output of tfnlp examples?"
            )
        self.settings = manifest["settings"]
        if model is not None and self.settings["model"] != model:
            raise ValueError(
                f"{directory} holds examples for {self.settings['model']}, not for {model}; make "
                f"some with tfnlp examples {model}"
            )
        if self.shape is not None and self.settings["shape"] != self.shape:
            raise ValueError(
                f"{directory} holds {self.settings['shape']} for {self.settings['model']}, not "
                f"{self.shape}"
            )
        if not manifest["finished"]:
            raise ValueError(
                f"the examples in {directory} are not finished; give the same tfnlp examples "
                "command again"
            )
        self.counts, self.commonest_token = manifest["counts"], manifest["commonest_token"]
        self.epochs = self.settings["epochs"]
        self._held_out = manifest["held_out"]
        shards = manifest["shards"]
        for shard in [*shards, self._held_out]:
            self._check_size(shard)
        self._paths = np.array([self.folder.path(shard["file"]) for shard in shards])
        self._paths = self._paths.reshape(self.epochs, -1)  # [E, S]
        examples = np.array([shard["examples"] for shard in shards])
        self._ends = np.cumsum(examples.reshape(self.epochs, -1), axis=1)  # [E, S]
        self.num_examples = int(self._ends[0, -1])
        # Identifies these examples by the content of their shards.
        self.checksum = zlib.crc32(np.array([shard["crc32"] for shard in shards]).tobytes())
        self._shards = shards

    def records(self, first: int, per_epoch: int) -> tf.data.Dataset:
        """Return an endless dataset of serialized examples, from number `first` on.

        Number n is example `n % per_epoch` of epoch `n // per_epoch`. An epoch has `num_examples`:
        if its shards have fewer, the first ones are repeated. If `per_epoch` is more than that, the
        whole epoch is repeated; `first` is then a multiple of `per_epoch`.
        """
        epoch, number = divmod(int(first), per_epoch)
        stored = epoch % self.epochs
        ends, size = self._ends[stored], int(self._ends[stored, -1])
        level = self.num_examples
        place = number % size
        shard = int(np.searchsorted(ends, place, "right"))
        before = int(ends[shard - 1]) if shard else 0
        paths = tf.constant(self._paths)  # [E, S]

        @tf.autograph.experimental.do_not_convert
        def whole(epoch: tf.Tensor) -> tf.data.Dataset:
            rows = tf.gather(paths, epoch % self.epochs)
            rows = tf.data.TFRecordDataset(rows, buffer_size=_BUFFER).repeat()
            return rows.take(level).repeat().take(per_epoch)

        rest = tf.data.Dataset.range(epoch + 1, tf.int64.max).flat_map(whole)
        # Whole shards are skipped without reading them.
        rows = tf.data.TFRecordDataset(self._paths[stored, shard:], buffer_size=_BUFFER)
        again = tf.data.TFRecordDataset(self._paths[stored], buffer_size=_BUFFER).repeat()
        rows = rows.skip(place - before).concatenate(again).take(level - number)
        rows = rows.concatenate(whole(tf.constant(epoch, tf.int64))).take(per_epoch - number)
        return rows.concatenate(rest)

    def held_out(self) -> TokenizedCorpus:
        """Return the held-out text, tokenized."""
        path = self.folder.path(HELD_OUT)
        with self.readable():
            records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        parsed = tf.io.parse_example(records, dict.fromkeys(("tokens", "lengths"), _TOKENS))
        lengths = parsed["lengths"].flat_values.numpy()
        return TokenizedCorpus(
            tokens=parsed["tokens"].flat_values.numpy().astype(np.int32),
            sentence_starts=np.concatenate([[0], np.cumsum(lengths)]),
            document_starts=parsed["lengths"].row_splits.numpy(),
        )

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        """Turn an error of reading the shards, while open, into one that names the damaged file."""
        try:
            yield
        except tf.errors.OpError as error:
            for shard in [self._held_out, *self._shards]:
                self._check_size(shard)
                if not self.folder.intact(shard["file"], shard):
                    raise OSError(self._advice(shard, "is damaged")) from error
            raise

    def _check_size(self, shard: dict[str, Any]) -> None:
        path = self.folder.path(shard["file"])
        try:
            size = tf.io.gfile.stat(path).length
        except tf.errors.NotFoundError:
            raise FileNotFoundError(self._advice(shard, "is missing")) from None
        if size != shard["bytes"]:
            wrong = f"has {size} bytes, not the {shard['bytes']} it was written with"
            raise OSError(self._advice(shard, wrong))

    def _advice(self, shard: dict[str, Any], problem: str) -> str:
        path = self.folder.path(shard["file"])
        return f"{path} {problem}; give the command that made the examples again to mend it"


class BatchShards(Shards):
    """Batches of the records of shards.

    A subclass adds `_parse(records, step)`, the batch of strings `[B]` in the graph, and
    `rows_per_epoch`.
    """

    batch_size: int

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step; for many batches, `dataset` is faster."""
        return next(iter(self.dataset(step)))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset of static shapes; element n is `batch(first_step + n)`."""
        signature = [tf.TensorSpec([self.batch_size], tf.string), tf.TensorSpec([], tf.int64)]
        parse = tf.function(self._parse, signature, autograph=False)
        records = self.records(first_step * self.batch_size, self.rows_per_epoch)
        batches = records.batch(self.batch_size, drop_remainder=True)
        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = tf.data.Dataset.zip(batches, steps).map(
            parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return batches.prefetch(tf.data.AUTOTUNE)


class MaskedShards(MaskedEpochs, BatchShards):
    """Rows from shards that are masked when they are read.

    `batch(n)` equals that of the class named below with the same seed, sizes and training text, bit
    for bit, for all epochs that are in the shards. A subclass adds `_read(records)`: tokens,
    lengths and labels, as `RowPacker` takes them.

    Args:
        directory: the output of `tfnlp examples`.
        tokenizer: that of the vocabulary in `directory`.
        batch_size, max_predictions, mask_rate, whole_word: as of that class.
        seed: of the masks; None: that of the examples.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        tokenizer: Any,
        *,
        batch_size: int,
        seed: int | None = None,
        **masking: Any,
    ) -> None:
        super().__init__(directory)
        self.batch_size, self.tokenizer = batch_size, tokenizer
        self.seq_length = self.settings["seq_length"]
        self.seed = self.settings["seed"] if seed is None else seed
        sizes = {"batch_size": batch_size, "seq_length": self.seq_length}
        self._pack = RowPacker(self, tokenizer, seed=self.seed, **sizes, **masking)

    @property
    def rows_per_epoch(self) -> int:
        return self.steps_per_epoch * self.batch_size

    @property
    def random_share(self) -> float:
        shards = self._shards[: self._paths.shape[1]]
        return sum(shard.get("random", 0) for shard in shards) / self.num_examples

    def _parse(self, records: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens, lengths, labels = self._read(records)
        counts = tf.ones(self.batch_size, tf.int64)
        return self._pack(tf.cast(tokens, tf.int32), lengths, counts, labels, step)


class PairShards(MaskedShards):
    """`SentencePairs` from shards; see `MaskedShards`."""

    shape = "pairs"
    segments = 2

    @property
    def label(self) -> str | None:
        return LABELS[self.settings["second"]]

    def _read(self, records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        features, name = {"a": _TOKENS, "b": _TOKENS}, label_feature(self.settings["second"])
        if name is not None:
            features[name] = tf.io.FixedLenFeature([], tf.int64)
        parsed = tf.io.parse_example(records, features)
        a, b = parsed["a"], parsed["b"]
        segments = tf.stack([a, b], axis=1)  # [B, 2, (tokens)]
        lengths = tf.stack([a.row_lengths(), b.row_lengths()], axis=1)
        labels = tf.zeros(self.batch_size, tf.int64) if name is None else parsed[name]
        return segments.flat_values, lengths, labels


class MaskedWindowShards(MaskedShards):
    """`MaskedWindows` from shards; see `MaskedShards`."""

    shape = "masked_windows"

    def _read(self, records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        ids = tf.io.parse_example(records, {"ids": _TOKENS})["ids"]
        labels = tf.zeros(self.batch_size, tf.int64)
        return ids.flat_values, ids.row_lengths()[:, tf.newaxis], labels


class WindowShards(BatchShards):
    """`TokenWindows` from shards: `batch(n)` equals theirs, see `MaskedShards`."""

    shape = "windows"

    def __init__(self, directory: str | os.PathLike, *, batch_size: int) -> None:
        super().__init__(directory)
        self.batch_size = batch_size
        self.window, self.seed = self.settings["seq_length"], self.settings["seed"]
        self.rows_per_epoch = self.windows_per_epoch = self.num_examples

    @property
    def steps_per_epoch(self) -> float:
        return self.windows_per_epoch / self.batch_size

    def _parse(self, records: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        shape = [self.batch_size, self.window]
        feature = tf.io.FixedLenFeature([self.window + 1], tf.int64)
        ids = tf.cast(tf.io.parse_example(records, {"ids": feature})["ids"], tf.int32)
        return {
            "input_word_ids": ids[:, :-1],
            "input_mask": tf.ones(shape, tf.int32),
            "targets": ids[:, 1:],
            "weights": tf.ones(shape, tf.float32),
        }
