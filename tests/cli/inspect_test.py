"""`tfnlp inspect`: what it prints of a module, of a pair, and of what is neither."""

import json
import shutil

import pytest
import tensorflow as tf

from tests.cli.command import tfnlp
from tests.hub.inspection_modules import list_module, odd
from tfnlp import hub


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    tf.saved_model.save(odd(), folder / "preprocessor")
    tf.saved_model.save(list_module(), folder / "encoder")
    return folder


@pytest.mark.slow
def test_a_pair_and_versions(pair, tmp_path, capsys):
    assert tfnlp("inspect", pair) == 0
    modules = capsys.readouterr().out.split("\n\n")
    names = ("encoder", "preprocessor")
    assert [m.split("\n")[0] for m in modules] == [str(pair / name) for name in names]
    assert tfnlp("inspect", pair, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps([hub.inspect(pair / n).to_dict() for n in names]))
    shutil.copytree(pair / "encoder", tmp_path / "3")
    assert tfnlp("inspect", tmp_path) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / '3'}\n")
