"""Toy files of each task, and what every backbone has to go through with them."""

import json
import re

import numpy as np

from tests.cli.command import tfnlp
from tests.hub import gpt_toy
from tests.support import golden, run_python
from tfnlp import checkpoints, models
from tfnlp.runs.page import shown

# Writes what the signatures of exported modules give, where tfnlp can't be imported.
READER = """
import json
import sys
import tensorflow as tf
import tensorflow_text

def plain(y):
    if isinstance(y, list):
        return [plain(z) for z in y]
    return y.decode() if isinstance(y, bytes) else y

with open(f"{sys.argv[1]}/asked.json", encoding="utf-8") as file:
    asked = json.load(file)
said = {}
for name, (path, inputs) in asked.items():
    module = tf.saved_model.load(path)
    inputs = {key: tf.constant(value) for key, value in inputs.items()}
    outputs = module.signatures["serving_default"](**inputs)
    if not said:  # one shows that a call and the signature are the same
        same = module(inputs)
        for key, value in outputs.items():
            tf.debugging.assert_equal(value, same[key])
    found = {key: plain(value.numpy().tolist()) for key, value in outputs.items()}
    found["names"] = plain(module.labels().numpy().tolist())
    with open(module.labels_asset.asset_path.numpy().decode(), encoding="utf-8") as file:
        found["names_asset"] = file.read().splitlines()
    said[name] = found
with open(f"{sys.argv[1]}/said.json", "w", encoding="utf-8") as file:
    json.dump(said, file)
"""
TEXTS = ["the dog ran", "a cat sat", "the man will go", "he was here", "it is the end", "a new day"]
GOLDENS = {
    "albert": "albert_huggingface",
    "bert": "bert_google_tf_generated",
    "distilbert": "distilbert_huggingface",
    "electra": "electra_huggingface/discriminator",
    "elmo": "elmo_bilm_tf",
    "mpnet": "multilingual/mpnet",
    "roberta": "roberta_huggingface",
    "xlm-roberta": "multilingual/xlm",
}
# Of one length: a step is traced for each.
TRAINING = ["--epochs", "1", "--batch-size", "4", "--dropout", "0", "--no-buckets"]


def backbone(kind, folder):
    """A model of a few weights as somebody's checkpoint; GPT's is made in `folder`."""
    if kind != "gpt":
        return golden(GOLDENS[kind])
    tokenizer = gpt_toy.tokenizer()
    sizes = dict(num_layers=1, hidden_size=16, num_heads=2, intermediate_size=32)
    encoder = models.gpt(tokenizer.vocab_size, max_positions=48, norm_first=True, **sizes)
    checkpoints.save_gpt(folder / "gpt", models.gpt_pretrainer(encoder), tokenizer)
    return folder / "gpt"


def write_toys(folder):
    """Training and dev file of each task in `folder`; returns the arguments that name them."""
    rng = np.random.default_rng(5)
    files = {}

    def table(name, part, rows):
        files[name, part] = folder / f"{name}_{part}.jsonl"
        files[name, part].write_text("".join(json.dumps(row) + "\n" for row in rows))

    def text():
        return " ".join(rng.permutation(" ".join(TEXTS).split())[: rng.integers(3, 9)])

    for part, count in (("train", 14), ("dev", 7)):
        numbers, labels = range(count), [["no", "yes"][i % 2] for i in range(count)]
        table("classify", part, [{"sentence": f"{text()} {x}", "label": x} for x in labels])
        rows = [{"premise": text(), "hypothesis": text(), "label": x} for x in labels]
        table("pair", part, rows)
        texts = [text() for _ in numbers]
        table("labels", part, [{"text": row, "labels": _labels(row)} for row in texts])
        rows = [{"sentence1": text(), "sentence2": text(), "label": i % 5} for i in numbers]
        table("similarity", part, rows)
        rows = [{"text": text(), "scores": {"a": i % 5, "b": 0.1 * i}} for i in numbers]
        table("scores", part, rows)
        rows = [{"context": text(), "choices": [text() for _ in range(3)], "label": i % 3}
                for i in numbers]  # fmt: skip
        table("choose", part, rows)
        rows = [_tagged(text().split() * (5 if i == 0 else 1)) for i in numbers]
        table("tag", part, rows)
        files["crf", part] = files["tag", part]
        table("roles", part, roles(count, seed=count))
        table("coref", part, [_clustered(text()) for _ in numbers])
        path = folder / f"{part}.json"
        contexts = [" ".join(text() for _ in range(1 + 5 * (i % 3))) + "." for i in range(count)]
        path.write_text(json.dumps(_squad(contexts, unanswerable=part)), encoding="utf-8")
        files["answer", part] = path
    return {
        name: ["--train", files[name, "train"], "--dev", files[name, "dev"]]
        for name, part in files
        if part == "dev"
    }


