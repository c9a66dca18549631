"""Drawings of the models, made from the Keras models themselves.

    python -m website.drawings      # writes docs/drawings/*.svg anew

A box is a call of a layer, with its name, class, number of weights and shapes of outputs; equal
layers in a row are one box. Arrows are the graph's tensors, dashed where they are masks. Operations
that are no layers (sums, casts, slices) and dropout are left out: arrows go through them. The
colours are CSS variables, for light and dark.
"""

import dataclasses
import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras

from website.links import ROOT

FOLDER = ROOT / "docs/drawings"
_BOX = (284, 58)  # width and height
_GAP = (28, 46)
_THREAD = 10  # width of an arrow that passes a rank
_STYLE = """
.drawing{--back:#fff;--box:#eef1fb;--input:#f6f1e4;--output:#e6f4ea;--line:#5c6a9a;--text:#1c2333;
--soft:#566078;font:13px sans-serif;max-width:100%;height:auto}
@media(prefers-color-scheme:dark){.drawing{--back:#1e2129;--box:#2b3350;--input:#3d3626;
--output:#233a2c;--line:#93a1d6;--text:#e8ebf5;--soft:#a9b2c9}}
.drawing rect{fill:var(--box);stroke:var(--line)}.drawing .back{fill:var(--back);stroke:none}
.drawing .input{fill:var(--input)}.drawing .output{fill:var(--output)}
.drawing text{fill:var(--text);text-anchor:middle}.drawing .soft{fill:var(--soft);font-size:12px}
.drawing .name{font-weight:bold}.drawing path{fill:none;stroke:var(--line);stroke-width:1.4}
.drawing .mask{stroke-dasharray:3 4}.drawing .head{fill:var(--line);stroke:none}
""".strip()


def models() -> dict[str, tuple[str, Callable[[], keras.Model]]]:
    """Return for each drawing its title and the function that makes its model."""
    from tfnlp import models as m

    return {
        "elmo": ("ELMo, as published", lambda: m.elmo(**m.ELMO_ORIGINAL)),
        "bert": ("Encoder: BERT-base", lambda: m.bert(**m.BERT_BASE)),
        "gpt": ("Decoder: GPT-2 small", lambda: m.gpt(**m.GPT2_SMALL)),
        "transformer": (
            "Encoder and decoder: the Transformer, base",
            lambda: m.transformer(**m.TRANSFORMER_BASE),
        ),
    }


@dataclasses.dataclass
class Box:
    """A rectangle: its text, its kind, and the boxes that it takes, with "mask" or ""."""

    name: str
    title: str
    shapes: str
    kind: str
    takes: dict[Any, str]
    weights: int = 0
    rank: int = 0
    x: float = 0.0

    @property
    def width(self) -> int:
        return _THREAD if self.kind == "thread" else _BOX[0]


# From the model to boxes.


def boxes_of(model: keras.Model) -> dict[Any, Box]:
    """Return the boxes of a functional model with a dict of outputs, each after those it takes."""
    boxes = {}

    def visit(call: tuple) -> None:
        if call not in boxes:
            takes = _sources(_node(call).input_tensors)
            for source in takes:
                visit(source)
            boxes[call] = _layer_box(call, takes)

    for name, value in model.output.items():
        tensors = keras.tree.flatten(value)
        sources = _sources(tensors)
        for source in sources:
            visit(source)
        takes = {source: "" for source, kind in sources.items() if kind != "mask"}
        boxes[name] = Box(name, "output", _shapes(tensors), "output", takes)
    return _merged(boxes)


def _node(call: tuple) -> Any:
    operation, index = call
    return operation._inbound_nodes[index]


