"""Every task from its files to a served model, for the backbone that a subclass names."""

import pytest

from tests.cli.cli_test import tfnlp
from tests.cli.toy_tasks import (
    TASKS,
    assert_evaluated_and_predicted,
    assert_served,
    backbone,
    finetuned,
    inputs_of,
    read_in_clean_process,
    write_toys,
)


class EveryTask:
    """A subclass sets `kind`; the tests run in the order in which they stand here."""

    kind: str

    @pytest.fixture(scope="class")
    def files(self, tmp_path_factory):
        return write_toys(tmp_path_factory.mktemp("toys"))

    @pytest.fixture(scope="class")
    def model(self, request, tmp_path_factory):
        return backbone(request.cls.kind, tmp_path_factory.mktemp("model"))

    @pytest.fixture(scope="class")
    def gone_through(self):
        """What the tests before found, by task: predictions and the exported module."""
        return {}

    @pytest.mark.parametrize("name", TASKS)
    def test_from_files_to_predictions_and_an_export(
        self, name, model, files, tmp_path, capsys, gone_through
    ):
        run, module = tmp_path / "run", tmp_path / "module"
        predictions = finetuned(name, model, files, run)
        # What measures and predicts knows nothing of the backbone; one task shows that it loads.
        if self.kind == "bert" or name == "pair":
            assert_evaluated_and_predicted(name, run, files, predictions, tmp_path, capsys)
        assert tfnlp("export", "--model", run, "--output", module) == 0
        gone_through[name] = predictions, module

    def test_exports_serve_the_predictions_without_tfnlp(self, files, tmp_path, gone_through):
        assert gone_through, "run the whole class: this test reads what the others exported"
        asked = {
            name: (module, inputs_of(name, files[name][-1]))
            for name, (_, module) in gone_through.items()
        }
        said = read_in_clean_process(tmp_path, asked)
        for name, (predictions, _) in gone_through.items():
            assert_served(name, said[name], predictions)
            assert said[name]["labels"] == said[name]["labels_asset"]
        assert said["tag"]["labels"] == ["B-x", "I-x", "O"]
        assert said["pair"]["labels"] == ["no", "yes"]
