"""Other code for a TPU than for a CPU? Single layers at full size, through the TPU's compiler.

    python -m benchmarks.tpu_choices [--only lookup] [--write]

For each choice the same values and gradients are computed in two ways; printed are FLOP, bytes
through HBM, temporaries, the time that neither the arithmetic nor the memory can beat, and the sum
of the cycles that the compiler itself expects of a v5e (at 1.5 GHz; it has no estimate for gathers
and scatters). No TPU is needed, nor used: `pip install -e '.[tpu-plan]'`. With `--write` the table
goes into docs/plan.md.
"""

import argparse
from unittest import mock

import keras
import tensorflow as tf

from benchmarks.plan import write
from tfnlp.layers import Dropout
from tfnlp.layers import dropout as dropout_layer
from tfnlp.layers.char_cnn import FILTERS
from tfnlp.layers.kernels.char_maxima import maxima_by_place, plain_char_maxima
from tfnlp.layers.kernels.lstm_loop import trainable_lstm_loop
from tfnlp.layers.kernels.target import traced_for_tpu
from tfnlp.plan.chips import CHIPS
from tfnlp.plan.compiler import compile_for
from tfnlp.plan.lowering import lower_function

HIDDEN, VOCABULARY, ROWS, LENGTH, PREDICTIONS = 768, 30522, 32, 128, 20
FULL = 128  # rows that fill a chip


def spec(*shape, dtype="float32"):
    return tf.TensorSpec(shape, dtype)


def lookup(one_hot):
    """Token embeddings, forward and backward."""

    def function(table, ids, upstream):
        with tf.GradientTape() as tape:
            tape.watch(table)
            if one_hot:
                hot = tf.one_hot(tf.reshape(ids, [-1]), VOCABULARY, dtype="bfloat16")
                rows = tf.matmul(hot, tf.cast(table, "bfloat16"))
                y = tf.reshape(rows, (ROWS, LENGTH, HIDDEN))
            else:
                y = tf.cast(tf.gather(table, ids), "bfloat16")
        return y, tf.convert_to_tensor(tape.gradient(y, table, upstream))

    return function, (
        spec(VOCABULARY, HIDDEN),
        spec(ROWS, LENGTH, dtype="int32"),
        spec(ROWS, LENGTH, HIDDEN, dtype="bfloat16"),
    )


def masked_positions(one_hot):
    """The hidden vectors at the masked positions, forward and backward."""

    def function(hidden, positions, upstream):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            if one_hot:
                hot = tf.one_hot(positions, LENGTH, dtype="bfloat16")  # [B, P, T]
                y = tf.matmul(hot, hidden)  # [B, P, H]
            else:
                rows = positions + tf.range(ROWS)[:, None] * LENGTH
                flat = tf.reshape(hidden, (-1, HIDDEN))
                y = tf.gather(flat, tf.reshape(rows, [-1]))
                y = tf.reshape(y, (ROWS, PREDICTIONS, HIDDEN))
        return y, tf.convert_to_tensor(tape.gradient(y, hidden, upstream))

    return function, (
        spec(ROWS, LENGTH, HIDDEN, dtype="bfloat16"),
        spec(ROWS, PREDICTIONS, dtype="int32"),
        spec(ROWS, PREDICTIONS, HIDDEN, dtype="bfloat16"),
    )


def head(vocabulary):
    """Tied projection onto the vocabulary, cross entropy, and the gradients."""

    def function(hidden, table, bias, labels):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            product = tf.matmul(hidden, tf.cast(table, "bfloat16"), transpose_b=True)
            logits = tf.cast(product, "float32") + bias
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        return loss, *tape.gradient(loss, [hidden, table, bias])

    count = ROWS * PREDICTIONS
    return function, (
        spec(count, HIDDEN, dtype="bfloat16"),
        spec(vocabulary, HIDDEN),
        spec(vocabulary),
        spec(count, dtype="int32"),
    )


def lstm(unrolled, units=4096, size=512, batch=128, steps=20):
    """The recurrence of one of ELMo's LSTMs with its gradient, as a loop or step after step."""

    def function(gates, c, h, recurrent, projection, upstream):
        inputs = [gates, recurrent, projection]
        with traced_for_tpu(unrolled), tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs, last = trainable_lstm_loop(
                gates, c, h, recurrent, projection, None, None, (3.0, 3.0, 1.0)
            )
            gradients = tape.gradient(outputs, inputs, upstream)
        return outputs, last, *gradients

    return function, (
        spec(steps, batch, 4 * units, dtype="bfloat16"),
        spec(batch, units),
        spec(batch, size),
        spec(size, 4 * units, dtype="bfloat16"),
        spec(units, size, dtype="bfloat16"),
        spec(steps, batch, size),
    )


