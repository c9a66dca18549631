"""The scripts of `benchmarks/`: they load, the quick ones run, and the n-gram model is right."""

import collections
import dataclasses
import importlib
import math
import pathlib
import re
import sys

import numpy as np
import pytest

import benchmarks
from benchmarks import endurance, kills_work, ngram, published_finetuning, tasks, turns
from tfnlp import books

SCRIPTS = sorted(path.stem for path in pathlib.Path(benchmarks.__path__[0]).glob("[!_]*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_load(name):
    try:
        importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] in ("tfnlp", "benchmarks"):
            raise
        pytest.skip(f"needs {error.name}")


@pytest.mark.slow
def test_baselines_of_tasks(tmp_path, capsys):
    """ "good" and "bad" decide SST-2, shared words STS-B."""
    folder = tmp_path / "data"
    (folder / "cls/sst2").mkdir(parents=True)
    (folder / "pair/stsb").mkdir(parents=True)
    lines = [f"{i % 2} a {'good' if i % 2 else 'bad'} film number {i}\n" for i in range(20)]
    (folder / "cls/sst2/train.txt").write_text("".join(lines) + "0 a bad one\n")
    (folder / "cls/sst2/dev.txt").write_text("1 good number\n0 bad one\n1 a good film\n1 so good\n")
    rows = [(5.0, "a b c", "a b c"), (0.0, "a b c", "x y z"), (2.5, "d e a b", "d e x y")]
    text = "".join(f"g\tf\ty\t0\t{score}\t{a}\t{b}\n" for score, a, b in rows)
    for part in ("train", "dev"):
        (folder / f"pair/stsb/sts-{part}.tsv").write_text(text)
    command = [str(folder), "--baselines-only", "--output", str(tmp_path / "runs")]
    assert tasks.main([*command, "--sets", "sst2", "stsb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # 11 of 21 labels are "0", which is right for one of the four.
    assert lines[2].startswith("| sst2 | classify | accuracy | 21 | 4 | 25.0 | 100.0 |")
    assert lines[3].startswith("| stsb | similarity | pearson | 3 | 3 | 0.0 | ")
    assert tasks.main([*command, "--sets", "cola"]) == 1
    assert capsys.readouterr().err.startswith("tasks: error: ")


CHILD = """
import sys
from benchmarks.turns import Turns
print("noise")
turns = Turns(2)
for step in range(int(sys.argv[1])):
    open(sys.argv[2], "a").write(sys.argv[3])
    turns.stepped(1, 10)
turns.report()
turns.wait()
turns.report(done=True, name=sys.argv[3])
"""


def turn(seconds, steps):
    return {"seconds": seconds, "steps": steps, "examples": 2 * steps}


def test_trainings_take_turns(tmp_path):
    children = [
        turns.Child(
            [sys.executable, "-c", CHILD, str(steps), str(tmp_path / "order"), name],
            tmp_path / "log", published_finetuning.ROOT, None,
        )
        for steps, name in ((6, "a"), (3, "b"))
    ]  # fmt: skip
    turns.alternate(children)
    assert (tmp_path / "order").read_text() == "aabbbaaaa"
    assert [child.last["name"] for child in children] == ["a", "b"]
    assert [turn["examples"] for turn in children[1].turns] == [20, 10, 0]
    with pytest.raises(OSError, match="a training has failed, see"):
        turns.alternate([turns.Child(
            [sys.executable, "-c", "raise SystemExit(1)"], tmp_path / "log", None, None
        )])  # fmt: skip
    ours, theirs = (
        [turn(9.0, 5), turn(seconds, 5), turn(1.0, 2)] for seconds in (2.0, 4.0)
    )  # the first turn warms up, the last one is short
    assert turns.rounds(ours, theirs) == [(5.0, 2.5)]
    assert turns.rounds(ours[:1], theirs) == [(10 / 9, 10 / 9)]


def test_table_of_a_published_model():
    runs = [
        {
            "settings": {"set": "sst2", "epochs": 3, "seed": seed}, "train": 2000, "dev": 872,
            "scores": {"tfnlp": {"accuracy": ours}, "peer": {"accuracy": 0.8}},
            "turns": {"tfnlp": [turn(40 / rate, 20)], "peer": [turn(2.0, 20)]},
        }
        for seed, ours, rate in ((1, 0.80, 30.0), (2, 0.82, 24.0))
    ]  # fmt: skip
    line = published_finetuning.table(runs).splitlines()[-1]
    expected = "81.0 ± 1.4 | 80.0 ± 0.0 | 27.0 | 20.0 | 1.35 (1.20 to 1.50) |"
    assert line == f"| sst2, accuracy (2,000 x 3, 872) | {expected}"


class Textbook:
    """Interpolated modified Kneser-Ney over tuples of words, by the definitions."""

    def __init__(self, sentences):
        self.tables = [collections.defaultdict(collections.Counter) for _ in range(3)]
        before = collections.defaultdict(set)  # n-gram: the words seen before it
        counts = collections.Counter()
        for sentence in sentences:
            words = ["BEGIN", *sentence, "END"]
            for n in (1, 2, 3):
                for i in range(len(words) - n + 1):
                    gram = tuple(words[i : i + n])
                    counts[gram] += 1
                    if i:
                        before[gram].add(words[i - 1])
        for gram, count in counts.items():
            if gram == ("BEGIN",):
                continue
            if len(gram) < 3 and gram[0] != "BEGIN":
                count = len(before[gram])
            self.tables[len(gram) - 1][gram[:-1]][gram[-1]] = count
        self.discounts = [self.estimate(table) for table in self.tables]
        self.vocabulary = {w for s in sentences for w in s} | {"<UNK>", "END"}

    @staticmethod
    def estimate(table):
        n = collections.Counter(count for row in table.values() for count in row.values())
        if not (n[1] and n[2] and n[3]):
            return 0.5, 1.0, 1.5
        y = n[1] / (n[1] + 2 * n[2])
        found = 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]
        return found if all(0 < d <= i for i, d in enumerate(found, 1)) else (0.5, 1.0, 1.5)

    def probability(self, word, context):
        """p(word | context), a tuple of at most two words."""
        one, two, many = self.discounts[len(context)]
        lower = self.probability(word, context[1:]) if context else 1 / len(self.vocabulary)
        row = self.tables[len(context)].get(context)
        if row is None:
            return lower
        ones = sum(count == 1 for count in row.values())
        twos = sum(count == 2 for count in row.values())
        gamma = one * ones + two * twos + many * (len(row) - ones - twos)
        count = row[word] if word in row else 0
        discount = {0: 0, 1: one, 2: two}.get(count, many)
        return (max(count - discount, 0) + gamma * lower) / sum(row.values())

    def loss(self, sentences):
        """The mean of -log p of each predicted token."""
        losses = []
        for sentence in sentences:
            words = ["BEGIN", *sentence, "END"]
            for i in range(1, len(words)):
                context = tuple(words[max(i - 2, 0) : i])
                losses.append(-math.log(self.probability(words[i], context)))
        return np.mean(losses)


def test_ngram_equals_the_textbook_in_both_directions(tmp_path, capsys):
    lines = books.path("the_secret_garden").read_text(encoding="utf-8").lower().splitlines()
    tokens = [words for line in lines if (words := re.findall(r"\w+|[^\w\s]", line))]
    texts = {"train": tokens[:1200], "valid": tokens[1200:1400]}
    arguments = ["--max-vocab", "500"]
    for name, sentences in texts.items():
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(" ".join(s) + "\n" for s in sentences), encoding="utf-8")
        arguments += [f"--{name}", str(path)]
    assert ngram.main(arguments) == 0
    (row,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("trigram")]

    counts = collections.Counter(word for s in texts["train"] for word in s)
    kept = {word for word, _ in counts.most_common(500)}
    train, held = ([[w if w in kept else "<UNK>" for w in s] for s in t] for t in texts.values())
    forward = Textbook(train).loss(held)
    backward = Textbook([s[::-1] for s in train]).loss([s[::-1] for s in held])
    expected = np.exp([forward, backward, (forward + backward) / 2])
    found = [float(x.replace(",", "")) for x in row.split()[1:]]
    assert found == pytest.approx(expected, abs=0.006)


def test_ngram_by_hand(tmp_path, capsys):
    """Two sentences, `a b` and `a`, with the discounts 0.5, 1 and 1.5 (no count of 3 occurs).

    Words seen before: a 1, b 1, end 2 (a, b); so p(a) = p(b) = .5/4 + 2/4 * 1/4 = .25,
    p(end) = 1/4 + 2/4 * 1/4 = .375, p(UNK) = .125. Behind BEGIN, a is seen twice:
    p(a) = (2 - 1)/2 + 1/2 * .25 = .625. Behind a: p(b) = .5/2 + 1/2 * .25 = .375. Behind b:
    p(end) = .5/1 + .5 * .375 = .6875.
    """
    (tmp_path / "train.txt").write_text("a b\na\n")
    (tmp_path / "valid.txt").write_text("a b\nb\nnew\n")
    text, words = ngram.read_training([str(tmp_path / "train.txt")])
    trigram = ngram.KneserNeyTrigram(text, text.max() + 1)
    rows = ngram.trigrams(ngram.read([str(tmp_path / "valid.txt")], words))
    second = 0.5 / 2 + 1 / 2 * 0.375  # b behind BEGIN a
    third = 0.5 / 1 + 0.5 * 0.6875  # end behind a b
    expected = [0.625, second, third, 0.5 * 0.25, 0.6875, 0.5 * 0.125, 0.375]
    np.testing.assert_allclose(trigram.probabilities(rows), expected, rtol=1e-14)
    assert ngram.main(["--train", "none.txt", "--valid", "none.txt"]) == 1
    assert capsys.readouterr().err == "ngram: error: none.txt: No such file or directory\n"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda seconds: {}, []),
        (lambda seconds: {"anonymous": int((400 + seconds / 120) * endurance.MB)}, ["30.0 MB an"]),
        (lambda seconds: {"handles": 4 + int(seconds // 600)}, ["handles grew from 5 to 9"]),
        (lambda seconds: {"threads": 16 + (seconds > 1800)}, ["threads grew from 16 to 17"]),
        (lambda seconds: {"checkpoints": 5 if seconds == 3000 else 3}, ["5 checkpoints are kept"]),
    ],
)
def test_endurance_finds_what_grows(change, found):
    flat = endurance.Sample(0.0, 300, 400 * endurance.MB, 900 * endurance.MB, 4, 16, 3, 15, 1, 1)
    times = [10.0 * number for number in range(361)]
    samples = [dataclasses.replace(flat, seconds=time, **change(time)) for time in times]
    problems = endurance.problems(samples, keep=3)
    assert len(problems) == len(found)
    assert all(part in problem for part, problem in zip(found, problems, strict=True))


def test_kills_compare_files_byte_for_byte(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name / "run/logs").mkdir(parents=True)
        (tmp_path / name / "run/vocab.txt").write_text("a\n")
        (tmp_path / name / "run/logs" / name).write_text("each start has its own")
    one, other = tmp_path / "one", tmp_path / "other"
    assert kills_work.differences(one, other) == []
    (one / "run/config.json").write_text("{}")
    (other / "run/.partial-0123abcd-curve.png").write_bytes(b"")
    (other / "run/vocab.txt").write_text("b\n")
    assert kills_work.differences(one, other) == [
        "run/config.json is missing",
        "run/.partial-0123abcd-curve.png is left over",
        "run/vocab.txt differs",
    ]
