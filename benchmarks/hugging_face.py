"""Hugging Face transformers, beside which `steps` and `gpu` train and `prediction` predicts.

Attention is torch's SDPA. In bfloat16 the step runs under `torch.autocast`. BERT's vocabulary head
sees the masked positions alone, as tfnlp's, which is less work than `BertForMaskedLM` does.
Needs torch and transformers, and no tfnlp.
"""

import functools
import os

import torch
import transformers
from torch.nn.functional import cross_entropy

from benchmarks import prediction, turns
from benchmarks.cases import batch_of


def model_of(case, kind="BertForMaskedLM", dropout=0.1, **more):
    """Return a model with random weights; `kind`: of a BERT."""
    if case["family"] == "gpt":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=case["vocab"], n_embd=case["hidden"], n_layer=case["layers"],
            n_head=case["heads"], n_positions=max(512, case["length"]), resid_pdrop=dropout,
            embd_pdrop=dropout, attn_pdrop=dropout,
        ))  # fmt: skip
    return getattr(transformers, kind)(transformers.BertConfig(
        vocab_size=case["vocab"], hidden_size=case["hidden"], num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"], intermediate_size=4 * case["hidden"],
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **more,
    ))  # fmt: skip


def step_of(case, compiled, device="cpu", clip_norm=1.0):
    """Return a function that takes an AdamW step and returns its loss, which is on the device."""
    pairs = case["family"] == "bert" and case["next_sentence"]
    model = model_of(case, "BertForPreTraining" if pairs else "BertForMaskedLM")
    batch = {name: torch.from_numpy(x).to(device).long() for name, x in batch_of(case).items()}
    ids, model = batch["input_word_ids"], model.to(device).train()

    def gpt():
        logits = model(input_ids=ids, use_cache=False).logits
        return cross_entropy(logits.float().flatten(0, 1), batch["targets"].flatten())

    def bert():
        hidden, *pooled = model.bert(input_ids=ids, token_type_ids=batch["input_type_ids"])[:2]
        index = batch["masked_lm_positions"][..., None].expand(-1, -1, hidden.shape[-1])
        masked = hidden.gather(1, index)  # [B, P, H]
        logits, *scores = model.cls(masked, *pooled) if pairs else (model.cls(masked),)
        loss = cross_entropy(logits.float().flatten(0, 1), batch["masked_lm_ids"].flatten())
        labels = batch["next_sentence_labels"]
        return loss + sum(cross_entropy(x.float(), labels) for x in scores)

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
    forward = torch.compile(model_of(case, "BertModel").to(device).eval().bfloat16())

    def call():
        with torch.inference_mode():
            return forward(input_ids=ids).pooler_output

    return call


def classifiers_of(case):
    """Return the modes of a classifier, see `benchmarks.prediction.take_turns`."""
    kind, labels = "BertForSequenceClassification", prediction.CLASSES
    mixed, narrow = case["lengths"] == "mixed", case["dtype"] != "float32"
    model = model_of(case, kind, num_labels=labels).eval()
    models = {"": model}
    if narrow:
        wide = model_of(case, kind, num_labels=labels).eval()
        models = {"bfloat16 weights, ": model.bfloat16(), "autocast, ": wide}

    def logits_of(model, autocast, ids, mask):
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(input_ids=ids, attention_mask=mask).logits.float().numpy()

    modes = {}
    for rows in {case["batch"], 8} if mixed else {case["batch"]}:
        for name, model in models.items():
            compiled = torch.compile(model, dynamic=mixed)
            for how, each in (("eager", model), ("compiled", compiled)):
                logits = functools.partial(logits_of, each, name.startswith("autocast"))
                modes[f"{name}{how}, {rows}"] = functools.partial(
                    prediction.in_batches, rows=rows, logits_of=logits
                )
    return modes


def work(case):
    """The process of a benchmark on the CPU."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    if "lengths" in case:
        prediction.take_turns(case, classifiers_of(case))
    else:
        step = step_of(case, case["compiled"], clip_norm=case["clip_norm"])
        turns.take_steps(case, lambda: step().item())


if __name__ == "__main__":
    turns.run(work, None)
