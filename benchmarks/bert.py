"""BERT here beside keras-hub's: inference and masked-LM training steps.

    python -m benchmarks.bert [--rounds 5] [--only inference] [--only 4x256] [--graphs plain XLA]
        [--peer-python PYTHON]

Both libraries run in this process on the same inputs, in alternating blocks, each with and
without XLA; the faster of the two counts. With `--peer-python` Hugging Face transformers takes the
same training steps (`benchmarks/hugging_face.py`), in processes of its own. Shares are of the peak
that 2048 x 2048 matrix products reach in the same run, of the products that `cases` counts.
"""

import argparse
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import tensorflow as tf

from benchmarks import cases, turns
from benchmarks.timing import PEAK_FLOPS, measure, peak
from tfnlp import models, objectives, training

VOCAB, PREDICTIONS = cases.VOCAB["bert"], 20
DTYPES = ("float32", "mixed_bfloat16", "bfloat16")
CASES = [  # work, size, rows, tokens, dtypes
    ("inference", "12x768", 8, 128, DTYPES),
    ("inference", "4x256", 32, 128, DTYPES),
    ("training", "4x256", 32, 128, DTYPES[:2]),
    ("training", "12x768", 8, 128, DTYPES[:2]),
    ("training", "12x768", 2, 512, DTYPES[:2]),
]
GRAPHS = {"plain": False, "XLA": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="least length of a block")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--peer-python", metavar="PYTHON", help="with torch and transformers")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Gradients do not exist")  # keras-hub's pooler
    print("seq/s, the faster of", *arguments.graphs)
    for work, size, rows, length, dtypes in CASES:
        for dtype in dtypes:
            name = f"{work} {size}, {rows} x {length}, {dtype}"
            if all(word in name for word in arguments.only):
                run(name, work, size, rows, length, dtype, arguments)


def run(name, work, size, rows, length, dtype, arguments):
    """Measures one case and prints its row."""
    keras.backend.clear_session()
    keras.config.set_dtype_policy(dtype)
    case = {**cases.SIZES[size], "family": "bert", "vocab": VOCAB, "rows": rows, "length": length,
            "predictions": PREDICTIONS, "dtype": dtype}  # fmt: skip
    batch = {name: tf.constant(x) for name, x in cases.batch_of(case).items()}
    makers = (ours_inference, theirs_inference)
    if work == "training":
        makers = (ours_training, theirs_training)
    candidates = {
        f"{library} {graph}": make(case, batch, GRAPHS[graph])
        for library, make in zip(("tfnlp", "keras-hub"), makers, strict=True)
        for graph in arguments.graphs
    }
    peers = {}
    if work == "training" and arguments.peer_python:
        peers = turns.hugging_face(arguments.peer_python, case)
    candidates.update({peer: child.turn for peer, child in peers.items()})
    candidates["peak"] = peak("float32" if dtype == "float32" else "bfloat16")
    seconds = measure(candidates, arguments.rounds, arguments.seconds)
    for child in peers.values():
        child.close()

    rate = PEAK_FLOPS / seconds.pop("peak")
    best = {}  # library to (sequences a second, mode)
    for candidate, each in seconds.items():
        library, _, mode = candidate.rpartition(" ")
        best[library] = max(best.get(library, (0.0, "")), (rows / each, mode))
    ours = best["tfnlp"][0]
    cells = [
        f"{library} {each:.1f} {mode}" + (f" = {ours / each:.2f}" if library != "tfnlp" else "")
        for library, (each, mode) in best.items()
    ]
    flops = cases.encoder_flops(case) if work == "inference" else cases.step_flops(case)
    share = flops / rows * ours / rate
    print(f"{name}: {', '.join(cells)}; {share:.2f} of peak", flush=True)


def ours_encoder(case):
    sizes = case["layers"], case["hidden"], case["heads"], 4 * case["hidden"]
    return models.bert(VOCAB, *sizes, pooler=False, seq_length=case["length"])


def theirs_backbone(case):
    sizes = case["layers"], case["heads"], case["hidden"], 4 * case["hidden"]
    return keras_hub.models.BertBackbone(VOCAB, *sizes, dropout=0.1, max_sequence_length=512)


def ours_inference(case, batch, jit):
    encoder = ours_encoder(case)
    return inference(encoder, {name: batch[name] for name in encoder.input}, jit)


def theirs_inference(case, batch, jit):
    return inference(theirs_backbone(case), theirs_inputs(batch), jit)


def inference(encoder, inputs, jit):
    function = tf.function(lambda x: encoder(x)["sequence_output"], jit_compile=jit)
    return lambda: function(inputs)[0, 0, 0].numpy()


def theirs_inputs(batch):
    return {
        "token_ids": batch["input_word_ids"],
        "padding_mask": batch["input_mask"],
        "segment_ids": batch["input_type_ids"],
    }


def ours_training(case, batch, jit):
    model = models.bert_pretrainer(
        ours_encoder(case), next_sentence=False, max_predictions=PREDICTIONS
    )
    trainer = training.Trainer(
        objectives.BertPretraining(model), training.AdamW(), 1e-4, jit_compile=jit
    )
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    return lambda: trainer.train_steps(iterator, 1)["loss/masked_lm"].numpy()


def theirs_training(case, batch, jit):
    model = keras_hub.models.BertMaskedLM(theirs_backbone(case), preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, global_clipnorm=1.0)
    model.compile(optimizer, loss, jit_compile=jit)
    inputs = {**theirs_inputs(batch), "mask_positions": batch["masked_lm_positions"]}
    labels, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
    return lambda: model.train_on_batch(inputs, labels, sample_weight=weights)


if __name__ == "__main__":
    main()
