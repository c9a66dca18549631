"""ELMo inference here beside a plain torch implementation with the same weights.

    python -m benchmarks.elmo [--text FILE] [--size small] [--rounds 5]

torch must be installed. Both run in this process, on the same batches of sentences of 24 words, in
alternating blocks; `--bf16` lets tfnlp take its matrix products in bfloat16, torch stays float32.
torch gets character ids; tfnlp gets strings and makes the ids itself. `distinct` are random words,
none twice; `text` is running text, on which a character network that sees each distinct word once
has less to do; with `cache` the vectors of the text's words are known beforehand. Shares are of the
peak that 2048 x 2048 float32 matrix products reach in the same run, counting the multiplications
that torch does: a multiply-add as two, 50 characters a word.
"""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf
import torch

from benchmarks.elmo_torch import TorchElmo
from benchmarks.timing import measure
from tfnlp import books, hub, models
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, character_ids, split_words

WORDS, BATCHES = 24, 8
SIZES = {"small": models.ELMO_SMALL, "original": models.ELMO_ORIGINAL}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", help="tokenized text, words between spaces (default: a book)")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rows", type=int, default=16, help="sentences a batch")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="least length of a block")
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    encoder = models.elmo(**SIZES[arguments.size])
    ours = encoder
    if arguments.bf16:
        ours = models.elmo(**SIZES[arguments.size], dtype="mixed_bfloat16")
        ours.set_weights(encoder.get_weights())
    text = _text(arguments.text, arguments.rows)
    distinct = _distinct_words(arguments.rows)
    inputs = {"distinct": distinct, "text": text}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{w}\n" for w in sorted({*text.ravel(), "<S>", "</S>"})))
        modules = {
            "distinct": hub.ElmoModule(ours),
            "text": hub.ElmoModule(ours),
            "text, cache": hub.ElmoModule(ours, cache=path),
        }
    candidates = {name: _ours(m, inputs[name.split(",")[0]]) for name, m in modules.items()}
    for clip in (False, True):
        peer = TorchElmo(encoder, clip)
        candidates[f"torch{', clips' if clip else ''}"] = _theirs(peer, text)
    _check(modules["distinct"], peer, text[0], 0.05 if arguments.bf16 else 1e-4)
    candidates["peak"] = _peak()
    timings = measure(candidates, arguments.rounds, arguments.seconds)
    peak = 2 * 2048**3 / timings.pop("peak").median
    words = text.size
    baseline = max(words / t.median for name, t in timings.items() if name.startswith("torch"))
    flops = _flops_a_word(encoder) * (WORDS + 2) / WORDS
    share = len(np.unique(text[0])) / text[0].size
    print(f"{arguments.size}: peak {peak / 1e9:.0f} GFLOP/s; text: {share:.0%} of a batch's words")
    print(f"{'':16s}{'words/s':>10s}{'over torch':>12s}{'share of peak':>15s}{'clean':>8s}")
    for name, timing in timings.items():
        speed = words / timing.median
        print(
            f"{name:16s}{speed:10.0f}{speed / baseline:12.2f}{speed * flops / peak:15.2f}"
            f"{timing.clean:5d}/{timing.blocks}"
        )


def _distinct_words(rows):
    """Random words as long as English ones, `[BATCHES, rows, WORDS]`, none twice in a batch."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(BATCHES):
        words = set()
        while len(words) < rows * WORDS:
            letters = rng.integers(97, 123, min(48, 3 + rng.poisson(2.7)), dtype=np.uint8)
            words.add(letters.tobytes().decode())
        batches.append(np.array(sorted(words)).reshape(rows, WORDS))
    return np.stack(batches)


def _text(path, rows):
    """Consecutive words of a text, `[BATCHES, rows, WORDS]`."""
    with open(path or books.path("the_secret_garden"), encoding="utf-8") as file:
        text = file.read()
    words = (text if path else split_words(text)).split()
    return np.array(words[: BATCHES * rows * WORDS]).reshape(BATCHES, rows, WORDS)


def _ours(module, batches):
    lengths = tf.fill(batches.shape[1:2], WORDS)
    batches = [{"tokens": tf.constant(b), "sequence_len": lengths} for b in batches]

    def run():
        for batch in batches:
            module(batch)["elmo"].numpy()

    return run


def _characters(words):
    """Character ids of one batch with its marks, `[rows, WORDS + 2, 50]`."""
    begin, end = (np.full((len(words), 1), mark) for mark in (BEGIN_OF_SENTENCE, END_OF_SENTENCE))
    return character_ids(np.concatenate([begin, words, end], 1)).numpy()


def _theirs(peer, batches):
    ids = [torch.from_numpy(_characters(b)).long() for b in batches]

    def run():
        with torch.inference_mode():
            for batch in ids:
                peer(batch)

    return run


def _check(module, peer, words, limit):
    """Both must compute the same before their speeds mean anything."""
    ours = module({"tokens": tf.constant(words), "sequence_len": tf.fill([len(words)], WORDS)})
    with torch.inference_mode():
        theirs = peer(torch.from_numpy(_characters(words)).long()).numpy()[:, 2, 1:-1]
    difference = np.abs(ours["lstm_outputs2"].numpy() - theirs).max()
    print(f"largest difference of the top layer to torch's: {difference:.1e}")
    if difference > limit:
        raise ValueError(f"tfnlp and torch differ by {difference}")


def _flops_a_word(encoder):
    cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")
    convolutions = sum((50 - w + 1) * w * cnn.embedding_size * n * 2 for w, n in cnn.filters)
    highways = cnn.num_highway * 2 * 2 * cnn.num_filters**2
    projection = 2 * cnn.num_filters * bilm.projection_size
    cell = 2 * 2 * bilm.projection_size * 4 * bilm.units + 2 * bilm.units * bilm.projection_size
    return convolutions + highways + projection + 2 * bilm.num_layers * cell


def _peak():
    a = tf.random.stateless_normal((2048, 2048), (1, 2))
    return lambda: tf.matmul(a, a)[0, 0].numpy()


if __name__ == "__main__":
    main()
