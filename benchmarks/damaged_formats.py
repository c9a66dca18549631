"""Formats of foreign files: a small file of each, how it can be damaged, and who reads it."""

import dataclasses
import functools
import io
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
import tensorflow as tf
from safetensors.numpy import save

from benchmarks.damage import (
    Damage,
    damaged_bytes,
    damaged_header,
    damaged_json,
    damaged_lines,
    damaged_member,
)
from tfnlp.convert import open_tensors, read_word_vectors
from tfnlp.convert.bert import BERT_FILES
from tfnlp.convert.elmo.options import read_options
from tfnlp.convert.encoders.config import read_config as read_encoder_config
from tfnlp.convert.formats.hdf5_files import open_hdf5
from tfnlp.convert.gpt.config import read_config as read_gpt_config
from tfnlp.convert.gpt.config import read_hparams
from tfnlp.convert.gpt.openai_gpt1 import open_pieces
from tfnlp.convert.tokenizers.wordpiece import vocabulary_lines
from tfnlp.families.checked import check_size
from tfnlp.families.recognition import check_arguments, run_family
from tfnlp.text import read_bpe, read_vocabulary
from tfnlp.training.checkpoints import Checkpoints
from tfnlp.training.run import read_config as read_run_config

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "goldens"
_VECTORS = GOLDENS / "word_vectors_gensim"
Files = dict[str, bytes]
Arrays = Iterator[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: for the table.
        files: a whole file, or the files of a folder, by name.
        ways: file name to the ways to damage it; others stay whole.
        read: function of the folder; yields the arrays of numbers that were loaded.
        ours: False for what TensorFlow reads, which can end the process.
    """

    name: str
    files: Files
    ways: dict[str, tuple[Damage, ...]]
    read: Callable[[pathlib.Path], Arrays]
    ours: bool = True


def _tensors(tensors: Any) -> Arrays:
    for name in tensors:
        yield tensors[name]


def _opened(name: str, opener: Callable = open_tensors) -> Callable[[pathlib.Path], Arrays]:
    return lambda folder: _tensors(opener(folder / name))


def _words(folder: pathlib.Path) -> Arrays:
    vectors = read_word_vectors(folder / "vectors")
    yield vectors.vectors
    if vectors.subwords is not None:
        yield vectors.subwords.table


def _nothing(read: Callable, name: str) -> Callable[[pathlib.Path], Arrays]:
    """Return a reader of a file without arrays."""

    def run(folder: pathlib.Path) -> Arrays:
        read(folder / name)
        yield from ()

    return run


def _vocabulary(path: pathlib.Path) -> None:
    for read in (read_vocabulary, vocabulary_lines):
        tokens = read(path)
        if read is read_vocabulary and (len(set(tokens)) < len(tokens) or not all(tokens)):
            raise AssertionError("a vocabulary with a token twice, or an empty one")


def _gpt_config(path: pathlib.Path) -> None:
    read_gpt_config(path, True)


def _run(folder: pathlib.Path) -> Arrays:
    """Read a run as it is read before its model is built, and its checkpoint."""
    config, path = read_run_config(folder), str(folder)
    if config != json.loads((_RUN / "config.json").read_bytes()):  # it takes 30 ms
        check_size(path, check_arguments(path, config, run_family(path, config)))
    read_vocabulary(folder / "vocab.txt")
    variables = _run_variables()
    Checkpoints(folder / "checkpoints", variables).restore(str(folder / _STEP))
    yield from (variable.numpy() for variable in variables.values())


@functools.cache
def _run_variables() -> dict[str, tf.Variable]:
    """Return variables for the weights in the whole run's checkpoint."""
    reader = tf.train.load_checkpoint(str(_RUN / _STEP / "variables"))
    begin, end = "variables/", "/.ATTRIBUTES/VARIABLE_VALUE"
    keys = [k for k in reader.get_variable_to_shape_map() if k.startswith(f"{begin}model")]
    return {
        key.removeprefix(begin).removesuffix(end).replace(".S", "/"): tf.Variable(
            reader.get_tensor(key)
        )
        for key in keys
    }


_STEP = "checkpoints/step-0000000006"
_RUN = GOLDENS / "runs_0.1.0" / "bert"
_ARRAYS = {
    "a/b": np.arange(400, dtype=np.float32).reshape(20, 20),
    "half": np.ones(300, np.float16),
    "ids": np.arange(4),
}


def _npz(compressed: bool) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **_ARRAYS)
    return file.getvalue()


def _hdf5() -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as written:
        for name, array in _ARRAYS.items():
            written[f"group/{name}"] = array
        written.create_dataset("packed", data=np.ones([8, 4]), chunks=(4, 4), compression="gzip")
        written["group"].attrs["note"] = "x"
    return file.getvalue()


def _folder(source: pathlib.Path, *names: str) -> Files:
    return {name: (source / name).read_bytes() for name in names}


def _shards() -> Files:
    places = {"a/b": "one.safetensors", "half": "two.safetensors", "ids": "two.safetensors"}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    return {
        "model.safetensors.index.json": json.dumps(index).encode(),
        "one.safetensors": save({"a/b": _ARRAYS["a/b"]}),
        "two.safetensors": save({name: _ARRAYS[name] for name in ("half", "ids")}),
    }


