"""Make the files beside this one: tiny ELECTRAs with random weights, and what they compute.

Written with torch 2.13 and transformers 5.23: `python generate.py`. The generator has the
embeddings of the discriminator. `heads.npz` has the heads of four fine-tuned models on the
discriminator's encoder, `expected.npz` the inputs and what each model returns for them.
"""

import json
import pathlib
import string

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
SIZES = dict(
    vocab_size=200, embedding_size=16, num_hidden_layers=3, max_position_embeddings=24,
    hidden_act="gelu",
)  # fmt: skip
DISCRIMINATOR = dict(hidden_size=32, num_attention_heads=4, intermediate_size=40)
GENERATOR = dict(hidden_size=16, num_attention_heads=2, intermediate_size=20)


def vocabulary() -> list[str]:
    """Return 200 word pieces, as Google's files order them."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = list(string.ascii_lowercase + string.digits + ".,!?'-")
    words = "the of and to in a is was he she it for on with as his her they be at one have this"
    pieces = [*special, *letters, *(f"##{x}" for x in string.ascii_lowercase + string.digits)]
    pieces += [word for word in words.split() if word not in pieces]
    return pieces + [f"w{i}" for i in range(200 - len(pieces))]


def randomize(model: torch.nn.Module) -> None:
    """Fill all weights with a normal of 0.25, around 1 for the gains."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shift = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            parameter.copy_(shift + 0.25 * torch.randn(parameter.shape))


def main() -> None:
    torch.manual_seed(7)
    config = transformers.ElectraConfig(**SIZES, **DISCRIMINATOR)
    discriminator = transformers.ElectraForPreTraining(config).eval()
    generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**SIZES, **GENERATOR))
    generator = generator.eval()
    randomize(discriminator)
    randomize(generator)
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())

    rng = np.random.default_rng(7)
    mask = np.arange(11) < np.array([11, 7, 4])[:, None]
    inputs = {
        "input_ids": np.where(mask, rng.integers(5, 200, mask.shape), 0),
        "attention_mask": mask.astype("int64"),
        "token_type_ids": np.where(mask & (np.arange(11) > 3), 1, 0),
    }
    tensors = {name: torch.tensor(value) for name, value in inputs.items()}
    expected, heads = dict(inputs), {}
    for name, model in (("discriminator", discriminator), ("generator", generator)):
        with torch.no_grad():
            outputs = model(**tensors, output_hidden_states=True)
        expected[f"{name}_logits"] = outputs.logits
        for index, hidden in enumerate(outputs.hidden_states):
            expected[f"{name}_hidden_{index}"] = hidden
        folder = HERE / name
        model.save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))

    for kind, labels in (
        ("SequenceClassification", 3),
        ("TokenClassification", 3),
        ("QuestionAnswering", 2),
        ("MultipleChoice", 2),  # of the three rows as choices of one example
    ):
        config.num_labels = labels
        model = getattr(transformers, f"ElectraFor{kind}")(config).eval()
        randomize(model)
        model.electra.load_state_dict(discriminator.electra.state_dict())
        rows = {k: x[None] for k, x in tensors.items()} if kind == "MultipleChoice" else tensors
        with torch.no_grad():
            outputs = model(**rows)
        for name in ("logits", "start_logits", "end_logits"):
            if name in outputs:
                expected[f"{kind}_{name}"] = outputs[name]
        for name, value in model.state_dict().items():
            if not name.startswith("electra."):
                heads[f"{kind}/{name}"] = value.numpy()
    np.savez_compressed(HERE / "heads.npz", **heads)
    np.savez_compressed(HERE / "expected.npz", **{k: np.asarray(v) for k, v in expected.items()})


if __name__ == "__main__":
    main()
