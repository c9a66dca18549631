"""What the scripts share that make goldens of one encoder of transformers and all its heads."""

import numpy as np
import torch
import transformers

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


def write(folder, family, config, batch, kinds=tuple(HEADS)):
    """Write a masked LM (`model.safetensors`, `config.json`), `heads.npz` and `expected.npz`.

    Args:
        folder: where they go.
        family: the start of the classes' names, such as "Roberta".
        config: of the encoder, with three labels.
        batch: dict of the inputs `input_ids` and `attention_mask`.
        kinds: the classes, the first and the last one those of `HEADS`.

    Returns: the masked LM.
    """
    encoder = family.lower()
    expected = {"input_ids": batch["input_ids"], "input_mask": batch["attention_mask"]}
    tensors = {name: torch.tensor(array) for name, array in batch.items()}
    masked_lm = getattr(transformers, f"{family}ForMaskedLM")(config).eval()
    randomize(masked_lm)
    heads = {}
    for kind in kinds:
        model, given = masked_lm, tensors
        if kind == "QuestionAnswering":
            config.num_labels = 2
        if kind != "MaskedLM":
            model = getattr(transformers, f"{family}For{kind}")(config).eval()
            randomize(model)
            getattr(model, encoder).load_state_dict(getattr(masked_lm, encoder).state_dict())
            own = {n: w for n, w in model.state_dict().items() if not n.startswith(f"{encoder}.")}
            heads.update({f"{kind}/{name}": weight.numpy() for name, weight in own.items()})
        if kind == "MultipleChoice":
            given = {name: tensor[None] for name, tensor in tensors.items()}  # one of two
        found = model(**given, output_hidden_states=True)
        for name, attribute in HEADS[kind].items():
            expected[name] = getattr(found, attribute).detach().numpy()
        if kind == "MaskedLM":
            for index, hidden in enumerate(found.hidden_states):
                expected[f"hidden_{index}"] = hidden.detach().numpy()
    masked_lm.save_pretrained(folder)
    np.savez_compressed(folder / "heads.npz", **heads)
    np.savez_compressed(folder / "expected.npz", **expected)
    return masked_lm
