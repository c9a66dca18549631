"""The comparison of models on tasks: its table, its runs and its baselines, on toy sets."""

import json

import numpy as np
import pytest

from benchmarks import task_baselines, tasks
from tfnlp import cli
from tfnlp.data import Question, TaggedSentence, TaskExample


@pytest.fixture
def data(tmp_path):
    """A folder with toy files of two sets: "good"/"bad" decide SST-2, shared words STS-B."""
    folder = tmp_path / "data"
    sst2, stsb = folder / "cls/sst2", folder / "pair/stsb"
    sst2.mkdir(parents=True)
    stsb.mkdir(parents=True)
    lines = [f"{i % 2} a {'good' if i % 2 else 'bad'} film number {i}\n" for i in range(20)]
    (sst2 / "train.txt").write_text("".join(lines) + "0 a bad one\n")
    (sst2 / "dev.txt").write_text("1 good number\n0 bad number\n1 a good film\n1 so good\n")
    rows = [(5.0, "a b c", "a b c"), (0.0, "a b c", "x y z"), (2.5, "d e a b", "d e x y")]
    text = "".join(f"g\tf\ty\t0\t{s}\t{a}\t{b}\n" for s, a, b in rows)
    (stsb / "sts-train.tsv").write_text(text)
    (stsb / "sts-dev.tsv").write_text(text)
    (tmp_path / "bert").mkdir()
    (tmp_path / "elmo").mkdir()
    return folder


@pytest.fixture
def calls(monkeypatch):
    """In place of training, results that the seed gives; the commands that would have run."""
    commands = []

    def call(command, log):
        commands.append(command)
        args = cli.parse(["tfnlp", *command[command.index("finetune") :]])
        log.write("training\n")
        if "broken" in args.model:
            return 1
        folder = tasks.pathlib.Path(args.output)
        folder.mkdir(parents=True)
        value = args.seeds[0] / 10
        results = {"metrics": {"accuracy": value, "pearson": value, "spearman": value / 2}}
        (folder / "results.json").write_text(json.dumps(results))
        return 0

    monkeypatch.setattr(tasks, "_call", call)
    return commands


def run(data, *arguments):
    return tasks.main([str(data), "--output", str(data.parent / "runs"), *arguments])


