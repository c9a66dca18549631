"""The command line from text to SavedModel, and what it says to bad input."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.cli.command import error, tfnlp
from tests.hub.inspection_modules import list_module, odd
from tests.support import run_python, start_python
from tfnlp import hub
from tfnlp.cli.command import parse
from tfnlp.cli.commands import COMMANDS
from tfnlp.cli.options import flag_of
from tfnlp.settings.tables import TASKS
from tfnlp.text import SPECIAL_TOKENS, read_vocabulary


@pytest.mark.slow
def test_vocab_and_a_run_with_it(made, tmp_path):
    text, vocab = made("bert").train, tmp_path / "vocab.txt"
    assert tfnlp("vocab", "--input", text, "--output", vocab, "--size", 300) == 0
    tokens = read_vocabulary(vocab)
    assert tokens[:5] == list(SPECIAL_TOKENS) and len(tokens) == 300
    assert read_vocabulary(made("bert").run / "vocab.txt") == tokens


@pytest.mark.slow
def test_evaluate_prints_what_training_measured(made, capsys):
    toy = made("bert")
    command = ["evaluate", "--model", toy.run, "--input", toy.valid, "--seq-length", "16"]
    command += ["--batch-size", "8", "--batches", "5", "--json"]
    found = []
    for more in ([], [], ["--bf16"]):
        capsys.readouterr()
        assert tfnlp(*command, *more) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert 4 < found[0]["masked_lm_loss"] < 6  # about log(300) after four updates
    assert found[1] == found[0] != found[2] == pytest.approx(found[0], abs=0.03)


@pytest.mark.slow
def test_predict_fills_masks_and_judges_pairs(made, capsys):
    run = made("bert").run
    command = ["predict", "--model", run, "The [MASK] was", "--top", 3]
    capsys.readouterr()
    found = []
    for more in ([], ["--bf16"]):
        assert tfnlp(*command, *more) == 0
        out = capsys.readouterr().out.split("\n")
        assert out[0] == "The [MASK] was"
        found.append([float(guess.split()[1]) for guess in out[1].split("  ")[1:]])
    assert len(found[0]) == 3 and found[0] == sorted(found[0], reverse=True)
    assert found[1] == pytest.approx(found[0], abs=0.01)
    assert tfnlp("predict", "--model", run, "She went in.", "--pair", "It was dark.") == 0
    assert 0 < float(capsys.readouterr().out.split()[0]) < 1


def test_help_and_package_import_are_light():
    code = "import sys, tfnlp, tfnlp.cli; print([m for m in sys.modules if m in HEAVY])"
    heavy = "HEAVY = {'tensorflow', 'keras', 'numpy', 'tensorflow_text', 'matplotlib', 'plotly'}; "
    assert run_python(heavy + code).stdout.strip() == "[]"
    help = start_python("-m", "tfnlp", "--help", stdout=subprocess.PIPE)
    assert "pretrain" in help.communicate()[0] and help.returncode == 0
    wrong = start_python("-m", "tfnlp", "dance", stderr=subprocess.PIPE)
    assert "dance" in wrong.communicate()[1] and wrong.returncode == 2


@pytest.mark.parametrize("task", TASKS)
def test_help_names_all_options_and_describes_those_of_seldom_groups_on_request(
    task, capsys, monkeypatch
):
    described = {}
    for asked in ("--help", "--helpfull"):
        monkeypatch.setattr("sys.argv", ["tfnlp", "finetune", task, asked])
        with pytest.raises(SystemExit):
            parse(sys.argv)
        said = capsys.readouterr().out
        flags = {flag_of(field) for field in dataclasses.fields(TASKS[task][0])}
        assert flags <= set(re.findall(r"--[\w-]+", said))
        found = re.findall(r"^  (--[\w-]+)(?!.*see --helpfull)", said, re.MULTILINE)
        described[asked] = flags & set(found)
    assert described["--helpfull"] == flags
    assert len(described["--help"]) <= 45


@pytest.fixture
def raising(monkeypatch):
    """A function of an error that a command then raises; returns the exit code."""

    def exit_code(error):
        def run(options):
            raise error

        command = dataclasses.replace(COMMANDS["vocab"], run=run)
        monkeypatch.setitem(COMMANDS, "vocab", command)
        return tfnlp("vocab", "--input", "text.txt", "--output", "vocab.txt")

    return exit_code


def test_an_interrupt_is_one_line(raising, capsys):
    for said, line in (((), "interrupted"), (("stopped at step 3",), "stopped at step 3")):
        assert raising(KeyboardInterrupt(*said)) == 130
        assert capsys.readouterr().err == f"tfnlp: {line}\n"


def test_an_error_that_says_nothing_is_named(raising, capsys):
    for silent, line in ((MemoryError(), "there is not enough memory"), (OSError(), "OSError")):
        assert raising(silent) == 1
        assert error(capsys).startswith(f"tfnlp: error: {line}")


@pytest.mark.parametrize("module", ["tfnlp.cli.options", "tfnlp.settings.tables", "absl.app"])
def test_so_is_one_while_the_command_is_imported(module):
    program = f"""
import sys
class Stop:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from tfnlp.cli import run
run()
"""
    done = run_python(program, check=False)
    assert (done.returncode, done.stderr) == (130, "tfnlp: interrupted\n")


@pytest.mark.slow
def test_a_pair_and_versions_are_inspected(tmp_path, capsys):
    pair = tmp_path / "pair"
    tf.saved_model.save(odd(), pair / "preprocessor")
    tf.saved_model.save(list_module(), pair / "encoder")
    assert tfnlp("inspect", pair) == 0
    modules = capsys.readouterr().out.split("\n\n")
    names = ("encoder", "preprocessor")
    assert [m.split("\n")[0] for m in modules] == [str(pair / name) for name in names]
    assert tfnlp("inspect", pair, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps([hub.inspect(pair / n).to_dict() for n in names]))
    shutil.copytree(pair / "encoder", tmp_path / "versions" / "3")
    assert tfnlp("inspect", tmp_path / "versions") == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'versions' / '3'}\n")
