"""`hf://` names against a Hub on this machine: what is downloaded, and what becomes of it."""

import json
import os
import pathlib
import shutil
import sys
import types

import numpy as np
import pytest
from huggingface_hub import HfApi

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.published import repositories
from tests.published.conftest import constants
from tests.published.hub_server import files_in
from tests.support import golden, run_python
from tfnlp.families.recognition import model_files
from tfnlp.formats import Module
from tfnlp.published import fetch

SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
READ = ["README.md", "config.json", "special_tokens_map.json", "tokenizer.json",
        "tokenizer_config.json", "vocab.txt"]  # fmt: skip


@pytest.fixture
def bert(tmp_path):
    return repositories.bert(tmp_path / "bert")


class TestDownload:
    def test_needed_files_alone_and_once(self, hub, bert, capsys):
        commit = hub.put("org/name", bert)
        loaded = tfnlp.load("hf://org/name")
        assert (loaded.path, loaded.revision) == ("hf://org/name", commit)
        assert sorted(os.listdir(loaded.folder)) == sorted([*READ, "model.safetensors"])
        assert f"hf://org/name is commit {commit}\n" in capsys.readouterr().err
        ids = {"input_word_ids": np.array([[1, 2, 3]]), "input_mask": np.ones((1, 3), int),
               "input_type_ids": np.zeros((1, 3), int)}  # fmt: skip
        expected = tfnlp.load(golden("bert_xsmall_dummy_pt/pytorch_model.bin")).encoder(ids)
        np.testing.assert_array_equal(
            loaded.encoder(ids)["sequence_output"], expected["sequence_output"]
        )
        assert len(hub.downloads()) == len(set(hub.downloads())) == 7
        tfnlp.load("hf://org/name")
        assert len(hub.downloads()) == 7

    def test_modules_of_sentence_transformers(self, hub):
        folder = golden("sentence_transformers") / "labse"
        hub.put("org/labse", {**files_in(folder), "onnx/model.onnx": b"", "3_Normalize/x.bin": b""})
        loaded = tfnlp.load("hf://org/labse")
        below = pathlib.Path(loaded.folder).glob("*/*")
        found = {f"{path.parent.name}/{path.name}" for path in below}
        modules = {"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"}
        assert found == {*modules, "3_Normalize/config.json"}
        assert loaded.sentences.modules and not loaded.sentences.refused

    def test_revisions(self, hub, bert):
        first = hub.put("name", bert, "v1")
        second = hub.put("name", {**bert, "config.json": bert["config.json"] + b"\n"})
        names = {"hf://name": second, "hf://name@v1": first, f"hf://name@{first}": first}
        for name, commit in names.items():
            found = fetch(name, lambda files, _: ["config.json"])
            assert found.revision == commit and found.folder.endswith(commit)

        hub.put("name", {"config.json": b"1"})  # the branch moves
        found = fetch("hf://name", lambda files, _: files)
        assert pathlib.Path(found.folder, "config.json").read_bytes() == b"1"

    def test_formats(self, hub, bert, tmp_path):
        """Safetensors (or their shards) before TensorFlow's checkpoints before pickles."""
        tensorflow = files_in(golden("bert_google_tf_generated"))
        hub.put("org/shards", repositories.sharded(bert))
        hub.put("org/pickle", repositories.pickled_bert())
        hub.put("org/both", {**repositories.pickled_bert(), **tensorflow})
        hub.put("org/gpt2", repositories.gpt2())
        expected = {
            "shards": ["model.safetensors.index.json", *SHARDS],
            "pickle": ["pytorch_model.bin"],
            "both": ["bert_config.json", "bert_model.ckpt.data-00000-of-00001",
                     "bert_model.ckpt.index", "checkpoint"],
            "gpt2": ["checkpoint", "encoder.json", "hparams.json", "vocab.bpe",
                     "model.ckpt.data-00000-of-00001", "model.ckpt.index"],
        }  # fmt: skip
        for name, weights in expected.items():
            found = fetch(f"hf://org/{name}", lambda f, p: model_files("it", f, p))
            held = set(os.listdir(found.folder))
            assert set(weights) <= held
            assert held - set(weights) <= {*READ}
        loaded = tfnlp.load("hf://org/shards").encoder.get_weights()
        for a, b in zip(loaded, tfnlp.load("hf://org/pickle").encoder.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
        assert tfnlp.load("hf://org/gpt2").family.name == "gpt"

    @pytest.mark.slow
    def test_runs_and_modules(self, hub, made, capsys):
        bert = made("bert")
        for name in ("run", "task", "module"):
            hub.put(f"me/{name}", files_in(getattr(bert, name)))
        assert tfnlp.load("hf://me/run").pretrainer is not None
        assert isinstance(tfnlp.load("hf://me/module"), Module)
        (inspected,) = tfnlp.inspect("hf://me/module")
        assert "saved_model.pb" in os.listdir(inspected.path)
        task = tfnlp.load("hf://me/task")
        capsys.readouterr()
        assert command("evaluate", "--model", "hf://me/task", "--input", bert.dev, "--json") == 0
        measured = json.loads(capsys.readouterr().out.splitlines()[0])
        assert measured == pytest.approx(task.evaluate(bert.dev))


class TestRefused:
    """One line, before any weights are downloaded."""

    @pytest.mark.parametrize(
        "files, says",
        [
            ({"config.json": b'{"model_type": "t5"}', "model.safetensors": b"0"}, ".*type 't5'"),
            ({"data/train.parquet": b"0", "README.md": b""}, "holds no weights that tfnlp reads"),
            ({"config.json": b'{"model_type": "bert"}', "tf_model.h5": b"0", "vocab.txt": b""},
             "holds no weights that tfnlp reads"),
            ({"config.json": b'{"model_type": "bert"}', "model.safetensors.index.json":
              b'{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}',
              "model-1.safetensors": b"0"}, "is not complete: .* model-2.safetensors"),
            ({"config.json": b'{"registered_name": "keras_hub>T5Backbone"}',
              "model.weights.h5": b"0"}, "is a T5Backbone"),
        ],
    )  # fmt: skip
    def test_content(self, hub, files, says):
        hub.put("org/it", files)
        with pytest.raises((ValueError, OSError), match=f"^(hf://org/it|.*/snapshots/.*) ?{says}"):
            tfnlp.load("hf://org/it")
        assert all(file.endswith(".json") for file in hub.downloads())

    def test_module_wanted(self, hub, bert, capsys):
        hub.put("org/name", bert)
        assert command("inspect", "hf://org/name") == 1
        assert "hf://org/name holds no SavedModel, but " in error(capsys)
        assert hub.downloads() == []

    def test_names(self, hub):
        for name in ("hf://", "hf://a/b/c", "hf://a b", "hf://a/b@", "kaggle://a/b", "hf://../x"):
            with pytest.raises(ValueError, match="is not the name of a published model"):
                tfnlp.load(name)

    def test_a_name_without_scheme(self, hub, bert, tmp_path, monkeypatch, capsys):
        hub.put("org/name", bert)
        monkeypatch.chdir(tmp_path)
        assert tfnlp.load("org/name").path == "hf://org/name"
        assert "org/name is no folder here: taken as hf://org/name" in capsys.readouterr().err
        (tmp_path / "a.txt").write_text("the dog\n")
        embed = ["embed", "--model", "org/name", "--input", "a.txt", "--output", "a.npy"]
        assert command(*embed) == 0 and (tmp_path / "a.npy").exists()
        with pytest.raises(FileNotFoundError, match="^hf://org/none does not exist at"):
            tfnlp.load("org/none")
        (tmp_path / "org").mkdir()  # a folder comes first
        (tmp_path / "org/names").mkdir()
        with pytest.raises(FileNotFoundError, match="org/name does not .* did you mean org/names"):
            tfnlp.load("org/name")
        with pytest.raises(FileNotFoundError, match="did you mean hf://sentence-transformers/all"):
            tfnlp.load("all-MiniLM-L6")

    def test_not_there(self, hub, bert):
        hub.put("org/name", bert)
        with pytest.raises(FileNotFoundError, match="^hf://org/none does not exist at http.*HF_TO"):
            tfnlp.load("hf://org/none")
        with pytest.raises(FileNotFoundError, match="^hf://org/name@v9 has no revision 'v9'; give"):
            tfnlp.load("hf://org/name@v9")

    def test_no_network(self, hub, monkeypatch):
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        says = "^hf://org/name is not complete in the cache .*, and http://127.0.0.1:9 can't be"
        with pytest.raises(OSError, match=says):
            tfnlp.load("hf://org/name")

    def test_without_the_package(self, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        assert command("export", "--model", "hf://org/name", "--output", "no") == 1
        assert "pip install huggingface_hub" in error(capsys)


@pytest.mark.slow
def test_models_are_uploaded(hub, bert, made, monkeypatch):
    """`HfApi` gets the files that `load` reads again."""
    asked = []

    def create_repo(api, repository, **more):
        asked.append((repository, more))

    def upload_folder(api, *, repo_id, folder_path, **more):
        hub.put(repo_id, files_in(pathlib.Path(folder_path)))

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    hub.put("org/name", bert)
    model, task = tfnlp.load("hf://org/name"), tfnlp.load(made("bert").task)
    assert model.push_to_hub("me/bert", private=True) == "hf://me/bert"
    assert task.push_to_hub("hf://me/task") == "hf://me/task"
    assert asked == [
        ("me/bert", {"private": True, "exist_ok": True}),
        ("me/task", {"private": False, "exist_ok": True}),
    ]
    again = tfnlp.load("hf://me/bert")
    for one, other in zip(again.encoder.weights, model.encoder.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    found, want = (
        one("a good book")["probabilities"] for one in (tfnlp.load("hf://me/task"), task)
    )
    assert found == pytest.approx(want, abs=1e-6)

    def refused(api, *names, **more):
        error = OSError("403")
        error.response = types.SimpleNamespace(status_code=403)
        raise error

    monkeypatch.setattr(HfApi, "create_repo", refused)
    with pytest.raises(OSError, match="^hf://me/bert may not be written: set HF_TOKEN"):
        model.push_to_hub("me/bert")
    with pytest.raises(ValueError, match="is not the name of a published model"):
        model.push_to_hub("a/b/c")


# It imports neither TensorFlow nor Keras: what is tested comes before.
FETCH = """
import sys
from tfnlp.published import fetch
try:
    print(fetch(sys.argv[1], lambda files, path_of: files).folder)
except OSError as error:
    sys.exit(f"{error}")
"""
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40}


@pytest.mark.slow
def test_processes_read_the_environment(hub, tmp_path):
    commit = hub.put("org/name", FILES)
    hub.token = "hf_secret"
    cache = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    refused = run_python(FETCH, "hf://org/name", env=cache, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"hf://org/name is gated: accept its conditions at {hub.url}")
    done = run_python(FETCH, "hf://org/name", env={**cache, "HF_TOKEN": "hf_secret"})
    folder = tmp_path / f"cache/models--org--name/snapshots/{commit}"
    assert done.stdout.strip() == str(folder) and files_in(folder) == FILES
    assert f"hf://org/name is commit {commit}" in done.stderr
    hub.token = "nobody has it"
    offline = run_python(FETCH, "hf://org/name", env={**cache, "HF_HUB_OFFLINE": "1"})
    assert offline.stdout == done.stdout
    elsewhere = {"HF_HOME": str(tmp_path / "other"), "HF_HUB_OFFLINE": "1"}
    missing = run_python(FETCH, "hf://org/name", env=elsewhere, check=False)
    assert missing.stderr.splitlines()[-1] == (
        f"hf://org/name is not complete in the cache {tmp_path}/other/hub, and HF_HUB_OFFLINE is "
        "set; unset it to download the rest"
    )


# --- Runs that go on without a network

ROWS = [(f"the {'good' if i % 2 else 'bad'} book {i}", "no yes".split()[i % 2]) for i in range(16)]
TRAINING = dict(epochs=1, batch_size=8, max_length=16, no_buckets=True)


@pytest.mark.slow
def test_finetune(hub, tmp_path, monkeypatch):
    """A run goes on with the commit that it began with, from the cache."""
    files = repositories.bert(tmp_path / "bert")
    commit = hub.put("org/name", files)
    output = tmp_path / "task"

    def finetune():
        return tfnlp.finetune("classify", "hf://org/name", ROWS, output=output, **TRAINING)

    finetune()
    config = json.loads((output / "config.json").read_text())
    assert config["backbone"]["published"] == {"name": "hf://org/name", "revision": commit}
    hub.put("org/name", {**files, "model.safetensors": b"of another model"})
    hub.asked.clear()
    os.unlink(output / "results.json")
    finetune()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    finetune()
    assert hub.asked == []
    shutil.rmtree(constants.HF_HUB_CACHE)
    assert len(tfnlp.load(output).predict(["a good book"])) == 1


@pytest.mark.slow
def test_pretrain_from(hub, made, tmp_path, capsys):
    lines = [f"the {word} is here\nit was a {word}\n" for word in "cat dog man day".split() * 9]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    files = files_in(made("bert").run)
    commit = hub.put("me/bert", files)
    arguments = [
        "pretrain", "bert", "--input", tmp_path / "text.txt", "--layout", "lines",
        "--from", "hf://me/bert", "--output", tmp_path / "run", "--seq-length", 16,
        "--steps", 2, "--batch-size", 4, "--evaluate-batches", 1,
    ]  # fmt: skip
    assert command(*arguments) == 0
    training = json.loads((tmp_path / "run/config.json").read_text())["training"]
    assert (training["from"], training["from_revision"]) == ("hf://me/bert", commit)
    hub.put("me/bert", {**files, "README.md": b"changed"})
    hub.asked.clear()
    assert command(*arguments) == 0 and hub.asked == []
    again = ["hf://me/bert@main" if a == "hf://me/bert" else a for a in arguments]
    assert command(*again) == 1
    assert "holds a run with other settings (training.from" in error(capsys)
