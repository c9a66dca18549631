"""Training, forward passes and writing on a GPU, beside Hugging Face transformers compiled.

    python -m benchmarks.gpu [--only bert] [--output runs/gpu]

tfnlp on JAX: the engine's step in `mixed_bfloat16`, forward passes and greedy writing with bfloat16
weights. Beside it, on the same machine and in the same run, transformers through `torch.compile`
with its SDPA attention, under bfloat16 autocast, with fused AdamW; `generate` has a static cache.
Both clip the gradient to a global norm of 1; dropout is 0.1 everywhere, also of the attention's
probabilities; BERT's vocabulary head sees the masked positions alone. Every case of either is a
process of its own, with a limit of time; batches are on the device for torch and on the host for
tfnlp. Runs without TensorFlow and without a network.

A speed is the median of five blocks of steps. `TFLOP/s` counts the products of the model alone,
three times those of a forward pass for a step.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from benchmarks.cases import SIZES, VOCAB, batch_of, encoder_flops, step_flops

BERT = {**SIZES["12x768"], "family": "bert", "vocab": VOCAB["bert"], "dtype": "bfloat16"}
GPT = {**BERT, "family": "gpt", "vocab": VOCAB["gpt"]}
CASES = {
    "BERT-base step, 32 x 512": {**BERT, "work": "train", "rows": 32, "length": 512},
    "BERT-base step, 256 x 128": {**BERT, "work": "train", "rows": 256, "length": 128},
    "GPT-2 small step, 8 x 1024": {**GPT, "work": "train", "rows": 8, "length": 1024},
    "BERT-base forward, 256 x 128": {**BERT, "work": "run", "rows": 256, "length": 128},
    "BERT-base forward, 64 x 512": {**BERT, "work": "run", "rows": 64, "length": 512},
    **{
        f"GPT-2 small writes 128 after 64, {rows} prompts": {
            **GPT, "work": "write", "rows": rows, "length": 192, "prompt": 64,
        }
        for rows in (1, 8, 64)
    },
}  # fmt: skip
TINY = {"layers": 1, "hidden": 32, "heads": 2, "rows": 2, "length": 32, "prompt": 8}
RATE = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--limit", type=float, default=300, help="seconds of a process")
    parser.add_argument("--block", type=float, default=1.0, help="seconds of a block of steps")
    parser.add_argument("--trace", metavar="DIR", help="for a profile of three steps of tfnlp's")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the script")
    parser.add_argument("--output", default="runs/gpu", metavar="DIR")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        side, case = json.loads(args.child)
        print(json.dumps(SIDES[side](case)), flush=True)
        return
    output = pathlib.Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine()}
    for name, case in CASES.items():
        if not all(word in name for word in args.only):
            continue
        case = {**case, **(TINY if args.tiny else {}), "block": args.block, "trace": args.trace}
        case["predictions"] = max(1, round(case["length"] * 0.15))
        found[name] = {side: child(side, case, args.limit, output) for side in args.sides}
        print(row(name, found[name]), flush=True)
        (output / "gpu.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(table(found))


def child(side, case, limit, output):
    """What a process of its own has measured, or its error."""
    told = json.dumps([side, case])
    command = [sys.executable, "-m", "benchmarks.gpu", "--child", told]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    with open(output / f"{side}.log", "a", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, env=environment, timeout=limit,
                text=True, check=True,
            )  # fmt: skip
        except subprocess.SubprocessError as error:
            return {"error": type(error).__name__}
    return json.loads(done.stdout.splitlines()[-1])


def machine():
    """The GPU's name, as its driver says it."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no NVIDIA GPU"


def table(found):
    """The table of all cases."""
    lines = [
        f"{found['machine']}; sequences a second, TFLOP/s, GiB, seconds to compile",
        "| work, bfloat16 | tfnlp | transformers compiled | ratio |",
        "|---|---:|---:|---:|",
    ]
    return "\n".join([*lines, *(row(*item) for item in found.items() if item[0] != "machine")])


def row(name, sides):
    cells = []
    for side in SIDES:
        got = sides.get(side, {"error": ""})
        cells.append(got.get("error") if "error" in got else (
            f"{got['rate']:,.0f} ({got['tflops']:.0f}, {got['memory']:.1f}, {got['first']:.0f})"
        ))  # fmt: skip
    rates = [sides.get(side, {}).get("rate") for side in SIDES]
    cells.append(f"{rates[0] / rates[1]:.2f}" if all(rates) else "")
    return f"| {name} | {' | '.join(cells)} |"


def measured(case, call, wait):
    """Sequences a second of `call`, whose results `wait` waits for; seconds of the first call."""
    start = time.perf_counter()
    wait(call())
    first = time.perf_counter() - start
    for _ in range(3):
        start = time.perf_counter()
        wait(call())
        one = time.perf_counter() - start
    steps, blocks = max(2, round(case["block"] / one)), []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(steps):
            result = call()
        wait(result)
        blocks.append((time.perf_counter() - start) / steps)
    seconds = statistics.median(blocks)
    return {
        "rate": case["rows"] / seconds, "ms": seconds * 1e3, "first": first,
        "tflops": flops(case) / seconds / 1e12,
    }  # fmt: skip


