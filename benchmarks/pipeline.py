"""Does the input outrun the model? And the tokenizer beside others'.

    python -m benchmarks.pipeline [--input FILE ...]

Prints examples/s of the masked-sentence-pair pipeline at 128 tokens beside the examples/s of the
training step that eats them (4 layers of 256, bf16, XLA off), and tokens/s of the in-graph
tokenizer beside tensorflow_text's and keras-hub's on the same sentences and vocabulary.
"""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text as tf_text

from benchmarks.timing import measure
from tfnlp import models, objectives, training
from tfnlp.data import SentencePairs, TokenizedCorpus, read_documents
from tfnlp.text import WordPieceTokenizer, train_wordpiece, write_vocabulary

BATCHES = 20  # a call of the pipeline; opening an iterator is not to be measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", default=["book:the_secret_garden"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    documents = list(read_documents(arguments.input))
    sentences = [s for document in documents for s in document]
    tokens = train_wordpiece(sentences, 8000)
    tokenizer = WordPieceTokenizer(tokens)
    corpus = TokenizedCorpus.build(documents, tokenizer, progress=False)
    pipeline(corpus, tokenizer, arguments.rounds)
    tokenizers(sentences, tokens, tokenizer, len(corpus.tokens), arguments.rounds)


def pipeline(corpus, tokenizer, rounds):
    """Prints examples/s of pipeline and training step, and their ratio."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    encoder = models.bert(tokenizer.vocab_size, 4, 256, 4, 1024, seq_length=128)
    model = models.bert_pretrainer(encoder, max_predictions=20)
    trainer = training.Trainer(objectives.BertPretraining(model), training.AdamW(), 1e-4)
    keras.config.set_dtype_policy("float32")
    for whole_word in (False, True):
        pairs = SentencePairs(corpus, tokenizer, batch_size=32, whole_word=whole_word)
        batches = iter(pairs.dataset())
        steps = iter(tf.data.Dataset.from_tensors(pairs.batch(0)).repeat())

        def read(batches=batches):
            for _ in range(BATCHES):
                next(batches)

        def train(steps=steps):
            trainer.train_steps(steps, 1)["steps"].numpy()

        timings = measure({"read": read, "train": train}, rounds=rounds)
        reading, training_ = 32 * BATCHES / timings["read"], 32 / timings["train"]
        kind = "whole words" if whole_word else "word pieces"
        print(
            f"masking {kind}: pipeline {reading:8,.0f} examples/s, training step "
            f"{training_:5.0f} examples/s, ratio {reading / training_:6.0f}"
        )


def tokenizers(sentences, tokens, tokenizer, count, rounds):
    """Prints tokens/s of each tokenizer over the sentences, 512 a batch, two calls at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        write_vocabulary(path, tokens)
        theirs = tf_text.BertTokenizer(path, lower_case=True, token_out_type=tf.int32)
        fast = tf_text.FastBertTokenizer(
            tokens, lower_case_nfd_strip_accents=True, token_out_type=tf.int32
        )
        hub = keras_hub.tokenizers.WordPieceTokenizer(tokens, lowercase=True)
        candidates = {
            "tfnlp WordPieceTokenizer": tokenizer.tokenize,
            "tensorflow_text FastBertTokenizer": fast.tokenize,
            "tensorflow_text BertTokenizer": lambda x: theirs.tokenize(x).merge_dims(1, 2),
            "keras-hub WordPieceTokenizer": hub.tokenize,
        }
        # Ten times over: a new iterator compiles its regular expressions, which is not the point.
        batches = tf.data.Dataset.from_tensor_slices(sentences).batch(512).cache().repeat(10)

        def pass_over(tokenize):
            data = batches.map(lambda x: tf.size(tokenize(x).flat_values), num_parallel_calls=2)
            return lambda: sum(int(n) for n in data)

        calls = {name: pass_over(tokenize) for name, tokenize in candidates.items()}
        timings = measure(calls, rounds=rounds)
    ours = timings["tfnlp WordPieceTokenizer"]
    for name, timing in timings.items():
        speed = 10 * count / timing / 1e6
        ratio = timing / ours
        print(f"{name:36s}{speed:6.1f} M tokens/s, tfnlp is {ratio:5.2f} times as fast")


if __name__ == "__main__":
    main()
