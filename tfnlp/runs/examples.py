"""Text to shards of training examples, by an Apache Beam pipeline."""

import logging
import os
import shlex
import zlib
from typing import Any

import tensorflow as tf

from tfnlp import __version__
from tfnlp.data.corpus.documents import document_readers
from tfnlp.extras import needed
from tfnlp.families.family import Family
from tfnlp.files import written_whole
from tfnlp.locks import locked

CHUNK = 1 << 22  # characters of text that are tokenized at once


def write_examples(family: Family, config: Any) -> dict[str, Any]:
    """Write a folder of examples; the same config again goes on where it was stopped.

    Returns:
        the manifest: "shards", a list of files, and "counts".
    """
    # Beam warns of clouds' libraries that are not used; the DirectRunner raises what it logs.
    level = logging.ERROR if config.runner == "DirectRunner" else logging.WARNING
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        return _written(family, config)
    finally:
        logging.disable(before)


def _written(family: Family, config: Any) -> dict[str, Any]:
    needed("apache_beam", "apache-beam", "beam", "tfnlp examples")
    from tfnlp.data.shards.examples import make_examples, start_examples

    runner = runner_of(config)
    # Workers tokenize on the CPU; none of them is to take a GPU's memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    with locked(config.output):
        made = family.examples(config)
        settings = {  # all that decides which examples are written
            "tfnlp": __version__,
            "model": family.name,
            "input": _files(config.text, config.layout),
            "valid": _files(config.valid, config.layout) if config.valid else None,
            "layout": config.layout,
            "held_out": None if config.valid else config.held_out,
            "vocabulary": zlib.crc32(repr(made.tokens).encode()),
            "vocab_size": None if config.vocab else config.vocab_size,
            **{name: getattr(config, name) for name in ("seq_length", "seed", "epochs", "shards")},
            "chunk": CHUNK,
            **made.recipe.settings,
            **made.settings,
        }
        start_examples(config.output, settings)
        kept = tf.io.gfile.join(config.output, made.vocabulary.name)
        if not tf.io.gfile.exists(kept):
            with written_whole(kept) as path:
                made.vocabulary.write(path, made.tokens)
        return make_examples(config.output, settings, made.recipe, runner)


def runner_of(config: Any) -> Any:
    """Return the `Runner` of a config with `runner`, `workers` and `pipeline_options`."""
    from tfnlp.data.shards.runner import Runner

    if config.workers > 1 and config.runner != "DirectRunner":
        raise ValueError(
            f"`workers` are the DirectRunner's; give {config.runner} its own with "
            "`pipeline_options`"
        )
    return Runner(config.runner, config.workers, shlex.split(config.pipeline_options))


def _files(sources: Any, layout: str) -> list[list]:
    """Return the files and data sets that sources name, with their sizes."""
    names = [reader.args[0] for reader in document_readers(sources, layout)]
    return [
        [name, None] if name.startswith("tfds:") else [os.path.abspath(name), os.path.getsize(name)]
        for name in names
    ]


def report(output: str, manifest: dict[str, Any]) -> str:
    """Return counts as text: a table of shards and a line for each part."""
    lines = [f"{'shard':32s}{'epoch':>6s}{'examples':>12s}{'MB':>9s}"]
    for shard in manifest["shards"]:
        lines.append(
            f"{shard['file']:32s}{shard['epoch']:6d}{shard['examples']:12,}"
            f"{shard['bytes'] / 1e6:9.1f}"
        )
    for part, name in (("train", "to train on"), ("held_out", "held out")):
        counts = manifest["counts"][part]
        line = ", ".join(
            f"{counts[what]:,} {what}" for what in ("documents", "sentences", "words", "tokens")
        )
        lines.append(f"{name}: {line}")
    counts = manifest["counts"]["train"]
    line = f"{counts['examples']:,} examples in {len(manifest['shards'])} shards"
    if "random" in counts:
        line += f": {counts['real']:,} real pairs, {counts['random']:,} random ones"
    if "swapped" in counts:
        line += f": {counts['in_order']:,} pairs in order, {counts['swapped']:,} swapped ones"
    return "\n".join([*lines, line, f"examples: {output}"])
