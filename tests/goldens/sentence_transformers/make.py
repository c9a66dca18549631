"""Makes the folders beside this file: what `SentenceTransformer.save` writes, with random weights.

    e5     BERT, mean, Normalize; prompts "query: " and "passage: "
    bge    BERT, cls, Normalize; a prompt for queries
    labse  BERT, cls, Dense with tanh, Normalize
    all    DistilBERT that keeps case, six poolings, Dense of two kinds, a Normalize between them; a
           default prompt that is not pooled; sentence_bert_config.json as older versions wrote it

    expected.npz of each: vectors of texts.json, without a prompt and with each, and similarities

Run with sentence-transformers 6.2.0, transformers 5.24.0 and torch 2.13.0:

    python tests/goldens/sentence_transformers/make.py
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

HERE = pathlib.Path(__file__).parent
WORDS = """[PAD] [UNK] [CLS] [SEP] [MASK] query passage : represent this sentence for searching the
robin sang to girl in a garden door ##s ##er . σ σα s e""".split()
TEXTS = [
    "the robin sang",
    "",
    "The GIRL in the garden sang to a robin . ΣΑ",
    "the garden doors " * 12,
    "query: a door",
]
SIZES = dict(vocab_size=len(WORDS), max_position_embeddings=32, initializer_range=0.5)
BERT = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
MODES = ("weightedmean", "cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken")


def transformer(folder, lowercase, **arguments):
    """The first module: a BERT, or a DistilBERT that keeps case."""
    if lowercase:
        model = transformers.BertModel(transformers.BertConfig(**SIZES, **BERT))
    else:
        sizes = dict(dim=8, n_layers=1, n_heads=2, hidden_dim=16)
        model = transformers.DistilBertModel(transformers.DistilBertConfig(**SIZES, **sizes))
    model.save_pretrained(folder)
    vocabulary = pathlib.Path(folder) / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS))
    kind = transformers.BertTokenizerFast
    kind(vocab=str(vocabulary), do_lower_case=lowercase).save_pretrained(folder)
    return Transformer(folder, **arguments)


def models(folder):
    """Yield each name with its model."""
    queries = {"query": "query: ", "passage": "passage: "}
    read = transformer(folder, True, max_seq_length=24)
    yield "e5", SentenceTransformer(modules=[read, Pooling(8), Normalize()], prompts=queries)
    search = {"query": "Represent this sentence for searching: "}
    read = transformer(folder, True)
    modules = [read, Pooling(8, "cls"), Normalize()]
    yield "bge", SentenceTransformer(modules=modules, prompts=search, similarity_fn_name="dot")
    modules = [transformer(folder, True), Pooling(8, "cls"), Dense(8, 6), Normalize()]
    yield "labse", SentenceTransformer(modules=modules, similarity_fn_name="euclidean")
    modules = [
        transformer(folder, False),
        Pooling(8, MODES, include_prompt=False),
        Dense(48, 10, bias=False, activation_function=torch.nn.Identity()),
        Normalize(),
        Dense(10, 5, activation_function=torch.nn.GELU()),
    ]
    arguments = dict(prompts=queries, default_prompt_name="query", similarity_fn_name="manhattan")
    yield "all", SentenceTransformer(modules=modules, **arguments)


def main():
    (HERE / "texts.json").write_text(json.dumps(TEXTS, ensure_ascii=False, indent=1) + "\n")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models(folder):
            path = HERE / name
            shutil.rmtree(path, ignore_errors=True)
            model.eval().save(str(path), create_model_card=False)
            if name == "all":  # as older versions wrote it
                stated = {"max_seq_length": 20, "do_lower_case": True}
                (path / "sentence_bert_config.json").write_text(json.dumps(stated))
            model = SentenceTransformer(str(path))
            found = {"": model.encode(TEXTS)}
            for prompt in model.prompts:
                found[prompt] = model.encode(TEXTS, prompt_name=prompt)
            found["similarity"] = model.similarity(found[""], found[""][:2]).numpy()
            np.savez(path / "expected.npz", **found)


if __name__ == "__main__":
    main()
