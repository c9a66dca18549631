"""Make this folder with torch, tokenizers and transformers 5.23, in the folder of the repository:

    python -m tests.goldens.roberta_huggingface.make

A RobertaForMaskedLM with random weights of standard deviation 0.25 (`config.json`,
`model.safetensors`, `vocab.json`, `merges.txt`), the heads of the fine-tuned classes on the same
encoder (`heads.npz`, under Hugging Face's names), what they return (`expected.npz`), and the ids
and the guesses for some texts (`texts.json`).
"""

import json
import pathlib

import numpy as np
import tokenizers
import transformers

from tests.goldens import huggingface_encoders

HERE = pathlib.Path(__file__).resolve().parent
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SIZES = dict(
    num_hidden_layers=3, hidden_size=32, num_attention_heads=4, intermediate_size=48,
    max_position_embeddings=50, pad_token_id=1, bos_token_id=0, eos_token_id=2,
)  # fmt: skip
LEARNT = ["the cat sat on the mat and the dog sat on the log, but the rat ran"] * 3
TEXTS = [
    "the cat sat on the mat", " the  cat\tsat ", "The dog's log, isn't it?", "",
    "caf\u00e9 \u00dcber \u6771\u4eac \U0001f642", "a\n\nb   c", "1,234.5 (x_y) #1 @a\u00a0b",
]  # fmt: skip
PAIRS = [["the cat sat", "on the mat"], ["", "the dog"]]
MASKED = [
    "the <mask> sat on the <mask>.", "<mask> cat", "the  <mask>, (<mask>)", "the\u00a0<mask>\tsat",
]  # fmt: skip


def write_vocabulary():
    """About 300 tokens: special ones, the bytes, merged ones."""
    learnt = tokenizers.ByteLevelBPETokenizer()
    learnt.train_from_iterator(LEARNT, 300, min_frequency=2, special_tokens=SPECIAL)
    learnt.save_model(str(HERE))
    # As in the files of the published models: the mask takes the space before it.
    mask = tokenizers.AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    tokenizer = transformers.RobertaTokenizer.from_pretrained(str(HERE), mask_token=mask)
    return tokenizer, len(tokenizer)


def guesses(tokenizer, model, text):
    """What the fill-mask pipeline shows for each mask, and the text with the best of one mask."""
    found = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)(text)
    masks = [found] if isinstance(found[0], dict) else found
    return {
        "text": text,
        "tokens": [[guess["token_str"] for guess in mask] for mask in masks],
        "ids": [[guess["token"] for guess in mask] for mask in masks],
        "scores": [[guess["score"] for guess in mask] for mask in masks],
    }


def inputs(vocab_size):
    """Two sequences of 9 and 5 tokens."""
    random = np.random.default_rng(12)
    mask = (np.arange(9) < [[9], [5]]).astype("int64")
    ids = random.integers(5, vocab_size, (2, 9))
    return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask}


def main():
    tokenizer, vocab_size = write_vocabulary()
    config = transformers.RobertaConfig(
        **SIZES, vocab_size=vocab_size, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=3
    )
    kinds = [kind for kind in huggingface_encoders.HEADS if kind != "MultipleChoice"]
    batch = inputs(vocab_size)
    masked_lm = huggingface_encoders.write(HERE, "Roberta", config, batch, kinds)
    texts = {
        "ids": [[text, tokenizer(text, add_special_tokens=False)["input_ids"]] for text in TEXTS],
        "pairs": [[*pair, tokenizer(*pair)["input_ids"]] for pair in PAIRS],
        "masked": [guesses(tokenizer, masked_lm, text) for text in MASKED],
    }
    (HERE / "texts.json").write_text(json.dumps(texts) + "\n")


if __name__ == "__main__":
    main()
