"""GPT-2 writing and training here beside keras-hub's GPT-2 and Hugging Face's.

    python -m benchmarks.gpt [--work generate] [--work train] [--rounds 3] [--bf16]
        [--peer-python PYTHON]

keras-hub runs in this process, and so does Hugging Face's generation where torch and transformers
are installed; its training runs in processes of its own with `--peer-python`. Blocks alternate.
`generate`: 12 layers x 768, random weights, prompts of 32 tokens, 64 new ones, greedy and drawn
from the 50 most probable, 1 and 8 prompts at a time. `train`: one update of 4 x 256, 16 x 128
tokens, a vocabulary of 40,000, dropout 0.1, AdamW. Each library runs compiled and not; what counts
is its faster mode. `--bf16` lets the TensorFlow libraries hold (train: compute with) weights of
bfloat16, and so does Hugging Face. A read of all weights for each token is what the memory can give
at best; the share is of the rate at which a sum over an array of 512 MB runs.
"""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks import cases, turns
from benchmarks.timing import PEAK_FLOPS, measure, peak
from tfnlp import checkpoints, models, objectives, training

PROMPT, NEW, VOCAB = 32, 64, models.GPT2_SMALL["vocab_size"]
ROWS = (1, 8)
_BYTES = 2**29  # of the array whose sum measures the memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", action="append", choices=["generate", "train"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="least length of a block")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--peer-python", metavar="PYTHON", help="with torch and transformers")
    arguments = parser.parse_args()
    for work in arguments.work or ["generate", "train"]:
        {"generate": _generate, "train": _train}[work](arguments)


def _generate(arguments):
    policy = "bfloat16" if arguments.bf16 else "float32"
    rng = np.random.default_rng(0)
    prompts = {rows: rng.integers(0, VOCAB, (rows, PROMPT)).astype("int32") for rows in ROWS}
    model = models.gpt(**models.GPT2_SMALL, dtype=policy)
    decoder = models.GPTDecoder(model)
    backbone = keras_hub.models.GPT2Backbone(
        VOCAB, num_layers=12, num_heads=12, hidden_dim=768, intermediate_dim=3072, dtype=policy
    )
    others = _torch(model, arguments.bf16)
    for rows, ids in prompts.items():
        for kind in ("greedy", "top 50"):
            candidates = {}
            for jit in (False, True):
                how = "compiled" if jit else "plain"
                candidates[f"tfnlp {how}"] = _ours(decoder, ids, kind, jit)
                candidates[f"keras-hub {how}"] = _keras_hub(backbone, ids, kind, jit)
            if others is not None:
                candidates["Hugging Face"] = _hugging_face(others, ids, kind)
            candidates["sum"] = _sum()
            timings = measure(candidates, arguments.rounds, arguments.seconds, warm=1)
            rate = _BYTES / timings.pop("sum")
            floor = model.count_params() * (2 if arguments.bf16 else 4) / rate  # seconds a token
            print(f"generate, {policy}, {rows} prompt(s), {kind}; memory {rate / 1e9:.1f} GB/s")
            _report(timings, rows * NEW, "tokens/s", lambda t, f=floor: f * NEW / t)


def _ours(decoder, ids, kind, jit):
    settings = dict(temperature=0.0) if kind == "greedy" else dict(temperature=1.0, top_k=50)
    ids, mask, seeds = tf.constant(ids), tf.ones(ids.shape, "bool"), tf.range(len(ids))

    @tf.function(jit_compile=jit)
    def run(ids, mask, seeds):
        return models.generate(decoder, ids, mask, NEW, seeds=seeds, **settings)

    return lambda: run(ids, mask, seeds).numpy()


def _keras_hub(backbone, ids, kind, jit):
    sampler = "greedy" if kind == "greedy" else keras_hub.samplers.TopKSampler(k=50)
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(sampler=sampler, jit_compile=jit)
    padded = np.zeros((len(ids), PROMPT + NEW), "int32")
    padded[:, :PROMPT] = ids
    mask = np.zeros_like(padded)
    mask[:, :PROMPT] = 1
    inputs = dict(token_ids=padded, padding_mask=mask)
    return lambda: model.generate(inputs, stop_token_ids=None)


