"""BERT here beside keras-hub's: inference and masked-LM training steps.

    python -m benchmarks.bert [--rounds 5] [--only inference] [--only 4x256]

Both libraries run in this process on the same inputs, in alternating blocks, each with and
without XLA; the faster of the two counts. Shares are of the peak that 2048 x 2048 matrix products
reach in the same run. Matrix products are counted, a multiply-add as two:

    encoder, a token:      L (2 (4 H^2 + 2 H F) + 4 T H)
    masked LM, a sequence: P 2 (H^2 + H V), and a training step is three forward passes
"""

import argparse
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.timing import measure
from tfnlp import models, tasks, training

VOCAB, LENGTH, PREDICTIONS = 30522, 128, 20
SIZES = {"4x256": (4, 256, 4), "12x768": (12, 768, 12)}
CASES = [
    ("inference", "12x768", 8, "float32"),
    ("inference", "12x768", 8, "mixed_bfloat16"),
    ("inference", "12x768", 8, "bfloat16"),
    ("inference", "4x256", 32, "float32"),
    ("inference", "4x256", 32, "mixed_bfloat16"),
    ("inference", "4x256", 32, "bfloat16"),
    ("training", "4x256", 32, "float32"),
    ("training", "4x256", 32, "mixed_bfloat16"),
    ("training", "12x768", 8, "float32"),
    ("training", "12x768", 8, "mixed_bfloat16"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="least length of a block")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Gradients do not exist")  # keras-hub's pooler
    print(f"{'':44s}{'tfnlp':>18s}{'keras-hub':>18s}{'ratio':>8s}{'share of peak':>16s}")
    for work, size, batch, dtype in CASES:
        name = f"{work} {size}, {batch} x {LENGTH}, {dtype}"
        if all(word in name for word in arguments.only):
            run(name, work, size, batch, dtype, arguments)


def run(name, work, size, batch, dtype, arguments):
    """Measures one case and prints its row."""
    keras.backend.clear_session()
    keras.config.set_dtype_policy(dtype)
    inputs = random_batch(batch)
    makers = (ours_inference, theirs_inference)
    if work == "training":
        makers = (ours_training, theirs_training)
    candidates = {
        (library, jit): make(SIZES[size], inputs, jit)
        for library, make in zip(("tfnlp", "keras-hub"), makers, strict=True)
        for jit in (False, True)
    }
    candidates["peak"] = matmul("float32" if dtype == "float32" else "bfloat16")
    timings = measure(candidates, rounds=arguments.rounds, seconds=arguments.seconds)

    peak = 2 * 2048**3 / timings.pop("peak").median
    best, cells = {}, []
    for library in ("tfnlp", "keras-hub"):
        jit = min((False, True), key=lambda jit: timings[library, jit].median)  # noqa: B023
        best[library] = batch / timings[library, jit].median
        cells.append(f"{best[library]:7.1f} seq/s{' XLA' if jit else '    '}")
    ratio = best["tfnlp"] / best["keras-hub"]
    share = flops(work, *SIZES[size]) * best["tfnlp"] / peak
    print(f"{name:44s}{cells[0]:>18s}{cells[1]:>18s}{ratio:8.2f}{share:16.2f}", flush=True)


def flops(work, layers, hidden, heads):
    """Floating-point operations a sequence."""
    encoder = LENGTH * layers * (2 * (4 * hidden**2 + 2 * hidden * 4 * hidden))
    encoder += LENGTH * layers * 4 * LENGTH * hidden
    head = PREDICTIONS * 2 * (hidden**2 + hidden * VOCAB)
    return encoder if work == "inference" else 3 * (encoder + head)


def random_batch(batch):
    """A full batch (no padding) as the masked-LM task takes it."""
    random = np.random.default_rng(0)
    shape = (batch, PREDICTIONS)
    return {
        "input_word_ids": tf.constant(random.integers(1000, VOCAB, (batch, LENGTH)), "int32"),
        "input_mask": tf.ones((batch, LENGTH), "int32"),
        "input_type_ids": tf.zeros((batch, LENGTH), "int32"),
        "masked_lm_positions": tf.constant(random.integers(1, LENGTH, shape), "int32"),
        "masked_lm_ids": tf.constant(random.integers(1000, VOCAB, shape), "int32"),
        "masked_lm_weights": tf.ones(shape),
    }


def ours_encoder(size):
    layers, hidden, heads = size
    return models.bert(VOCAB, layers, hidden, heads, 4 * hidden, pooler=False, seq_length=LENGTH)


def theirs_backbone(size):
    layers, hidden, heads = size
    return keras_hub.models.BertBackbone(
        VOCAB, layers, heads, hidden, 4 * hidden, dropout=0.1, max_sequence_length=512
    )


def ours_inference(size, batch, jit):
    encoder = ours_encoder(size)
    inputs = {name: batch[name] for name in encoder.input}
    function = tf.function(lambda x: encoder(x)["sequence_output"], jit_compile=jit)
    return lambda: function(inputs)[0, 0, 0].numpy()


def theirs_inference(size, batch, jit):
    backbone = theirs_backbone(size)
    inputs = theirs_inputs(batch)
    function = tf.function(lambda x: backbone(x)["sequence_output"], jit_compile=jit)
    return lambda: function(inputs)[0, 0, 0].numpy()


def theirs_inputs(batch):
    return {
        "token_ids": batch["input_word_ids"],
        "padding_mask": batch["input_mask"],
        "segment_ids": batch["input_type_ids"],
    }


def ours_training(size, batch, jit):
    model = models.bert_pretrainer(
        ours_encoder(size), next_sentence=False, max_predictions=PREDICTIONS
    )
    trainer = training.Trainer(
        tasks.BertPretraining(model), training.AdamW(), 1e-4, jit_compile=jit
    )
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    return lambda: trainer.train_steps(iterator, 1)["loss/masked_lm"].numpy()


def theirs_training(size, batch, jit):
    model = keras_hub.models.BertMaskedLM(theirs_backbone(size), preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, global_clipnorm=1.0)
    model.compile(optimizer, loss, jit_compile=jit)
    inputs = {**theirs_inputs(batch), "mask_positions": batch["masked_lm_positions"]}
    labels, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
    return lambda: model.train_on_batch(inputs, labels, sample_weight=weights)


def matmul(dtype):
    x = tf.cast(tf.random.stateless_normal((2048, 2048), (0, 1)), dtype)
    function = tf.function(lambda x: tf.matmul(x, x))
    return lambda: function(x)[0, 0].numpy()


if __name__ == "__main__":
    main()