def flops(case):
    """Operations of the products of a call."""
    if case["work"] == "train":
        return step_flops(case)
    head = 0
    if case["work"] == "write":
        written = case["length"] - case["prompt"]
        head = case["rows"] * 2 * written * case["hidden"] * case["vocab"]
    return encoder_flops(case) + head


def tfnlp(case):
    """One case of tfnlp's, in this process."""
    import jax
    import keras

    policy = "mixed_bfloat16" if case["work"] == "train" else "bfloat16"
    keras.config.set_dtype_policy(policy)
    call = {"train": tfnlp_step, "run": tfnlp_forward, "write": tfnlp_writing}[case["work"]](case)
    found = measured(case, call, jax.block_until_ready)
    if case["trace"]:
        with jax.profiler.trace(case["trace"]):
            jax.block_until_ready([call() for _ in range(3)])
    memory = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    return {**found, "memory": memory / 2**30}


def tfnlp_model(case, **settings):
    from tfnlp import models

    sizes = {"num_layers": case["layers"], "hidden_size": case["hidden"]}
    sizes |= {"num_heads": case["heads"], "intermediate_size": 4 * case["hidden"]}
    sizes |= {"vocab_size": case["vocab"], "seq_length": case["length"], **settings}
    if case["family"] == "bert":
        return models.bert(**sizes)
    return models.gpt(**{**models.GPT2_SMALL, **sizes, "max_positions": case["length"]})


def tfnlp_step(case):
    from tfnlp import models, objectives, training
    from tfnlp.training.engines.jax import JaxEngine
    from tfnlp.training.engines.jax_devices import JaxDevices
    from tfnlp.training.engines.step import StepSettings

    encoder = tfnlp_model(case, dropout=RATE, attention_dropout=RATE)
    if case["family"] == "bert":
        model = models.bert_pretrainer(encoder, max_predictions=case["predictions"])
        objective = objectives.BertPretraining(model)
    else:
        model = models.gpt_pretrainer(encoder)
        objective = objectives.GPTPretraining(model)
    names = {*model.input, "targets", "weights", "masked_lm_ids", "masked_lm_weights",
             "next_sentence_labels"}  # fmt: skip
    batch = {name: x for name, x in batch_of(case).items() if name in names}
    optimizer = training.AdamW()
    optimizer.build(model.trainable_variables)
    settings = StepSettings(
        objective=objective, optimizer=optimizer, rate=lambda step: 1e-4, clip_norm=1.0,
        accumulation=1, steps_per_call=1, jit_compile=True, seed=0, loss_scale=1.0,
        layer_rates=None,
    )  # fmt: skip
    engine, batches = JaxEngine(settings, JaxDevices()), itertools.repeat(batch)
    return lambda: engine.train(batches, 1)


def tfnlp_forward(case):
    import jax

    encoder = tfnlp_model(case)
    batch = {name: jax.device_put(x) for name, x in batch_of(case).items() if name in encoder.input}
    groups = encoder.trainable_variables, encoder.non_trainable_variables
    weights = [[v.value for v in group] for group in groups]

    @jax.jit
    def forward(weights, batch):
        return encoder.stateless_call(*weights, batch, training=False)[0]["pooled_output"]

    return lambda: forward(weights, batch)


def tfnlp_writing(case):
    import jax
    import keras

    from tfnlp import models

    model = models.gpt_pretrainer(tfnlp_model(case))
    decoder, variables = models.GPTDecoder(model), model.variables
    written = case["length"] - case["prompt"]
    ids = jax.device_put(prompts(case))

    @jax.jit
    def write(weights, ids):
        with keras.StatelessScope(state_mapping=list(zip(variables, weights, strict=True))):
            return models.generate(decoder, ids, ids >= 0, written)

    weights = [v.value for v in variables]
    return lambda: write(weights, ids)


def prompts(case):
    return batch_of(case)["input_ids"][:, : case["prompt"]]


def transformers(case):
    """One case of Hugging Face's, in this process."""
    import torch

    from benchmarks import hugging_face

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    if case["work"] == "train":
        model = hugging_face.model_of(case, hugging_face.BertForPreTraining)
        call = hugging_face.step_of(case, model, compiled=True, device=device)
    elif case["work"] == "run":
        call = hugging_face.forward_of(case, device)
    else:
        model = hugging_face.model_of(case).to(device).eval().bfloat16()
        ids = torch.from_numpy(prompts(case)).to(device).long()
        call = hugging_face.writer_of(model, ids, case["length"] - case["prompt"])
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = measured(case, call, lambda result: wait())
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return {**found, "memory": memory / 2**30}


SIDES = {"tfnlp": tfnlp, "transformers": transformers}

if __name__ == "__main__":
    main()
