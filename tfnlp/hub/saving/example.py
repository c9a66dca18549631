"""`example.py`, the program beside a LiteRT or ONNX file that calls it with texts."""

import os
from collections.abc import Iterable
from typing import Any

from tfnlp.text.lines import write_text

_TITLES = {
    "class": "Classes of texts",
    "label": "Labels of texts",
    "score": "Similarities of texts",
    "choice": "The text that goes on from another",
    "tag": "Tags of words",
    "span": "Answers to questions",
    "vector": "Vectors of texts",
}
_READ_JSON = ("label", "tag")
_NEEDS = {"onnx": "onnxruntime", "tflite": "tensorflow"}
_IMPORTS = {"onnx": "import onnxruntime", "tflite": "import tensorflow as tf"}

_HEAD = '''"""{title}, by {file}: pip install numpy tokenizers {needs}"""

{modules}
import numpy as np
{imports}
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTH = {length}  # tokens; {longer}

tokenizer = Tokenizer.from_file(os.path.join(HERE, "tokenizer.json"))
tokenizer.enable_truncation(LENGTH{strategy})
tokenizer.enable_padding({padding})
'''
_RUN = {
    "onnx": '''
model = onnxruntime.InferenceSession(os.path.join(HERE, "{file}"))
names = [x.name for x in model.get_inputs()]


def compute(inputs):
    """Return the outputs of the graph by name."""
    values = model.run(None, {{name: inputs[name] for name in names}})
    return dict(zip([x.name for x in model.get_outputs()], values))
''',
    "tflite": '''
model = tf.lite.Interpreter(os.path.join(HERE, "{file}")).get_signature_runner()
names = list(model.get_input_details())


def compute(inputs):
    """Return the outputs of the graph by name."""
    return model(**{{name: inputs[name] for name in names}})
''',
}
_IDS = '''

def ids(rows):
    """Return the inputs of the graph for encoded rows, int32 [B, T]."""
    columns = {
        "input_word_ids": [row.ids for row in rows],
        "input_mask": [row.attention_mask for row in rows],
        "input_type_ids": [row.type_ids for row in rows],
    }
    return {name: np.array(column, np.int32) for name, column in columns.items()}

'''
_LABELS = """
with open(os.path.join(HERE, "labels.txt"), encoding="utf-8") as file:
    labels = file.read().splitlines()
"""
_SEVERAL = """rows = tokenizer.encode_batch([row for example in examples for row in example])
inputs = {n: x.reshape(len(examples), -1, x.shape[-1]) for n, x in ids(rows).items()}  # [B, C, T]
"""

_CLASSES = """
texts = {texts}
outputs = compute(ids(tokenizer.encode_batch(texts)))
for text, probabilities in zip(texts, outputs["probabilities"]):
    print(text, {label: round(float(p), 4) for label, p in zip(labels, probabilities)})
"""
_LABEL_SETS = """
with open(os.path.join(HERE, "thresholds.json"), encoding="utf-8") as file:
    thresholds = json.load(file)

texts = {texts}
outputs = compute(ids(tokenizer.encode_batch(texts)))
for text, probabilities in zip(texts, outputs["probabilities"]):
    print(text, [label for label, p in zip(labels, probabilities) if p >= thresholds[label]])
"""
_TEXTS = {
    1: '["the first text", "and a second one"]',
    2: '[("the first text", "another one")]',
}
_SCORES = """
texts = [("the first text", "another one")]
{inputs}
for text, score in zip(texts, compute(inputs)["score"]):
    print(text, round(float(score), 4))
"""
_SINGLE = "inputs = ids(tokenizer.encode_batch(texts))"
_ORDERS = "examples = [[(a, b), (b, a)] for a, b in texts]  # it reads both orders\n" + _SEVERAL
_CHOICES = """
text, choices = "the first text", [{choices}]
examples = [[(text, choice) for choice in choices]]
{inputs}for probabilities in compute(inputs)["probabilities"]:
    print(text, {choice: round(float(p), 4) for choice, p in zip(choices, probabilities)})
"""
_VECTORS = """
texts = ["the first text", "and a second one"]
for name, values in compute(ids(tokenizer.encode_batch(texts))).items():
    print(name, values.shape)
"""
_TAGS = '''

def best_path(logits):
    """Return the most probable sequence of tags [W] of logits [W, K], by Viterbi's algorithm."""
    with open(os.path.join(HERE, "transitions.json"), encoding="utf-8") as file:
        moves = {name: np.array(x) for name, x in json.load(file).items()}
    scores, back = moves["start"] + logits[0], []
    for row in logits[1:]:
        ways = scores[:, None] + moves["transitions"]  # [from, to]
        back.append(ways.argmax(0))
        scores = ways.max(0) + row
    path = [int((scores + moves["end"]).argmax())]
    for ways in reversed(back):
        path.append(int(ways[path[-1]]))
    return path[::-1]


texts = ["words between single spaces", "and a second sentence"]
rows = tokenizer.encode_batch(texts)
for text, row, logits in zip(texts, rows, compute(ids(rows))["tag_logits"]):
    heads = {}  # the piece that stands for each word: its {head}
    for place, (start, end) in enumerate(row.offsets):
        if end > start and not row.special_tokens_mask[place]:
            word = text[:end].count(" ")
            heads[word] = {place}
    tags = best_path(logits[[heads[word] for word in sorted(heads)]])
    print([(text.split(" ")[w], labels[tag]) for w, tag in zip(sorted(heads), tags)])
'''
_SPANS = """
questions = [("who went home ?", "The dog went home. The cat stayed.")]
rows = tokenizer.encode_batch(questions)
outputs = compute(ids(rows))
for (question, document), row, start, end in zip(
    questions, rows, outputs["start_logits"], outputs["end_logits"]
):
    best, answer = -np.inf, ""
    places = [i for i, part in enumerate(row.sequence_ids) if part == 1]  # of the document
    for i in places:
        for j in range(i, min(i + {longest}, places[-1] + 1)):
            if start[i] + end[j] > best:
                best = start[i] + end[j]
                answer = document[row.offsets[i][0] : row.offsets[j][1]].strip()
{none}    print(question, answer)
"""
_NONE = """    nothing = {null}
    if start[nothing] + end[nothing] - best > {threshold}:
        answer = "(no answer)"
"""


