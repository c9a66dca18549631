"""One process of `benchmarks.scaling`: MODEL DEVICES ROWS STEPS OUT WORKERS INDEX CORE."""

import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
if __name__ == "__main__" and sys.argv[8] != "-":  # before TensorFlow counts the cores
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(sys.argv[8]) % len(cores)]})

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfnlp import data, models, tasks, training  # noqa: E402
from tfnlp.families import token_text  # noqa: E402
from tfnlp.text import (  # noqa: E402
    WordPieceTokenizer,
    gpt_tokenizer,
    train_bpe,
    train_wordpiece,
    train_words,
)

SIZES = dict(num_layers=4, hidden_size=256, num_heads=4, intermediate_size=1024)
BOOK = ["book:the_secret_garden"]


def bert(rows, strategy):
    """(task, batches, tokens a batch)"""
    documents = list(data.read_documents(BOOK))
    tokens = train_wordpiece((s for d in documents for s in d), 4000)
    tokenizer = WordPieceTokenizer(tokens)
    corpus = data.TokenizedCorpus.build(documents, tokenizer, progress=False)
    pairs = data.SentencePairs(
        corpus, tokenizer, batch_size=rows, seq_length=64, max_predictions=10
    )
    with strategy.scope():
        encoder = models.bert(tokenizer.vocab_size, **SIZES, max_positions=64, **_NO_DROPOUT)
        task = tasks.BertPretraining(models.bert_pretrainer(encoder))
    return task, pairs, rows * 64


def elmo(rows, strategy):
    """(task, batches, words a batch)"""
    documents = list(data.read_documents(BOOK))
    words = train_words(s for d in documents for s in d)
    corpus = data.LanguageModelCorpus.build(documents, words, progress=False)
    windows = data.LanguageModelWindows(corpus, batch_size=rows, window=20)
    with strategy.scope():
        encoder = models.elmo(**{**models.ELMO_MINI, "dropout": 0.0})
        # Like dropout, a sampled softmax draws its words for every replica anew.
        model = models.elmo_pretrainer(encoder, corpus.vocab_size, None, dropout=0.0)
        task = tasks.ElmoPretraining(model, corpus.characters(), rows)
    return task, windows, rows * 20


def gpt(rows, strategy):
    """(task, batches, tokens a batch)"""
    documents = list(data.read_documents(BOOK, paragraphs=True))
    tokenizer = gpt_tokenizer(train_bpe((p for d in documents for p in d), 4000))
    stream = token_text.read_token_text(documents, tokenizer).stream
    windows = data.TokenWindows(stream, batch_size=rows, window=64)
    with strategy.scope():
        encoder = models.gpt(tokenizer.vocab_size, **SIZES, max_positions=64, **_NO_DROPOUT)
        task = tasks.GPTPretraining(models.gpt_pretrainer(encoder))
    return task, windows, rows * 64


# Dropout differs between replicas on purpose; without it the losses can be compared.
_NO_DROPOUT = dict(dropout=0.0, attention_dropout=0.0)


class _Clock(keras.callbacks.Callback):
    """Losses and seconds of the steps."""

    def __init__(self):
        super().__init__()
        self.losses, self.ends = [], [time.perf_counter()]

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        self.ends.append(time.perf_counter())


def main(model, devices, rows, steps, out, workers, index):
    if int(devices) > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * int(devices),
        )
    if workers != "-":
        strategy = training.make_strategy(
            "multi_worker", workers=workers.split(","), index=int(index)
        )
    else:
        strategy = training.make_strategy("mirrored" if int(devices) > 1 else "cpu")
    keras.utils.set_random_seed(1)
    task, batches, tokens = {"bert": bert, "elmo": elmo, "gpt": gpt}[model](int(rows), strategy)
    clock = _Clock()
    trainer = training.Trainer(
        task, training.AdamW(), training.linear(1e-3, int(steps), 5), strategy=strategy
    )
    trainer.fit(batches, int(steps), callbacks=[clock], progress=False)
    seconds = [b - a for a, b in zip(clock.ends[:-1], clock.ends[1:], strict=True)]
    found = {"seconds": seconds, "losses": clock.losses, "tokens": tokens}
    pathlib.Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:8])
