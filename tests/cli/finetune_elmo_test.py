"""Every task from its files to a served model, with a toy ELMO as backbone."""

import pytest

from tests.cli.toy_tasks import (
    TASKS,
    assert_served,
    go_through,
    inputs_of,
    read_in_clean_process,
    write_toys,
)
from tests.support import golden

BACKBONE = "elmo_bilm_tf"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys"))


def test_every_task_from_files_to_a_served_model(files, tmp_path, capsys):
    modules, predicted = {}, {}
    for name in TASKS:
        folder = tmp_path / name
        folder.mkdir()
        predictions, module = go_through(name, golden(BACKBONE), files, folder, capsys)
        predicted[name], modules[name] = predictions, (module, inputs_of(name, files[name][-1]))
    said = read_in_clean_process(tmp_path, modules)
    for name, predictions in predicted.items():
        assert_served(name, said[name], predictions)
        labels = said[name]["labels"]
        assert labels == said[name]["labels_asset"]
    assert said["tag"]["labels"] == ["B-x", "I-x", "O"]
    assert said["pair"]["labels"] == ["no", "yes"]
