"""Folders that are not on this machine, such as `gs://bucket/run`: what `tf.io.gfile` takes."""

import contextlib
import os
import tempfile

import tensorflow as tf


def is_remote(path):
    """Whether `path` has a scheme (`gs://`, `s3://`, ...), so that `open` can't read it."""
    return "://" in str(path)


@contextlib.contextmanager
def to_write(path):
    """Where to write what is to become the file or folder `path`; it is copied there at the end."""
    if not is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path))
        yield local
        _copy(local, path)


@contextlib.contextmanager
def to_read(path):
    """A file or folder of this machine with what is in `path`, while open."""
    if not is_remote(path):
        yield path
        return
    if not tf.io.gfile.exists(path):
        raise FileNotFoundError(f"{path} is not there")
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path.rstrip("/")))
        _copy(path, local)
        yield local


def _copy(source, target):
    if not tf.io.gfile.isdir(source):
        tf.io.gfile.copy(source, target, overwrite=True)
        return
    tf.io.gfile.makedirs(target)
    for name in tf.io.gfile.listdir(source):
        name = name.rstrip("/")
        _copy(tf.io.gfile.join(source, name), tf.io.gfile.join(target, name))