def _labels(text):
    """Any number of labels, also none."""
    return [word for word in ("dog", "cat", "man") if word in text.split()]


def _clustered(text):
    """The same word twice is a cluster, any other word of three a mention on its own."""
    text = f"{text} , {text} ."
    spans = {w: [[m.start(), m.end()] for m in re.finditer(rf"\b{w}\b", text)]
             for w in ("dog", "cat", "man", "was", "it")}  # fmt: skip
    return {"text": text, "clusters": [found for found in spans.values() if found]}


def _tagged(words):
    tags = ["B-x" if word in ("dog", "cat", "man") else "O" for word in words]
    for i in range(1, len(tags)):
        if tags[i - 1] == "B-x" and tags[i] == "O" and i % 2:
            tags[i] = "I-x"
    return {"words": words, "tags": tags}


def roles(count, seed):
    """Sentences of which the word before the predicate is A0 and the one after it A1."""
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        size = 20 if number == 0 else rng.integers(3, 9)  # the first is read in windows
        words = rng.choice(" ".join(TEXTS).split(), size).tolist()
        place = int(rng.integers(1, size - 1))
        tags = ["O"] * size
        tags[place - 1 : place + 2] = ["A0", "V", "A1"]
        found.append({"words": words, "predicate": place, "tags": tags})
    return found


def _squad(contexts, unanswerable):
    paragraphs = []
    for i, context in enumerate(contexts):
        answers = [{"text": context.split()[1], "answer_start": len(context.split()[0]) + 1}]
        question = {"id": f"{unanswerable}{i}", "question": "who ran the end?", "answers": answers}
        if i % 5 == 4:
            question.update(answers=[], is_impossible=True)
        paragraphs.append({"context": context, "qas": [question]})
    return {"version": "v2.0", "data": [{"title": "toy", "paragraphs": paragraphs}]}


TASKS = {
    "classify": ("classify", []),
    "pair": ("classify", []),
    "labels": ("labels", []),
    "similarity": ("similarity", []),
    "scores": ("scores", []),
    "choose": ("choose", []),
    "tag": ("tag", ["--max-length", "12", "--stride", "5"]),
    "crf": ("tag", ["--max-length", "12", "--stride", "5", "--crf"]),
    "roles": ("roles", ["--max-length", "16", "--stride", "5"]),
    "coref": (
        "coref",
        ["--max-length", "12", "--epochs", "12", "--batch-size", "1", "--learning-rate", "1e-2"],
    ),
    "answer": (
        "answer",
        ["--max-length", "24", "--stride", "6", "--max-question", "8", "--max-answer", "5"],
    ),
}


def finetuned(name, model, files, run):
    """Fine-tunes on a toy task and returns the predictions of the dev file, a list of dicts."""
    task, options = TASKS[name]
    command = ["finetune", task, "--model", model, *files[name], "--output", run]
    assert tfnlp(*command, *TRAINING, *options) == 0
    lines = (run / "dev_predictions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_evaluated_and_predicted(name, run, files, kept, folder, capsys):
    """Whether `evaluate`, its report and `predict` say of a run what training said."""
    dev = files[name][-1]
    results = json.loads((run / "results.json").read_text())
    capsys.readouterr()
    evaluate = ["evaluate", "--model", run, "--input", dev, "--json"]
    assert tfnlp(*evaluate, "--report", folder / "report") == 0
    found = json.loads(capsys.readouterr().out.split("\n")[0])
    assert found.keys() == results["metrics"].keys()
    for measure, value in found.items():
        np.testing.assert_allclose(value, results["metrics"][measure], atol=1e-4, err_msg=measure)
    page = (folder / "report" / "page.html").read_text(encoding="utf-8")
    assert shown(found[results["metric"]]) in page

    output = folder / "predictions.jsonl"
    predict = ["predict", "--model", run, "--input", dev, "--output", output]
    assert tfnlp(*predict) == 0
    predictions = [json.loads(line) for line in output.read_text().splitlines()]
    for one, other in zip(predictions, kept, strict=True):
        assert_alike(one, other)


EXACT = ("tags", "choice", "labels", "clusters", "mentions", "gold", "words", "choices")


def assert_alike(one, other):
    """Two predictions, but for the last digits; of equal scores any order is right."""
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, str) or key in EXACT:
            assert value == other[key], key
        elif key != "answers":
            flat = [list(x[key].values()) if isinstance(x[key], dict) else x[key]
                    for x in (one, other)]  # fmt: skip
            np.testing.assert_allclose(*flat, atol=2e-4, err_msg=key)


