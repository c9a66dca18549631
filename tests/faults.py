"""Put small faults into the library, one at a time, and count those that the quick tests notice.

    python -m tests.faults choose faults.json              # 60 of them, by a fixed seed
    python -m tests.faults try faults.json results.jsonl   # goes on where it stopped

A fault changes a sign, an operator or a constant, or drops a line. `try` finds the line again by
its text, so a sample of one version also measures the tests of another one, in a clean checkout.
"""

import ast
import collections
import json
import pathlib
import random
import subprocess
import sys

PACKAGES = ("layers", "models", "objectives", "tasks", "training", "data", "text", "checkpoints")
COUNT, SEED = 60, 39
KINDS = ("operator", "constant", "line", "sign")
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def nodes_of(tree, inside=False):
    """Yield the nodes of functions but for annotations, defaults and what leads to an error."""
    if isinstance(tree, ast.If) and isinstance(tree.body[0], ast.Raise):
        children = tree.orelse
    elif isinstance(tree, ast.Raise | ast.Assert | ast.arguments):
        children = []
    elif isinstance(tree, ast.FunctionDef):
        children = tree.body
    else:
        children = ast.iter_child_nodes(tree)
    for child in children:
        if inside or isinstance(tree, ast.FunctionDef):
            yield child
        yield from nodes_of(child, inside or isinstance(tree, ast.FunctionDef))


def fault(node, line):
    """Return `(kind, begin, end, new text)` of a node of one line, or None."""
    whole = (node.col_offset, node.end_col_offset)
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            ends = (
                "operator",
                left.end_col_offset,
                right.col_offset,
                f" {OPERATORS.get(type(op))} ",
            )
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            ends = ("operator", left.end_col_offset, right.col_offset, f" {OPERATORS[type(op)]} ")
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            ends = ("sign", node.col_offset, operand.col_offset, "")
        case ast.Constant(value=bool(value)):
            ends = ("constant", *whole, str(not value))
        case ast.Constant(value=int(value) | float(value)):
            ends = ("constant", *whole, repr(value + 1))
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            ends = ("line", *whole, "pass")
        case _:
            return None
    replaced = line[ends[1] : ends[2]]
    fits = ends[0] == "line" or not set("()") & set(replaced)
    return ends if fits and "None" not in ends[3] else None


def choose():
    """Return the faults, the same number of each package, its kinds in turn."""
    rng, chosen = random.Random(SEED), []
    for number, package in enumerate(PACKAGES):
        found = collections.defaultdict(list)
        for path in sorted(pathlib.Path("tfnlp", package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in nodes_of(ast.parse(text)):
                if getattr(node, "lineno", 0) != getattr(node, "end_lineno", None):
                    continue
                line = text.split("\n")[node.lineno - 1]
                if line.isascii() and (ends := fault(node, line)) is not None:
                    kind, begin, end, new = ends
                    row = {"package": package, "path": str(path), "number": node.lineno}
                    found[kind].append(
                        {**row, "line": line, "new": line[:begin] + new + line[end:]}
                    )
        for turn in range(COUNT // len(PACKAGES) + (number < COUNT % len(PACKAGES))):
            chosen.append(rng.choice(found[KINDS[turn % len(KINDS)]]))
    return chosen


def tests_of(package, path):
    """Return the files of a package's tests, those that name the module first.

    The numbers of models are compared with other code's where their checkpoints are read.
    """
    folders = [package, *(["checkpoints"] if package == "models" else [])]
    files = sorted(f for x in folders for f in pathlib.Path("tests", x).rglob("*_test.py"))
    stem = pathlib.Path(path).stem
    return sorted(files, key=lambda f: (stem not in f.name, stem not in f.read_text("utf-8")))


def noticed(row):
    """Return whether the tests notice a fault; None if its line is gone."""
    path = pathlib.Path(row["path"])
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if line == row["line"]]
    if not places:
        return None
    lines[min(places, key=lambda i: abs(i + 1 - row["number"]))] = row["new"]
    path.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not long"]
    try:
        files = tests_of(row["package"], row["path"])
        return subprocess.run([*command, *files], stdout=subprocess.DEVNULL).returncode != 0
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    action, faults = sys.argv[1], pathlib.Path(sys.argv[2])
    if action == "choose":
        faults.write_text(json.dumps(choose(), indent=1), encoding="utf-8")
        return
    results = pathlib.Path(sys.argv[3])
    done = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    for row in json.loads(faults.read_text(encoding="utf-8"))[len(done) :]:
        done.append(json.dumps({**row, "noticed": noticed(row)}))
        results.write_text("\n".join(done) + "\n", encoding="utf-8")
        print(done[-1], flush=True)
    print(collections.Counter(str(json.loads(line)["noticed"]) for line in done))


if __name__ == "__main__":
    main()
