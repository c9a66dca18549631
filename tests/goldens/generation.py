"""Writes tests/goldens/generation: a GPT-2 of random weights, and what transformers makes with it.

python tests/goldens/generation.py tests/goldens/generation    # transformers 5.24, torch 2.13
"""

import json
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

V, STOPS = 23, [9, 16]
PROMPTS = [[5, 1, 7], [2], [9, 9, 14, 20, 4]]
CASES = {
    "greedy": dict(max_new_tokens=12),
    "repetition penalty": dict(max_new_tokens=12, repetition_penalty=1.4),
    "no repeated pair": dict(max_new_tokens=12, no_repeat_ngram_size=2),
    "all": dict(
        max_new_tokens=12, repetition_penalty=0.8, no_repeat_ngram_size=3, min_new_tokens=9
    ),
    "beams": dict(max_new_tokens=9, num_beams=3),
    "beams, short": dict(max_new_tokens=9, num_beams=4, length_penalty=-1.0),
    "beams, long": dict(max_new_tokens=9, num_beams=2, length_penalty=2.0, min_new_tokens=3),
    "beams, all": dict(
        max_new_tokens=9, num_beams=3, length_penalty=0.5, repetition_penalty=1.3,
        no_repeat_ngram_size=2,
    ),
}  # fmt: skip

torch.manual_seed(1)
config = GPT2Config(
    vocab_size=V, n_positions=24, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
    eos_token_id=STOPS, pad_token_id=0, initializer_range=0.6,
)  # fmt: skip
model = GPT2LMHeadModel(config).eval()
folder = sys.argv[1]
model.save_pretrained(folder)
found = {"prompts": PROMPTS, "stops": STOPS, "cases": CASES, "expected": {}}
for name, case in CASES.items():
    rows = []
    beams = case.get("num_beams", 1)
    for prompt in PROMPTS:  # one by one: padding counts as a token there
        out = model.generate(
            torch.tensor([prompt]), do_sample=False, return_dict_in_generate=True,
            output_scores=True, output_logits=True, num_return_sequences=beams, **case,
        )  # fmt: skip
        texts = [row[len(prompt) :].tolist() for row in out.sequences]
        for i, t in enumerate(texts):
            ends = [j for j, x in enumerate(t) if x in STOPS]
            texts[i] = t[: ends[0] + 1] if ends else t
        if beams > 1:
            scores = out.sequences_scores.tolist()
        else:
            log_p = [torch.log_softmax(x[0], -1) for x in out.logits]
            scores = [float(x[t]) for x, t in zip(log_p, texts[0], strict=False)]
        rows.append({"texts": texts, "scores": scores})
    found["expected"][name] = rows
with open(f"{folder}/expected.json", "w") as file:
    json.dump(found, file)
for n, rows in found["expected"].items():
    print(n, [r["texts"][0] for r in rows])
