"""The byte-pair tokenizers beside keras-hub's and Hugging Face's.

    python -m benchmarks.tokenizers [--vocabulary FOLDER] [--input FILE ...]

Prints tokens/s on batches of 512 lines, called one after the other and inside `tf.data` with two
calls at once, by wall clock and by CPU seconds (which neighbours on the machine disturb less), and
the ratios.  keras-hub remembers every word it has seen: "cold" is its first pass over the text
with a fresh tokenizer, "warm" the passes after.  Without --vocabulary one is trained on the text.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras_hub
import tensorflow as tf
import tokenizers

from benchmarks.timing import measure
from tfnlp.data import read_documents
from tfnlp.text import GPT2Tokenizer, gpt_tokenizer, train_bpe

BATCH = 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", default=["book:the_secret_garden"])
    parser.add_argument("--vocabulary", help="folder with encoder.json and vocab.bpe")
    parser.add_argument("--gpt", help="folder with GPT's vocabulary, to time its tokenizer, too")
    parser.add_argument("--lines", type=int, default=20 * BATCH)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    documents = read_documents(arguments.input)
    texts = [s for document in documents for s in document][: arguments.lines]
    ours = GPT2Tokenizer(arguments.vocabulary or train_bpe(texts, 8000))
    hub = keras_hub_tokenizer(ours)
    face = hugging_face_tokenizer(ours)
    batches = [tf.constant(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
    count = passing(ours.tokenize, batches)()
    cold(hub, batches, count)
    calls = {
        "tfnlp": passing(ours.tokenize, batches),
        "keras-hub, warm": passing(tf.function(hub), batches),
        "Hugging Face": lambda: sum(len(e.ids) for e in face.encode_batch(texts)),
    }
    if arguments.gpt:
        calls["tfnlp, GPT"] = passing(gpt_tokenizer(arguments.gpt).tokenize, batches)
    show("called", calls, count, arguments.rounds)
    calls = {
        "tfnlp": in_dataset(ours.tokenize, texts),
        "keras-hub, warm": in_dataset(hub, texts),
    }
    show("in tf.data", calls, 5 * count, arguments.rounds)


def keras_hub_tokenizer(ours):
    """keras-hub's tokenizer with the same vocabulary."""
    return keras_hub.tokenizers.BytePairTokenizer(
        {token: i for i, token in enumerate(ours.vocabulary)},
        [" ".join(merge) for merge in ours.merges],
    )


def hugging_face_tokenizer(ours):
    """Hugging Face's tokenizer with the same vocabulary."""
    vocabulary = {token: i for i, token in enumerate(ours.vocabulary)}
    face = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, ours.merges))
    face.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return face


def passing(tokenize, batches):
    """A pass over the batches that returns the number of tokens."""
    return lambda: sum(int(tf.size(tokenize(batch).flat_values)) for batch in batches)


def in_dataset(tokenize, texts):
    """A pass inside tf.data, five times over: a new iterator costs, which is not the point."""
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(BATCH).cache().repeat(5)
    data = batches.map(lambda x: tf.size(tokenize(x).flat_values), num_parallel_calls=2)
    return lambda: sum(int(n) for n in data)


def cold(hub, batches, count):
    """Prints the speed of keras-hub's first pass, its function traced on nothing."""
    tokenize = tf.function(hub, input_signature=[tf.TensorSpec([None], tf.string)])
    tokenize(tf.constant([""]))
    start, busy = time.perf_counter(), time.process_time()
    passing(tokenize, batches)()
    wall, busy = time.perf_counter() - start, time.process_time() - busy
    print(
        f"called      keras-hub, cold  {count / wall / 1e6:6.2f} M tokens/s, "
        f"{count / busy / 1e6:6.2f} M a CPU second"
    )


def show(how, calls, count, rounds):
    """Prints tokens/s of each, by wall clock and by CPU time, and how tfnlp compares."""
    timings = measure(calls, rounds=rounds)
    busy = {name: min(cpu_seconds(call) for _ in range(3)) for name, call in calls.items()}
    for name, timing in timings.items():
        print(
            f"{how:12s}{name:16s} {count / timing.median / 1e6:6.2f} M tokens/s, "
            f"{count / busy[name] / 1e6:6.2f} M a CPU second; tfnlp is "
            f"{timing.median / timings['tfnlp'].median:5.2f} times as fast, "
            f"{busy[name] / busy['tfnlp']:5.2f} by CPU time"
        )


def cpu_seconds(call):
    """Seconds that this process's threads computed during a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
