"""Training steps of Hugging Face transformers for `benchmarks.bert` and `benchmarks.gpt`.

`MODES`: as it is (with torch's SDPA attention) and through `torch.compile`; in bfloat16 under
`torch.autocast`. BERT's vocabulary head sees the masked positions alone, as tfnlp's, which is less
work than `BertForMaskedLM.forward` does.
"""

import json
import os
import sys

import numpy as np

from benchmarks.turns import Child, Turns

MODES = ("eager", "compiled")


def children(python, modes=MODES, **case):
    """Processes that take one step a turn, by the name `torch MODE`.

    Args:
        python: a Python with torch and transformers.
        modes: of `MODES`.
        case: family ("bert", "gpt"), layers, hidden, heads, vocab, rows, length, predictions (of
            BERT), dtype.
    """
    return {
        f"torch {mode}": Child("training_torch", {**case, "mode": mode}, os.devnull, python)
        for mode in modes
    }


def main():
    import torch

    case = json.loads(sys.argv[1])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    model, loss_of = {"bert": bert, "gpt": gpt}[case["family"]](case)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model.train()

        def forward(self):
            return loss_of(self.model)

    loss = Loss()
    optimizer = torch.optim.AdamW(loss.parameters(), 1e-4)
    run = torch.compile(loss) if case["mode"] == "compiled" else loss
    turns = Turns()
    while True:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=case["dtype"] != "float32"):
            value = run()
        value.backward()
        if case["family"] == "bert":
            torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
        optimizer.step()
        value.item()
        turns.stepped(1, case["rows"])


def bert(case):
    """A model, and a function of it that returns the masked-LM loss of a batch."""
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

    def loss(model):
        sequence = model.bert(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
        index = places[:, :, None].expand(-1, -1, sequence.shape[-1])
        logits = model.cls(sequence.gather(1, index))  # [B, P, V]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels)

    return BertForMaskedLM(config), loss


def gpt(case):
    """A model, and a function of it that returns the loss of the next tokens of a batch."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = (case["rows"], case["length"])
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, case["vocab"], shape))
    config = GPT2Config(
        vocab_size=case["vocab"], n_embd=case["hidden"], n_layer=case["layers"],
        n_head=case["heads"], n_positions=512,
    )  # fmt: skip

    def loss(model):
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    return GPT2LMHeadModel(config), loss


if __name__ == "__main__":
    main()
