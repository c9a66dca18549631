"""A cell of `benchmarks.engines`: the step of tfnlp's trainer on the backend of Keras."""

import itertools
import json
import sys
import time

import keras

from benchmarks.engines import PREDICTIONS, SIZES, VOCAB, batch_of, take_turns
from tfnlp import models, tasks, training


def main():
    case = json.loads(sys.argv[1])
    dtype = "float32" if case["dtype"] == "float32" else f"mixed_{case['dtype']}"
    keras.config.set_dtype_policy(dtype)
    layers, hidden, heads = SIZES[case["size"]]
    encoder = models.bert(
        VOCAB, layers, hidden, heads, 4 * hidden, seq_length=case["length"]
    )  # dropout 0.1
    model = models.bert_pretrainer(encoder, max_predictions=PREDICTIONS)
    trainer = training.Trainer(
        tasks.BertPretraining(model), training.AdamW(), 1e-4, jit_compile=case["jit_compile"]
    )
    batch = batch_of(case)
    if case["backend"] == "jax":
        batches = itertools.repeat(batch)
    else:
        import tensorflow as tf

        batches = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def step():
        totals = {k: float(v) for k, v in trainer.train_steps(batches, 1).items()}
        loss = sum(
            totals[f"loss/{k}"] / totals[f"count/{k}"] for k in ("masked_lm", "next_sentence")
        )
        return {"loss": loss}

    take_turns(case, step, lambda: peak(case["dtype"]))


def peak(dtype):
    """The operations a second of products of square matrices, the best of some."""
    x = keras.random.normal((2048, 2048), dtype=dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        float(keras.ops.max(keras.ops.matmul(x, x)))
        times.append(time.perf_counter() - start)
    return 2 * 2048**3 / min(times)


if __name__ == "__main__":
    main()
