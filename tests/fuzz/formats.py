"""Formats of foreign files: a small file of each, how it can be damaged, and who reads it."""

import contextlib
import dataclasses
import functools
import io
import json
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import h5py
import numpy as np
import tensorflow as tf
from safetensors.numpy import load, save

import tfnlp
from tests.fuzz.damage import (
    Damage,
    damaged_bytes,
    damaged_header,
    damaged_json,
    damaged_lines,
    damaged_member,
)
from tests.support import GOLDENS
from tfnlp.cards import Card, licence_of, read_card
from tfnlp.checkpoints import open_tensors, peft, read_word_vectors
from tfnlp.checkpoints.elmo import read_options
from tfnlp.checkpoints.encoders import BERT_FILES
from tfnlp.checkpoints.formats.weight_files import open_hdf5
from tfnlp.checkpoints.gpt import GPT2_FILES
from tfnlp.checkpoints.gpt_openai import open_pieces, read_hparams
from tfnlp.checkpoints.tokenizers.byte_pairs import GPT_BYTE_PAIRS, write_gpt_json
from tfnlp.checkpoints.tokenizers.files import FoundTokenizer
from tfnlp.checkpoints.tokenizers.sentencepiece import SENTENCEPIECE
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE, WordPieces
from tfnlp.checksums import checksums
from tfnlp.families.checked import check_size
from tfnlp.families.recognition import check_arguments, run_family
from tfnlp.runs.search_index import INDEX, STARTS, TEXTS, VECTORS, Index, write_index
from tfnlp.text import (
    SPECIAL_TOKENS,
    SentencePieceTokenizer,
    read_bpe,
    read_vocabulary,
    train_bpe,
    train_sentencepiece,
)
from tfnlp.text.base_tokenizers import GraphTokenizer, PieceTokenizer
from tfnlp.text.sentencepiece import MODEL_FILE
from tfnlp.training.checkpoints import Checkpoints
from tfnlp.training.run import read_config as read_run_config

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
    """

    name: str
    files: Files
    ways: dict[str, tuple[Damage, ...]]
    read: Callable[[pathlib.Path], Arrays]


def _tensors(tensors: Any) -> Arrays:
    for name in tensors:
        yield tensors[name]


def _opened(path: pathlib.Path) -> Arrays:
    return _tensors(open_tensors(path))


def _words(path: pathlib.Path) -> Arrays:
    vectors = read_word_vectors(path)
    yield vectors.vectors
    if vectors.subwords is not None:
        yield vectors.subwords.table


def _nothing(read: Callable) -> Callable[[pathlib.Path], Arrays]:
    """Return a reader of a file without arrays."""

    def run(path: pathlib.Path) -> Arrays:
        read(path)
        yield from ()

    return run


def _index(folder: pathlib.Path) -> Arrays:
    """Read an index whose checksums are those of its files, as one who forges it would make it."""
    stated = folder / INDEX
    if stated.read_bytes() == _whole_index()[INDEX]:
        settings = json.loads(stated.read_bytes())
        sums = checksums(str(folder), settings["files"])
        stated.write_text(json.dumps({**settings, "files": sums}))
    index = Index(folder)
    list(index.texts())
    yield index.vectors


def _adapters(folder: pathlib.Path) -> Arrays:
    """Read adapters as they are read before the model that they belong to is looked for."""
    peft.base_of(str(folder))
    peft.is_task_adapter(str(folder))
    with tempfile.TemporaryDirectory() as merged:
        peft.write_merged(str(folder), str(GOLDENS / "bert_xsmall_dummy_pt"), merged, BERT_FILES)
        yield from _tensors(open_tensors(pathlib.Path(merged) / "model.safetensors"))


def _tokenizers(folder: pathlib.Path) -> Arrays:
    """Make the tokenizers of the files in folders of their own, of those that were changed."""
    for name, find in _FINDERS.items():
        path = folder / name / "tokenizer.json"
        if path.read_bytes() != _tokenizer_files()[f"{name}/tokenizer.json"]:
            yield _tokenized(find(path.parent, None, None, 1000))


def _tokenized(found: FoundTokenizer) -> np.ndarray:
    """Return ids: libraries read more of a file then. The graph of it would take seconds."""
    with mock.patch.object(GraphTokenizer, "_trace"), mock.patch.object(PieceTokenizer, "_trace"):
        tokenizer = found.make()
    return tokenizer._encode(tf.constant(["The dog's café ran ...", ""])).flat_values.numpy()


def _pieces(folder: pathlib.Path) -> Arrays:
    yield _tokenized(SENTENCEPIECE.find(folder, None, None, 1000))


_FINDERS = {
    "albert": SENTENCEPIECE.find, "bert": WORDPIECE.find,
    "gpt2": GPT_BYTE_PAIRS.find,
}  # fmt: skip


@functools.cache
def _tokenizer_files() -> Files:
    """Return three kinds of tokenizer.json, and a SentencePiece model."""
    texts = ["the dog ran to the garden.", "a café in the red garden ..."] * 8
    tokens, merges = train_bpe(texts, 280, "gpt2")
    pieces = SentencePieceTokenizer(train_sentencepiece(texts, 40))
    words = WordPieces([*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz", "the", "##s"], True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in _FINDERS:
            (folder / name).mkdir()
        SENTENCEPIECE.write(str(folder / "albert"), pieces, 512)
        WORDPIECE.write(str(folder / "bert"), words, 512)
        write_gpt_json(str(folder / "gpt2"), tokens, merges, of_bytes=True)
        return {MODEL_FILE: pieces.model, **_folder(folder, *_TOKENIZERS)}


@functools.cache
def _whole_index() -> Files:
    """Return the files of an index of twelve texts."""
    vectors = np.eye(12, 8, dtype=np.float32)
    embed = {"pooling": None, "layer": -1, "max_length": None, "normalize": True}
    with tempfile.TemporaryDirectory() as folder:
        texts = [f"text {n} \u00e9" for n in range(12)]
        write_index(folder, [vectors], texts, {"model": "m", "embed": embed}, False)
        return _folder(pathlib.Path(folder), INDEX, VECTORS, TEXTS, STARTS)


def _card() -> Files:
    facts = {"lr": 1e-4, "batch_size": 32}
    card = Card("A BERT.", "hf://a/b", "mit", ("12 words",), facts, {"f1": 0.5}, "dev", "fill-mask")
    text = card.front_matter("a") + card.text("a", "`python x.py`")
    return {"README.md": text.encode(), "config.json": b'{"license": "mit", "x": [1]}'}


def _read_card(path: pathlib.Path) -> None:
    read_card(path.parent)
    licence_of(path.parent)


def _vocabulary(path: pathlib.Path) -> None:
    tokens = read_vocabulary(path)
    if len(set(tokens)) < len(tokens) or not all(tokens):
        raise AssertionError("a vocabulary with a token twice, or an empty one")


@functools.cache
def _whole_run() -> tuple[Files, dict[str, tf.Variable]]:
    """Return the files of a BERT that was trained for two steps, and its weights."""
    text = [["the dog ran .", "a cat sat .", "it rained ."]] * 8
    size = {"num_layers": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 16}
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as temporary, quiet[0], quiet[1]:
        folder = pathlib.Path(temporary) / "run"
        tfnlp.pretrain(
            "bert", text=text, output=str(folder), vocab_size=60, seq_length=16, batch_size=4,
            steps=2, held_out=0.25, **size,
        )  # fmt: skip
        step = f"{_STEP}/state.json"
        files = _folder(folder, "config.json", "vocab.txt", step, _RUN_DATA)
        arrays = load(files[_RUN_DATA])
        return files, {n: tf.Variable(x) for n, x in arrays.items() if n.startswith("model")}


def _run(folder: pathlib.Path) -> Arrays:
    """Read a run as it is read before its model is built, and its checkpoint."""
    config, path = read_run_config(folder), str(folder)
    files, variables = _whole_run()
    if config != json.loads(files["config.json"]):  # it takes 30 ms
        check_size(path, check_arguments(path, config, run_family(path, config)))
    read_vocabulary(folder / "vocab.txt")
    Checkpoints(folder / "checkpoints", variables).restore(str(folder / _STEP))
    yield from (variable.numpy() for variable in variables.values())


_STEP = "checkpoints/step-0000000002"
_ARRAYS = {
    "a/b": np.arange(400, dtype=np.float32).reshape(20, 20),
    "half": np.ones(300, np.float16),
    "ids": np.arange(4),
}
_EITHER, _WORDS = (damaged_bytes, damaged_json), (damaged_bytes, damaged_lines)
_BYTES, _MEMBERS = (damaged_bytes,), (damaged_bytes, damaged_member)


def _npz(writer: Callable) -> bytes:
    file = io.BytesIO()
    writer(file, **_ARRAYS)
    return file.getvalue()


def _hdf5() -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as written:
        for name, array in _ARRAYS.items():
            written[f"group/{name}"] = array
        written.create_dataset("packed", data=np.ones([8, 4]), chunks=(4, 4), compression="gzip")
        written["group"].attrs["note"] = "x"
    return file.getvalue()


def _shards() -> Files:
    places = {"a/b": "one.safetensors", "half": "two.safetensors", "ids": "two.safetensors"}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    return {
        "model.safetensors.index.json": json.dumps(index).encode(),
        "one.safetensors": save({"a/b": _ARRAYS["a/b"]}),
        "two.safetensors": save({name: _ARRAYS[name] for name in ("half", "ids")}),
    }


def _byte_pairs() -> Files:
    tokens = {t: i for i, t in enumerate(["<unk>", "a", "b", "ab", "c</w>", "abc</w>", "\n"])}
    merges = b"#version: 0.2\na b\nab c</w>\n"
    return {"vocab.json": json.dumps(tokens).encode(), "merges.txt": merges}


def _few_vectors() -> bytes:
    text = (_VECTORS / "word2vec.txt").read_bytes().split(b"\n")
    return b"\n".join([b"20 " + text[0].split()[1], *text[1:21], b""])


_GPT2_CONFIG = {
    "hidden_size": 8, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16, "n_ctx": 16,
    "vocab_size": 20, "activation_function": "gelu_new", "model_type": "gpt2",
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
}  # fmt: skip
_BERT = GOLDENS / "bert_google_tf_tiny"
_INDEX, _DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
_PIECES = ("params_shapes.json", *(f"params_{i}.npy" for i in range(10)))
_ADAPTERS = ("adapter_config.json", "adapter_model.safetensors")
_SHARDS = "model.safetensors.index.json"
_RUN_DATA = f"{_STEP}/variables.safetensors"
_TOKENIZERS = tuple(f"{kind}/tokenizer.json" for kind in _FINDERS)
# Name: the file or files (a path, bytes, or a function that makes them), what is damaged and how,
# and what reads it. Of one file its name.
_FORMATS = {
    "safetensors": (save(_ARRAYS), {"x.safetensors": (damaged_bytes, damaged_header)}, _opened),
    "safetensors, shards": (_shards, {
        _SHARDS: _EITHER, "one.safetensors": _BYTES, "two.safetensors": (damaged_header,)},
        _opened),
    "PyTorch, zip": (GOLDENS / "torch_files" / "state.bin", {"x.bin": _MEMBERS}, _opened),
    "PyTorch, older": (GOLDENS / "torch_files" / "legacy.bin", {"x.bin": _BYTES}, _opened),
    "npz": (lambda: _npz(np.savez), {"x.npz": _MEMBERS}, _opened),
    "npz, compressed": (lambda: _npz(np.savez_compressed), {"x.npz": _MEMBERS}, _opened),
    "npy (OpenAI's GPT)": (lambda: _folder(GOLDENS / "gpt1_openai_npy", *_PIECES), {
        _PIECES[0]: _EITHER, "params_0.npy": _BYTES, "params_9.npy": _BYTES},
        lambda path: _tensors(open_pieces(path.parent))),
    "HDF5": (_hdf5, {"x.hdf5": _BYTES}, lambda path: _tensors(open_hdf5(path))),
    "word2vec, text": (_few_vectors, {"vectors": _WORDS}, _words),
    "word2vec, binary": (_VECTORS / "word2vec.bin", {"vectors": _BYTES}, _words),
    "GloVe": (lambda: _few_vectors().partition(b"\n")[2], {"vectors": _WORDS}, _words),
    "fastText .bin": (_VECTORS / "fasttext.bin", {"vectors": _BYTES}, _words),
    "vocab.txt": (_BERT / "vocab.txt", {"vocab.txt": _WORDS}, _nothing(_vocabulary)),
    "vocab.json, merges.txt": (_byte_pairs, {"vocab.json": _EITHER, "merges.txt": _WORDS},
        _nothing(lambda path: read_bpe(path.parent))),
    "config.json, BERT": (_BERT / "bert_config.json", {"config.json": _EITHER},
        _nothing(lambda path: BERT_FILES.config.read(path, "BERT"))),
    "config.json, GPT-2": (json.dumps(_GPT2_CONFIG).encode(), {"config.json": _EITHER},
        _nothing(lambda path: GPT2_FILES.config.read(path, "GPT"))),
    "hparams.json, GPT-2": (GOLDENS / "gpt2_openai_tf" / "hparams.json",
        {"hparams.json": _EITHER}, _nothing(read_hparams)),
    "options.json, ELMo": (GOLDENS / "elmo_bilm_tf" / "options.json", {"options.json": _EITHER},
        _nothing(read_options)),
    "run of tfnlp": (lambda: _whole_run()[0], {
        "config.json": _EITHER, "vocab.txt": _WORDS, f"{_STEP}/state.json": _EITHER,
        _RUN_DATA: _BYTES}, lambda path: _run(path.parent)),
    "PEFT's adapters": (lambda: _folder(GOLDENS / "peft" / "bert_classify", *_ADAPTERS), {
        _ADAPTERS[0]: _EITHER, _ADAPTERS[1]: (damaged_bytes, damaged_header)},
        lambda path: _adapters(path.parent)),
    "index of tfnlp": (_whole_index, {
        INDEX: _EITHER, VECTORS: _BYTES, TEXTS: _WORDS, STARTS: _BYTES},
        lambda path: _index(path.parent)),
    "tokenizer.json": (lambda: {name: _tokenizer_files()[name] for name in _TOKENIZERS},
        dict.fromkeys(_TOKENIZERS, _EITHER), lambda path: _tokenizers(path.parents[1])),
    "SentencePiece": (lambda: _tokenizer_files()[MODEL_FILE], {MODEL_FILE: _BYTES},
        lambda path: _pieces(path.parent)),
    "README.md": (_card, {"README.md": _WORDS, "config.json": _EITHER}, _nothing(_read_card)),
    "TensorFlow, data": (lambda: _folder(_BERT, _INDEX, _DATA), {_DATA: _BYTES},
        lambda path: _opened(path.parent / "bert_model.ckpt")),
    "TensorFlow, index": (lambda: _folder(_BERT, _INDEX, _DATA), {_INDEX: _BYTES},
        lambda path: _opened(path.parent / "bert_model.ckpt")),
}  # fmt: skip
NAMES = tuple(_FORMATS)


def format_of(name: str) -> Format:
    """Return the format of a name."""
    files, ways, read = _FORMATS[name]
    first = next(iter(ways))
    content = files() if callable(files) else files
    content = content.read_bytes() if isinstance(content, pathlib.Path) else content
    content = content if isinstance(content, dict) else {first: content}
    return Format(name, content, ways, lambda folder: read(folder / first))


def _folder(source: pathlib.Path, *names: str) -> Files:
    return {name: (source / name).read_bytes() for name in names}
