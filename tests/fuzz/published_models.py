"""Random models of transformers, read and written by tfnlp: equal, or refused by a field's name.

    make peers                                                  # transformers, in .venv-peers
    python -m tests.fuzz.published_models --count 500           # a table, in Markdown
    python -m tests.fuzz.published_models --first 17 --count 1  # one alone
    python -m tests.fuzz.published_models --adapters            # PEFT's

Model n is that of the seed n (`published_models_peer.py`). Numbers are equal if they differ by at
most 1e-5, or 1e-5 of the largest, at all real positions; answers and choices up to what is added to
all of them, which tfnlp does not keep.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import tfnlp
from tfnlp.runs.verifying import gaps, outputs_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = pathlib.Path(os.environ.get("TFNLP_PEERS", ROOT / ".venv-peers")) / "bin" / "python"
TOLERANCE = 1e-5
_UP_TO_A_SUM = ("start_logits", "end_logits", "choice_logits")


@dataclasses.dataclass
class Result:
    """What became of a model: "equal", "refused", or what is wrong; `name` is its class."""

    number: int
    name: str
    outcome: str
    message: str = ""


def peer(*arguments: str) -> None:
    """Run `published_models_peer.py` where transformers is."""
    script = str(pathlib.Path(__file__).with_name("published_models_peer.py"))
    run = subprocess.run([PEER, script, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{script} {' '.join(arguments)}: {run.stderr[-3000:]}")


def read(
    folder: pathlib.Path, stored: dict[str, np.ndarray], write: bool = True
) -> tuple[str, str]:
    """Read a checkpoint and `write` it again; return the outcome and what there is to say."""
    names = ("config.json", "adapter_config.json")
    config = json.loads(next(p for n in names if (p := folder / n).is_file()).read_text())
    try:
        loaded = tfnlp.load(folder)
    except ValueError as error:
        named = any(key in str(error) for key in config)
        return "refused" if named else "refused without a field", str(error)
    differences = {k: x.max() for k, x in gaps(outputs_of(loaded, stored), stored).items()}
    wrong = {key: f"{x:.1e}" for key, x in differences.items() if not x <= TOLERANCE}
    if wrong or not differences:
        return "unequal", f"{wrong}"
    try:
        if write:
            loaded.save(folder.with_suffix(".written"))
    except ValueError as error:
        return "not written", str(error)
    return "equal", ""


def run(first: int, count: int, place: pathlib.Path, task: str = "make") -> list[Result]:
    """Return what became of `count` models, whose files are in `place` afterwards.

    The task "adapters" makes adapters of PEFT.
    """
    peer(task, str(place), str(first), str(first + count))
    results = []
    for number, name in json.loads((place / f"{task}.json").read_text()).items():
        folder = place / f"{int(number):05d}"
        if not folder.is_dir():
            continue  # transformers has no such model
        stored = dict(np.load(f"{folder}.npz"))
        try:
            results.append(Result(int(number), name, *read(folder, stored)))
        except Exception as error:
            results.append(Result(int(number), name, "error", f"{type(error).__name__}: {error}"))
    peer("check", str(place))
    said = json.loads((place / "check.json").read_text())
    for each in results:
        folder = place / f"{each.number:05d}"
        if f"{folder.name}" in said:
            each.outcome, each.message = "written wrong", said[folder.name]
        elif each.outcome == "equal":
            stored, again = (dict(np.load(f"{folder}{end}")) for end in (".npz", ".again.npz"))
            wrong = _differences(again, stored)
            if wrong:
                each.outcome, each.message = "written unequal", f"{wrong}"
    return results


def _differences(again: dict[str, np.ndarray], stored: dict[str, np.ndarray]) -> dict[str, str]:
    """Return the outputs of what tfnlp wrote that are not those of the original."""
    mask = stored["in/attention_mask"] != 0
    wrong = {}
    for key, x in again.items():
        if key not in stored:
            continue
        y, real = stored[key], np.ones(x.shape, bool)
        if x.shape[: mask.ndim] == mask.shape and (x.ndim > 2 or "start" in key or "end" in key):
            real = np.broadcast_to(mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim)), x.shape)
        if key in _UP_TO_A_SUM or mask.ndim == 3:
            x, y = (v - np.mean(v, -1, where=real, keepdims=True) for v in (x, y))
        gap = np.abs(x - y)[real].max() / max(1.0, np.abs(y[real]).max())
        if not gap <= TOLERANCE:
            wrong[key] = f"{gap:.1e}"
    return wrong


def main() -> int:
    """Print a table of outcomes and what is not equal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--adapters", action="store_true", help="those of PEFT")
    parser.add_argument("--folder", help="where the files stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        task = "adapters" if options.adapters else "make"
        results = run(options.first, options.count, pathlib.Path(options.folder or folder), task)
    for each in results:
        if each.outcome != "equal":
            print(f"{each.number} {each.name}: {each.outcome}: {each.message}")
    counts = collections.Counter(each.outcome for each in results)
    print("\n| outcome | models |\n|---|---:|")
    for outcome, count in counts.most_common():
        print(f"| {outcome} | {count} |")
    return not set(counts) <= {"equal", "refused"}


if __name__ == "__main__":
    sys.exit(main())