def test_the_table(data, calls, capsys):
    models = ["--bert", str(data.parent / "bert"), "--elmo", str(data.parent / "elmo")]
    assert run(data, *models, "--sets", "sst2", "stsb", "--seeds", "6") == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[:2] == [
        "| set | task | measure | train | dev | majority | bag of words | ELMo | BERT |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    # 11 of 21 are "0", which is right for one of the four.
    assert lines[2] == "| sst2 | classify | accuracy | 21 | 4 | 25.0 | 100.0 | 60.0 | 60.0 |"
    assert lines[3].startswith("| stsb | similarity | pearson | 3 | 3 | 0.0 | ")
    assert lines[3].endswith(" | 60.0 | 60.0 |")
    assert lines[4].startswith("| stsb | similarity | spearman | 3 | 3 | 0.0 | 100.0 | 30.0 | 30.0")
    assert lines[5] == ""
    assert lines[6].startswith("stsb, tf-idf cosine: pearson ")
    assert len(lines) == 7
    assert (data.parent / "runs/table.md").read_text() == out
    assert len(calls) == 4


def test_the_command_line_of_a_run(data, calls, monkeypatch):
    monkeypatch.setattr(
        tasks,
        "ARGUMENTS",
        {"bert": ["--epochs", "2"], "stsb": ["--batch-size", "8"], ("stsb", "bert"): ["--jit"]},
    )
    run(data, "--bert", str(data.parent / "bert"), "--sets", "stsb", "--fraction", "0.5")
    [command] = calls
    assert command[1:4] == ["-m", "tfnlp.cli", "finetune"]
    args = cli.parse(["tfnlp", *command[3:]])
    assert (args.task, args.model) == ("similarity", str(data.parent / "bert"))
    assert args.train == [str(data / "pair/stsb/sts-train.tsv")]
    assert args.dev == [str(data / "pair/stsb/sts-dev.tsv")]
    assert (args.text_columns, args.label, args.metric) == (["5", "6"], "4", "pearson")
    assert (args.epochs, args.batch_size, args.jit, args.seeds) == (2, 8, True, [1])
    assert args.limit == 2  # half of 3 rows


def test_means_over_seeds(data, calls, capsys):
    run(data, "--bert", str(data.parent / "bert"), "--sets", "sst2", "--seeds", "2", "4", "9")
    mean, deviation = 100 * np.mean([0.2, 0.4, 0.9]), 100 * np.std([0.2, 0.4, 0.9], ddof=1)
    assert f" {mean:.1f} ± {deviation:.1f} |" in capsys.readouterr().out


def test_what_is_done_is_not_done_again(data, calls, monkeypatch, capsys):
    arguments = ["--bert", str(data.parent / "bert"), "--sets", "sst2", "--seeds", "5", "6"]
    assert run(data, *arguments) == 0
    first = capsys.readouterr().out
    (data.parent / "runs/sst2/bert/seed-6/results.json").unlink()
    (data.parent / "runs/sst2/bert/seed-6").rmdir()
    del calls[:]
    monkeypatch.setattr(task_baselines, "measure", lambda *_: pytest.fail("measured again"))
    assert run(data, *arguments) == 0
    assert capsys.readouterr().out == first
    assert [command[command.index("--seeds") + 1] for command in calls] == ["6"]


def test_results_of_other_arguments_are_not_shown(data, calls, monkeypatch, capsys):
    arguments = ["--bert", str(data.parent / "bert"), "--sets", "sst2"]
    assert run(data, *arguments) == 0
    monkeypatch.setattr(tasks, "ARGUMENTS", {"bert": ["--epochs", "2"]})
    assert run(data, *arguments) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "seed-1 has results of other arguments" in error and "--epochs 2" in error
    assert len(calls) == 1


def test_a_run_that_fails_is_named_and_the_others_go_on(data, calls, capsys):
    broken = data.parent / "broken"
    broken.mkdir()
    models = ["--elmo", str(broken), "--bert", str(data.parent / "bert")]
    assert run(data, *models, "--sets", "sst2") == 1
    captured = capsys.readouterr()
    assert "| failed | 10.0 |" in captured.out
    log = data.parent / "runs/sst2/elmo/seed-1.log"
    assert f"sst2 elmo 1: exit status 1, see {log}" in captured.err
    assert log.read_text() == "training\n"


def test_an_interrupt_keeps_what_is_done(data, calls, monkeypatch, capsys):
    arguments = ["--bert", str(data.parent / "bert"), "--sets", "sst2", "stsb"]
    call = tasks._call

    def interrupted(command, log):
        if "similarity" in command:
            raise KeyboardInterrupt
        return call(command, log)

    monkeypatch.setattr(tasks, "_call", interrupted)
    assert run(data, *arguments) == 130
    assert len((data.parent / "runs/table.md").read_text().splitlines()) == 3
    monkeypatch.setattr(tasks, "_call", call)
    assert run(data, *arguments) == 0
    assert [command[4] for command in calls] == ["classify", "similarity"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--sets", "sst2"], "give --bert, --gpt or --elmo"),
        (["--sets", "cola", "--baselines-only"], "leave cola out of --sets"),
        (["--sets", "sst2", "--gpt", "/nowhere/gpt"], "/nowhere/gpt: there is no such model"),
        (["--baselines-only", "--fraction", "0"], "--fraction 0.0 must be above 0"),
        (["--baselines-only", "--seeds", "1", "1"], "--seeds [1, 1] must be distinct"),
        (["--baselines-only", "--sets", "sst2", "sst2"], "--sets sst2 sst2 must be distinct"),
    ],
)
def test_errors_come_first_and_in_one_line(data, arguments, message, capsys):
    assert run(data, *arguments) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("tasks: error: ") and message in line


def test_split_by_premise():
    premises = "a a b c c d b d e e".split()
    lines = [json.dumps({"premise": p, "row": i}) for i, p in enumerate(premises)]
    train, dev = tasks.split_by_premise(lines, 0.3)
    # The last three rows are of d and e; the earlier d goes with them.
    assert train == [lines[i] for i in (0, 1, 2, 3, 4, 6)]
    assert dev == [lines[i] for i in (5, 7, 8, 9)]