def _sources(tensors: list, kind: str = "") -> dict[tuple, str]:
    """Return the calls of layers that are drawn and that tensors come from; masks as "mask"."""
    found = {}
    for tensor in tensors:
        operation, index, _ = tensor._keras_history
        of = "mask" if tensor.dtype == "bool" else kind
        if _is_drawn(operation):
            sources = {(operation, index): of}
        else:
            sources = _sources(_node((operation, index)).input_tensors, of)
        for source, how in sources.items():
            found[source] = "mask" if how == "mask" and found.get(source) != "" else ""
    return found


def _is_drawn(operation: Any) -> bool:
    is_layer = isinstance(operation, keras.layers.Layer)
    return is_layer and not type(operation).__name__.endswith("Dropout")


def _layer_box(call: tuple, takes: dict) -> Box:
    layer, index = call
    shapes = _shapes(_node(call).output_tensors)
    if isinstance(layer, keras.layers.InputLayer):
        return Box(layer.name, "input", shapes, "input", takes)
    title = type(layer).__name__
    if index and layer.count_params():
        return Box(layer.name, f"{title}, the same weights", shapes, "layer", takes)
    return Box(layer.name, title, shapes, "layer", takes, layer.count_params())


def _shapes(tensors: list) -> str:
    """Return the shapes of tensors, such as "[B, T, 768]"."""
    counts = {}
    for tensor in tensors:
        first, *rest = tensor.shape
        sizes = ["B" if first is None else first, *("T" if size is None else size for size in rest)]
        text = "[" + ", ".join(map(str, sizes)) + "]"
        counts[text] = counts.get(text, 0) + 1
    return ", ".join(f"{n} x {text}" if n > 1 else text for text, n in counts.items())


def _merged(boxes: dict[Any, Box]) -> dict[Any, Box]:
    """Return boxes where a chain of layers that differ in their number alone is one box."""
    merged, chains, stands_for = {}, {}, {}
    for key, box in boxes.items():
        takes = {}
        for source, kind in box.takes.items():
            takes.setdefault(stands_for[source], kind)
        layer = re.sub(r"\d+$", "", box.name), box.title
        first = next((source for source in takes if chains.get(source, [None])[0] == layer), None)
        if first is None:
            stands_for[key] = key
            merged[key] = dataclasses.replace(box, takes=takes)
            if layer[0] != box.name:
                chains[key] = [layer, box]
        else:
            stands_for[key] = first
            chains[first].append(box)
            merged[first].takes |= {k: v for k, v in takes.items() if k != first}
    for key, (layer, *chain) in chains.items():
        if len(chain) > 1:
            merged[key].name = f"{chain[0].name} ... {chain[-1].name.removeprefix(layer[0])}"
            merged[key].title = f"{len(chain)} x {layer[1]}"
            merged[key].weights = sum(box.weights for box in chain)
            merged[key].shapes = chain[-1].shapes
    return merged


# From boxes to places.


def arrange(boxes: dict[Any, Box]) -> list[list[Box]]:
    """Give boxes their ranks and places, and return the rows, lowest first, threads included."""
    for box in boxes.values():
        box.rank = max((boxes[source].rank + 1 for source in box.takes), default=0)
    for key, box in boxes.items():
        if not box.takes:  # an input stands just below what takes it first
            box.rank = min(b.rank for b in boxes.values() if key in b.takes) - 1
    rows = [[] for _ in range(max(box.rank for box in boxes.values()) + 1)]
    for box in boxes.values():
        rows[box.rank].append(box)
    _add_threads(boxes, rows)
    takers = _takers(boxes)
    for _ in range(8):
        for row in rows[1:]:
            _sort(row, lambda box: [boxes[source].x for source in box.takes])
        for row in rows[-2::-1]:
            _sort(row, lambda box: [taker.x for taker in takers[id(box)]])
    return rows


def _add_threads(boxes: dict[Any, Box], rows: list[list[Box]]) -> None:
    """Cut arrows that pass a rank into pieces with a narrow box of no colour at each rank."""
    for key, box in list(boxes.items()):
        for source, kind in list(box.takes.items()):
            at = source
            for rank in range(boxes[source].rank + 1, box.rank):
                thread = (key, source, rank)
                boxes[thread] = Box("", "", "", "thread", {at: kind}, rank=rank)
                rows[rank].append(boxes[thread])
                at = thread
            if at is not source:
                del box.takes[source]
                box.takes[at] = kind


