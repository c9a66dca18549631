"""Training steps of Hugging Face transformers, beside which `bert`, `gpt` and `gpu` train.

Attention is torch's SDPA. In bfloat16 the step runs under `torch.autocast`. BERT's vocabulary head
sees the masked positions alone, as tfnlp's, which is less work than `BertForMaskedLM` does.
Needs torch and transformers, and no tfnlp.
"""

import json
import os
import sys

import torch
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from benchmarks.cases import batch_of
from benchmarks.turns import Turns


def model_of(case, kind=BertForMaskedLM, dropout=0.1):
    """Return a model with random weights; `kind`: of a BERT."""
    if case["family"] == "gpt":
        return GPT2LMHeadModel(GPT2Config(
            vocab_size=case["vocab"], n_embd=case["hidden"], n_layer=case["layers"],
            n_head=case["heads"], n_positions=max(512, case["length"]), resid_pdrop=dropout,
            embd_pdrop=dropout, attn_pdrop=dropout,
        ))  # fmt: skip
    return kind(BertConfig(
        vocab_size=case["vocab"], hidden_size=case["hidden"], num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"], intermediate_size=4 * case["hidden"],
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    ))  # fmt: skip


def step_of(case, model, compiled, device="cpu", clip_norm=1.0):
    """Return a function that takes an AdamW step and returns its loss, which is on the device."""
    batch = {name: torch.from_numpy(x).to(device).long() for name, x in batch_of(case).items()}
    ids, model = batch["input_word_ids"], model.to(device).train()

    def gpt():
        logits = model(input_ids=ids, use_cache=False).logits
        return cross_entropy(logits.float().flatten(0, 1), batch["targets"].flatten())

    def bert():
        hidden, *pooled = model.bert(input_ids=ids, token_type_ids=batch["input_type_ids"])[:2]
        index = batch["masked_lm_positions"][..., None].expand(-1, -1, hidden.shape[-1])
        masked = hidden.gather(1, index)  # [B, P, H]
        pairs = ()
        if isinstance(model, BertForPreTraining):
            logits, *pairs = model.cls(masked, *pooled)
        else:
            logits = model.cls(masked)
        loss = cross_entropy(logits.float().flatten(0, 1), batch["masked_lm_ids"].flatten())
        labels = batch["next_sentence_labels"]
        return loss + sum(cross_entropy(x.float(), labels) for x in pairs)

    loss_of = {"bert": bert, "gpt": gpt}[case["family"]]
    loss_of = torch.compile(loss_of) if compiled else loss_of
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, 1e-4, weight_decay=0.01, fused=device == "cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=case["dtype"] != "float32"):
            loss = loss_of()
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        return loss

    return step


def writer_of(model, ids, new):
    """Return a function that writes `new` tokens after ids, greedily, with a static cache."""
    how = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
    return lambda: model.generate(ids, cache_implementation="static", pad_token_id=0, **how)


def forward_of(case, device):
    """Return a function that gives a BERT's pooled outputs of a batch, with bfloat16 weights."""
    ids = torch.from_numpy(batch_of(case)["input_word_ids"]).to(device).long()
    forward = torch.compile(model_of(case, BertModel).to(device).eval().bfloat16())

    def call():
        with torch.inference_mode():
            return forward(input_ids=ids).pooler_output

    return call


def main():
    """Take a step a turn."""
    case = json.loads(sys.argv[1])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    step = step_of(case, model_of(case), case["compiled"], clip_norm=case["clip_norm"])
    turns = Turns()
    while True:
        step().item()
        turns.stepped(1, case["rows"])


if __name__ == "__main__":
    main()
