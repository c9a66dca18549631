"""A trained BERT from wherever it is: a run's folder or somebody's checkpoint."""

import os
from dataclasses import dataclass


@dataclass
class LoadedBert:
    """`encoder` and `pretrainer` (Keras models; `pretrainer` may be None) and `tokenizer`."""

    encoder: object
    pretrainer: object
    tokenizer: object
    config: dict
    history: object = None


def load_bert(path):
    """Loads a BERT from a run's folder, a Google checkpoint or a Hugging Face folder.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import convert, models
    from tfnlp.text import WordPieceTokenizer
    from tfnlp.training.run import is_run, read_config, restore_weights

    if not is_run(path):
        converted = convert.load_bert(path)
        return LoadedBert(
            converted.encoder, converted.pretrainer, converted.tokenizer(), converted.config
        )
    config = read_config(path)
    encoder = models.bert(**config["arguments"])
    pretrainer = models.bert_pretrainer(encoder, **config["heads"])
    _, history = restore_weights(path, pretrainer)
    tokenizer = WordPieceTokenizer(
        os.path.join(path, "vocab.txt"), lowercase=config["text"]["lowercase"]
    )
    return LoadedBert(encoder, pretrainer, tokenizer, config, history)