def write_example(folder: str, file: str, output: str, length: int, **settings: Any) -> None:
    """Write `example.py` into the folder of a graph, if `tokenizer.json` is there.

    Args:
        folder: where to.
        file, output, length, **settings: see `example`.
    """
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        text = example(file, output, length, **settings)
        write_text(os.path.join(folder, "example.py"), text)


def example(
    file: str,
    output: str,
    length: int,
    *,
    texts: int = 1,
    sequences: int = 1,
    head: str = "first",
    longest: int = 30,
    threshold: float | None = None,
) -> str:
    """Return the program.

    Args:
        file: name of the graph's file, `model.onnx` or `model.tflite`.
        output: "class", "label", "score", "choice", "tag", "span" or "vector".
        length: longest sequence.
        texts: of a sequence, of "class", "label" and "score".
        sequences: of an example.
        head: which piece stands for its word, of "tag"; where the null position is, of "span".
        longest: span in pieces.
        threshold: of "no answer"; None: there always is an answer.
    """
    ending = file.rpartition(".")[2]
    parts = [_HEAD, _RUN[ending], _IDS, _body(output, texts, sequences, head, longest, threshold)]
    if output in ("class", "label", "tag"):
        parts.insert(3, _LABELS)
    settings = {
        "title": _TITLES[output],
        "file": file,
        "needs": _NEEDS[ending],
        "imports": _IMPORTS[ending],
        "modules": "import json\nimport os\n" if output in _READ_JSON else "import os\n",
        "length": length,
        "longer": "what is longer is cut" if ending == "onnx" else "all rows have so many",
        "strategy": ', strategy="only_second"' if output == "span" else "",
        "padding": "" if ending == "onnx" else "length=LENGTH",
    }
    parts[:2] = [part.format(**settings) for part in parts[:2]]
    return "".join(parts)


def _body(
    output: str, texts: int, sequences: int, head: str, longest: int, threshold: float | None
) -> str:
    if output == "class":
        return _CLASSES.replace("{texts}", _TEXTS[texts])
    if output == "label":
        return _LABEL_SETS.replace("{texts}", _TEXTS[texts])
    if output == "score":
        return _SCORES.replace("{inputs}", _ORDERS.rstrip() if sequences > 1 else _SINGLE)
    if output == "choice":
        words = _quoted(f"choice {n}" for n in range(1, sequences + 1))
        return _CHOICES.replace("{choices}", ", ".join(words)).replace("{inputs}", _SEVERAL)
    if output == "tag":
        place = "heads.get(word, place)" if head == "first" else "place"
        return _TAGS.replace("{place}", place).replace("{head}", head)
    if output == "vector":
        return _VECTORS
    none = ""
    if threshold is not None:
        null = "0" if head == "first" else "sum(row.attention_mask) - 1"
        none = _NONE.replace("{null}", null).replace("{threshold}", repr(threshold))
    return _SPANS.replace("{longest}", str(longest)).replace("{none}", none)


def _quoted(words: Iterable[str]) -> list[str]:
    return [f'"{word}"' for word in words]
