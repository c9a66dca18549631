"""`tfnlp finetune --teacher`: every task, resumed runs, and refusals."""

import json
import shutil

import numpy as np
import pytest

from tests.cli.command import error, tfnlp
from tests.cli.toy_tasks import (
    TASKS,
    TRAINING,
    assert_evaluated_and_predicted,
    backbone,
    finetuned,
)
from tests.support import kill_at_checkpoint, start_python
from tfnlp import finetune, load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # several trainings a test
BERT = backbone("bert", None)


@pytest.fixture(scope="module")
def teachers(files, tmp_path_factory):
    """A function of the name of a toy task to a BERT that was fine-tuned on it."""
    folder = tmp_path_factory.mktemp("teachers")

    def teacher(name):
        if not (folder / name).exists():
            finetuned(name, BERT, files, folder / name)
        return folder / name

    return teacher


def student(name, model, files, run, *options):
    """The arguments of a student's run."""
    task, own = TASKS[name]
    return ["finetune", task, "--model", model, *files[name], "--output", run, *own, *TRAINING,
            *options]  # fmt: skip


def predictions(run):
    lines = (run / "dev_predictions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("name", ["answer", "similarity", "choose", "tag"])
def test_a_student(name, files, teachers, tmp_path, capsys):
    teacher, run = teachers(name), tmp_path / "student"
    model = backbone("gpt", tmp_path) if name == "tag" else BERT  # it reads other pieces
    assert tfnlp(*student(name, model, files, run, "--teacher", teacher)) == 0
    assert f"its teacher {teacher} has 0." in capsys.readouterr().out
    config = json.loads((run / "config.json").read_text())
    assert config["teacher"]["path"] == str(teacher)
    assert "distillation_loss" in load(run).history.train[0]
    if name == "answer":
        assert_evaluated_and_predicted(name, run, files, predictions(run), tmp_path, capsys)


def test_a_student_says_what_its_teacher_says(files, teachers, tmp_path):
    """Of the labels, which are noise here, it takes nothing."""
    teacher = load(teachers("classify"))
    rows = [json.loads(line) for line in files["classify"][1].read_text().splitlines()]
    rows = [{**row, "label": ["yes", "no"][i % 2]} for i, row in enumerate(rows)]
    texts = [row["sentence"] for row in rows]
    run = finetune(
        "classify", BERT, rows, rows, tmp_path / "run", teacher=teacher, distillation_weight=1,
        batch_size=7, dropout=0.0, epochs=60, learning_rate=1e-3, evaluations=1, weight_decay=0.0,
        pack=True, unlabelled=[(f"the dog ran {i}",) for i in range(5)],
    )  # fmt: skip
    assert run.config["teacher"]["unlabelled"]["examples"] == 5

    def share(model):
        return np.array([p["probabilities"]["yes"] for p in model.predict(texts)])

    assert share(teacher).std() > 0.001
    np.testing.assert_allclose(share(run), share(teacher), atol=0.02)


@pytest.mark.long
def test_killed_run_ends_as_an_uninterrupted_one(files, teachers, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"a cat sat {i}\n" for i in range(9)))
    command = ["finetune", "classify", "--model", BERT, *files["classify"], "--teacher"]
    command += [teachers("classify"), "--unlabelled", tmp_path / "texts.txt", "--epochs", "3"]
    command += ["--batch-size", "4", "--dropout", "0.2", "--evaluations", "2"]
    assert tfnlp(*command, "--output", tmp_path / "whole") == 0
    killed = tmp_path / "killed"
    process = start_python("-m", "tfnlp", *map(str, command), "--output", killed)
    kill_at_checkpoint(process, killed)
    moved = shutil.copytree(teachers("classify"), tmp_path / "moved")
    command[command.index(teachers("classify"))] = moved
    assert tfnlp(*command, "--output", killed) == 0
    for name in ("dev_predictions.jsonl", "results.json"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_what_a_student_cannot_learn_from(files, teachers, tmp_path, capsys):
    run = tmp_path / "run"

    def refused(name, *options):
        command = student(name, BERT, files, run, *options)
        assert tfnlp(*command) == 1
        assert not (run / "checkpoints").exists()
        return error(capsys)

    teacher = teachers("classify")
    assert "--temperature is about" in refused("classify", "--temperature", 3)
    assert "--distillation-weight 0.0 must be" in refused("classify", "--distillation-weight", 0)
    assert f"--teacher {teacher} was fine-tuned on classify" in refused("tag", "--teacher", teacher)
    assert f"--teacher {teacher} reads 1 texts" in refused("pair", "--teacher", teacher)
    rows = [("the dog", "no"), ("a cat", "maybe")] * 4
    with pytest.raises(ValueError, match="'maybe', which `teacher` .*: no, yes"):
        finetune("classify", BERT, rows, rows, run, teacher=teacher)
    assert f"{BERT / 'config.json'} is missing" in refused("classify", "--teacher", BERT)
    assert tfnlp(*student("classify", BERT, files, teacher, "--teacher", teacher)) == 1
    assert f"--output {teacher} is the teacher" in error(capsys)
