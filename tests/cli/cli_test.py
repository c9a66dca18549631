"""The command line from text to SavedModel, and what it says to bad input."""

import gzip
import json
import os
import subprocess

import pytest

from tests.cli.command import RUN, error, tfnlp
from tests.support import ROOT, golden, run_python, start_python
from tfnlp import books
from tfnlp.text import SPECIAL_TOKENS

TOY = ["--size", "tiny", "--num-layers", "1", "--hidden-size", "16", "--num-heads", "2"]
TOY += ["--seq-length", "16", "--batch-size", "8", "--steps", "4", "--steps-per-call", "2"]


def pretrain(text, output, *more):
    return tfnlp("pretrain", "bert", "--input", text, "--output", output, *TOY, *more)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A chapter or two of a book."""
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(books.path().read_text(encoding="utf-8")[:60_000], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    """A finished toy run."""
    folder = tmp_path_factory.mktemp("run")
    assert tfnlp("vocab", "--input", text, "--output", folder / "vocab.txt", "--size", 300) == 0
    assert pretrain(text, folder / "run", "--vocab", folder / "vocab.txt") == 0
    return folder / "run"


def test_run_leaves_what_it_promises(run):
    assert sorted(os.listdir(run)) == RUN
    assert (run / "curve.png").read_bytes()[:4] == b"\x89PNG"
    lines = (run / "vocab.txt").read_text().split("\n")
    assert lines[:5] == list(SPECIAL_TOKENS) and len(lines) == 301


def test_evaluate_prints_what_training_measured(run, text, capsys):
    command = ["evaluate", "--model", run, "--input", text, "--seq-length", "16"]
    assert tfnlp(*command, "--batch-size", "8", "--batches", "5", "--json") == 0
    first = json.loads(capsys.readouterr().out)
    assert set(first) == {
        "loss",
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
    }
    assert 4 < first["masked_lm_loss"] < 6  # about log(300) after four updates
    assert tfnlp(*command, "--batch-size", "8", "--batches", "5", "--json") == 0
    assert json.loads(capsys.readouterr().out) == first
    assert tfnlp(*command, "--batch-size", "8", "--batches", "5", "--json", "--bf16") == 0
    narrow = json.loads(capsys.readouterr().out)
    assert narrow != first and narrow == pytest.approx(first, abs=0.03)


def test_predict_fills_masks_and_draws(run, capsys, tmp_path):
    picture = tmp_path / "attention.png"
    more = ["--top", 3, "--attention", picture]
    assert tfnlp("predict", "bert", "--model", run, "The [MASK] was", *more) == 0
    out = capsys.readouterr().out.split("\n")
    assert out[0] == "The [MASK] was"
    guesses = out[1].split("  ")[1:]
    probabilities = [float(g.split()[1]) for g in guesses]
    assert len(guesses) == 3 and probabilities == sorted(probabilities, reverse=True)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert tfnlp("predict", "bert", "--model", run, "--bf16", "The [MASK] was", "--top", 3) == 0
    narrow = [float(g.split()[1]) for g in capsys.readouterr().out.split("\n")[1].split("  ")[1:]]
    assert narrow == pytest.approx(probabilities, abs=0.01)


def test_predict_judges_pairs(run, capsys):
    assert tfnlp("predict", "bert", "--model", run, "She went in.", "--pair", "It was dark.") == 0
    probability = float(capsys.readouterr().out.split()[0])
    assert 0 < probability < 1


@pytest.mark.slow
def test_export_and_its_script_write_the_pair(run, tmp_path):
    flags = ["--model", run, "--output", tmp_path / "m"]
    run_python(ROOT / "export" / "bert.py", *flags, "--seq_length", "16")
    assert tfnlp("export", *flags, "--seq-length", "16") == 1
    assert tfnlp("export", *flags, "--seq-length", "16", "--overwrite") == 0
    for name in ("encoder", "preprocessor"):
        assert (tmp_path / "m" / name / "saved_model.pb").exists()


def test_same_command_resumes_and_another_setting_is_refused(run, text, capsys):
    vocab = run.parent / "vocab.txt"
    before = sorted(os.listdir(run / "checkpoints"))
    assert pretrain(text, run, "--vocab", vocab) == 0  # nothing left to do
    assert sorted(os.listdir(run / "checkpoints")) == before
    capsys.readouterr()
    assert pretrain(text, run, "--vocab", vocab, "--learning-rate", "0.1") == 1
    line = error(capsys)
    assert "training.learning_rate was 0.0005, now 0.1" in line and "another --output" in line
    assert f"with --from {run} to go on from its weights" in line


@pytest.mark.slow
def test_profile_of_some_steps(run, text, tmp_path):
    more = ["--vocab", run.parent / "vocab.txt", "--steps", "24", "--profile"]
    assert pretrain(text, tmp_path / "run", *more) == 0
    assert list((tmp_path / "run" / "logs" / "plugins" / "profile").glob("*/*.xplane.pb"))


def write(path, data):
    path.write_bytes(data)
    return path


BAD_TEXT = {
    "missing": (lambda f: f / "none.txt", "none.txt"),
    "no match": (lambda f: f / "*.nothing", "*.nothing"),
    "a folder": (lambda f: f, "folder"),
    "empty": (lambda f: write(f / "empty.txt", b""), "empty.txt"),
    "only blank lines": (lambda f: write(f / "blank.txt", b"\n \n\n"), "blank.txt"),
    "binary": (lambda f: write(f / "a.bin", b"\x00\x01\x02" * 99), "a.bin"),
    "not UTF-8": (lambda f: write(f / "latin.txt", b"caf\xe9 au lait.\n" * 9), "latin.txt"),
    "truncated gzip": (
        lambda f: write(f / "t.gz", gzip.compress(b"One sentence. " * 999)[:-12]),
        "t.gz",
    ),
    "one sentence": (lambda f: write(f / "one.txt", b"Only one sentence.\n"), "sentence"),
}


@pytest.mark.parametrize("name", BAD_TEXT)
def test_bad_text_is_named_in_one_line_and_nothing_is_written(name, tmp_path, capsys):
    make, said = BAD_TEXT[name]
    (tmp_path / "text").mkdir()
    source = make(tmp_path / "text")
    assert pretrain(source, tmp_path / "run") == 1
    assert said in error(capsys)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "vocabulary, said",
    [
        (b"the\ncat\n", "[PAD]"),
        (b"", "empty"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nthe\n", "the"),
        (b"\xff\xfe\n", "UTF-8"),
    ],
)
def test_bad_vocabulary_is_named(vocabulary, said, text, tmp_path, capsys):
    path = write(tmp_path / "vocab.txt", vocabulary)
    assert pretrain(text, tmp_path / "run", "--vocab", path) == 1
    line = error(capsys)
    assert "vocab.txt" in line and said in line
    assert not (tmp_path / "run").exists()


FULL = """
import resource, signal, sys
from tfnlp.cli import main, parse
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))
sys.exit(main(parse(sys.argv[1:])))
"""


@pytest.mark.slow
def test_full_disk_is_one_line_and_nothing_half_written(text, tmp_path):
    # A limit on file size fails the same writes as a full disk.
    command = ["tfnlp", "pretrain", "bert", "--input", text, "--output", tmp_path / "run"]
    command += ["--vocab-size", "300", *TOY, "--checkpoint-every", "2"]
    done = run_python(FULL, *command, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("tfnlp: error: checkpoint") and "free some space" in last
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "run" / "checkpoints") == []


def test_help_and_package_import_are_light():
    code = "import sys, tfnlp, tfnlp.cli; print([m for m in sys.modules if m in HEAVY])"
    heavy = "HEAVY = {'tensorflow', 'keras', 'numpy', 'tensorflow_text', 'matplotlib'}; "
    assert run_python(heavy + code).stdout.strip() == "[]"
    help = start_python("-m", "tfnlp", "--help", stdout=subprocess.PIPE)
    assert "pretrain" in help.communicate()[0] and help.returncode == 0
    wrong = start_python("-m", "tfnlp", "dance", stderr=subprocess.PIPE)
    assert "dance" in wrong.communicate()[1] and wrong.returncode == 2


@pytest.mark.slow
def test_another_keras_backend_in_the_environment_is_no_hindrance(tmp_path):
    code = "import sys; from tfnlp.cli import main, parse; sys.exit(main(parse(sys.argv)))"
    command = ["export", "--model", golden("runs_0.1.0") / "bert", "--output", tmp_path / "m"]
    run_python(code, *command, env={"KERAS_BACKEND": "jax"})
    assert (tmp_path / "m/encoder/saved_model.pb").exists()
