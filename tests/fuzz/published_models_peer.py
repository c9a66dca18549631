"""What transformers makes and reads for `tests.fuzz.published_models`; it knows nothing of tfnlp.

    python published_models_peer.py TASK FOLDER 0 50

TASK: `make`, checkpoints 0 to 49, with their inputs and outputs; `small`, the same in files of
40 kB, for goldens; `adapters`, PEFT's: family x class of the model x task, an option each; `check`
(without numbers), the outputs of those that tfnlp has written again.

Checkpoint n is that of the seed n: a class, values for all fields of its configuration, weights,
and a batch of unequal lengths. A field that `FIELDS` has no values for is an error, so that
no field of a later transformers is missed.
"""

import dataclasses
import json
import pathlib
import random
import re
import shutil
import sys

import numpy as np
import torch
import transformers
from tokenizers import pre_tokenizers
from transformers.activations import ACT2CLS
from transformers.models.openai.modeling_openai import ACT_FNS

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tfnlp" / "runs"))  # without tfnlp itself
from verify_peer import outputs_of  # noqa: E402

GOLDENS = ROOT / "tests" / "goldens"
FAMILIES = ("Bert", "Roberta", "DistilBert", "Electra", "Albert", "GPT2", "OpenAIGPT")
# Of one seed in seven, so that the models of the others stay as they were.
_LATER = ("XLMRoberta", "MPNet")
_MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
_BYTES = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġt", "he", "Ġthe"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TOKENS = 200  # of the shortest vocabulary


def _one_of(*values):
    return lambda rng: rng.choice(values)


def _seldom(value, usual=False, rate=0.015):
    return lambda rng: value if rng.random() < rate else usual


_FLAG, _WIDTH, _RATE = _one_of(False, True), _one_of(4, 6, 8, 12), _one_of(0, 0.0, 0.1, 0.35)
_ACTIVATION = _one_of(*ACT2CLS, *["gelu", "gelu_new", "relu", "silu"] * 6)
_SIZE, _COUNT, _HEADS = _one_of(8, 12, 16, 24), _one_of(1, 2, 3, 4), _one_of(1, 2, 4)
_POSITIONS, _EPSILON = _one_of(40, 47, 64), _one_of(1e-12, 1e-7, 1e-5, 0.001, 0.3)
FIELDS = {
    "hidden_act": _ACTIVATION, "activation": _ACTIVATION, "activation_function": _ACTIVATION,
    "afn": _one_of(*ACT_FNS), "vocab_size": _one_of(300, 301, 311), "num_hidden_layers": _COUNT,
    "n_layers": _COUNT, "n_layer": _COUNT, "hidden_size": _SIZE, "dim": _SIZE, "n_embd": _SIZE,
    "num_attention_heads": _HEADS, "n_heads": _HEADS, "n_head": _HEADS,
    "intermediate_size": _WIDTH, "hidden_dim": _WIDTH, "n_inner": _one_of(None, 12, 20),
    "embedding_size": _WIDTH, "max_position_embeddings": _POSITIONS, "n_positions": _POSITIONS,
    "type_vocab_size": _one_of(1, 2, 3), "layer_norm_eps": _EPSILON,
    "layer_norm_epsilon": _EPSILON, "initializer_range": _one_of(0.02, 0.1, 1.0),
    "hidden_dropout_prob": _RATE, "attention_probs_dropout_prob": _RATE, "dropout": _RATE,
    "attention_dropout": _RATE, "qa_dropout": _RATE, "seq_classif_dropout": _RATE,
    "classifier_dropout": _one_of(None, 0.0, 0.4), "classifier_dropout_prob": _RATE,
    "resid_pdrop": _RATE, "embd_pdrop": _RATE, "attn_pdrop": _RATE, "summary_last_dropout": _RATE,
    "summary_first_dropout": _RATE, "pad_token_id": _one_of(None, 0, 1, 5, 63),
    "bos_token_id": _one_of(None, 0, 63), "eos_token_id": _one_of(None, 2, [2, 3]),
    "use_cache": _FLAG, "tie_word_embeddings": _FLAG, "sinusoidal_pos_embds": _FLAG,
    "relative_attention_num_buckets": _one_of(32, 32, 40),
    "num_hidden_groups": _one_of(1, 1, 1, 2, 3), "inner_group_num": _one_of(1, 1, 2),
    "summary_type": _one_of("first", "first", "last", "mean", "cls_index"),
    "summary_use_proj": _seldom(False, True, 0.2), "summary_proj_to_labels": _FLAG,
    "summary_activation": _one_of("gelu", "gelu", "tanh"), "scale_attn_weights": _FLAG,
    "scale_attn_by_inverse_layer_idx": _FLAG, "reorder_and_upcast_attn": _FLAG,
    "is_decoder": _seldom(True), "add_cross_attention": _seldom(True),
    "is_encoder_decoder": _FLAG, "chunk_size_feed_forward": _one_of(0, 0, 1),
    "output_hidden_states": _FLAG, "return_dict": _FLAG, "dtype": _one_of(None, "float32"),
    "problem_type": _one_of(None, None, "regression", "multi_label_classification"),
    "id2label": lambda rng: {i: f"name {i}" for i in range(rng.choice([1, *[2, 3, 4] * 3]))},
    # Those that follow from others.
    "label2id": _one_of(None), "transformers_version": _one_of(None),
    "architectures": _one_of(None),
}  # fmt: skip


