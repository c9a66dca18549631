"""Makes the folders NAME_huggingface with torch 2.13, transformers 5.23 and sentencepiece 0.2.3:

    python -m tests.goldens.huggingface_encoders albert distilbert electra roberta

Encoders of transformers with random weights, as `save_pretrained` writes them, their vocabularies,
the heads of the fine-tuned classes on the same encoders (`heads.npz`, under Hugging Face's names),
and what all of them return (`expected.npz`); of ALBERT and RoBERTa also ids and guesses for texts.
"""

import io
import json
import pathlib
import string
import sys
import tempfile

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent
BOOK = FOLDER.parents[1] / "tfnlp" / "books" / "the_secret_garden.txt"
HEADS = {
    "MaskedLM": {"mlm_logits": "logits"},
    "SequenceClassification": {"class_logits": "logits"},
    "MultipleChoice": {"choice_logits": "logits"},
    "TokenClassification": {"tag_logits": "logits"},
    "QuestionAnswering": {"start_logits": "start_logits", "end_logits": "end_logits"},
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tensors_of(batch):
    return {name: torch.tensor(array) for name, array in batch.items()}


def write(folder, family, config, batch, kinds=tuple(HEADS)):
    """Write a masked LM, the heads and what they return, for a DistilBERT or a RoBERTa.

    Args:
        folder: where they go.
        family: the start of the classes' names, such as "Roberta".
        config: of the encoder, with three labels.
        batch: dict of the inputs `input_ids` and `attention_mask`.
        kinds: the classes, the first and the last one those of `HEADS`.

    Returns: the masked LM.
    """

    def randomize(model):
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.normal_(0, 0.25, generator=generator)
                if name.lower().endswith("norm.weight"):
                    weight.add_(1)

    encoder = family.lower()
    expected = {"input_ids": batch["input_ids"], "input_mask": batch["attention_mask"]}
    tensors = tensors_of(batch)
    masked_lm = getattr(transformers, f"{family}ForMaskedLM")(config).eval()
    randomize(masked_lm)
    heads = {}
    for kind in kinds:
        model, given = masked_lm, tensors
        if kind == "QuestionAnswering":
            config.num_labels = 2
        if kind != "MaskedLM":
            model = getattr(transformers, f"{family}For{kind}")(config).eval()
            randomize(model)
            getattr(model, encoder).load_state_dict(getattr(masked_lm, encoder).state_dict())
            own = {n: w for n, w in model.state_dict().items() if not n.startswith(f"{encoder}.")}
            heads.update({f"{kind}/{name}": weight.numpy() for name, weight in own.items()})
        if kind == "MultipleChoice":
            given = {name: tensor[None] for name, tensor in tensors.items()}  # one of two
        found = model(**given, output_hidden_states=True)
        for name, attribute in HEADS[kind].items():
            expected[name] = getattr(found, attribute).detach().numpy()
        if kind == "MaskedLM":
            for index, hidden in enumerate(found.hidden_states):
                expected[f"hidden_{index}"] = hidden.detach().numpy()
    masked_lm.save_pretrained(folder)
    np.savez_compressed(folder / "heads.npz", **heads)
    np.savez_compressed(folder / "expected.npz", **expected)
    return masked_lm


def distilbert(folder):
    sizes = dict(vocab_size=200, n_layers=3, dim=32, n_heads=4, hidden_dim=48)
    config = transformers.DistilBertConfig(**sizes, max_position_embeddings=40, num_labels=3)
    mask = (np.arange(8) < [[8], [5]]).astype("int64")
    ids = np.random.default_rng(12).integers(5, 200, (2, 8)) * mask
    write(folder, "DistilBert", config, {"input_ids": ids, "attention_mask": mask})
    letters = string.ascii_lowercase
    tokens = [*SPECIAL, *".,?'-", *letters, *(f"##{one}" for one in letters)]
    tokens += [f"{one}{two}" for one in "bdfhlmnprstw" for two in "aeiouytrsnlh"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens[:200]))


# --- RoBERTa

LEARNT = ["the cat sat on the mat and the dog sat on the log, but the rat ran"] * 3
TEXTS = [
    "the cat sat on the mat", " the  cat\tsat ", "The dog's log, isn't it?", "",
    "caf\u00e9 \u00dcber \u6771\u4eac \U0001f642", "a\n\nb   c", "1,234.5 (x_y) #1 @a\u00a0b",
]  # fmt: skip
PAIRS = [["the cat sat", "on the mat"], ["", "the dog"]]
MASKED = [
    "the <mask> sat on the <mask>.", "<mask> cat", "the  <mask>, (<mask>)", "the\u00a0<mask>\tsat",
]  # fmt: skip


def guesses(tokenizer, model, text):
    """What the fill-mask pipeline shows for each mask, and the text with the best of one mask."""
    found = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5)(text)
    masks = [found] if isinstance(found[0], dict) else found
    columns = {"tokens": "token_str", "ids": "token", "scores": "score"}
    return {
        "text": text,
        **{name: [[x[key] for x in mask] for mask in masks] for name, key in columns.items()},
    }


