"""A folder of examples: its files are there whole and noted, or not at all.

    DIR/manifest.json            settings, counts, and the shards in their order
    DIR/vocab.txt                the vocabulary; a GPT's is the folder DIR/vocab
    DIR/train-00000-00003.tfrecord   epoch 0, shard 3
    DIR/held_out.tfrecord        a record a document
    DIR/work/                    while examples are made: tokenized text, and notes of what is done

A file is written under a partial name, checksummed and renamed; then its note is written the same
way. What has no note is made again.
"""

import json
import zlib

import tensorflow as tf

from tfnlp.files import written_whole

MANIFEST, WORK = "manifest.json", "work"
HELD_OUT = "held_out.tfrecord"
FAULT = f"{WORK}/fault.json"  # what a step found wrong with the input
_PARTIAL = ".partial-"  # in the names of what `written_whole` has not finished


class Folder:
    """Files below `path`, any that `tf.io.gfile` takes; can be pickled."""

    def __init__(self, path):
        self.root = str(path)

    def path(self, name: str) -> str:
        return tf.io.gfile.join(self.root, name)

    def make(self) -> None:
        """Makes the folder, and removes what a process that was killed left half-written."""
        self.make_folder(WORK)
        for folder in (self.root, self.path(WORK)):
            for name in tf.io.gfile.listdir(folder):
                if _PARTIAL in name:
                    tf.io.gfile.remove(tf.io.gfile.join(folder, name))

    def make_folder(self, name: str) -> None:
        tf.io.gfile.makedirs(self.path(name))

    def names(self, folder: str = "") -> list[str]:
        """What lies in a folder; nothing if it is missing."""
        path = self.path(folder) if folder else self.root
        return tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []

    def write(self, name: str, data: bytes) -> None:
        """Writes a file whole or not at all."""
        with written_whole(self.path(name)) as temporary:
            with open(temporary, "wb") as file:
                file.write(data)

    def write_noted(self, name: str, data: bytes, **facts) -> None:
        """Writes a file and its note."""
        self.write(name, data)
        self._note(name, data, facts)

    def write_records(self, name: str, records, **facts) -> None:
        """Writes a TFRecord file of byte strings, and its note."""
        with written_whole(self.path(name)) as temporary:
            with tf.io.TFRecordWriter(temporary) as writer:
                for record in records:
                    writer.write(record)
            with open(temporary, "rb") as file:
                data = file.read()
        self._note(name, data, facts)

    def note(self, name: str) -> dict | None:
        """What was noted of a file when it was finished; None if it isn't there as noted."""
        try:
            with tf.io.gfile.GFile(self.path(_note_name(name)), "r") as file:
                facts = json.load(file)
            size = tf.io.gfile.stat(self.path(name)).length
        except (tf.errors.NotFoundError, ValueError):
            return None
        return facts if size == facts["bytes"] else None

    def intact(self, name: str, facts: dict) -> bool:
        """Whether a file is there with the size and the checksum that were noted."""
        try:
            with tf.io.gfile.GFile(self.path(name), "rb") as file:
                data = file.read()
        except tf.errors.NotFoundError:
            return False
        return (len(data), zlib.crc32(data)) == (facts["bytes"], facts["crc32"])

    def read(self, name: str) -> bytes:
        """The content of a noted file.

        Raises:
            OSError: if it is not what was written.
        """
        facts = self.note(name)
        if facts is None or not self.intact(name, facts):
            raise OSError(f"{self.path(name)} is missing or damaged; give the same command again")
        with tf.io.gfile.GFile(self.path(name), "rb") as file:
            return file.read()

    def remove(self, name: str) -> None:
        if tf.io.gfile.exists(self.path(name)):
            tf.io.gfile.remove(self.path(name))

    def remove_note(self, name: str) -> None:
        self.remove(_note_name(name))

    def remove_work(self) -> None:
        """Removes all that only serves the making of the examples."""
        if tf.io.gfile.exists(self.path(WORK)):
            tf.io.gfile.rmtree(self.path(WORK))

    def _note(self, name, data, facts):
        facts = {"bytes": len(data), "crc32": zlib.crc32(data), **facts}
        self.write(_note_name(name), json.dumps(facts).encode())


def _note_name(name):
    return f"{WORK}/{name.rpartition('/')[2]}.json"


def shard_name(epoch: int, shard: int) -> str:
    return f"train-{epoch:05d}-{shard:05d}.tfrecord"


def read_manifest(directory) -> dict | None:
    """The manifest of a folder of examples, finished or not; None if there is none.

    Raises:
        ValueError: if it can't be read.
    """
    path = Folder(directory).path(MANIFEST)
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            manifest = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); make the examples anew") from error
    if not isinstance(manifest, dict) or not {"tfnlp", "settings", "finished"} <= set(manifest):
        raise ValueError(f"{path} was not written by tfnlp examples")
    return manifest
