"""Training steps of Hugging Face transformers for `benchmarks.bert` and `benchmarks.gpt`.

    python -m benchmarks.training_torch '{"family": "bert", "layers": 4, "hidden": 256, ...}'

`MODES`: as it is (with torch's SDPA attention) and through `torch.compile`; in bfloat16 under
`torch.autocast`. BERT's vocabulary head sees the masked positions alone, as tfnlp's, which is less
work than `BertForMaskedLM.forward` does. A line of input asks for the step of the mode it names.
"""

import json
import os
import pathlib
import sys

import numpy as np

from benchmarks.turns import Child, Turns

ROOT = pathlib.Path(__file__).parents[1]
MODES = ("eager", "compiled")


def candidates(python, log, modes=MODES, **case):
    """Functions that take one step each, `torch MODE`, in processes of their own.

    Args:
        python: a Python with torch and transformers.
        log: file for what they print.
        modes: of `MODES`.
        case: family ("bert", "gpt"), layers, hidden, heads, vocab, rows, length, predictions (of
            BERT), dtype.
    """
    found = {}
    for mode in modes:
        told = json.dumps({**case, "mode": mode})
        command = [python, "-m", "benchmarks.training_torch", told]
        found[f"torch {mode}"] = Child(command, log, ROOT, {**os.environ, "HF_HUB_OFFLINE": "1"})
    return found


def main():
    import torch

    case = json.loads(sys.argv[1])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    loss = {"bert": bert_loss, "gpt": gpt_loss}[case["family"]](case)
    optimizer = torch.optim.AdamW(loss.parameters(), 1e-4)
    run = torch.compile(loss) if case["mode"] == "compiled" else loss
    narrow = case["dtype"] != "float32"
    turns = Turns(1)
    while True:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            value = run()
        value.backward()
        if case["family"] == "bert":
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimizer.step()
        value.item()
        turns.stepped(1, case["rows"])


def bert_loss(case):
    """A module without arguments that returns the masked-LM loss of a batch."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    random, shape = np.random.default_rng(0), (case["rows"], case["length"])
    ids = torch.from_numpy(random.integers(1000, case["vocab"], shape))
    shape = (case["rows"], case["predictions"])
    places = torch.from_numpy(random.integers(1, case["length"], shape))
    labels = torch.from_numpy(random.integers(1000, case["vocab"], shape)).flatten()
    config = BertConfig(
        vocab_size=case["vocab"], hidden_size=case["hidden"],
        num_hidden_layers=case["layers"], num_attention_heads=case["heads"],
        intermediate_size=4 * case["hidden"],
    )  # fmt: skip

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertForMaskedLM(config).train()

        def forward(self):
            sequence = self.model.bert(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
            index = places[:, :, None].expand(-1, -1, sequence.shape[-1])
            logits = self.model.cls(sequence.gather(1, index))  # [B, P, V]
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels)

    return Loss()


def gpt_loss(case):
    """A module without arguments that returns the loss of the next tokens of a batch."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = (case["rows"], case["length"])
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, case["vocab"], shape))
    config = GPT2Config(
        vocab_size=case["vocab"], n_embd=case["hidden"], n_layer=case["layers"],
        n_head=case["heads"], n_positions=512,
    )  # fmt: skip

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = GPT2LMHeadModel(config).train()

        def forward(self):
            return self.model(input_ids=ids, labels=ids, use_cache=False).loss

    return Loss()


if __name__ == "__main__":
    main()