def _torch(model, bf16):
    """Hugging Face's model with the same weights, or None where it is not installed."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(os.cpu_count())
    with tempfile.TemporaryDirectory() as folder:
        source = models.gpt(**models.GPT2_SMALL)
        source.set_weights(model.get_weights())
        checkpoints.save_gpt(os.path.join(folder, "m"), models.gpt_pretrainer(source))
        theirs = transformers.GPT2LMHeadModel.from_pretrained(os.path.join(folder, "m")).eval()
    theirs.generation_config.eos_token_id = None
    theirs.generation_config.pad_token_id = 0
    return theirs.bfloat16() if bf16 else theirs.float()


def _hugging_face(model, ids, kind):
    import torch

    ids = torch.from_numpy(ids.astype("int64"))
    settings = dict(do_sample=False) if kind == "greedy" else dict(do_sample=True, top_k=50)

    def run():
        with torch.inference_mode():
            model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW,
                min_new_tokens=NEW, use_cache=True, **settings,
            )  # fmt: skip

    return run


def _train(arguments):
    policy = "mixed_bfloat16" if arguments.bf16 else "float32"
    case = {**cases.SIZES["4x256"], "family": "gpt", "vocab": 40_000, "rows": 16, "length": 128,
            "dtype": policy}  # fmt: skip
    batch = cases.batch_of(case)
    candidates = {}
    for jit in (False, True):
        how = "compiled" if jit else "plain"
        encoder = models.gpt(
            case["vocab"], **models.GPT_MINI, max_positions=512, seq_length=128, dtype=policy
        )
        task = objectives.GPTPretraining(models.gpt_pretrainer(encoder))
        trainer = training.Trainer(task, training.AdamW(), 1e-4, clip_norm=None, jit_compile=jit)
        steps = iter(tf.data.Dataset.from_tensors(batch).repeat())
        candidates[f"tfnlp {how}"] = lambda t=trainer, s=steps: float(
            t.train_steps(s, 1)["loss/lm"]
        )
        candidates[f"keras-hub {how}"] = _keras_hub_step(batch, case["vocab"], jit, policy)
    peers = {}
    if arguments.peer_python:
        peers = turns.hugging_face(arguments.peer_python, case, clip_norm=None)
    candidates.update({name: child.turn for name, child in peers.items()})
    candidates["peak"] = peak("bfloat16" if arguments.bf16 else "float32")
    timings = measure(candidates, arguments.rounds, arguments.seconds)
    for child in peers.values():
        child.close()
    rate = PEAK_FLOPS / timings.pop("peak")
    print(f"train, {policy}; peak {rate / 1e9:.0f} GFLOP/s")
    floor = cases.step_flops(case) / rate
    _report(timings, case["rows"] * case["length"], "tokens/s", lambda t: floor / t)


def _keras_hub_step(batch, vocab, jit, policy):
    backbone = keras_hub.models.GPT2Backbone(
        vocab, num_layers=4, num_heads=4, hidden_dim=256, intermediate_dim=1024,
        max_sequence_length=512, dropout=0.1, dtype=policy,
    )  # fmt: skip
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.AdamW(1e-4),
        jit_compile=jit,
    )
    inputs = dict(token_ids=batch["input_word_ids"], padding_mask=batch["input_mask"])
    return lambda: model.train_on_batch(inputs, batch["targets"])


def _report(timings, amount, unit, share):
    def speed(name):
        return amount / timings[name]

    for name, seconds in timings.items():
        print(f"  {name:20s}{speed(name):10.1f} {unit}  share {share(seconds):.2f}")
    best = max(speed(name) for name in timings if name.startswith("tfnlp"))
    for peer in ("Hugging Face", "keras-hub"):
        rates = [speed(name) for name in timings if name.startswith(peer)]
        if rates:
            print(f"  tfnlp / {peer}: {best / max(rates):.2f}", flush=True)


def _sum():
    array = tf.ones(_BYTES // 4)
    return lambda: tf.reduce_sum(array).numpy()


if __name__ == "__main__":
    main()
