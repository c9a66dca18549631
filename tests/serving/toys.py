"""Modules of every kind that is served, of a few weights; some with rules in place of weights.

The rules' names and shapes of inputs and outputs are those of docs/finetuning.md.
"""

import contextlib
import threading

import numpy as np
import tensorflow as tf

from tests.hub import gpt_toy
from tfnlp import hub, models
from tfnlp.hub.modules.fill import FillModule
from tfnlp.hub.saving.save import save_module
from tfnlp.serving import app, server
from tfnlp.serving.batching import Batcher
from tfnlp.serving.module import ServedModule
from tfnlp.settings.serve import ServeSettings
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, WordVectors
from tfnlp.text.words import characters, words_with_offsets

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "to", "##s", "good", "bad", "film", "."]


def strings(name, rank=1):
    return tf.TensorSpec([None] * rank, "string", name=name)


class Rule(tf.Module):
    """A function of strings as the signature of a SavedModel, with labels."""

    def __init__(self, function, *specs, labels=("no", "yes")):
        super().__init__()
        self.served = tf.function(function, input_signature=specs)
        self.names = tf.constant(list(labels))

    @tf.function(input_signature=[])
    def labels(self):
        return self.names

    def write(self, path):
        tf.saved_model.save(self, str(path), {"serving_default": self.served})
        return path


def shares(text):
    """Probabilities `[B, 2]` that follow from the length of a text."""
    share = 1 / (1 + tf.cast(tf.strings.length(text), "float32"))
    return tf.stack([share, 1 - share], 1)


def classify(text):
    p = shares(text)
    return {"label": tf.gather(tf.constant(["no", "yes"]), tf.argmax(p, 1)), "probabilities": p}


def labels(text):
    p = shares(text)
    return {"labels": tf.where(p >= 0.5, tf.constant(["no", "yes"]), ""), "probabilities": p}


def similarity(text_a, text_b):
    return {"score": tf.cast(tf.strings.length(text_a) - tf.strings.length(text_b), "float32")}


def scores(text):
    length = tf.cast(tf.strings.length(text), "float32")
    return {"scores": tf.stack([length, -length], 1)}


def choose(text, choices):
    p = tf.nn.softmax(tf.cast(tf.strings.length(choices), "float32") + 0 * shares(text)[:, :1])
    return {"choice": tf.argmax(p, 1, "int32"), "probabilities": p}


def answer(question, context):
    """The first word of the context, after whatever stands before its first space."""
    first = tf.strings.length(tf.strings.split(context, " ")[:, 0:1].to_tensor()[:, 0])
    second = tf.strings.split(context, " ")[:, 1:2].to_tensor("")[:, 0]
    end = first + 1 + tf.strings.length(second)
    score = tf.cast(tf.strings.length(question), "float32")
    return {
        "answer": second, "score": score, "null_score": 0 * score, "start": first + 1, "end": end,
        "answers": tf.stack([second, tf.fill(tf.shape(second), "")], 1),
        "scores": tf.stack([score, 0 * score], 1),
    }  # fmt: skip


def tag(text):
    ragged, starts, ends = words_with_offsets(text, "spaces")
    words = ragged.to_tensor("")
    places = {n: characters(text, x.to_tensor(-1)) for n, x in (("starts", starts), ("ends", ends))}
    names = tf.where(tf.strings.regex_full_match(words, "[A-Z].*"), "B-name", "O")
    real = words != ""
    return {"tags": tf.where(real, names, ""), "tokens": words, **places,
            "probabilities": tf.where(real, 0.75, 0.0)}  # fmt: skip


def roles(text, predicate):
    found = tag(text)
    places = tf.range(tf.shape(found["tokens"])[1])[None]
    found["tags"] = tf.where(places == predicate[:, None], "B-V", found["tags"])
    return found


def search(inputs):
    count = tf.shape(inputs)[0]
    return {"texts": tf.tile([["first", "second"]], [count, 1]),
            "scores": tf.tile([[0.9, 0.1]], [count, 1]),
            "rows": tf.tile([[3, 1]], [count, 1])}  # fmt: skip


def lengths(text):
    return {"length": tf.strings.length(text)}


_NUMBERS = tf.TensorSpec([None], "int32", name="predicate")
RULES = {
    "classify": (classify, strings("text")),
    "labels": (labels, strings("text")),
    "similarity": (similarity, strings("text_a"), strings("text_b")),
    "scores": (scores, strings("text")),
    "choose": (choose, strings("text"), tf.TensorSpec([None, 3], "string", name="choices")),
    "answer": (answer, strings("question"), strings("context")),
    "tag": (tag, strings("text")),
    "roles": (roles, strings("text"), _NUMBERS),
    "search": (search, strings("inputs")),
    "outputs": (lengths, strings("text")),
}


def pretrainer():
    encoder = models.bert(17, 1, 16, 2, 32, 24, initializer_range=0.5)
    return encoder, models.bert_pretrainer(encoder), WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS])


def fill(folder):
    _, whole, tokenizer = pretrainer()
    return save_module(lambda _: FillModule(whole, tokenizer, top=3), folder)


def bert(folder):
    """A pair: it fills masks and finds neighbours."""
    encoder, whole, tokenizer = pretrainer()
    hub.export_bert(folder, encoder, tokenizer, whole, seq_length=12)
    return folder


def gpt(folder):
    hub.export_gpt(folder, gpt_toy.model(), gpt_toy.tokenizer(), seq_length=12)
    return folder


def words(folder):
    vectors = np.random.default_rng(3).normal(size=(6, 8)).astype("float32")
    return hub.export_word_vectors(folder, WordVectors(WORDS[:6], vectors))


def translate(folder):
    tokenizer = gpt_toy.tokenizer()
    model = models.seq2seq(tokenizer.vocab_size, hidden_size=16)
    decoder = models.Seq2SeqDecoder(model, tokenizer.end_id)
    return hub.export_translator(folder, model, hub.Translator(decoder, tokenizer, beams=2))


MAKERS = {"fill": fill, "bert": bert, "gpt": gpt, "words": words, "translate": translate}


def make(kind, folder):
    """Write a module; return its path."""
    if kind in MAKERS:
        return MAKERS[kind](folder)
    return Rule(*RULES[kind]).write(folder)


@contextlib.contextmanager
def application(actions, local=True, **settings):
    config = ServeSettings.make(module="toy", **settings)
    served = ServedModule("toy", actions)
    batcher = Batcher(served.run, wait=0)
    try:
        yield app.make_app(served, config, batcher, local)
    finally:
        batcher.close()


@contextlib.contextmanager
def listening(actions, **settings):
    """A running server's address; what holds it up when it is told to stop fails the test."""
    with application(actions, **settings) as made, server._bound("127.0.0.1", 0) as bound:
        bound.listen()
        address, served = bound.getsockname(), server.server_of(made)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield address
        finally:
            served.should_exit = True
            thread.join(30)
            assert not thread.is_alive()