SMALL = {
    **dict.fromkeys(("hidden_size", "dim", "n_embd"), _one_of(4, 8)),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), _one_of(40)),
    **dict.fromkeys(("num_hidden_layers", "n_layers", "n_layer"), _one_of(1, 2, 3)),
    "vocab_size": _one_of(300),
}


_ORDINARY = {  # of the models of adapters
    **dict.fromkeys(("is_decoder", "add_cross_attention", "is_encoder_decoder"), _one_of(False)),
    **dict.fromkeys(("hidden_act", "activation", "activation_function", "afn"), _one_of("gelu")),
    "num_hidden_groups": _one_of(1), "pad_token_id": _one_of(0), "problem_type": _one_of(None),
    "summary_type": _one_of("first"), "summary_use_proj": _one_of(True),
    "summary_activation": _one_of("gelu"), "tie_word_embeddings": _one_of(True),
}  # fmt: skip


def classes(family):
    """Return the names of the classes of a family that have weights of their own."""
    kind = re.compile(family + r"(Model|LMHeadModel|DoubleHeadsModel|For[A-Z]\w+)")
    return [name for name in dir(transformers) if kind.fullmatch(name)]


def config_of(rng, name, family, makers):
    """Return a configuration of the class `name`, with a value for each field."""
    kind = getattr(transformers, f"{family}Config")
    values = {each.name: makers[each.name](rng) for each in dataclasses.fields(kind)}
    if family in ("Roberta", "XLMRoberta"):  # whose positions are counted from it
        values["pad_token_id"] = rng.choice([0, 1, 2, 7])
    if values.get("add_cross_attention") and "is_decoder" in values:
        values["is_decoder"] = True  # or there is no such class
    if name.endswith("QuestionAnswering") or name.endswith("PreTraining") and rng.random() < 0.8:
        values["id2label"] = {0: "start", 1: "end"}
    if len(values["id2label"]) > 1 and values["problem_type"] == "regression":
        values["problem_type"] = rng.choice([None, "single_label_classification", "regression"])
    values["label2id"] = {label: i for i, label in values["id2label"].items()}
    return kind(**values)


