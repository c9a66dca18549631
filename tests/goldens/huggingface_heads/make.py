"""Write the folders and expected outputs beside this file: tiny fine-tuned models of transformers.

    python make.py        # with transformers 5.23 and torch 2.13

Weights are random (seed 0). The vocabulary of the BERTs is that of `bert_google_tf_generated`.
Folders are as `save_pretrained` writes them, in half precision; each `.npz` holds the model's
inputs for the rows of `texts.json` and its outputs.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from tokenizers import pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
VOCAB = HERE.parent / "bert_google_tf_generated" / "vocab.txt"
ROWS = json.loads((HERE / "texts.json").read_text())
TEXTS, PAIRS, CHOICES = ROWS["texts"], ROWS["pairs"], ROWS["choices"]
NAMES = {0: "low", 1: "middle", 2: "high"}
BERT = {
    "vocab_size": 200, "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 40,
}  # fmt: skip
GPT2 = {"n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24}
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "he", "Ġthe"]


def model_of(name, config):
    """A model with random weights, biases and norms included."""
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.half().float()


def write(folder, model, tokenizer, inputs):
    """Save a model and its tokenizer, and what it gives."""
    path = HERE / folder
    shutil.rmtree(path, ignore_errors=True)
    with torch.no_grad():
        outputs = model(**inputs)
    names = ("logits", "start_logits", "end_logits")
    found = {n: outputs[n].numpy() for n in names if n in outputs}
    np.savez_compressed(f"{path}.npz", **found, **{n: x.numpy() for n, x in inputs.items()})
    model.half().save_pretrained(path)
    tokenizer.save_pretrained(path)


def encoded(tokenizer, **asked):
    """The pairs, and the choices `[rows, choices, T]`, as a tokenizer gives them."""
    asked = dict(padding=True, return_tensors="pt", **asked)
    pairs = dict(tokenizer(*map(list, zip(*PAIRS, strict=True)), **asked))
    flat = [c[0] for c in CHOICES for _ in c[1:]], [x for c in CHOICES for x in c[1:]]
    flat = dict(tokenizer(*flat, **asked))
    return pairs, {n: x.reshape(len(CHOICES), -1, x.shape[-1]) for n, x in flat.items()}


def berts():
    """One model for each task."""
    tokenizer = transformers.BertTokenizer(str(VOCAB), do_lower_case=True)

    def one(folder, name, inputs, **settings):
        config = transformers.BertConfig(**BERT, **settings)
        write(folder, model_of(name, config), tokenizer, inputs)

    labels = {"id2label": NAMES, "label2id": {name: i for i, name in NAMES.items()}}
    pairs, choices = encoded(tokenizer)
    texts = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    one("bert_classify", "BertForSequenceClassification", pairs, **labels)
    one("bert_similarity", "BertForSequenceClassification", pairs, num_labels=1)
    one("bert_scores", "BertForSequenceClassification", texts, problem_type="regression", **labels)
    one("bert_tag", "BertForTokenClassification", texts, **labels)
    one("bert_answer", "BertForQuestionAnswering", pairs)
    one("bert_choose", "BertForMultipleChoice", choices)


def gpt2():
    """Classes of texts, which GPT-2 reads without other tokens."""
    ids = {token: i for i, token in enumerate([*TOKENS, "<|endoftext|>"])}
    tokenizer = transformers.GPT2Tokenizer(vocab=ids, merges=MERGES)
    tokenizer.pad_token = tokenizer.eos_token
    end = ids["<|endoftext|>"]
    config = transformers.GPT2Config(
        vocab_size=len(ids), num_labels=3, pad_token_id=end, bos_token_id=end, eos_token_id=end,
        **GPT2,
    )  # fmt: skip
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    write("gpt2_classify", model_of("GPT2ForSequenceClassification", config), tokenizer, inputs)


def others():
    """One or two heads of each of the encoders that have others than BERT's."""
    small = {**BERT, "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12}
    tokenizer = transformers.BertTokenizer(str(VOCAB), do_lower_case=True)
    pairs, choices = encoded(tokenizer)
    config = transformers.ElectraConfig(**small, embedding_size=6, num_labels=3)
    write(
        "electra_classify",
        model_of("ElectraForSequenceClassification", config), tokenizer, pairs,
    )  # fmt: skip
    write("electra_choose", model_of("ElectraForMultipleChoice", config), tokenizer, choices)
    config = transformers.DistilBertConfig(
        vocab_size=200, max_position_embeddings=40, n_layers=1, n_heads=2, dim=8, hidden_dim=12,
        num_labels=3,
    )  # fmt: skip
    pairs = {n: x for n, x in pairs.items() if n != "token_type_ids"}
    model = model_of("DistilBertForSequenceClassification", config)
    write("distilbert_classify", model, tokenizer, pairs)

    tokens = ["<s>", "<pad>", "</s>", "<unk>", *TOKENS, "<mask>"]
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = transformers.RobertaTokenizer(vocab=ids, merges=MERGES)
    small.update(vocab_size=len(ids), max_position_embeddings=82, type_vocab_size=1)
    config = transformers.RobertaConfig(**small, num_labels=3)
    pairs, choices = encoded(tokenizer)
    model = model_of("RobertaForSequenceClassification", config)
    write("roberta_classify", model, tokenizer, pairs)
    write("roberta_choose", model_of("RobertaForMultipleChoice", config), tokenizer, choices)


def alberts():
    """Heads of an ALBERT, whose layers share their weights."""
    tokenizer = transformers.AlbertTokenizer.from_pretrained(HERE.parent / "albert_huggingface")
    # Without being asked this class gives no types, which ALBERT was trained with.
    pairs, choices = encoded(tokenizer, return_token_type_ids=True)
    small = {**BERT, "vocab_size": 300, "hidden_size": 8, "intermediate_size": 12}
    config = transformers.AlbertConfig(**small, embedding_size=6, num_labels=3)
    model = model_of("AlbertForSequenceClassification", config)
    write("albert_classify", model, tokenizer, pairs)
    write("albert_choose", model_of("AlbertForMultipleChoice", config), tokenizer, choices)


if __name__ == "__main__":
    berts()
    gpt2()
    others()
    alberts()
