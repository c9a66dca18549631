"""What is left of commands that are killed at random moments, and given again?

    python -m benchmarks.kills [--count 200] [--seed 0] [--only pretrain_bert vocab ...]

For each kind of work a command of a few seconds ends once without being killed; the time it takes
and the files that it writes are what the others are compared with. Then, kind after kind: the
command starts in an empty folder and it, and all that it has started, is killed (SIGKILL) at a
random moment of that time; the same command is given again, and killed again with probability
0.65, until it has come to its end. What it left must then be the same files, byte for byte, and no
others. TensorBoard's logs are left out, and the random number in a SavedModel's `fingerprint.pb`.
A command that refuses to go on and names `--overwrite` or `--restart` is given with it.

Each command is a process of its own, forked from this one, which has imported what the commands
need and has done nothing with it: imports take seconds in which there is nothing to lose. The exit
code is 1 if something else was left.
"""

import argparse
import collections
import contextlib
import importlib
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

from tests.docs_files import provide
from tests.made import SETTINGS, TRANSLATORS, options
from tfnlp import books
from tfnlp.cli import command as cli

FORK = multiprocessing.get_context("fork")
AGAIN = 0.65  # probability that the command is killed once more
LIMIT = 600.0  # seconds that a command may take: it hangs after them
MODULES = "hub layers models runs.finetuning runs.pretraining tasks text training".split()
COLUMNS = ("kills", "ends", "identical", "refused", "wrong", "seconds")

# A checkpoint every other step: there is much to lose.
TRAINING = dict(
    batch_size=8, steps=24, steps_per_call=2, checkpoint_every=2, keep=2, evaluate_every=6,
    evaluate_batches=2,
)  # fmt: skip
TUNING = "--epochs 2 --batch-size 4 --no-buckets --evaluations 3".split()
# The toy files of the names in capitals.
FILES = {
    "TEXT": "texts.txt", "VALID": "dev.txt", "ROWS": "train.tsv", "DEV": "dev.tsv",
    "TAGS": "tags.conll", "ROLES": "roles.conllu", "CLUSTERS": "novels_1.conll",
    "RELATED": "pairs.tsv",
}  # fmt: skip
# SavedModels carry a random number there.
RANDOM = ("fingerprint.pb",)


def _pretrain(family, *more):
    sides = ["source", "target", "valid-source", "valid-target"]
    sides = sides if family in TRANSLATORS else ["input", "valid"]
    texts = {side: "VALID" if "valid" in side else "TEXT" for side in sides}
    own = {"average": 0} if family in TRANSLATORS else {"layout": "lines"}
    settings = {"output": "run", **texts, **own, **SETTINGS[family], **TRAINING}
    return ["pretrain", family, *map(str, options(settings)), *more]


def _use(command, model, *options):
    folder = "task" if model.startswith("finetune") else "run"
    return [*command.split(), "--model", f"<{model}>/{folder}", *options]


