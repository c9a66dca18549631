"""Toys trained with JAX, and what is done with them: `engine_run.py FOLDER FAMILY...`."""

import json
import pathlib
import sys

import tfnlp
from tfnlp import books

SAMPLE = ("bert",)
_BLOCKS = dict(num_layers=1, hidden_size=8, num_heads=2, seq_length=16, vocab_size=300)
_PAIRS = dict(vocab_size=300, num_layers=1, hidden_size=8)
_GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
_SIZES = {
    "word2vec": dict(dimension=8, min_count=2, layout="lines", steps_per_call=2),
    "glove": dict(dimension=8, min_count=2, layout="lines", steps_per_call=2),
    "nnlm": dict(layout="lines"),
    "seq2seq": _PAIRS,
    "transformer": {**_PAIRS, "num_heads": 2, "size": "mini"},
    "elmo": dict(size="mini", projection_size=8, units=16, samples=32, layout="lines"),
    "gpt": {**_BLOCKS, "size": "mini", "layout": "lines"},
    "distilbert": {**_BLOCKS, "size": "tiny", "layout": "lines"},
    "albert": {**_BLOCKS, "layout": "lines"},
}
_ENCODER = {**_BLOCKS, "size": "tiny", "layout": "lines"}
for _name, _folder in (("xlm-roberta", "xlm"), ("mpnet", "mpnet")):  # whose vocabulary is given
    _SIZES[_name] = _ENCODER | dict(vocab=str(_GOLDENS / "multilingual" / _folder))
    del _SIZES[_name]["vocab_size"]
_ROWS = 40
_FEW = dict(epochs=1, batch_size=8, max_length=16)


def write_texts(folder):
    """Write a text, pairs of sentences and labelled rows."""
    words = books.path().read_text(encoding="utf-8")[:40_000].split()
    lines = [" ".join(words[i : i + 9]) for i in range(0, len(words), 9)]
    documents = ["\n".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    for name, part in (("source", lines[:200]), ("target", lines[200:400])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
    rows = [f"the {'good' if i % 2 else 'bad'} book {i}\t{i % 2}" for i in range(_ROWS)]
    table = ["sentence\tlabel", *rows]
    (folder / "dev.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")


def settings(family, folder):
    """Return the keywords of `tfnlp.pretrain`."""
    if family in ("seq2seq", "transformer"):
        text = {side: str(folder / f"{side}.txt") for side in ("source", "target")}
        text["held_out"] = 0.1
    else:
        text = {"text": str(folder / "text.txt")}
    sizes = _SIZES.get(family, _ENCODER)
    shared = dict(batch_size=8, steps=4, evaluate_every=2)
    return {**text, **shared, **sizes, "output": str(folder / family)}


def main(folder, families):
    results = {}
    for family in families:
        run = tfnlp.pretrain(family, engine="jax", **settings(family, folder))
        results[family] = run.results
    if "bert" in families:
        results["use"] = used(folder)
    if "elmo" in families:
        features = dict(features="sum-all", output=folder / "elmo_features", **_FEW)
        rows = folder / "dev.tsv"
        task = tfnlp.finetune("classify", str(folder / "elmo"), rows, dev=rows, **features)
        results["elmo_features"] = task.results["metrics"]
    (folder / "results.json").write_text(json.dumps(results))


def used(folder):
    """Fine-tune and export a BERT; return its outputs."""
    bert = tfnlp.load(folder / "bert")
    use = {"pooled": bert(["the garden"])["pooled_output"].tolist()}
    use["filled"] = bert.predict(["the [MASK] garden"])
    bert.export(folder / "exported")
    try:
        bert.export(folder / "exported")
    except FileExistsError as error:
        use["refused"] = str(error)
    rows = folder / "dev.tsv"
    task = tfnlp.finetune("classify", bert, rows, dev=rows, output=folder / "task", **_FEW)
    use["predicted"] = task.predict(["good book"])
    task.export(folder / "module")
    return use


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