def randomize(model, half):
    """Fill every weight; of norms around 1. `half`: with numbers that float16 has."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, 0.25)
            if weight.ndim == 1 and re.search(r"(norm|ln_\w)\.weight$", name.lower()):
                weight.add_(1)
            if half:
                weight.copy_(weight.half())


def batch_of(rng, name, config, longest):
    """Return rows of unequal lengths, padded on the right."""
    generator = np.random.default_rng(rng.getrandbits(32))
    pad = config.pad_token_id
    alone = "ForSequence" in name and "GPT" in name and pad is None
    rows = 1 if alone else 4 if longest > 9 or name.endswith("MultipleChoice") else 2
    lengths = [rng.randint(3, longest) for _ in range(rows)]
    length = max(lengths)
    ids = generator.integers(0, _TOKENS, (len(lengths), length))
    ids[ids == pad] = _TOKENS - 1
    mask = (np.arange(length) < np.array(lengths)[:, None]).astype("int64")
    batch = {"input_ids": np.where(mask, ids, pad or 0), "attention_mask": mask}
    if getattr(config, "type_vocab_size", 1) > 1:
        batch["token_type_ids"] = mask * generator.integers(0, config.type_vocab_size, ids.shape)
    if name.endswith("MultipleChoice"):
        batch = {key: x.reshape(2, 2, length) for key, x in batch.items()}
    return batch


def write_tokenizer(folder, family, pad):
    """Write a vocabulary of a kind that the family has, with padding at its place."""
    if family == "Albert":
        for name in ("spiece.model",):
            shutil.copy(GOLDENS / "albert_huggingface" / name, folder)
    elif family == "Roberta":
        tokens = ["<s>", "</s>", "<unk>", *_BYTES, "<mask>"]
        tokens.insert(pad, "<pad>")
        ids = {token: i for i, token in enumerate(tokens)}
        transformers.RobertaTokenizer(vocab=ids, merges=_MERGES).save_pretrained(folder)
    elif family == "XLMRoberta":
        pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *_LETTERS, "<mask>"]
        pieces = [(piece, -float(i)) for i, piece in enumerate(pieces)]
        transformers.XLMRobertaTokenizer(vocab=pieces).save_pretrained(folder)
    elif family == "MPNet":
        tokens = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *_LETTERS, "<mask>"]
        ids = {token: i for i, token in enumerate(tokens)}
        transformers.MPNetTokenizer(vocab=ids).save_pretrained(folder)
    elif family == "GPT2":
        ids = {token: i for i, token in enumerate([*_BYTES, "<|endoftext|>"])}
        transformers.GPT2Tokenizer(vocab=ids, merges=_MERGES).save_pretrained(folder)
    elif family == "OpenAIGPT":
        tokens = ["<unk>", *_LETTERS, *(f"{x}</w>" for x in _LETTERS)]
        ids = {token: i for i, token in enumerate(tokens)}
        transformers.OpenAIGPTTokenizer(vocab=ids, merges=[]).save_pretrained(folder)
    else:
        shutil.copy(GOLDENS / "bert_google_tf_generated" / "vocab.txt", folder)


def make(folder, seed, small=False):
    """Write checkpoint `seed`: a folder, and beside it its inputs and outputs."""
    if folder.with_suffix(".npz").is_file() and folder.is_dir():  # which an earlier run made
        return json.loads((folder / "config.json").read_text())["architectures"][0]
    rng = random.Random(seed)
    torch.manual_seed(seed)
    family = rng.choice(_LATER if seed % 7 == 1 else FAMILIES)
    name = rng.choice(classes(family))
    if "DoubleHeads" in name:  # which tfnlp has not: seldom
        name = rng.choice(classes(family))
    config = config_of(rng, name, family, {**FIELDS, **SMALL} if small else FIELDS)
    try:
        model = getattr(transformers, name)(config).eval()
    except (ValueError, NotImplementedError, ZeroDivisionError) as error:
        return f"transformers has no such {name}: {error}"
    half = small or rng.random() < 0.2
    randomize(model, half)
    batch = batch_of(rng, name, model.config, 7 if small else 17)
    np.savez_compressed(
        f"{folder}.npz", **{f"in/{key}": x for key, x in batch.items()}, **outputs_of(model, batch)
    )
    (model.half() if half else model).save_pretrained(folder)
    write_tokenizer(folder, family, config.pad_token_id)
    return name


OPTIONS = (
    {}, {"use_rslora": True}, {"bias": "all"}, {"bias": "lora_only"},
    {"target_modules": "all-linear"},
    {"init_lora_weights": "gaussian"}, {"rank_pattern": {"0": 1}, "alpha_pattern": {"_": 3}},
    {"init_lora_weights": "pissa"}, {"init_lora_weights": "olora"}, {"use_dora": True},
)  # fmt: skip
_TARGETS = {
    "DistilBert": ["q_lin", "lin2"], "GPT2": ["c_attn", "mlp.c_proj"],
    "OpenAIGPT": ["c_attn", "mlp.c_proj"], "Albert": ["query", "ffn"],
    "MPNet": ["attn.q", "output.dense"],
}  # fmt: skip
TASKS = {
    "ForSequenceClassification": "SEQ_CLS", "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS", "ForMultipleChoice": None,
    "Model": "FEATURE_EXTRACTION",
}  # fmt: skip
_BASES = (
    "Model", "ForMaskedLM", "LMHeadModel", "ForSequenceClassification", "ForTokenClassification",
)  # fmt: skip
ADAPTERS = [
    (family, base, ending)
    for family in (*FAMILIES, *_LATER)
    for base in _BASES
    for ending in TASKS
    if hasattr(transformers, family + base) and hasattr(transformers, family + ending)
]


def adapt(folder, number):
    """Write adapters and the model that they change, a folder `.base`; see `make`."""
    import peft

    family, base, ending = ADAPTERS[number % len(ADAPTERS)]
    settings = OPTIONS[(number + number // len(ADAPTERS)) % len(OPTIONS)]
    rng = random.Random(number)
    torch.manual_seed(number)
    config = config_of(rng, base, family, {**FIELDS, **SMALL, **_ORDINARY})
    model = getattr(transformers, family + base)(config)
    randomize(model, False)
    at = str(folder.with_suffix(".base"))
    model.save_pretrained(at)
    write_tokenizer(at, family, config.pad_token_id)
    labels = {} if ending == "Model" else {"num_labels": 2 if "Question" in ending else 3}
    model, info = getattr(transformers, family + ending).from_pretrained(
        at, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True, **labels
    )
    saved = ["classifier", "pre_classifier", "qa_outputs", "score", "sequence_summary"]
    saved = [name for name in saved if hasattr(model, name)]
    new = [*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])]
    lacking = [name for name in new if not name.startswith(tuple(saved))]
    targets = _TARGETS.get(family, ["query", "output.dense"])
    settings = {"r": 2, "lora_alpha": 5, "target_modules": targets, **settings}
    if "rank_pattern" in settings:
        settings.update(rank_pattern={targets[0]: 1}, alpha_pattern={targets[0]: 3})
    if saved:
        settings["modules_to_save"] = saved
    given = {} if TASKS[ending] is None else {"task_type": TASKS[ending]}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**given, **settings))
    if settings.get("init_lora_weights") not in ("pissa", "olora"):
        with torch.no_grad():
            for weight in adapted.parameters():
                if weight.requires_grad:
                    weight.normal_(0, 0.25)
    adapted.save_pretrained(folder)
    model = adapted.get_base_model().eval()
    batch = batch_of(rng, family + ending, model.config, 9)
    inputs = {f"in/{key}": x for key, x in batch.items()}
    said = f"{family}{base} > {family}{ending} {settings}"
    try:
        np.savez_compressed(f"{folder}.npz", **inputs, **outputs_of(model, batch))
    except RuntimeError as error:  # of OLoRA on a GPT
        shutil.rmtree(folder)
        return f"PEFT has no such {said}: {error}"
    return f"lacks {lacking}: {said}" if lacking else said


def check(folder, stored):
    """Return the outputs of a folder that tfnlp wrote, of the inputs of the original."""
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    kind = getattr(transformers, name)
    model, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    faults = {key: sorted(map(str, value)) for key, value in info.items() if value}
    if faults:
        raise ValueError(f"from_pretrained: {faults}")
    batch = {key.removeprefix("in/"): x for key, x in stored.items() if key.startswith("in/")}
    return outputs_of(model.eval(), batch)


def main():
    """Make or check."""
    transformers.logging.set_verbosity_error()
    task, place = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    place.mkdir(parents=True, exist_ok=True)
    if task == "adapters":
        said = {n: adapt(place / f"{n:05d}", n) for n in range(*map(int, sys.argv[3:5]))}
    elif task != "check":
        numbers = range(*map(int, sys.argv[3:5]))
        said = {n: make(place / f"{n:05d}", n, task == "small") for n in numbers}
    else:
        said = {}
        for folder in sorted(place.glob("*.written")):
            number = folder.name.partition(".")[0]
            try:
                found = check(folder, dict(np.load(place / f"{number}.npz")))
                np.savez(place / f"{number}.again.npz", **found)
            except Exception as error:
                said[number] = f"{type(error).__name__}: {error}"
    (place / f"{task}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main()
