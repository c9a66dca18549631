"""The folder of examples: each file is complete and has a note, or is missing.

    DIR/manifest.json            settings, counts, and the shards in their order
    DIR/vocab.txt                the vocabulary; of byte pairs the folder DIR/vocab
    DIR/train-00000-00003.tfrecord   epoch 0, shard 3
    DIR/held_out.tfrecord        one record per document
    DIR/work/                    until all is done: tokenized text, and notes of finished files

A file is written whole or not at all; then its note, with its size and checksum, is written the
same way. A file without a note is made again.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tfnlp.files import reached, written_whole

MANIFEST, WORK = "manifest.json", "work"
HELD_OUT = "held_out.tfrecord"
FAULT = f"{WORK}/fault.json"  # an error of the input, written by a step of a pipeline
_PARTIAL = ".partial-"  # in the names of what `written_whole` has not finished


class Folder:
    """Files in the folder `path`, which may be remote (`gs://...`); can be pickled."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.root = str(path)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return tf.io.gfile.join(self.root, name)

    def make(self) -> None:
        """Make the folder, and remove unfinished files of processes that were killed."""
        tf.io.gfile.makedirs(self.path(WORK))
        for folder in (self.root, self.path(WORK)):
            for name in tf.io.gfile.listdir(folder):
                if _PARTIAL in name:
                    tf.io.gfile.remove(tf.io.gfile.join(folder, name))

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, none if it is missing."""
        path = self.path(folder) if folder else self.root
        return tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []

    def keep_error(self, error: ValueError | OSError) -> None:
        """Write an error of the input, for the process that waits for a pipeline."""
        kind = "ValueError" if isinstance(error, ValueError) else "OSError"
        self.write(FAULT, json.dumps({"kind": kind, "message": str(error)}).encode())

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        with written_whole(self.path(name)) as temporary:
            with open(temporary, "wb") as file:
                file.write(data)

    def write_noted(self, name: str, data: bytes, **facts: Any) -> None:
        """Write a file and its note."""
        self.write(name, data)
        self._note(name, data, facts)

    def write_records(self, name: str, records: Iterable[bytes], **facts: Any) -> None:
        """Write a TFRecord file, and its note."""
        with written_whole(self.path(name)) as temporary:
            with tf.io.TFRecordWriter(temporary) as writer:
                for record in records:
                    writer.write(record)
            with open(temporary, "rb") as file:
                data = file.read()
        self._note(name, data, facts)

    def note(self, name: str) -> dict | None:
        """Return the note of a file; None if the file is missing or has another size."""
        try:
            with tf.io.gfile.GFile(self.path(_note_name(name)), "r") as file:
                facts = json.load(file)
            size = tf.io.gfile.stat(self.path(name)).length
        except (tf.errors.NotFoundError, ValueError):
            return None
        return facts if size == facts["bytes"] else None

    def intact(self, name: str, facts: dict) -> bool:
        """Return whether a file has the size and the checksum of `facts`."""
        try:
            with tf.io.gfile.GFile(self.path(name), "rb") as file:
                data = file.read()
        except tf.errors.NotFoundError:
            return False
        return (len(data), zlib.crc32(data)) == (facts["bytes"], facts["crc32"])

    def read(self, name: str) -> bytes:
        """Return the content of a file with a note."""
        facts = self.note(name)
        if facts is None or not self.intact(name, facts):
            raise OSError(f"{self.path(name)} is missing or damaged; give the same command again")
        with tf.io.gfile.GFile(self.path(name), "rb") as file:
            return file.read()

    def remove(self, name: str) -> None:
        """Remove a file and its note, if they exist."""
        for each in (name, _note_name(name)):
            with contextlib.suppress(tf.errors.NotFoundError):
                tf.io.gfile.remove(self.path(each))

    def remove_work(self) -> None:
        """Remove the files that are needed only until all examples are made."""
        if tf.io.gfile.exists(self.path(WORK)):
            tf.io.gfile.rmtree(self.path(WORK))

    def _note(self, name: str, data: bytes, facts: dict[str, Any]) -> None:
        facts = {"bytes": len(data), "crc32": zlib.crc32(data), **facts}
        self.write(_note_name(name), json.dumps(facts).encode())


def _note_name(name: str) -> str:
    return f"{WORK}/{name.rpartition('/')[2]}.json"


def shard_name(epoch: int, shard: int) -> str:
    """Return the name of the file of a shard."""
    return f"train-{epoch:05d}-{shard:05d}.tfrecord"


def read_manifest(directory: str | os.PathLike) -> dict[str, Any] | None:
    """Return the manifest of a folder of examples, finished or not; None if there is none."""
    path = Folder(directory).path(MANIFEST)
    with reached(directory):
        if not tf.io.gfile.exists(path):
            return None
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            manifest = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); make the examples again") from error
    if not isinstance(manifest, dict) or not {"tfnlp", "settings", "finished"} <= set(manifest):
        raise ValueError(f"{path} was not written by tfnlp examples")
    return manifest
