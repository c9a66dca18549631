"""A cell of `benchmarks.engines`: the step of tfnlp's trainer on the backend of Keras."""

import itertools
import json
import sys

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
        from tfnlp.training.engines.jax_machine import JaxMachine

        batches, machine = itertools.repeat(batch), JaxMachine(trainer.strategy)
    else:
        import tensorflow as tf

        from tfnlp.training.monitor import TensorFlowMachine

        batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
        machine = TensorFlowMachine(trainer.strategy, model)

    def step():
        totals = {k: float(v) for k, v in trainer.train_steps(batches, 1).items()}
        loss = sum(
            totals[f"loss/{k}"] / totals[f"count/{k}"] for k in ("masked_lm", "next_sentence")
        )
        return {"loss": loss, "flops": totals["work/flops"]}

    take_turns(case, step, lambda: machine.matmul_rate(case["dtype"], again=True))


if __name__ == "__main__":
    main()
