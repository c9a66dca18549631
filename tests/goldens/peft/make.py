"""Write the folders and expected outputs beside this file: adapters of PEFT on tiny models.

    python make.py        # with peft 0.21.2, transformers 5.24 and torch 2.14

Weights of the adapters are random (seed 0). Folders are as `save_pretrained` writes them, but for
the path of the model; each `.npz` holds the model's inputs and its outputs.
"""

import json
import pathlib

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoModelForSequenceClassification

HERE = pathlib.Path(__file__).resolve().parent
IDS = torch.tensor([[2, 5, 9, 30, 3, 0], [2, 77, 120, 8, 44, 3]])
MASK = (IDS != 0).long()


def keep(model, name, base, ids, output):
    folder = HERE / name
    model.save_pretrained(folder)
    path = folder / "adapter_config.json"
    config = {**json.loads(path.read_text()), "base_model_name_or_path": f"../../{base}"}
    path.write_text(json.dumps(config, indent=1))
    (folder / "README.md").unlink(missing_ok=True)
    found = model.eval()(input_ids=ids, attention_mask=MASK)[0].detach().numpy()
    inputs = {"input_ids": ids.numpy(), "attention_mask": MASK.numpy()}
    np.savez(HERE / f"{name}.npz", **inputs, **{output: found})


torch.manual_seed(0)
base = "bert_xsmall_dummy_pt"
model = AutoModelForSequenceClassification.from_pretrained(HERE.parent / base, num_labels=3)
settings = dict(r=2, lora_alpha=7, init_lora_weights=False, use_rslora=True)
settings.update(rank_pattern={"attention.self.query": 3}, alpha_pattern={"query": 3})
lora = LoraConfig(task_type="SEQ_CLS", target_modules="all-linear", **settings)
keep(get_peft_model(model, lora), "bert_classify", base, IDS, "logits")

base = "huggingface_heads/gpt2_classify"
model = AutoModel.from_pretrained(HERE.parent / base, dtype=torch.float32)
settings = dict(r=2, lora_alpha=5, init_lora_weights=False, fan_in_fan_out=True)
lora = LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=["c_attn", "c_fc"], **settings)
keep(get_peft_model(model, lora), "gpt2_features", base, IDS % 40, "states")
