"""Changed configs of runs: refused in one line, or the arguments of a model that the files of the
run can fill; nothing else becomes an argument."""

import inspect
import json

import pytest

from tests.fuzz.damage import damaged_json, examples, survives
from tfnlp import models
from tfnlp.families import FAMILIES
from tfnlp.families.checked import check_size
from tfnlp.families.recognition import check_arguments, run_family
from tfnlp.layers import LowRank
from tfnlp.runs.task_folder import best_run, check_task
from tfnlp.tasks import Classify, task_of

BERT = dict(vocab_size=9, num_layers=2, hidden_size=8, num_heads=2, intermediate_size=16,
            max_positions=16, dropout=0.1, activation="gelu", pooler=True)  # fmt: skip
GPT = dict(vocab_size=9, num_layers=2, hidden_size=8, num_heads=2, intermediate_size=16,
           max_positions=16, norm_first=True)  # fmt: skip
ELMO = dict(num_layers=1, units=7, projection_size=4, filters=[[1, 3], [2, 4]], num_highway=1,
            embedding_size=3, cell_clip=None, residual=True, dropout=0.1)  # fmt: skip
SPEC = Classify(labels=("no", "yes")).config()
CONFIGS = {
    "bert": {"model": "bert", "arguments": BERT, "heads": {"next_sentence": False},
             "text": {"lowercase": True}},
    "gpt": {"model": "gpt", "arguments": GPT, "training": {"seq_length": 16}},
    "elmo": {"model": "elmo", "arguments": ELMO, "training": {"reset": "never"},
             "heads": {"vocab_size": 20, "num_samples": None}},
    "nnlm": {"model": "nnlm", "arguments": dict(vocab_size=9, context=2, embedding_size=4,
             hidden_size=5, direct=True, dropout=0.1, num_samples=None)},
    "word2vec": {"model": "word2vec", "arguments": dict(vocab_size=9, hidden_size=4, window=2,
                 architecture="cbow", negatives=2.5, samples=3, block=4)},
    "glove": {"model": "glove", "arguments": dict(vocab_size=9, hidden_size=4, x_max=10.0,
              alpha=0.75)},
    "task": {"model": "task", "spec": SPEC, "features": None, "head": {"dropout": 0.1},
             "backbone": {"kind": "bert", "arguments": BERT, "lowercase": True, "saved": False}},
    "lora": {"model": "task", "spec": SPEC, "features": None, "head": {"dropout": 0.1},
             "backbone": {"kind": "bert", "arguments": BERT, "lowercase": True, "saved": False},
             "adaptation": {"low_rank": LowRank(2).config(), "trained": None}},
    "features": {"model": "task", "spec": SPEC, "features": "last", "backbone":
                 {"kind": "elmo", "arguments": ELMO, "lowercase": None, "saved": False},
                 "head": {"dropout": 0.5, "units": 5, "lstm_layers": 1}},
}  # fmt: skip


def check_run(folder, config):
    """What is checked of a run's config before a model is made of it."""
    folder = str(folder)
    if config.get("model") == "task":
        check_task(folder, config)
    else:
        check_size(folder, check_arguments(folder, config, run_family(folder, config)))


@pytest.fixture(params=CONFIGS)
def config(request):
    return json.loads(json.dumps({"tfnlp": "1.0", **CONFIGS[request.param]}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run's folder with weights of 100 kB."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "weights").write_bytes(bytes(100_000))
    return folder


@pytest.mark.long
def test_changed_values(folder, config):
    assert survives(lambda: check_run(folder, config))
    for data in examples(damaged_json, json.dumps(config).encode(), 60):
        value = json.loads(data)
        if not survives(lambda value=value: check_run(folder, value), folder / "config.json"):
            continue
        kind = value["model"]
        if kind == "task":
            task_of(value["spec"])
            kind, value = value["backbone"]["kind"], value["backbone"]
        inspect.signature(getattr(models, kind)).bind(**value["arguments"])
        assert not {"name", "dtype"} & set(value["arguments"])


@pytest.mark.parametrize(
    "name, changes, pattern",
    [
        ("bert", dict(hidden_size=2**31 - 2), "a model of [0-9]+ numbers"),
        ("bert", dict(num_layers=10**7), "num_layers"),
        ("bert", dict(num_heads=3), "num_heads"),
        ("bert", dict(dtype={"class_name": "x"}), "'dtype'"),
        ("bert", dict(name="x"), "'name'"),
        ("bert", dict(activation={"class_name": "Lambda"}), "activation"),
        ("bert", dict(norm_epsilon="x"), "norm_epsilon"),
        ("gpt", dict(norm_first=1), "norm_first"),
        ("gpt", dict(dropout=1.0), "dropout"),
        ("elmo", dict(filters=[[1, 2]] * 1001), "filters"),
        ("elmo", dict(units=float("nan")), "units"),
        ("elmo", dict(projection_size=10**6), "a model of"),
    ],
)
def test_arguments_of_no_run(folder, name, changes, pattern):
    config = {**CONFIGS[name], "arguments": {**CONFIGS[name]["arguments"], **changes}}
    with pytest.raises(ValueError, match=f"config.json .*{pattern}"):
        check_run(folder, config)


def test_an_lstm_that_the_files_cannot_fill(folder):
    config = {**CONFIGS["features"], "head": {"dropout": 0.5, "units": 10**6, "lstm_layers": 1}}
    with pytest.raises(ValueError, match="a model of 8000000"):
        check_run(folder, config)


def test_a_run_without_checkpoints(tmp_path):
    with pytest.raises(FileNotFoundError, match="checkpoint"):
        check_run(tmp_path, CONFIGS["bert"])


def test_kinds_and_best_runs(tmp_path):
    for name, family in FAMILIES.items():
        assert run_family(tmp_path, {"model": name}) is family
    with pytest.raises(ValueError, match="is fine-tuned already"):
        run_family(tmp_path, {"model": "task"})
    for kind in ("encoder", "", None, ["bert"], {"bert": 1}, "load_bert"):
        with pytest.raises(ValueError, match="config.json .*model="):
            run_family(tmp_path, {"model": kind})
    for best in ("lr-0.1", "second-to-last/seed-2"):
        (tmp_path / "runs.json").write_text(json.dumps({"best": best}))
        assert best_run(str(tmp_path)) == f"{tmp_path}/{best}"
    for best in ("../other", "/etc", "a/../..", "a//b", "..", "", "a\0", None, 3, ["x"]):
        (tmp_path / "runs.json").write_text(json.dumps({"best": best}))
        with pytest.raises(ValueError, match="runs.json .*best="):
            best_run(str(tmp_path))