# The arguments of `tfnlp` in an empty folder, where names in capitals stand for files and
# `<name>/...` for the folder in which another work has been done.
WORKS = {
    **{f"pretrain_{family}": _pretrain(family) for family in SETTINGS},
    "pretrain_distilbert": _pretrain("distilbert", "--teacher", "<pretrain_bert>/run"),
    "pretrain_bert_jax": _pretrain("bert", "--engine", "jax"),
    "finetune_classify": _use(
        "finetune classify --train ROWS --dev DEV --output task --dropout 0.2 --seeds 1 2",
        "pretrain_bert", *TUNING,
    ),
    "finetune_tag": _use(
        "finetune tag --train TAGS --dev TAGS --output task --units 8", "pretrain_elmo", *TUNING
    ),
    "finetune_roles": _use(
        "finetune roles --train ROLES --dev ROLES --output task", "pretrain_bert", *TUNING
    ),
    "finetune_coref": _use(
        "finetune coref --train CLUSTERS --dev CLUSTERS --output task --max-length 16",
        "pretrain_bert", *TUNING,
    ),
    "finetune_embed": _use(
        "finetune embed --train RELATED --dev RELATED --output run --sizes 4",
        "pretrain_bert", *TUNING,
    ),
    "finetune_folds": _use(
        "finetune classify --train ROWS --output task --folds 2", "pretrain_bert", *TUNING
    ),
    "finetune_search": _use(
        "finetune classify --train ROWS --dev DEV --output task --search 2", "pretrain_bert",
        *"--epochs 1 --no-buckets".split(),
    ),
    "finetune_lora": _use(
        "finetune classify --train ROWS --dev DEV --output task --lora 2", "pretrain_roberta",
        *TUNING,
    ),
    "finetune_teacher": _use(
        "finetune classify --train ROWS --dev DEV --output task", "pretrain_albert",
        "--teacher", "<finetune_classify>/task", *TUNING,
    ),
    "embed_vectors": _use("embed --input TEXT --output vectors.npy", "pretrain_electra"),
    "embed_index": _use("embed --input TEXT --output index", "pretrain_bert"),
    "vocab": "vocab --input BOOK --output vocab.txt --size 4000".split(),
    "examples": ["examples", "bert", "--output", "examples", "--input", "TEXT", "--layout", "lines",
        *"--vocab-size 300 --seq-length 16 --shards 4 --epochs 3".split()],
    "export_bert": _use("export --output modules", "pretrain_bert"),
    "export_gpt": _use("export --output modules", "pretrain_gpt"),
    "export_elmo": _use("export --output module", "pretrain_elmo"),
    "export_task": _use("export --output module", "finetune_classify"),
    "export_huggingface": _use(
        "export --format huggingface --output folder", "pretrain_electra"
    ),
    "export_sentence_transformers": _use(
        "export --format sentence-transformers --output folder", "pretrain_albert"
    ),
    "export_peft": _use("export --format peft --output folder --base x/y", "finetune_lora"),
    "export_onnx": _use("export --format onnx --output folder", "pretrain_bert"),
    "export_litert": _use("export --format litert --output folder", "pretrain_bert"),
    "export_bilm": _use("export --format bilm --output folder", "pretrain_elmo"),
    "export_word2vec": _use("export --format word2vec --output vectors.txt", "pretrain_glove"),
    "predict_elmo": _use("predict --input TEXT --hdf5 layers.hdf5", "pretrain_elmo"),
    "predict_task": _use("predict --input DEV --output said.jsonl", "finetune_classify"),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", nargs="+", default=list(WORKS), choices=WORKS, metavar="KIND")
    arguments = parser.parse_args()
    for name in [f"tfnlp.{module}" for module in MODULES] + ["apache_beam"]:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), random.Random(arguments.seed))
        for name in arguments.only:
            bench.reference(name)
        kills = {name: 0 for name in arguments.only}
        while (left := arguments.count - sum(kills.values())) > 0:
            name = min(kills, key=kills.get)
            kills[name] += bench.trial(name, left)
        print(f"\n{bench.table()}", flush=True)
        return 1 if any(counts["wrong"] for counts in bench.counts.values()) else 0