def formats() -> dict[str, Format]:
    """Return all formats by name."""
    text = (_VECTORS / "word2vec.txt").read_bytes().split(b"\n")
    few = b"\n".join([b"20 " + text[0].split()[1], *text[1:21], b""])
    glove = few.partition(b"\n")[2]
    words = (damaged_bytes, damaged_lines)
    tokens = {t: i for i, t in enumerate(["<unk>", "a", "b", "ab", "c</w>", "abc</w>", "\n"])}
    gpt2 = GOLDENS / "gpt2_openai_tf"
    pair = {
        "vocab.json": json.dumps(tokens).encode(), "merges.txt": b"#version: 0.2\na b\nab c</w>\n"
    }  # fmt: skip
    bert = _folder(GOLDENS / "bert_google_tf_tiny", "bert_config.json", "vocab.txt")
    pieces = _folder(
        GOLDENS / "gpt1_openai_npy", "params_shapes.json", *(f"params_{i}.npy" for i in range(10))
    )
    prefix = _folder(
        GOLDENS / "bert_google_tf_tiny", "bert_model.ckpt.index",
        "bert_model.ckpt.data-00000-of-00001",
    )  # fmt: skip
    data = f"{_STEP}/variables.data-00000-of-00001"
    run = _folder(
        _RUN, "config.json", "vocab.txt", f"{_STEP}/state.json", data, f"{_STEP}/variables.index"
    )
    either = (damaged_bytes, damaged_json)
    hub = {
        "hidden_size": 8, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16, "n_ctx": 16,
        "vocab_size": 20, "activation_function": "gelu_new", "model_type": "gpt2",
        "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
    }  # fmt: skip

    def one(
        title: str, name: str, content: bytes, ways: tuple, read: Callable, ours: bool = True
    ) -> Format:
        return Format(title, {name: content}, {name: ways}, read, ours)

    found = [
        one("safetensors", "x.safetensors", save(_ARRAYS), (damaged_bytes, damaged_header),
            _opened("x.safetensors")),
        Format("safetensors, shards", _shards(), {
            "model.safetensors.index.json": either, "one.safetensors": (damaged_bytes,),
            "two.safetensors": (damaged_header,)}, _opened("model.safetensors.index.json")),
        one("PyTorch, zip", "x.bin", (GOLDENS / "torch_files" / "state.bin").read_bytes(),
            (damaged_bytes, damaged_member), _opened("x.bin")),
        one("PyTorch, older", "x.bin", (GOLDENS / "torch_files" / "legacy.bin").read_bytes(),
            (damaged_bytes,), _opened("x.bin")),
        one("npz", "x.npz", _npz(False), (damaged_bytes, damaged_member), _opened("x.npz")),
        one("npz, compressed", "x.npz", _npz(True), (damaged_bytes, damaged_member),
            _opened("x.npz")),
        Format("npy (OpenAI's GPT)", pieces, {
            "params_shapes.json": either, "params_0.npy": (damaged_bytes,),
            "params_9.npy": (damaged_bytes,)}, lambda folder: _tensors(open_pieces(folder))),
        one("HDF5", "x.hdf5", _hdf5(), (damaged_bytes,), _opened("x.hdf5", open_hdf5)),
        one("word2vec, text", "vectors", few, words, _words),
        one("word2vec, binary", "vectors", (_VECTORS / "word2vec.bin").read_bytes(),
            (damaged_bytes,), _words),
        one("GloVe", "vectors", glove, words, _words),
        one("fastText .bin", "vectors", (_VECTORS / "fasttext.bin").read_bytes(),
            (damaged_bytes,), _words),
        one("vocab.txt", "vocab.txt", bert["vocab.txt"], words, _nothing(_vocabulary, "vocab.txt")),
        Format("vocab.json, merges.txt", pair, {"vocab.json": either, "merges.txt": words},
               _nothing(read_bpe, "")),
        one("config.json, BERT", "config.json", bert["bert_config.json"], either,
            _nothing(functools.partial(read_encoder_config, BERT_FILES), "config.json")),
        one("config.json, GPT-2", "config.json", json.dumps(hub).encode(), either,
            _nothing(_gpt_config, "config.json")),
        one("hparams.json, GPT-2", "hparams.json", (gpt2 / "hparams.json").read_bytes(), either,
            _nothing(read_hparams, "hparams.json")),
        one("options.json, ELMo", "options.json",
            (GOLDENS / "elmo_bilm_tf" / "options.json").read_bytes(), either,
            _nothing(read_options, "options.json")),
        Format("run of tfnlp", run, {
            "config.json": either, "vocab.txt": words, f"{_STEP}/state.json": either,
            data: (damaged_bytes,)}, _run),
        Format("TensorFlow, data", prefix, {
            "bert_model.ckpt.data-00000-of-00001": (damaged_bytes,)}, _opened("bert_model.ckpt"),
            ours=False),
        Format("TensorFlow, index", prefix, {"bert_model.ckpt.index": (damaged_bytes,)},
               _opened("bert_model.ckpt"), ours=False),
    ]  # fmt: skip
    return {form.name: form for form in found}
