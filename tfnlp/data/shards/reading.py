"""Batches from shards of examples, equal to those of `BertPairs` and `TokenWindows`.

Pairs and windows are read from the shards in order. Masks are drawn when they are read, with (seed,
step), as for pairs from a corpus in memory. After the last epoch of the shards the first one is
read again, with other masks.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.bert_packing import PairPacker
from tfnlp.data.shards.folder import HELD_OUT, MANIFEST, Folder, read_manifest

_BUFFER = 1 << 22  # bytes per read of a shard


class Shards:
    """The shards of a folder of examples.

    The existence and size of the files is checked first, their content when it is read.

    Args:
        directory: the output of `tfnlp examples`, any path that `tf.io.gfile` takes.
        model: "bert" or "gpt".

    Attributes:
        settings, counts: of the manifest, see docs/examples.md.
        commonest_token: the most frequent token of the training text.
        epochs: number of epochs in the shards.
        num_examples: examples of epoch 0.

    Raises:
        FileNotFoundError: no examples, or a shard is missing.
        ValueError: unfinished examples, or those of another model.
        OSError: a shard of another size.
    """

    def __init__(self, directory: str | os.PathLike, model: str) -> None:
        self.folder, manifest = Folder(directory), read_manifest(directory)
        if manifest is None:
            raise FileNotFoundError(
                f"{directory} holds no {MANIFEST}; is it the --output of tfnlp examples?"
            )
        self.settings = manifest["settings"]
        if self.settings["model"] != model:
            raise ValueError(
                f"{directory} holds examples for {self.settings['model']}, not for {model}; make "
                f"some with tfnlp examples {model}"
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
        """Return the held-out text, tokenized.

        Raises:
            OSError: the file is damaged.
        """
        features = {
            name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
            for name in ("tokens", "lengths")
        }
        path = self.folder.path(HELD_OUT)
        with self.readable():
            records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        parsed = tf.io.parse_example(records, features)
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


class BertShards(Shards):
    """`BertPairs` from shards.

    `batch(n)` equals that of `BertPairs` with the same seed, sizes and training text, bit for bit,
    for all epochs that are in the shards.

    Args:
        directory: the output of `tfnlp examples bert`.
        tokenizer: that of the vocabulary in `directory`.
        batch_size, max_predictions, mask_rate, whole_word: as of `BertPairs`.
        seed: of the masks; None: that of the pairs.

    Raises:
        FileNotFoundError, ValueError, OSError: as `Shards`; an argument out of its range.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        tokenizer: Any,
        *,
        batch_size: int,
        max_predictions: int = 20,
        seed: int | None = None,
        mask_rate: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        super().__init__(directory, "bert")
        self.batch_size = batch_size
        self.seq_length = self.settings["seq_length"]
        self.seed = self.settings["seed"] if seed is None else seed
        self._pack = PairPacker(
            tokenizer,
            batch_size=batch_size,
            seq_length=self.seq_length,
            max_predictions=max_predictions,
            seed=self.seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
        )
        records = tf.TensorSpec([batch_size], tf.string)
        self._parsed = tf.function(
            self._parse, [records, tf.TensorSpec([], tf.int64)], autograph=False
        )

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; 1 for a corpus smaller than a batch, whose pairs repeat."""
        return max(1, self.num_examples // self.batch_size)

    @property
    def random_share(self) -> float:
        """Share of the pairs of epoch 0 that are random."""
        shards = self._shards[: self._paths.shape[1]]
        return sum(shard["random"] for shard in shards) / self.num_examples

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step; for many batches, `dataset` is faster."""
        return next(iter(self.dataset(step)))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`.

        Shapes are static.
        """
        per_epoch = self.steps_per_epoch * self.batch_size
        records = self.records(first_step * self.batch_size, per_epoch)
        batches = records.batch(self.batch_size, drop_remainder=True)
        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = tf.data.Dataset.zip(batches, steps).map(
            self._parsed, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return batches.prefetch(tf.data.AUTOTUNE)

    def evaluation_batches(self, max_batches: int) -> tf.data.Dataset:
        """Return the first `max_batches` batches of epoch 0, or all; the same at every call."""
        if max_batches < 1:
            raise ValueError(f"max_batches must be 1 or more; got {max_batches}")
        return self.dataset().take(min(max_batches, self.steps_per_epoch))

    def _parse(self, records: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        ragged = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
        single = tf.io.FixedLenFeature([], tf.int64)
        parsed = tf.io.parse_example(
            records, {"a": ragged, "b": ragged, "is_random": single, "target": single}
        )
        a, b = parsed["a"], parsed["b"]
        tokens = tf.cast(tf.concat([a.flat_values, b.flat_values], 0), tf.int32)
        behind = tf.size(a.flat_values, tf.int64)
        rows = [a.row_starts(), a.row_limits(), behind + b.row_starts(), behind + b.row_limits()]
        rows = tf.stack([*rows, parsed["is_random"], parsed["target"]], axis=1)
        rows = tf.ensure_shape(rows, [self.batch_size, 6])
        return self._pack(tokens, rows, step)


class WindowShards(Shards):
    """`TokenWindows` from shards.

    `batch(n)` equals that of `TokenWindows` with the same seed, window and training text, for all
    epochs that are in the shards.

    Args:
        directory: the output of `tfnlp examples gpt`.
        batch_size: B, over all devices.

    Raises:
        FileNotFoundError, ValueError, OSError: as `Shards`; an argument out of its range.
    """

    def __init__(self, directory: str | os.PathLike, *, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        super().__init__(directory, "gpt")
        self.batch_size = batch_size
        self.window, self.seed = self.settings["seq_length"], self.settings["seed"]
        self.windows_per_epoch = self.num_examples

    @property
    def steps_per_epoch(self) -> float:
        """Windows of an epoch divided by the batch size."""
        return self.windows_per_epoch / self.batch_size

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step; for many batches, `dataset` is faster."""
        return next(iter(self.dataset(step)))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`.

        Shapes are static.
        """
        records = self.records(first_step * self.batch_size, self.windows_per_epoch)
        batches = records.batch(self.batch_size, drop_remainder=True).map(
            self._parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return batches.prefetch(tf.data.AUTOTUNE)

    @tf.autograph.experimental.do_not_convert
    def _parse(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        shape = [self.batch_size, self.window]
        feature = tf.io.FixedLenFeature([self.window + 1], tf.int64)
        ids = tf.cast(tf.io.parse_example(records, {"ids": feature})["ids"], tf.int32)
        ids = tf.ensure_shape(ids, [self.batch_size, self.window + 1])
        return {
            "input_word_ids": ids[:, :-1],
            "input_mask": tf.ones(shape, tf.int32),
            "targets": ids[:, 1:],
            "weights": tf.ones(shape, tf.float32),
        }