def read_without_tfnlp(folder, modules):
    """What exported modules say in a process that can't import tfnlp.

    Args:
        folder: to put notes in.
        modules: dict of name to (module, JSON-able dict of its inputs).

    Returns:
        dict of name to the dict of what the module gave.
    """
    asked = {name: [str(path), inputs] for name, (path, inputs) in modules.items()}
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    run_python(READER, folder, without_tfnlp=True)
    return json.loads((folder / "said.json").read_text(encoding="utf-8"))


def inputs_of(name, dev):
    """The examples of a toy's dev file as a module takes them."""
    if name == "answer":
        paragraphs = json.loads(dev.read_text())["data"][0]["paragraphs"]
        questions = [p["qas"][0]["question"] for p in paragraphs]
        return {"question": questions, "context": [p["context"] for p in paragraphs]}
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    if name in ("tag", "crf"):
        return {"text": [" ".join(row["words"]) for row in rows]}
    if name == "roles":
        texts = [" ".join(row["words"]) for row in rows]
        return {"text": texts, "predicate": [row["predicate"] for row in rows]}
    columns = {
        "classify": {"text": "sentence"},
        "pair": {"text_a": "premise", "text_b": "hypothesis"},
        "labels": {"text": "text"},
        "scores": {"text": "text"},
        "coref": {"text": "text"},
        "similarity": {"text_a": "sentence1", "text_b": "sentence2"},
        "choose": {"text": "context", "choices": "choices"},
    }[name]
    return {key: [row[column] for row in rows] for key, column in columns.items()}


def mentions_of(prediction):
    """What `predict` says of a text, as its module has it: `(text, cluster)` of all mentions."""
    found = [
        (span, text, number)
        for number, cluster in enumerate(prediction["clusters"])
        for span, text in zip(cluster, prediction["mentions"][number], strict=True)
    ]
    return [[text, number] for _, text, number in sorted(found)]


SERVED = {
    **dict.fromkeys(("classify", "pair"), ("label", "probabilities")),
    "labels": ("labels", "probabilities"),
    "similarity": ("score",),
    "scores": ("scores",),
    "choose": ("choice", "probabilities"),
    **dict.fromkeys(("tag", "crf", "roles"), ("tags", "probabilities")),
    "answer": ("answer", "score", "scores"),
    "coref": ("mentions",),
}
PADDED = ("labels", "tag", "crf", "roles")  # to the longest of a batch


def assert_served(name, said, predictions):
    """Whether a module gave what `predict` did."""
    for i, prediction in enumerate(predictions):
        for key in SERVED[name]:
            want, found = prediction[key], said[key][i]
            if name == "coref":
                pairs = zip(found, said["clusters"][i], strict=True)
                want, found = mentions_of(prediction), [list(x) for x in pairs if x[1] >= 0]
            if isinstance(want, dict):
                want = list(want.values())
            if key == "labels":  # those that are not predicted are "" at their places
                found = [label for label in found if label]
            if isinstance(want, list) and name in PADDED:
                assert key == "probabilities" or not any(found[len(want) :])
                found = found[: len(want)]
            if key in ("label", "labels", "choice", "tags", "answer", "mentions"):
                assert found == want, key
            else:
                np.testing.assert_allclose(found, want, atol=2e-4, err_msg=key)
