"""transformers in `benchmarks.prediction`."""

import json
import os
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.prediction import CLASSES, in_batches, take_turns


def main():
    case = json.loads(sys.argv[1])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=case["vocab"], num_hidden_layers=case["layers"], hidden_size=case["hidden"],
        num_attention_heads=case["heads"], intermediate_size=4 * case["hidden"],
        num_labels=CLASSES,
    )  # fmt: skip
    model = BertForSequenceClassification(config).eval()
    mixed = case["lengths"] == "mixed"
    narrow = case["dtype"] != "float32"
    pure = model.to(torch.bfloat16) if narrow else model
    modes = {}
    for rows in (case["batch"], 8) if mixed and case["batch"] != 8 else (case["batch"],):
        kind = "bfloat16 weights, " if narrow else ""
        compiled = torch.compile(pure, dynamic=mixed)
        modes[f"{kind}eager, {rows}"] = predictor(pure, rows)
        modes[f"{kind}compiled, {rows}"] = predictor(compiled, rows)
        if narrow:
            wide = BertForSequenceClassification(config).eval()
            modes[f"autocast, eager, {rows}"] = predictor(wide, rows, autocast=True)
            compiled = torch.compile(wide, dynamic=mixed)
            modes[f"autocast, compiled, {rows}"] = predictor(compiled, rows, autocast=True)
    take_turns(case, modes)


def predictor(model, rows, autocast=False):
    def logits(ids, mask):
        ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(input_ids=ids, attention_mask=mask).logits.float().numpy()

    return lambda texts: in_batches(texts, rows, logits)


if __name__ == "__main__":
    main()