def roberta(folder):
    import tokenizers

    # About 300 tokens: special ones, the bytes, merged ones.
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learnt = tokenizers.ByteLevelBPETokenizer()
    learnt.train_from_iterator(LEARNT, 300, min_frequency=2, special_tokens=special)
    learnt.save_model(str(folder))
    # As in the files of the published models: the mask takes the space before it.
    mask = tokenizers.AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    tokenizer = transformers.RobertaTokenizer.from_pretrained(str(folder), mask_token=mask)
    config = transformers.RobertaConfig(
        num_hidden_layers=3, hidden_size=32, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=50, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        vocab_size=len(tokenizer), type_vocab_size=1, layer_norm_eps=1e-5, num_labels=3,
    )  # fmt: skip
    mask = (np.arange(9) < [[9], [5]]).astype("int64")
    ids = np.where(mask, np.random.default_rng(12).integers(5, len(tokenizer), (2, 9)), 1)
    kinds = [kind for kind in HEADS if kind != "MultipleChoice"]
    batch = {"input_ids": ids, "attention_mask": mask}
    masked_lm = write(folder, "Roberta", config, batch, kinds)
    texts = {
        "ids": [[text, tokenizer(text, add_special_tokens=False)["input_ids"]] for text in TEXTS],
        "pairs": [[*pair, tokenizer(*pair)["input_ids"]] for pair in PAIRS],
        "masked": [guesses(tokenizer, masked_lm, text) for text in MASKED],
    }
    (folder / "texts.json").write_text(json.dumps(texts) + "\n")


# --- ELECTRA


def electra(folder):
    """The generator has the embeddings of the discriminator."""

    def randomize(model):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                shift = 1.0 if name.endswith("LayerNorm.weight") else 0.0
                parameter.copy_(shift + 0.25 * torch.randn(parameter.shape))

    torch.manual_seed(7)
    sizes = dict(
        vocab_size=200, embedding_size=16, num_hidden_layers=3, max_position_embeddings=24,
        hidden_act="gelu",
    )  # fmt: skip
    config = transformers.ElectraConfig(
        **sizes, hidden_size=32, num_attention_heads=4, intermediate_size=40
    )
    discriminator = transformers.ElectraForPreTraining(config).eval()
    small = dict(hidden_size=16, num_attention_heads=2, intermediate_size=20)
    generator = transformers.ElectraForMaskedLM(transformers.ElectraConfig(**sizes, **small)).eval()
    randomize(discriminator)
    randomize(generator)
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())

    rng = np.random.default_rng(7)
    mask = np.arange(11) < np.array([11, 7, 4])[:, None]
    expected, heads = {
        "input_ids": np.where(mask, rng.integers(5, 200, mask.shape), 0),
        "attention_mask": mask.astype("int64"),
        "token_type_ids": np.where(mask & (np.arange(11) > 3), 1, 0),
    }, {}  # fmt: skip
    tensors = tensors_of(expected)
    words = "the of and to in a is was he she it for on with as his her they be at one have this"
    letters = [*string.ascii_lowercase, *string.digits]
    pieces = [*SPECIAL, *letters, *".,!?'-", *(f"##{x}" for x in letters)]
    pieces += [word for word in words.split() if word not in pieces]
    pieces += [f"w{i}" for i in range(200 - len(pieces))]
    for name, model in (("discriminator", discriminator), ("generator", generator)):
        with torch.no_grad():
            outputs = model(**tensors, output_hidden_states=True)
        expected[f"{name}_logits"] = outputs.logits
        for index, hidden in enumerate(outputs.hidden_states):
            expected[f"{name}_hidden_{index}"] = hidden
        model.save_pretrained(folder / name)
        (folder / name / "vocab.txt").write_text("\n".join(pieces) + "\n")
        (folder / name / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))

    labels = dict(SequenceClassification=3, TokenClassification=3, QuestionAnswering=2)
    labels["MultipleChoice"] = 2  # of the three rows as choices of one example
    for kind, config.num_labels in labels.items():
        model = getattr(transformers, f"ElectraFor{kind}")(config).eval()
        randomize(model)
        model.electra.load_state_dict(discriminator.electra.state_dict())
        rows = {k: x[None] for k, x in tensors.items()} if kind == "MultipleChoice" else tensors
        with torch.no_grad():
            outputs = model(**rows)
        for name in ("logits", "start_logits", "end_logits"):
            if name in outputs:
                expected[f"{kind}_{name}"] = outputs[name]
        for name, value in model.state_dict().items():
            if not name.startswith("electra."):
                heads[f"{kind}/{name}"] = value.numpy()
    np.savez_compressed(folder / "heads.npz", **heads)
    np.savez_compressed(folder / "expected.npz", **{k: np.asarray(v) for k, v in expected.items()})


# --- ALBERT

STRINGS = [
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


def sentencepiece_of_the_book():
    """Learn from the book, with a small table of normalization in place of the usual 240 kB."""
    import sentencepiece

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


def albert(folder):
    (folder / "spiece.model").write_bytes(sentencepiece_of_the_book())
    kind = transformers.AlbertTokenizer
    tokenizer = kind.from_pretrained(folder)
    cased = kind.from_pretrained(folder, do_lower_case=False, keep_accents=True)
    masked = "mary was a [MASK] girl and the garden [MASK]."
    found = {
        "texts": STRINGS,
        "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in STRINGS],
        "cased_ids": [cased(text, add_special_tokens=False)["input_ids"] for text in STRINGS],
        "pieces": tokenizer.convert_ids_to_tokens(range(300)),
        "masked": {"text": masked, "ids": tokenizer(masked)["input_ids"]},
    }
    (folder / "tokens.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")
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
    model.save_pretrained(folder)
    ids = np.random.default_rng(0).integers(5, 300, [2, 12])
    mask = np.ones_like(ids)
    mask[1, 8:] = 0
    types = (np.arange(12) >= 5).astype(int) * mask
    inputs = tensors_of({"input_ids": ids, "attention_mask": mask, "token_type_ids": types})
    classifier.albert.load_state_dict(model.albert.state_dict())
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        pooled = model.albert(**inputs).pooler_output
        logits = classifier(**inputs).logits
    np.savez_compressed(
        folder / "expected.npz",
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
    (folder / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    makers = {"albert": albert, "distilbert": distilbert, "electra": electra, "roberta": roberta}
    for name in sys.argv[1:]:
        makers[name](FOLDER / f"{name}_huggingface")
