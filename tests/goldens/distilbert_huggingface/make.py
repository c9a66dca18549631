"""Make this folder with torch and transformers 5.23, in the folder of the repository:

    python -m tests.goldens.distilbert_huggingface.make

A DistilBertForMaskedLM with random weights of standard deviation 0.25 (`config.json`,
`model.safetensors`, `vocab.txt`), the heads of the fine-tuned classes on the same encoder
(`heads.npz`, under Hugging Face's names), and what they return (`expected.npz`).
"""

import pathlib
import string

import numpy as np
import transformers

from tests.goldens import huggingface_encoders

HERE = pathlib.Path(__file__).resolve().parent
SIZES = dict(vocab_size=200, n_layers=3, dim=32, n_heads=4, hidden_dim=48)


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
    huggingface_encoders.write(HERE, "DistilBert", config, inputs())
    (HERE / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary()))


if __name__ == "__main__":
    main()
