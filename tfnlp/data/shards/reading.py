"""The shards of a folder of examples: which files there are, and their records in order."""

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.shards.folder import HELD_OUT, MANIFEST, Folder, read_manifest

_BUFFER = 1 << 22  # bytes per read of a shard


class Shards:
    """The shards of a folder of examples.

    The existence and size of the files is checked first, their content when it is read.

    Args:
        directory: the output of `tfnlp examples`, any path that `tf.io.gfile` takes.
        model: name of the family that they are for; None: any.

    Attributes:
        settings, counts, commonest_token, epochs: of the manifest, see docs/examples.md.
        num_examples: examples of epoch 0.
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