def _takers(boxes: dict[Any, Box]) -> dict[int, list[Box]]:
    takers = {id(box): [] for box in boxes.values()}
    for box in boxes.values():
        for source in box.takes:
            takers[id(boxes[source])].append(box)
    return takers


def _sort(row: list[Box], neighbours: Callable[[Box], list[float]]) -> None:
    """Order a row by the mean place of each box's neighbours, and centre it on them."""
    wanted = {}
    for box in row:
        places = neighbours(box)
        wanted[id(box)] = sum(places) / len(places) if places else box.x
    row.sort(key=lambda box: wanted[id(box)])
    right = 0.0
    for box in row:
        box.x = right + box.width / 2
        right += box.width + _GAP[0]
    shift = sum(wanted[id(box)] - box.x for box in row) / len(row)
    for box in row:
        box.x += shift


# From places to SVG.


def drawing(model: keras.Model, title: str) -> str:
    """Return a functional model as SVG."""
    boxes = boxes_of(model)
    rows = arrange(boxes)
    left = min(box.x - box.width / 2 for row in rows for box in row) - 12
    right = max(box.x + box.width / 2 for row in rows for box in row) + 12
    for box in boxes.values():
        box.x = round(box.x - left)
    width, step = round(right - left), _BOX[1] + _GAP[1]
    height = len(rows) * step - _GAP[1] + 24
    parts = [
        f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
    ]

    def bottom(box: Box) -> int:
        return height - 12 - box.rank * step

    for box in boxes.values():
        parts += _arrows(box, boxes, bottom)
    for box in boxes.values():
        if box.kind != "thread":
            parts += _rectangle(box, bottom(box) - _BOX[1])
    return "\n".join([*parts, "</svg>", ""])


def _arrows(box: Box, boxes: dict[Any, Box], bottom: Callable[[Box], int]) -> Iterator[str]:
    """Yield the arrows into a box, spread over its lower side; of a thread also the line up."""
    sources = sorted(box.takes, key=lambda source: boxes[source].x)
    for number, source in enumerate(sources):
        start = boxes[source]
        x = box.x
        if box.kind != "thread":
            x += round((number - (len(sources) - 1) / 2) * min(60, 200 / len(sources)))
        low, high = bottom(start) - _BOX[1], bottom(box)
        end = high if box.kind == "thread" else high + 7
        middle = (low + end) // 2
        up = f" V{high - _BOX[1]}" if box.kind == "thread" else ""
        kind = f' class="{box.takes[source]}"' if box.takes[source] else ""
        yield f'<path{kind} d="M{start.x} {low} C{start.x} {middle} {x} {middle} {x} {end}{up}"/>'
        if box.kind != "thread":
            yield f'<path class="head" d="M{x} {high} l-4 8 h8 z"/>'


def _rectangle(box: Box, top: int) -> Iterator[str]:
    width, height = _BOX
    yield (
        f'<rect class="{box.kind}" x="{box.x - width // 2}" y="{top}" width="{width}" '
        f'height="{height}" rx="6"/>'
    )
    title = f"{box.title}, {box.weights:,} weights" if box.weights else box.title
    for at, kind, line in ((18, "name", box.name), (34, "soft", title), (50, "soft", box.shapes)):
        yield f'<text class="{kind}" x="{box.x}" y="{top + at}">{html.escape(line)}</text>'


def main() -> None:
    """Write all drawings."""
    FOLDER.mkdir(exist_ok=True)
    for name, (title, make) in models().items():
        (FOLDER / f"{name}.svg").write_text(drawing(make(), title), "utf-8")


if __name__ == "__main__":
    main()
