"""The commands that `benchmarks.kills` kills: their texts, and what must be equal when they end."""

import dataclasses
import json
import pathlib

from tfnlp import books

# A checkpoint every other step, and dropout: there is much to lose.
TRAINING = "--batch-size 8 --steps 24 --steps-per-call 2 --checkpoint-every 2 --keep 2".split()
TRAINING += "--evaluate-every 6 --evaluate-batches 2".split()
TEXT = "--input TEXT --layout lines".split()
PAIRS = "--source TEXT --target TARGET --valid-source VALID --valid-target VALID".split()
BLOCKS = "--num-layers 1 --hidden-size 16 --num-heads 2 --dropout 0.2".split()
TUNING = "--epochs 2 --batch-size 4 --no-buckets --evaluations 3".split()
# SavedModels carry a random number there.
RANDOM = ("fingerprint.pb",)


@dataclasses.dataclass(frozen=True)
class Work:
    """A command.

    Args:
        arguments: those of `tfnlp`; it runs in an empty folder. Names in capitals stand for files,
            `<name>/...` for the folder in which another work has been done.
        needs: the name of that other work.
    """

    arguments: list[str]
    needs: str | None = None


def _pretrain(family: str, *options: str) -> Work:
    return Work(["pretrain", family, "--output", "run", *TRAINING, *options])


def _use(command: str, model: str, *options: str) -> Work:
    folder = "task" if model.startswith("finetune") else "run"
    return Work([*command.split(), "--model", f"<{model}>/{folder}", *options], model)


WORKS = {
    "pretrain_word2vec": _pretrain("word2vec", *TEXT, "--dimension", "8", "--block", "8"),
    "pretrain_nnlm": _pretrain("nnlm", *TEXT, "--hidden-size", "8", "--dropout", "0.2"),
    "pretrain_seq2seq": _pretrain(
        "seq2seq", *PAIRS, *"--vocab-size 300 --hidden-size 16 --dropout 0.2".split()
    ),
    "pretrain_transformer": _pretrain("transformer", *PAIRS, *BLOCKS, "--vocab-size", "300"),
    "pretrain_elmo": _pretrain(
        "elmo", *TEXT, *"--size mini --num-layers 1 --units 16 --projection-size 8".split(),
        *"--num-highway 1 --window 8 --dropout 0.2".split(),
    ),
    "pretrain_gpt": _pretrain(
        "gpt", *TEXT, *BLOCKS, "--vocab-size", "320", "--seq-length", "16"
    ),
    "pretrain_bert": _pretrain(
        "bert", *TEXT, *BLOCKS, "--vocab-size", "300", "--seq-length", "16"
    ),
    "finetune_classify": _use(
        "finetune classify --train ROWS --dev DEV --output task --dropout 0.2 --seeds 1 2",
        "pretrain_bert", *TUNING,
    ),
    "finetune_tag": _use(
        "finetune tag --train TAGS --dev TAGS --output task --units 8", "pretrain_elmo", *TUNING
    ),
    "vocab": Work("vocab --input BOOK --output vocab.txt --size 4000".split()),
    "examples": Work(
        ["examples", "bert", "--output", "examples", *TEXT]
        + "--vocab-size 300 --seq-length 16 --shards 4 --epochs 3".split()
    ),
    "export_bert": _use("export --output modules", "pretrain_bert"),
    "export_gpt": _use("export --output modules", "pretrain_gpt"),
    "export_elmo": _use("export --output module", "pretrain_elmo"),
    "export_task": _use("export --output module", "finetune_classify"),
    "predict_elmo": _use("predict elmo --input TEXT --hdf5 layers.hdf5", "pretrain_elmo"),
    "predict_task": _use("predict task --input DEV --output said.jsonl", "finetune_classify"),
}  # fmt: skip


def write_texts(folder: pathlib.Path) -> dict[str, str]:
    """Write the files that the commands read; return their paths by the names in capitals."""
    words = books.path().read_text(encoding="utf-8").split()[:6000]
    lines = [words[i : i + 11] for i in range(0, len(words), 11)]
    rows = [
        {"sentence": " ".join(line), "label": "she" if "she" in line else "nobody"}
        for line in lines[:40]
    ]
    tags = [
        {"words": line, "tags": ["B-x" if word[0].isupper() else "O" for word in line]}
        for line in lines[:20]
    ]
    texts = {
        "TEXT.txt": [" ".join(line) for line in lines],
        "TARGET.txt": [" ".join(reversed(line)) for line in lines],
        "VALID.txt": [" ".join(line) for line in lines[:8]],
        "ROWS.jsonl": [json.dumps(row) for row in rows],
        "DEV.jsonl": [json.dumps(row) for row in rows[:20]],
        "TAGS.jsonl": [json.dumps(row) for row in tags],
    }
    for name, content in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    paths = {name.split(".")[0]: str(folder / name) for name in texts}
    return {**paths, "BOOK": str(books.path())}


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Return how the folder `other` differs from `one`, byte for byte.

    TensorBoard's logs are left out: each start of a run adds a file.
    """
    files, others = (
        {
            str(path.relative_to(folder)): path
            for path in folder.rglob("*")
            if "logs" not in path.parts and path.name not in RANDOM
        }
        for folder in (one, other)
    )
    found = [f"{name} is missing" for name in sorted(files.keys() - others.keys())]
    found += [f"{name} is left over" for name in sorted(others.keys() - files.keys())]
    for name in sorted(files.keys() & others.keys()):
        if files[name].is_dir() and others[name].is_dir():
            continue
        if files[name].read_bytes() != others[name].read_bytes():
            found.append(f"{name} differs")
    return found
