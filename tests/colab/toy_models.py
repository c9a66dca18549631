"""Small models in files, for notebooks that begin with a published one."""

import re

import keras

from tfnlp import checkpoints, data, models
from tfnlp.text import SPECIAL_TOKENS, write_vocabulary


def book_words(count=1500):
    """Return the most frequent words of the book that ships with tfnlp, in lower case."""
    text = " ".join(
        s for document in data.read_documents("book:the_secret_garden") for s in document
    )
    found = re.findall(r"[a-z]+", text.lower())
    return sorted(set(found), key=lambda word: (-found.count(word), word))[:count]


def bert(folder, words, seed=0):
    """Write an untrained BERT that knows these words, in Hugging Face's files."""
    folder.mkdir()
    vocabulary = [*SPECIAL_TOKENS, ".", ",", *dict.fromkeys(words)]
    write_vocabulary(str(folder / "words.txt"), vocabulary)
    keras.utils.set_random_seed(seed)
    encoder = models.bert(len(vocabulary), 2, 32, 2, 64, max_positions=128, initializer_range=0.2)
    pretrainer = models.bert_pretrainer(encoder)
    path = str(folder / "model")
    checkpoints.save_huggingface(pretrainer, path, str(folder / "words.txt"), lowercase=True)
    return path
