"""Makes the files beside it with transformers 5.23, torch 2.13, sentencepiece 0.2.3.

A small random ALBERT with a SentencePiece vocabulary of the book that ships with tfnlp: what
Hugging Face's classes say of it, and the ids that its tokenizer gives texts. Run it here:
python make.py
"""

import io
import json
import pathlib
import tempfile

import numpy as np
import sentencepiece
import torch
import transformers

HERE = pathlib.Path(__file__).parent
BOOK = HERE.parents[2] / "tfnlp" / "books" / "the_secret_garden.txt"
TEXTS = [
    "Hello, my dog is cute!",
    "The Secret Garden; she didn't say ``anything'' -- 9,000 of 10,5.",
    "naïve café ÉCOLE Ångström e\u0301te\u0301 straße ﬁve ２ ①",
    "  two  spaces,\ttabs\nand lines  ",
    "$3.50 + 10% = 1,234.56 <b>x_y</b> #1 @a~b^c`d",
    "北京 is a city, 東京 too; Привет, мир!",
    "unaffable antidisestablishmentarianism " + "x" * 70,
    "Mary Lennox was a CONTRARY child.",
    "",
]
MASKED = "mary was a [MASK] girl and the garden [MASK]."


def vocabulary() -> bytes:
    """Learn from the book, with a small table of normalization in place of the usual 240 kB."""
    lines = BOOK.read_text(encoding="utf-8").lower().split("\n")
    lines += [f"in {year}, {year - 1234:,} of them: 9, 10." for year in range(1800, 1950)]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        # "№" -> "no", a tab and other white space -> a space
        rules.write("2116\t6E 6F\n9\t20\nA\t20\nD\t20\nA0\t20\n")
        rules.flush()
        content = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=content, model_type="unigram",
            vocab_size=300, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>",
            unk_piece="<unk>", control_symbols=["[CLS]", "[SEP]", "[MASK]"], num_threads=1,
            normalization_rule_tsv=rules.name, minloglevel=2,
        )  # fmt: skip
    return content.getvalue()


def main() -> None:
    (HERE / "spiece.model").write_bytes(vocabulary())
    tokenizer = transformers.AlbertTokenizer.from_pretrained(HERE)
    uncased = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    cased = transformers.AlbertTokenizer.from_pretrained(
        HERE, do_lower_case=False, keep_accents=True
    )
    kept = [cased(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    pieces = tokenizer.convert_ids_to_tokens(range(300))
    found = {"texts": TEXTS, "ids": uncased, "cased_ids": kept, "pieces": pieces}
    found["masked"] = {"text": MASKED, "ids": tokenizer(MASKED)["input_ids"]}
    (HERE / "tokens.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")

    config = transformers.AlbertConfig(
        vocab_size=300, embedding_size=16, hidden_size=32, num_hidden_layers=3,
        num_attention_heads=4, intermediate_size=64, max_position_embeddings=40,
        num_labels=2, initializer_range=0.25,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AlbertForPreTraining(config).eval()
    classifier = transformers.AlbertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in [*model.parameters(), *classifier.classifier.parameters()]:
            torch.nn.init.normal_(parameter, std=0.25)
    model.save_pretrained(HERE)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 300, [2, 12])
    mask = np.ones_like(ids)
    mask[1, 8:] = 0
    types = (np.arange(12) >= 5).astype(int) * mask
    inputs = {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
        "token_type_ids": torch.tensor(types),
    }
    classifier.albert.load_state_dict(model.albert.state_dict())
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        pooled = model.albert(**inputs).pooler_output
        logits = classifier(**inputs).logits
    np.savez_compressed(
        HERE / "expected.npz",
        ids=ids.astype("int32"),
        mask=mask.astype("int32"),
        types=types.astype("int32"),
        hidden=np.stack([h.numpy() for h in outputs.hidden_states]),
        pooled=pooled.numpy(),
        mlm_logits=outputs.prediction_logits.numpy()[:, [0, 3, 7]],
        sop_logits=outputs.sop_logits.numpy(),
        class_logits=logits.numpy(),
        class_kernel=classifier.classifier.weight.numpy(force=True).T,
        class_bias=classifier.classifier.bias.numpy(force=True),
    )
    (HERE / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
