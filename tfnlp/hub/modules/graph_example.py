"""Print what the graph beside this file says of texts: `python example.py TEXT [TEXT ...]`.

Models of pairs take two texts at a time; of questions each question and its document; of choices
the text and then its choices. It needs numpy, tokenizers, and onnxruntime (ONNX) or tensorflow
(LiteRT).
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from tokenizers import Encoding, Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

SETTINGS: dict[str, Any] = {
    "file": "model.onnx",
    "length": 128,  # longest sequence
    "pairs": False,  # whether a sequence is of two texts
    "sequences": 1,  # of an example
    "choices": 0,  # of an example
    "head": "first",  # which piece stands for its word; of a span, where its null position is
    "longest": None,  # answer in pieces
    "threshold": None,  # of "no answer"; None: there always is an answer
    "words": None,  # what the words of a text match; None: they stand between spaces
}
HERE = os.path.dirname(os.path.abspath(__file__))


def main(texts: list[str]) -> None:
    """Print a line for each example."""
    if SETTINGS["words"]:
        split = Split(Regex(SETTINGS["words"]), "removed", invert=True)
        texts = [" ".join(w for w, _ in split.pre_tokenize_str(text)) for text in texts]
    pairs = list(zip(texts[::2], texts[1::2], strict=False))
    if SETTINGS["choices"]:
        examples, given = [texts[0]], [(texts[0], choice) for choice in texts[1:]]
    elif SETTINGS["sequences"] == 2:  # it reads both orders
        examples, given = pairs, [pair for a, b in pairs for pair in ((a, b), (b, a))]
    else:
        examples = given = pairs if SETTINGS["pairs"] else texts
    rows = encoded(given)
    outputs = computed(rows)
    for i, example in enumerate(examples):
        found = {name: values[i] for name, values in outputs.items()}
        print(*said(example, rows[i], found, texts))


def said(example: Any, row: Encoding, found: dict[str, np.ndarray], texts: list[str]) -> tuple:
    """Return what is printed of an example; the outputs say what kind of model it is."""
    if "class_logits" in found:
        return example, rounded(lines("labels.txt"), found["probabilities"])
    if "label_logits" in found:
        pairs = zip(read_json("thresholds.json").items(), found["probabilities"], strict=True)
        return example, [label for (label, least), p in pairs if p >= least]
    if "choice_logits" in found:
        return example, rounded(texts[1:], found["probabilities"])
    if "score" in found:
        return example, round(float(found["score"]), 4)
    if "scores" in found:
        return example, rounded(lines("labels.txt"), found["scores"])
    if "tag_logits" in found:
        return (tagged(example, row, found["tag_logits"]),)
    if "start_logits" in found:
        question, document = example
        return question, answer(document, row, found["start_logits"], found["end_logits"])
    return example, {name: values.shape for name, values in found.items()}


def encoded(texts: list) -> list[Encoding]:
    """Return texts, or pairs of texts, as the model reads them."""
    tokenizer = Tokenizer.from_file(os.path.join(HERE, "tokenizer.json"))
    cut = "only_second" if SETTINGS["longest"] else "longest_first"
    tokenizer.enable_truncation(SETTINGS["length"], strategy=cut)
    fixed = SETTINGS["file"].endswith(".tflite")  # all rows have the same length
    tokenizer.enable_padding(length=SETTINGS["length"] if fixed else None)
    return tokenizer.encode_batch(texts)


def computed(rows: list[Encoding]) -> dict[str, np.ndarray]:
    """Return the outputs of the graph by name."""
    columns = {
        "input_word_ids": [row.ids for row in rows],
        "input_mask": [row.attention_mask for row in rows],
        "input_type_ids": [row.type_ids for row in rows],
    }
    inputs = {name: np.array(column, np.int32) for name, column in columns.items()}  # [B, T]
    if SETTINGS["sequences"] > 1:
        shape = (-1, SETTINGS["sequences"], len(rows[0].ids))
        inputs = {name: x.reshape(shape) for name, x in inputs.items()}  # [B, C, T]
    return graph(os.path.join(HERE, SETTINGS["file"]))(inputs)


def graph(path: str) -> Callable[[dict], dict[str, np.ndarray]]:
    """Return the graph as a function of a dict that may hold more than it reads."""
    if path.endswith(".onnx"):
        import onnxruntime

        model = onnxruntime.InferenceSession(path)
        read, made = ([x.name for x in xs] for xs in (model.get_inputs(), model.get_outputs()))
        return lambda x: dict(zip(made, model.run(None, {n: x[n] for n in read}), strict=True))
    import tensorflow as tf

    runner = tf.lite.Interpreter(path).get_signature_runner()
    return lambda x: runner(**{name: x[name] for name in runner.get_input_details()})


def tagged(text: str, row: Encoding, logits: np.ndarray) -> list[tuple[str, str]]:
    """Return the words of a text, between single spaces, with their tags; logits `[T, K]`."""
    pieces: dict[int, int] = {}  # the piece that stands for each word
    for place, (start, end) in enumerate(row.offsets):
        if end > start and not row.special_tokens_mask[place]:
            word = text[:end].count(" ")
            pieces[word] = pieces.get(word, place) if SETTINGS["head"] == "first" else place
    words, labels = sorted(pieces), lines("labels.txt")
    path = best_path(logits[[pieces[word] for word in words]])
    return [(text.split(" ")[w], labels[tag]) for w, tag in zip(words, path, strict=True)]


def best_path(logits: np.ndarray) -> list[int]:
    """Return the most probable sequence of tags `[W]` of logits `[W, K]`, by Viterbi."""
    moves = {name: np.array(x) for name, x in read_json("transitions.json").items()}
    scores, back = moves["start"] + logits[0], []
    for row in logits[1:]:
        ways = scores[:, None] + moves["transitions"]  # [from, to]
        back.append(ways.argmax(0))
        scores = ways.max(0) + row
    path = [int((scores + moves["end"]).argmax())]
    for ways in reversed(back):
        path.append(int(ways[path[-1]]))
    return path[::-1]


def answer(document: str, row: Encoding, start: np.ndarray, end: np.ndarray) -> str:
    """Return the best span of a document, of logits `[T]`."""
    places = [i for i, part in enumerate(row.sequence_ids) if part == 1]
    spans = [(i, j) for i in places for j in places if i <= j < i + SETTINGS["longest"]]
    i, j = max(spans, key=lambda span: start[span[0]] + end[span[1]])
    null = 0 if SETTINGS["head"] == "first" else sum(row.attention_mask) - 1
    threshold = SETTINGS["threshold"]
    if threshold is not None and start[null] + end[null] - start[i] - end[j] > threshold:
        return "(no answer)"
    return document[row.offsets[i][0] : row.offsets[j][1]].strip()


def rounded(names: list[str], probabilities: np.ndarray) -> dict[str, float]:
    """Return a dict of names to probabilities."""
    return {name: round(float(p), 4) for name, p in zip(names, probabilities, strict=True)}


def lines(name: str) -> list[str]:
    """Return the lines of a file beside this one."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read().splitlines()


def read_json(name: str) -> dict[str, Any]:
    """Return what a JSON file beside this one holds."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit("usage: python example.py TEXT [TEXT ...]")
    main(sys.argv[1:])
