"""`tfnlp verify`: what the library of a folder says, stored or asked, beside what tfnlp says.

The stored answers are those of `tfnlp/runs/verify_peer.py FOLDER texts.json POSITIONS OUT >
OUT/said` with transformers 5.24, sentence-transformers 6.2 and torch 2.13.
"""

import json
import shutil

import numpy as np
import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.fuzz.published_models import PEER
from tests.support import GOLDENS
from tfnlp.runs.verifying import TEXTS

STORED = GOLDENS / "verify"
TEXT = json.loads((STORED / "texts.json").read_text())
FOLDERS = {
    "e5": (
        GOLDENS / "sentence_transformers" / "e5",
        ["ids", "hidden states", "pooled_output", "sentence vectors",
         "sentence vectors, prompt query", "sentence vectors, prompt passage"],
    ),
    "bert_choose": (GOLDENS / "huggingface_heads" / "bert_choose", ["ids", "choice_logits"]),
    "gpt2_classify": (GOLDENS / "huggingface_heads" / "gpt2_classify", ["ids", "class_logits"]),
}  # fmt: skip


def interpreter(folder, stored):
    """Return what answers as an interpreter that has the libraries would."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\ncp {stored}/*.npz "$5"\ncat {stored}/said\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_read_is_equal_to_what_the_library_says(name, tmp_path):
    folder, outputs = FOLDERS[name]
    found = tfnlp.verify(folder, TEXT, python=str(interpreter(tmp_path, STORED / name)))
    assert [gap.name for gap in found.gaps] == outputs
    assert found.is_equal and found.texts == 5 and found.versions["torch"] == "2.13.0+cpu"
    assert max(gap.value for gap in found.gaps) < 1e-5


@pytest.mark.slow
def test_other_numbers_are_said_with_their_text(tmp_path, capsys):
    """And written into the card, in place of what stood there."""
    folder, stored, texts = tmp_path / "e5", tmp_path / "stored", tmp_path / "texts.txt"
    shutil.copytree(FOLDERS["e5"][0], folder)
    shutil.copytree(STORED / "e5", stored)
    texts.write_text("\n\n".join(TEXT) + "\n")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n\n## Use\n\nas it is\n")
    arguments = ["verify", folder, "--texts", texts, "--card"]
    arguments += ["--python", interpreter(tmp_path, stored)]
    capsys.readouterr()
    assert command(*arguments) == 0
    first = (folder / "README.md").read_text()
    changed = dict(np.load(stored / "1_000.npz"))
    changed["hidden_0"][2, 1] += 50
    changed["in/input_ids"][1, 1] += 1  # what follows from it differs, too, but less
    np.savez(stored / "1_000.npz", **changed)
    changed = dict(np.load(stored / "vectors.npz"))
    changed["vectors/query"][4] += 0.25
    np.savez(stored / "vectors.npz", **changed)
    (folder / "README.md").write_text(f"{first}\n## More\n\nof it\n")
    assert command(*arguments) == 1
    card = (folder / "README.md").read_text()
    table = capsys.readouterr().out.rpartition("\n\n")[2]
    assert table in card
    assert "not equal: ids, hidden states, pooled_output, sentence vectors, prompt query." in card
    ids, states, _, _, query, _ = table.splitlines()[2:]
    assert ids == "| ids | 1 differ | `Is the garden DOOR ajar (2 of 3)?` |"
    _, _, value, text, _ = states.split("|")
    assert 0.9 < float(value) < 1.1 and text == " `naïve σΣ 快速的` "
    assert query == "| sentence vectors, prompt query | 2.5e-01 | `a` |"
    assert card.startswith("---\nlicense: mit\n---\n\n# Mine\n\n## Use\n\nas it is\n\n## Compared")
    assert card.endswith("|\n\n## More\n\nof it\n") and card.count("## Compared") == 1


@pytest.mark.parametrize("said, why", [
    ("echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1", "has no torch: "),
    ("echo 'OSError: no such file' >&2; exit 1", "can't read it: OSError: no such file"),
])  # fmt: skip
def test_what_the_interpreter_lacks_is_one_line(said, why, tmp_path, capsys):
    path = interpreter(tmp_path, STORED / "e5")
    path.write_text(f"#!/bin/sh\n{said}\n")
    assert command("verify", FOLDERS["e5"][0], "--python", path) == 1
    assert why in error(capsys)


def test_an_interpreter_that_is_none(tmp_path, capsys):
    missing = tmp_path / "nowhere"
    assert command("verify", FOLDERS["e5"][0], "--python", missing) == 1
    assert f"--python {missing} can't be run: No such file" in error(capsys)


@pytest.mark.slow
def test_a_run_is_to_be_written_first(made, capsys):
    assert command("verify", made("bert").run) == 1
    assert "--format huggingface" in error(capsys)


@pytest.mark.long
@pytest.mark.skipif(not PEER.exists(), reason="needs `make peers`")
@pytest.mark.parametrize("name", [
    *(f"sentence_transformers/{name}" for name in ("all", "bge", "e5", "labse")),
    *(f"huggingface_heads/{path.stem}" for path in (GOLDENS / "huggingface_heads").glob("*.npz")),
    "roberta_huggingface", "distilbert_huggingface", "electra_huggingface/discriminator",
])  # fmt: skip
def test_the_library_itself_is_asked(name):
    texts = ["a cat", "The dog ran.", "it is", "o"] if "choose" in name else None  # 82 bytes
    assert tfnlp.verify(GOLDENS / name, texts, python=str(PEER)).is_equal


@pytest.mark.long
@pytest.mark.skipif(not PEER.exists(), reason="needs `make peers`")
@pytest.mark.parametrize("family", ["bert", "albert", "roberta", "gpt"])
def test_what_is_written_is_read_equal(family, made, tmp_path):
    tfnlp.load(made(family).run).save(tmp_path / "x")
    assert tfnlp.verify(tmp_path / "x", TEXTS[:9], python=str(PEER)).is_equal