class Bench:
    """The commands and what became of them.

    Args:
        folder: where everything is written.
        random: of the moments.
    """

    def __init__(self, folder, random):
        self.folder, self.random = folder, random
        self.counts = collections.defaultdict(collections.Counter)  # by kind, see `COLUMNS`
        self.seconds = {}  # by kind: how long the command takes
        self.texts = write_texts(folder)
        self.trials = 0

    def reference(self, name):
        """Do a work, and those it needs, without a kill."""
        if name in self.seconds:
            return
        for other in re.findall(r"<(\w+)>", " ".join(WORKS[name])):
            self.reference(other)
        start = time.monotonic()
        code, said = self.start(name, self.folder / name)
        if code:
            sys.exit(f"kills: {name} ends with exit code {code} without a kill: {said}")
        self.seconds[name] = time.monotonic() - start
        print(f"{name}: {self.seconds[name]:.1f} s", flush=True)

    def trial(self, name, most):
        """Kill a command `most` times at most, and let it end; return the number of kills."""
        self.trials += 1
        folder, kills = self.folder / f"{name}-{self.trials}", 0
        start, code, refused, more = time.monotonic(), None, "", ()
        while code is None:
            moment = None
            if kills < most and not refused and (kills == 0 or self.random.random() < AGAIN):
                moment = self.random.uniform(0, self.seconds[name])
            code, said = self.start(name, folder, moment, more)
            if code is None:
                kills += 1
            elif code and not refused:
                more = [option for option in ("--overwrite", "--restart") if option in said][:1]
                refused, code = (said, None) if more else ("", code)
        seconds = time.monotonic() - start
        if not kills:  # the machine has less to do than it had
            self.seconds[name] = min(self.seconds[name], seconds)
        found = [f"exit code {code}: {said}"] if code else differences(self.folder / name, folder)
        end = "wrong" if found else "refused" if refused else "identical"
        self.counts[name].update({"kills": kills, "ends": 1, end: 1, "seconds": round(seconds)})
        print(
            f"{name}: {kills} kills, {end}, {seconds:.0f} s {refused}",
            *found,
            sep="\n    ",
            flush=True,
        )
        shutil.rmtree(folder)
        shutil.rmtree(f"{folder}.cache", ignore_errors=True)
        return kills

    def start(self, name, folder, moment=None, more=()):
        """Run a command in a process of its own.

        Args:
            name: the kind of work.
            folder: the folder it runs in.
            moment: seconds after which it is killed; None: it is not.
            more: arguments to add.

        Returns:
            its exit code, or None if it was killed, and the last line that it printed.
        """
        folder.mkdir(exist_ok=True)
        log = self.folder / "log"
        command = [self.texts.get(argument, argument) for argument in WORKS[name]]
        command = [re.sub(r"<(\w+)>", rf"{self.folder}/\1", x) for x in command]
        process = FORK.Process(target=_run, args=([*command, *more], folder, log))
        process.start()
        process.join(LIMIT if moment is None else moment)
        killed = process.exitcode is None
        if killed:
            with contextlib.suppress(ProcessLookupError):  # it may have no group of its own yet
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
        said = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        if killed and moment is None:
            return 124, f"no end after {LIMIT:.0f} s"
        return (None if killed else process.exitcode), said

    def table(self):
        """Return a row for each kind, and their sum, as Markdown."""
        lines = [
            "| work | kills | ends | bit-identical | refused, with a way on | wrong | seconds |",
            f"|---|{'---:|' * 6}",
        ]
        total = sum(self.counts.values(), collections.Counter())
        for name, counts in [*self.counts.items(), ("all", total)]:
            cells = [f"{counts[key]:,}" for key in COLUMNS]
            lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _run(arguments, folder, log):
    """Run `tfnlp ARGUMENTS` in a folder, in a process and a group of its own."""
    os.setsid()
    os.chdir(folder)
    os.environ["TFNLP_CACHE"] = f"{folder}.cache"  # tokenized texts, which other runs would read
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if "--engine" in arguments:  # Keras was imported for TensorFlow
        del os.environ["KERAS_BACKEND"]
        sys.exit(subprocess.call([sys.executable, "-m", "tfnlp", *arguments]))
    sys.exit(cli.main(cli.parse(["tfnlp", *arguments])))


def write_texts(folder):
    """Write the files that the commands read; return their paths by the names in capitals."""
    provide(FILES.values(), folder, folder)
    return {"BOOK": str(books.path()), **{name: str(folder / x) for name, x in FILES.items()}}


def differences(one, other):
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


if __name__ == "__main__":
    sys.exit(main())