def characters(by_place, words=FULL * 2 * 20, length=50, size=16):
    """ELMo's filters over the characters of its words, and their maxima, with the gradients."""

    def function(x, upstream, *kernels):
        with tf.GradientTape() as tape:
            tape.watch([x, *kernels])
            y = (maxima_by_place if by_place else plain_char_maxima)(x, *kernels)
        return y, *tape.gradient(y, [x, *kernels], upstream)

    return function, (
        spec(length, words, size, dtype="bfloat16"),
        spec(words, sum(number for _, number in FILTERS), dtype="bfloat16"),
        *(spec(width, size, number, dtype="bfloat16") for width, number in FILTERS),
    )


def dropout(kept):
    """Dropout of attention probabilities, forward and backward; `kept` decides what is kept."""
    layer = Dropout(0.1, dtype="mixed_bfloat16")

    def function(x, seed, upstream):
        with (
            mock.patch.object(dropout_layer, "dropout_mask", kept),
            keras.StatelessScope([(layer.seed_generator.state, seed)]),
            tf.GradientTape() as tape,
        ):
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x, upstream)

    # Of a full chip: few rows would stay in its inner memory, whatever is done to them.
    probabilities = spec(FULL, 12, LENGTH, LENGTH, dtype="bfloat16")
    return function, (probabilities, spec(2, dtype="uint32"), probabilities)


def turn_by_turn(count, width, dropped, seed):
    """As `dropout_mask`, with the halves of a word where they lie in a CPU's memory."""
    draws = keras.random.randint((512 + count // 1024,), -(2**31), 2**31 - 1, "int32", seed)
    draws = tf.cast(draws, "uint32")
    words = draws[512:, None] ^ draws[None, :512]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        words ^= tf.bitwise.right_shift(words, shift)
        words *= tf.constant(factor, "uint32")
    halves = keras.ops.reshape(keras.ops.view(words, "uint16"), (-1,))
    return keras.ops.reshape(halves[:count], (-1, width)) >= dropped


def search(halving, words=793471, samples=8192):
    """Which word each of ELMo's samples is: the first whose cumulated count exceeds it."""

    def function(ends, places):
        if not halving:
            return tf.searchsorted(ends, places, side="right")
        low, high = tf.zeros_like(places), tf.fill(tf.shape(places), words)
        for _ in range(words.bit_length()):
            middle = (low + high) // 2
            above = tf.gather(ends, tf.minimum(middle, words - 1)) <= places
            low = tf.where(above & (low < high), middle + 1, low)
            high = tf.where(above, high, middle)
        return low

    return function, (spec(words, dtype="int32"), spec(samples, dtype="int32"))


CHOICES = {
    "lookup": (
        f"token embeddings, {ROWS} x {LENGTH} of {VOCABULARY:,} x {HIDDEN}",
        {"gather": lookup(False), "one-hot product": lookup(True)},
    ),
    "masked": (
        f"{PREDICTIONS} masked positions of {ROWS} x {LENGTH} x {HIDDEN}",
        {"gather": masked_positions(False), "one-hot product": masked_positions(True)},
    ),
    "head": (
        f"masked-LM head, {ROWS * PREDICTIONS} positions",
        {"30,522 words": head(30522), "30,592 (128 x 239)": head(30592)},
    ),
    "lstm": (
        "recurrence 4096/512, 128 x 20",
        {"loop": lstm(False), "unrolled": lstm(True)},
    ),
    "characters": (
        "filters of 5,120 words of 50 characters",
        {"width by width": characters(False), "place by place": characters(True)},
    ),
    "search": (
        "8,192 samples among 793,471 words",
        {"searchsorted": search(False), "halving, 20 gathers": search(True)},
    ),
    "dropout": (
        f"dropout of {FULL} x 12 x {LENGTH} x {LENGTH} probabilities",
        {
            "halves of a word turn by turn": dropout(turn_by_turn),
            "low halves, then high ones": dropout(dropout_layer.dropout_mask),
        },
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=list(CHOICES), action="append")
    parser.add_argument("--write", action="store_true", help="into docs/plan.md")
    args = parser.parse_args()
    lines = [
        "| what | how | GFLOP | MB through HBM | temporaries, MB | at least, ms | expected, ms |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for name in args.only or CHOICES:
        what, ways = CHOICES[name]
        for way, (function, specs) in ways.items():
            compiled = compile_for(CHIPS["v5e"], lower_function(function, specs))
            if not compiled.fits:
                raise SystemExit(f"{name}, {way}: {compiled.refusal or 'does not fit'}")
            memory, chip = compiled.memory, CHIPS["v5e"]
            floor = max(compiled.flops / chip.flops, compiled.hbm_bytes / chip.bandwidth)
            lines.append(
                f"| {what} | {way} | {compiled.flops / 1e9:.1f} | {compiled.hbm_bytes / 1e6:.0f} | "
                f"{memory['temp'] / 1e6:.0f} | {1e3 * floor:.2f} | "
                f"{1e3 * compiled.cycles / chip.clock:.2f} |"
            )
            print(lines[-1], flush=True)
    if args.write:
        write("docs/plan.md", "choices", "\n".join(lines))


if __name__ == "__main__":
    main()
