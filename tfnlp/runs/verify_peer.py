"""What transformers and sentence-transformers make of texts, for `tfnlp verify`.

    python verify_peer.py FOLDER TEXTS.json LENGTH OUT

It runs where these libraries are and knows nothing of tfnlp. It prints a line of JSON with their
versions, and one for each file of arrays that it has written into OUT: its name, and for each of
its rows the numbers of the texts. LENGTH is how many tokens are read of a row.
"""

import itertools
import json
import os
import sys
from typing import Any

import numpy as np
import torch
import transformers

ROWS = 4  # of a batch
OUTPUTS = (
    "logits", "start_logits", "end_logits", "prediction_logits", "seq_relationship_logits",
    "sop_logits", "last_hidden_state", "pooler_output",
)  # fmt: skip


def outputs_of(model: Any, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a model by the names of transformers."""
    stated, model.config.return_dict = model.config.return_dict, True  # some classes need it
    with torch.no_grad():
        tensors = {key: torch.tensor(x) for key, x in batch.items()}
        found = model(**tensors, output_hidden_states=True)
    model.config.return_dict = stated
    outputs = {key: found[key].numpy() for key in OUTPUTS if found.get(key) is not None}
    hidden = found.get("hidden_states") or ()
    return {**outputs, **{f"hidden_{i}": x.numpy() for i, x in enumerate(hidden)}}


def load(folder: str) -> tuple[Any, Any, Any]:
    """Return the tokenizer, the model and, of a folder of sentence-transformers, the whole."""
    if os.path.exists(os.path.join(folder, "modules.json")):
        from sentence_transformers import SentenceTransformer

        whole = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32})
        return whole.tokenizer, whole[0].auto_model.eval(), whole
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, (config.architectures or ["AutoModel"])[0])
    return tokenizer, kind.from_pretrained(folder, dtype=torch.float32).eval(), None


def rows_of(tokenizer: Any, model: Any, texts: list[str], length: int) -> list[Any]:
    """Return the numbers of the texts of each example: texts alone, and each with the next one.

    Pairs that are too long are left out: libraries differ in which text has the odd token.
    """
    count = len(texts)
    choices = [[(i, (i + 1) % count), (i, (i + 2) % count)] for i in range(count)]
    fits = {
        (i, j): len(tokenizer(texts[i], texts[j])["input_ids"]) <= length
        for i, j in itertools.chain(*choices)
    }
    if type(model).__name__.endswith("MultipleChoice"):
        return [pairs for pairs in choices if all(map(fits.get, pairs))]
    return [[(i,)] for i in range(count)] + [[pair] for pair, _ in choices if fits[pair]]


def batch_of(
    tokenizer: Any, model: Any, texts: list[str], rows: list[Any], length: int
) -> dict[str, np.ndarray]:
    """Return the inputs of the model for rows of as many texts, padded on the right."""
    columns = zip(*(row for choices in rows for row in choices), strict=True)
    batch = tokenizer(
        *([texts[i] for i in column] for column in columns),
        truncation=True, max_length=length, padding=len(rows[0]) * len(rows) > 1,
        return_attention_mask=True, return_tensors="np",
    )  # fmt: skip
    batch = {key: np.asarray(x, "int64") for key, x in batch.items()}
    if getattr(model.config, "type_vocab_size", 2) < 2:
        batch.pop("token_type_ids", None)
    shape = (len(rows), *[len(rows[0])] * (len(rows[0]) > 1), -1)
    return {key: x.reshape(shape) for key, x in batch.items()}


def main() -> None:
    """Write what there is to compare."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print is for stderr
    folder, texts, length, out = sys.argv[1:]
    with open(texts, encoding="utf-8") as file:
        texts = json.load(file)
    transformers.logging.set_verbosity_error()
    tokenizer, model, whole = load(folder)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    if whole is not None:
        import sentence_transformers

        versions["sentence-transformers"] = sentence_transformers.__version__

    def write(name: str, rows: list[Any], arrays: dict[str, np.ndarray]) -> None:
        np.savez_compressed(os.path.join(out, name), **arrays)
        print(json.dumps([name, rows]), file=said, flush=True)

    print(json.dumps(versions), file=said, flush=True)
    rows = rows_of(tokenizer, model, texts, int(length))
    alone = tokenizer.pad_token_id is None or getattr(model.config, "pad_token_id", 0) is None
    size = 1 if alone else ROWS
    for kind in (1, 2):
        alike = [row for row in rows if len(row[0]) == kind]
        for i in range(0, len(alike), size):
            part = alike[i : i + size]
            batch = batch_of(tokenizer, model, texts, part, int(length))
            inputs = {f"in/{key}": x for key, x in batch.items()}
            write(f"{kind}_{i:03d}.npz", part, {**inputs, **outputs_of(model, batch)})
    if whole is not None:
        names = [name for name, prompt in whole.prompts.items() if prompt]
        found = {f"vectors/{name}": whole.encode(texts, prompt_name=name) for name in names}
        each = [[(i,)] for i in range(len(texts))]
        write("vectors.npz", each, {"vectors/": whole.encode(texts), **found})


if __name__ == "__main__":
    main()
