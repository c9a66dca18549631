"""Repositories as they are published, made of the golden files."""

import json

import numpy as np
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from tests.published.hub_server import files_in
from tests.support import golden
from tfnlp import checkpoints

# What a published BERT has beside the files that tfnlp reads.
OTHERS = {
    "README.md": b"---\nlicense: mit\n---\n",
    ".gitattributes": b"*.bin filter=lfs\n",
    "tf_model.h5": b"h5" * 500,
    "flax_model.msgpack": b"flax" * 300,
    "onnx/model.onnx": b"onnx" * 300,
    "openvino_model.bin": b"openvino" * 50,
    "model.fp16.safetensors": b"half" * 300,
    "coreml/weights/weight.bin": b"coreml" * 50,
    "special_tokens_map.json": b"{}",
}


def pickled_bert() -> dict[str, bytes]:
    """A BERT as Hugging Face's earlier versions wrote it."""
    files = files_in(golden("bert_xsmall_dummy_pt"))
    del files["weights.npz"]
    return {**OTHERS, **files}


def bert(folder) -> dict[str, bytes]:
    """The same as later versions write it, beside the old file."""
    loaded = checkpoints.load_bert(golden("bert_xsmall_dummy_pt/pytorch_model.bin"))
    model = loaded.pretrainer or loaded.encoder
    checkpoints.save_huggingface(model, folder, loaded.vocabulary, loaded.lowercase)
    return {**pickled_bert(), **files_in(folder)}


def sharded(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same with its weights in two files and an index."""
    files = {name: data for name, data in files.items() if name != "pytorch_model.bin"}
    tensors = load_safetensors(files.pop("model.safetensors"))
    names = sorted(tensors)
    parts = {
        "model-00001-of-00002.safetensors": names[: len(names) // 2],
        "model-00002-of-00002.safetensors": names[len(names) // 2 :],
    }
    files |= {
        file: save_safetensors({name: np.ascontiguousarray(tensors[name]) for name in part})
        for file, part in parts.items()
    }
    places = {name: file for file, part in parts.items() for name in part}
    index = {"metadata": {}, "weight_map": places}
    return {**files, "model.safetensors.index.json": json.dumps(index).encode()}


def gpt2() -> dict[str, bytes]:
    """OpenAI's TensorFlow checkpoint of a GPT-2."""
    return {**OTHERS, **files_in(golden("gpt2_openai_tf"))}
