"""Every task from its files to a served model, with a backbone of a few weights of each family."""

import pytest

from tests.cli.command import tfnlp
from tests.cli.toy_tasks import (
    assert_evaluated_and_predicted,
    assert_served,
    backbone,
    finetuned,
    inputs_of,
    read_without_tfnlp,
    write_toys,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

# Encoders after BERT share its heads; what may differ is where pieces stand in a text. A GPT and
# an ELMo have heads of their own. Each task is evaluated and predicted with one backbone.
CROSSED = [
    ("bert", ["pair", "labels", "crf", "roles", "coref"]),
    ("elmo", ["choose", "answer", "coref"]),
    ("gpt", ["choose", "answer"]),
]
IN_LONG = [
    ("bert", ["similarity", "choose", "answer"]),
    ("gpt", ["similarity", "pair", "tag", "roles", "coref"]),
    ("elmo", ["pair", "crf", "roles"]),
    ("roberta", ["answer"]),
    ("xlm-roberta", ["answer", "tag"]),
    ("mpnet", ["pair", "labels", "similarity", "choose", "answer", "crf", "roles", "coref"]),
    ("albert", ["answer"]),
    ("distilbert", ["answer"]),
    ("electra", ["pair", "coref"]),
]


@pytest.mark.parametrize(
    "kind, names",
    [*CROSSED, *(pytest.param(*row, marks=pytest.mark.long) for row in IN_LONG)],
)
def test_from_files_to_predictions_and_an_export(kind, names, tmp_path, capsys):
    files = write_toys(tmp_path)
    model = backbone(kind, tmp_path)
    predictions, asked = {}, {}
    for name in names:
        folder = tmp_path / name
        run, module = folder / "run", folder / "module"
        predictions[name] = finetuned(name, model, files, run)
        if kind == "bert" or name == names[0]:
            assert_evaluated_and_predicted(name, run, files, predictions[name], folder, capsys)
        assert tfnlp("export", "--model", run, "--output", module) == 0
        asked[name] = module, inputs_of(name, files[name][-1])

    said = read_without_tfnlp(tmp_path, asked)
    for name in predictions:
        assert_served(name, said[name], predictions[name])
        assert said[name]["names"] == said[name]["names_asset"]
        if name in ("tag", "crf"):
            assert said[name]["names"] == ["B-x", "I-x", "O"]
