"""Make this folder with torch and transformers 5.23: `python make.py` writes beside itself.

A DistilBertForMaskedLM with random weights of standard deviation 0.25 (`config.json`,
`model.safetensors`, `vocab.txt`), the heads of the fine-tuned classes on the same encoder
(`heads.npz`, under Hugging Face's names), and what they return (`expected.npz`).
"""

import pathlib
import string

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
SIZES = dict(vocab_size=200, n_layers=3, dim=32, n_heads=4, hidden_dim=48)
HEADS = {
    "MaskedLM": {"mlm_logits": "logits"},
    "SequenceClassification": {"class_logits": "logits"},
    "MultipleChoice": {"choice_logits": "logits"},
    "TokenClassification": {"tag_logits": "logits"},
    "QuestionAnswering": {"start_logits": "start_logits", "end_logits": "end_logits"},
}


def randomize(model):
    """Fill every weight; `LayerNorm.weight` around 1."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, 0.25, generator=generator)
            if name.lower().endswith("norm.weight"):
                weight.add_(1)


def vocabulary():
    """200 tokens: special ones, letters, their continuations, pairs of letters."""
    letters = string.ascii_lowercase
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,?'-"]
    tokens += [*letters, *(f"##{one}" for one in letters)]
    tokens += [f"{one}{two}" for one in "bdfhlmnprstw" for two in "aeiouytrsnlh"]
    return tokens[: SIZES["vocab_size"]]


def inputs():
    """Two sequences of 8 and 5 tokens."""
    random = np.random.default_rng(12)
    mask = (np.arange(8) < [[8], [5]]).astype("int64")
    return {"input_ids": random.integers(5, 200, (2, 8)) * mask, "attention_mask": mask}


def main():
    config = transformers.DistilBertConfig(**SIZES, max_position_embeddings=40, num_labels=3)
    batch = inputs()
    expected = {"input_ids": batch["input_ids"], "input_mask": batch["attention_mask"]}
    tensors = {name: torch.tensor(array) for name, array in batch.items()}
    masked_lm = transformers.DistilBertForMaskedLM(config).eval()
    randomize(masked_lm)
    heads = {}
    for kind, outputs in HEADS.items():
        model, given = masked_lm, tensors
        if kind == "QuestionAnswering":
            config.num_labels = 2
        if kind != "MaskedLM":
            model = getattr(transformers, f"DistilBertFor{kind}")(config).eval()
            randomize(model)
            model.distilbert.load_state_dict(masked_lm.distilbert.state_dict())
            own = {n: w for n, w in model.state_dict().items() if not n.startswith("distilbert.")}
            heads.update({f"{kind}/{name}": weight.numpy() for name, weight in own.items()})
        if kind == "MultipleChoice":
            given = {name: tensor[None] for name, tensor in tensors.items()}  # one of two
        found = model(**given, output_hidden_states=True)
        for name, attribute in outputs.items():
            expected[name] = getattr(found, attribute).detach().numpy()
        if kind == "MaskedLM":
            for index, hidden in enumerate(found.hidden_states):
                expected[f"hidden_{index}"] = hidden.detach().numpy()
    config.num_labels = 2
    masked_lm.save_pretrained(HERE)
    (HERE / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary()))
    np.savez_compressed(HERE / "heads.npz", **heads)
    np.savez_compressed(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
