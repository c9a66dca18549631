"""Configurations that are changed or damaged: an error in one line, or a model no larger than the
weights beside it, which is built after the two were compared."""

import contextlib
import json
import math
from unittest import mock

import numpy as np
import pytest

from tests.checkpoints import checkpoints, elmo_reference, gpt_checkpoints
from tests.checkpoints.gpt_checkpoints import GPT1, GPT2
from tests.fuzz.damage import damaged_bytes, damaged_json, examples, survives
from tfnlp.checkpoints import elmo as elmo_files
from tfnlp.checkpoints import encoder_files, load_bert, load_elmo, load_gpt, mapping, open_tensors
from tfnlp.models.shapes import weight_shapes


class Accepted(BaseException):
    """Raised in place of building a model that the weights fit."""


def accept(*arguments):
    raise Accepted


@contextlib.contextmanager
def not_built(most):
    """No model of more than `most` numbers may be accepted, and none is built."""
    asked = []

    def shapes(build, arguments):
        asked.append(weight_shapes(build, arguments))
        return asked[-1]

    with contextlib.ExitStack() as stack:
        for module in (encoder_files, elmo_files):
            stack.enter_context(mock.patch.object(module, "weight_shapes", shapes))
        for module, reads in ((elmo_files, "split_datasets"), (mapping, "weights_from_tensors")):
            stack.enter_context(mock.patch.object(module, reads, accept))
        try:
            yield
        except Accepted:
            assert sum(math.prod(shape) for shape in asked[-1].values()) <= most


def elmo_folder(folder):
    options = elmo_reference.small_options()
    return elmo_reference.write(folder, options, elmo_reference.random_arrays(options))


def shards(folder):
    arrays = checkpoints.google_arrays()
    checkpoints.write(folder, {n: a for n, a in arrays.items() if "layer_0" in n})
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    checkpoints.write(folder, {n: a for n, a in arrays.items() if "layer_0" not in n})
    (folder / "model.safetensors").rename(folder / "two.safetensors")
    places = {n: "one.safetensors" if "layer_0" in n else "two.safetensors" for n in arrays}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return folder


CASES = {  # how the folder is made, which file in it is changed, who reads it
    "bert": (lambda f: checkpoints.write(f, checkpoints.huggingface_arrays()), "config.json",
             load_bert),
    "shards": (shards, "model.safetensors.index.json", load_bert),
    "gpt": (lambda f: gpt_checkpoints.write(f, GPT1, gpt_checkpoints.huggingface_arrays(GPT1)),
            "config.json", load_gpt),
    "gpt2": (lambda f: gpt_checkpoints.write(f, GPT2, gpt_checkpoints.huggingface_arrays(GPT2)),
             "config.json", load_gpt),
    "openai gpt": (lambda f: gpt_checkpoints.copied(GPT1, f), "hparams.json", load_gpt),
    "openai gpt2": (lambda f: gpt_checkpoints.copied(GPT2, f), "hparams.json", load_gpt),
    "pieces": (lambda f: gpt_checkpoints.copied(GPT1, f), "params_shapes.json", load_gpt),
    "elmo": (elmo_folder, "options.json", load_elmo),
}  # fmt: skip


FEW = ("bert", "openai gpt2", "elmo")


@pytest.fixture(
    params=[pytest.param(name, marks=() if name in FEW else pytest.mark.long) for name in CASES]
)
def case(request, tmp_path):
    make, name, load = CASES[request.param]
    folder = make(tmp_path / "model")
    size = sum(file.stat().st_size for file in folder.iterdir())

    def read():
        with not_built(size):
            load(folder)

    return folder, folder / name, read


@pytest.mark.long
def test_damage(case):
    folder, path, read = case
    whole = path.read_bytes()
    for damage in (damaged_bytes, damaged_json):
        for content in examples(damage, whole, 60):
            path.write_bytes(content)
            survives(read, folder)


def test_what_is_no_configuration(case):
    folder, path, read = case
    deep = b"[" * 900 + b"]" * 900
    for content in (b"", b"null", b"3", b'"x"', b"[]", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"NaN",
                    b"{" * 10**5, b"\0" * 99, b'{"a":' * 10**5, b"9" * 5000, deep,
                    b'{"x": ' + b"9" * 5000 + b"}"):  # fmt: skip
        path.write_bytes(content)
        assert not survives(read, folder), content[:20]
    for content in (b'{"\\ud800": 1}', b'{"n_head": %b, "hidden_size": %b}' % (deep, deep)):
        path.write_bytes(content)
        survives(read, folder)


def test_a_key_that_is_there_twice(case):
    folder, path, read = case
    text = path.read_text()
    if not text.startswith("{"):
        pytest.skip("an array has no keys")
    key, value = next(iter(json.loads(text).items()))
    path.write_text(f"{{{json.dumps(key)}: {json.dumps(value)}, {text.strip()[1:]}")
    assert survives(read, folder)  # twice the same
    path.write_text(f'{{{json.dumps(key)}: "other", {text.strip()[1:]}')
    with pytest.raises(ValueError, match=f"{path.name} has the key '{key}' twice"):
        read()


def test_shards_that_lie_elsewhere(tmp_path):
    """An index leads to no other folder, by no way of writing it."""
    folder = shards(tmp_path / "model")
    (tmp_path / "out.safetensors").write_bytes((folder / "one.safetensors").read_bytes())
    index = folder / "model.safetensors.index.json"
    name = next(iter(open_tensors(folder / "one.safetensors")))
    for place in ("../out.safetensors", f"{tmp_path}/out.safetensors", "./one.safetensors",
                  "model/../one.safetensors", "\0.safetensors", "a\n.safetensors", "one.bin",
                  ".safetensors/", "x" * 300 + ".safetensors", "é" * 125 + ".safetensors", "..", 1,
                  None, ["one.safetensors"]):  # fmt: skip
        index.write_text(json.dumps({"weight_map": {name: place}}))
        with pytest.raises(ValueError, match="names the shard .* file beside the index$"):
            open_tensors(index)
    index.write_text(json.dumps({"weight_map": {name: "one.safetensors"}}))
    assert np.isfinite(open_tensors(index)[name]).all()
