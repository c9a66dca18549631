"""Makes the folders beside this file: models with the tokenizers of XLM-RoBERTa and MPNet.

    xlm     XLMRobertaForMaskedLM as `save_pretrained` writes it
    minilm  a BERT with XLM-RoBERTa's tokenizer, mean: paraphrase-multilingual-MiniLM-L12-v2
    mpnet   an MPNet, mean, Normalize: all-mpnet-base-v2

    expected.npz of each: its ids of texts.json and of pairs, padded, and vectors of the texts; of
    xlm also the logits, of mpnet the last states of 170 tokens, more than its buckets tell apart

Run with sentence-transformers 6.2.0, transformers 5.24.0 and torch 2.13.0:

    python tests/goldens/multilingual/make.py
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "the robin sang",
    "",
    "Der Vogel sang im Garten, 鳥は歌った。",
    "The girl <mask> the garden <pad> sang\tto a robin . ΣΑ é",
    "the garden doors " * 5,
]
PAIRS = [("the robin", "sang im Garten"), ("", "鳥 the door"), ("a girl", "")]
PIECES = """▁ ▁the ▁ro bin ▁s ang ▁im ▁gar ▁Gar den ten ▁door s ▁Der ▁V ogel 鳥 は 歌った 。
▁girl ▁to ▁a e r o a t n i l""".split()
WORDS = """[UNK] [CLS] the robin sang to girl in a garden door ##s ##er der vogel im , . 鳥 σ ##α
e ##e s""".split()
SIZES = dict(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
    initializer_range=0.5, pad_token_id=1,
)  # fmt: skip


def unigram(folder):
    """Write XLM-RoBERTa's tokenizer; return the number of its tokens."""
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = [(piece, -2.0 - 0.31 * i) for i, piece in enumerate(PIECES)]
    tokenizer = transformers.XLMRobertaTokenizer(vocab=[*special, *pieces, ("<mask>", 0.0)])
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def wordpiece(folder):
    """Write MPNet's tokenizer; return the number of its tokens."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>"]
    tokenizer = transformers.MPNetTokenizer(vocab={token: i for i, token in enumerate(tokens)})
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def randomize(model):
    """Fill every weight with numbers that float16 has; of norms around 1."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, 0.3)
            if name.endswith("LayerNorm.weight"):
                weight.add_(1)
            weight.copy_(weight.half())
    return model.eval()


def padded(rows):
    """Return rows of ids as a table, -1 behind them."""
    table = np.full((len(rows), max(map(len, rows))), -1)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table


def write(name, model, modules):
    """Write a folder of sentence-transformers; return it as it is read again, and what is kept."""
    with tempfile.TemporaryDirectory() as folder:
        model.half().save_pretrained(folder)
        wordpiece(folder) if name == "mpnet" else unigram(folder)
        read = Transformer(folder, max_seq_length=24, model_kwargs={"dtype": torch.float32})
        shutil.rmtree(HERE / name, ignore_errors=True)
        saved = SentenceTransformer(modules=[read, *modules])
        saved[0].auto_model.half()
        saved.save(str(HERE / name), create_model_card=False)
    read = SentenceTransformer(str(HERE / name), model_kwargs={"dtype": torch.float32})
    return read, {"vectors": read.encode(TEXTS)}


def keep(name, tokenizer, **found):
    """Write `expected.npz`."""
    ids = {"ids": padded(tokenizer(TEXTS).input_ids), "pairs": padded(tokenizer(PAIRS).input_ids)}
    np.savez_compressed(HERE / name / "expected.npz", **ids, **found)


def main():
    """Write all."""
    (HERE / "texts.json").write_text(
        json.dumps({"texts": TEXTS, "pairs": PAIRS}, ensure_ascii=False, indent=1) + "\n"
    )
    torch.manual_seed(0)
    torch.set_grad_enabled(False)

    folder = HERE / "xlm"
    shutil.rmtree(folder, ignore_errors=True)
    config = transformers.XLMRobertaConfig(
        **SIZES, vocab_size=unigram(folder), type_vocab_size=1, max_position_embeddings=40
    )
    model = randomize(transformers.XLMRobertaForMaskedLM(config))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    logits = model(**batch).logits.numpy()
    model.half().save_pretrained(folder)
    keep("xlm", tokenizer, logits=logits)

    with tempfile.TemporaryDirectory() as folder:
        count = unigram(folder)
    sizes = {**SIZES, "pad_token_id": 0}  # as the published one says, whatever its tokenizer does
    config = transformers.BertConfig(**sizes, vocab_size=count, max_position_embeddings=40)
    read, found = write("minilm", randomize(transformers.BertModel(config)), [Pooling(16)])
    keep("minilm", read.tokenizer, **found)

    with tempfile.TemporaryDirectory() as folder:
        count = wordpiece(folder)
    config = transformers.MPNetConfig(**SIZES, vocab_size=count, max_position_embeddings=176)
    model = randomize(transformers.MPNetModel(config))
    ids = torch.randint(2, count, (1, 170))
    states = model(ids).last_hidden_state.numpy()
    read, found = write("mpnet", model, [Pooling(16), Normalize()])
    keep("mpnet", read.tokenizer, long=ids.numpy(), states=states, **found)


if __name__ == "__main__":
    main()
