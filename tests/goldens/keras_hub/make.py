"""Writes presets and expected numbers in this folder: `python make.py bert gpt2 ...`.

keras-hub 0.32.0 and Keras 3.15.1 made them: tiny models with random weights, saved by
`save_to_preset`, and what keras-hub computes with them.
"""

import io
import pathlib
import sys
import tempfile
import zipfile

import keras
import numpy as np
import sentencepiece
from keras_hub import models

FOLDER = pathlib.Path(__file__).parent
V, T, P, L = 40, 7, 3, 2
SIZES = dict(vocabulary_size=V, num_layers=L, num_heads=2, hidden_dim=8, intermediate_dim=12)
WORDS = ["the", "cat", "sat", "on", "mat", "un", "##want", "##ed", "run", "##s", "!", "a"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
MERGES = ["t h", "th e", "c a", "ca t", "Ġ the", "Ġ cat"]
TEXTS = ["The cat sat on the mat!", "unwanted runs", "a"]


def model_of(name, tokenizer, task="MaskedLM", **sizes):
    """A model around a tokenizer."""
    preprocessor = getattr(models, f"{name}{task}Preprocessor")(tokenizer, sequence_length=12)
    backbone = getattr(models, f"{name}Backbone")(**SIZES, max_sequence_length=16, **sizes)
    return getattr(models, f"{name}{task}")(backbone, preprocessor)


def bert():
    return model_of("Bert", models.BertTokenizer(PIECES, lowercase=True))


def distilbert():
    return model_of("DistilBert", models.DistilBertTokenizer(PIECES, lowercase=True))


def roberta():
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ"]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *letters]
    tokens += [*(merge.replace(" ", "") for merge in MERGES), "<mask>"]
    ids = {x: i for i, x in enumerate(tokens)}
    return model_of("Roberta", models.RobertaTokenizer(ids, MERGES))


def albert():
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat ! unwanted runs a"] * 20),
        model_writer=pieces, vocab_size=V, hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2,
        eos_id=3, pad_piece="<pad>", unk_piece="<unk>", bos_piece="[CLS]", eos_piece="[SEP]",
        user_defined_symbols="[MASK]", minloglevel=2,
        normalization_rule_name="identity",
    )  # fmt: skip
    return model_of("Albert", models.AlbertTokenizer(pieces.getvalue()), embedding_dim=6)


def gpt2():
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ", "!"]
    tokens = [*letters, *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>"]
    ids = {x: i for i, x in enumerate(tokens)}
    return model_of("GPT2", models.GPT2Tokenizer(ids, MERGES), "CausalLM")


def inputs_of(model, rng):
    """Ids with padding on the right, segments and masked positions where the model has them."""
    mask = (np.arange(T) < np.array([[T], [5], [2]])).astype("int32")
    every = {
        # From 2: where a text has written padding, RoBERTa counts positions as transformers does.
        "token_ids": rng.integers(2, V, (3, T)).astype("int32"),
        "padding_mask": mask,
        "segment_ids": rng.integers(0, 2, (3, T)).astype("int32"),
        "mask_positions": rng.integers(0, 2, (3, P)).astype("int32"),
    }
    return {name: every[name] for name in model.input}


def outputs_of(model, inputs):
    """What keras-hub computes: each block's output, those of the backbone, and of the task."""
    backbone = model.backbone
    own = {name: inputs[name] for name in backbone.input}
    # ALBERT calls one layer again and again.
    layers = [x for x in backbone.layers if "transformer_layer" in x.name or "inner" in x.name]
    blocks = [node.output_tensors[0] for x in layers for node in x._inbound_nodes]
    found = {f"block_{i}": x for i, x in enumerate(keras.Model(backbone.input, blocks)(own))}
    outputs = backbone(own)
    found |= outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
    return {name: np.asarray(x) for name, x in {**found, "logits": model(inputs)}.items()}


def write(name, model, texts):
    rng = np.random.default_rng(len(name))
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape, scale=0.4))
    inputs = inputs_of(model, rng)
    ids = [np.asarray(model.preprocessor.tokenizer(text), "int32") for text in texts]
    np.savez_compressed(
        FOLDER / f"{name}_expected.npz",
        **{f"inputs/{key}": x for key, x in inputs.items()},
        **{f"outputs/{key}": x for key, x in outputs_of(model, inputs).items()},
        **{f"ids/{text}": x for text, x in zip(texts, ids, strict=True)},
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_to_preset(folder)
        with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(pathlib.Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))


if __name__ == "__main__":
    makers = dict(albert=albert, bert=bert, distilbert=distilbert, gpt2=gpt2, roberta=roberta)
    texts = {"gpt2": ["the cat sat on the mat!", *TEXTS[1:]], "roberta": ["the cat", "ran a"]}
    texts["albert"] = texts["gpt2"]
    for name in sys.argv[1:]:
        write(name, makers[name](), texts.get(name, TEXTS))
