"""What the README shows must run."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_python_snippets_run_one_after_the_other(tmp_path):
    snippets = blocks("python")
    assert snippets
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(snippets)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "(2, 1)" in done.stdout  # what the last line prints


def test_commands_in_the_readme_exist():
    from tfnlp.cli import parse

    commands = [
        line
        for block in blocks("bash")
        for line in block.replace("\\\n", " ").split("\n")
        if line.startswith("tfnlp ")
    ]
    assert commands
    for command in commands:
        parse(re.findall(r'"[^"]*"|\S+', command))  # exits where an option is unknown


def run_demo(script, folder, **settings):
    """The whole of a `make` target, shortened; what it printed."""
    done = subprocess.run(
        ["bash", str(ROOT / "examples" / script)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "BIN": os.path.dirname(sys.executable),
            "DEMO": str(folder),
            **settings,
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_demo_runs_to_its_end(tmp_path):
    # With a few updates in place of thousands.
    shown = run_demo("demo.sh", tmp_path, STEPS="20")
    assert "nearest to: The robin sang in the tree." in shown
    assert "Mary went into the [MASK]" in shown
    for name in ("run/curve.png", "attention.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
        assert str(tmp_path / name) in shown


def test_elmo_demo_runs_to_its_end(tmp_path):
    shown = run_demo("demo_elmo.sh", tmp_path, EPOCHS="0.07")
    assert "full softmax, after" in shown
    assert "She [left] the room ." in shown and "He turned to the [left] ." in shown
    assert "moved 4 scalars of the mix" in shown
    assert (tmp_path / "elmo/curve.png").read_bytes()[:4] == b"\x89PNG"


def test_gpt_demo_runs_to_its_end(tmp_path):
    shown = run_demo("demo_gpt.sh", tmp_path, EPOCHS="0.1")
    assert "a token" in shown and "Mary opened the door" in shown
    assert shown.count("The robin") >= 2 and "after five updates" in shown
    assert (tmp_path / "gpt/curve.png").read_bytes()[:4] == b"\x89PNG"