def test_the_split_set_is_trained_on_its_parts(data, calls):
    folder = data / "pair/snli"
    folder.mkdir()
    rows = [
        {"premise": f"p{i // 3}", "hypothesis": f"h {i}", "label": "no" if i % 3 else "yes"}
        for i in range(60)
    ]
    (folder / "dev_raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(data, "--bert", str(data.parent / "bert"), "--sets", "snli") == 0
    args = cli.parse(["tfnlp", *calls[0][3:]])
    parts = [
        [json.loads(line) for line in open(path, encoding="utf-8")]
        for path in (*args.train, *args.dev)
    ]
    assert parts == [rows[:51], rows[51:]]


def example(label, *segments, choices=()):
    return TaskExample(segments, label, choices)


def accuracies(task, train, dev, measure="accuracy"):
    found = task_baselines.measure(task, train, dev)
    return {name: measures[measure] for name, measures in found.items()}


def test_baselines_of_pairs():
    """A pair is "same" if its words are; neither text alone says so."""
    words = "red green blue black white brown pink grey".split()
    examples = [
        example("same" if a == b else "other", f"it is {a}", f"{b} it is")
        for a in words
        for b in words
    ]
    found = accuracies("classify", examples * 4, examples, "f1_macro")
    assert found["bag of words"] == 1.0
    # All "other": F1 2 * 56 / (64 + 56) and 0.
    assert found["majority"] == pytest.approx((112 / 120) / 2)


def test_baselines_of_scores():
    """Scores are Jaccard's of random sets of words: nothing but the words shared tells them."""
    rng = np.random.default_rng(0)
    words = np.array("red green blue black white brown pink grey".split())
    examples = []
    for _ in range(200):
        a, b = (rng.permutation(words)[: rng.integers(2, 7)] for _ in range(2))
        score = len(set(a) & set(b)) / len(set(a) | set(b))
        examples.append(example(score, " ".join(a), " ".join(b)))
    found = accuracies("similarity", examples[:150], examples[150:], "pearson")
    assert found["majority"] == 0.0
    assert found["tf-idf cosine"] > 0.8 and found["bag of words"] > 0.9


def test_baselines_of_choices():
    """Of three choices the one about the sun is right, wherever it stands."""
    train = [
        example(i % 3, f"on day {i}", choices=tuple(np.roll(("the sun", "rain", "fog"), i % 3)))
        for i in range(12)
    ]
    dev = [example(1, "tomorrow", choices=("the fog", "a sun", "rain"))] * 2
    dev += [example(0, "later", choices=("sun", "rain", "fog"))]
    # The commonest index of equally common ones is the first.
    assert accuracies("choose", train, dev) == {"majority": 1 / 3, "bag of words": 1.0}


def test_baselines_of_tags():
    """ "can" is a verb after "we", a noun after "a"; a word's commonest tag can't tell."""
    train = [
        TaggedSentence(("we", "can", "go"), ("P", "V", "V")),
        TaggedSentence(("a", "can", "fell"), ("D", "N", "V")),
        TaggedSentence(("we", "can", "see"), ("P", "V", "V")),
    ] * 20
    dev = [train[0], train[1]]
    found = accuracies("tag", train, dev)
    assert found == {"majority": 1 / 2, "bag of words": 1.0, "commonest tag of the word": 5 / 6}


def test_entities_are_measured_as_such():
    train = [TaggedSentence(("in", "Rome", "."), ("O", "B-place", "O"))] * 5
    found = accuracies("tag", train, train, "f1")
    assert found == {"majority": 0.0, "bag of words": 1.0, "commonest tag of the word": 1.0}


def test_window_features():
    first, last = task_baselines.window_features(("McDonald's", "1999"))
    assert {"word=McDonald's", "lower=mcdonald's", "suffix3=d's", "shape=XxXxx'x"} <= set(first)
    assert {"before=<s>", "after=1999"} <= set(first)
    assert {"shape=dd", "before=mcdonald's", "after=</s>"} <= set(last)


def test_the_answer_without_training():
    context = (
        "The tower is tall. It was built by Gustave Eiffel, an engineer, in Paris. People like it."
    )
    questions = [
        Question("1", "By whom was the tower built?", context, (("Gustave Eiffel", 35),)),
        Question("2", "How is the tower?", context, (("tall", 13),)),
        Question("3", "People?", context, (("engineer", 54),)),
    ]
    # In a second document so that words differ in how many documents have them.
    other = Question("4", "When was it?", "It was the best of times.", (("best", 11),))
    found = task_baselines.measure("answer", [*questions, other], questions)
    # The third says "like it" of the last sentence.
    assert found == {"bag of words": pytest.approx({"exact_match": 200 / 3, "f1": 200 / 3})}
