"""`tfnlp vocab`: build a WordPiece vocabulary from text."""

import argparse
import os
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.files import is_remote, reached
from tfnlp.settings.text import VocabSettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    add_command(commands, "vocab", "Build a WordPiece vocabulary from text.", VocabSettings)


def run(options: argparse.Namespace) -> None:
    """Read the corpus, train the vocabulary, write it whole or not at all."""
    import tensorflow as tf

    from tfnlp.data import documents_of
    from tfnlp.text import train_wordpiece, write_vocabulary

    config = config_of(options)
    folder = os.path.dirname(os.path.abspath(config.output))
    if is_remote(config.output):
        with reached(config.output):
            tf.io.gfile.exists(config.output)
    elif not os.path.isdir(folder):
        raise FileNotFoundError(f"`output` {config.output}: the folder {folder} does not exist")
    if os.path.isdir(config.output):
        raise IsADirectoryError(f"`output` {config.output} is a folder; give a file to write")
    sentences = (s for d in documents_of(config.text, config.layout) for s in d)
    tokens = train_wordpiece(
        sentences, config.size, lowercase=not config.cased, min_frequency=config.min_frequency
    )
    write_vocabulary(config.output, tokens)
    print(f"{config.output}: {len(tokens)} tokens, {'cased' if config.cased else 'uncased'}")
