"""Every setting with every owner: it changes what comes out, or one line refuses it."""

import contextlib
import dataclasses
import hashlib
import inspect
import io
import itertools
import json
import sys
import typing

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.cli.toy_tasks import backbone
from tests.made import TRANSLATORS
from tests.support import golden
from tfnlp import books
from tfnlp.formats import FORMATS
from tfnlp.settings.options import (
    Settings,
    default_of,
    element_type,
    is_required,
    names_of,
    subclasses,
)
from tfnlp.settings.tables import FAMILIES, TASKS

OWNERS = {
    **{f"pretrain {name}": kind for name, (kind, _) in FAMILIES.items()},
    **{f"finetune {name}": kind for name, (kind, _) in TASKS.items()},
}

# What no result tells, and why.
UNTOLD = {
    "output": "where the result is",
    "restart": "what is deleted first",
    "wait": "how long something is waited for",
    **dict.fromkeys(("engine", "strategy"), "where it is computed, with the same numbers"),
    **dict.fromkeys(("remat", "jit", "steps_per_call"), "how it is computed, to the same numbers"),
    "no_buckets": "how far rows are padded, to the same numbers; tests/data",
    "profile": "what is written beside the run: where time goes",
    "cache": "what is computed once for several runs",
}
# What `runs.pretraining` alone reads, for all families alike: one cheap family stands for them.
OF_THE_LOOP = {
    "epochs", "steps", "learning_rate", "warmup", "schedule", "optimizer", "weight_decay",
    "clip_norm", "accumulation", "seed", "evaluate_every", "checkpoint_every", "keep", "patience",
    "tpu", "workers", "index", "shard_optimizer",
}  # fmt: skip
# What all tasks read in the same lines, which `classify` stands for.
OF_TASKS = {field.name for field in dataclasses.fields(OWNERS["finetune choose"])} - {"max_length"}

# What encoders after BERT read in lines of their own, beside what BERT lacks; BERT stands for them.
OF_ENCODERS = {"size", "cased", "vocab", "vocab_size", "start", "whole_word", "pack"}

# Values where a half, the double or another choice will not do; {name} is a file of `Runs`.
VALUES = {
    "valid": "{valid.txt}", "valid_source": "{valid.txt}", "valid_target": "{valid.txt}",
    "text": [("the dog ran", "a dog"), ("a cat sat", "the cat"), ("he was", "it")] * 9,
    "vocab": "{vocab}", "start": "{start}", "teacher": "{teacher}", "examples": "/nowhere",
    "layout": "prose", "max_vocab": 50, "min_count": 2, "held_out": 0.5, "max_tokens": 12,
    "learning_rate": 0.5, "warmup": 0.5, "weight_decay": 3.0, "clip_norm": 1e-3, "epochs": 0.2,
    "steps": 3, "accumulation": 2, "patience": 1, "evaluate_every": 2, "evaluate_batches": 1,
    "checkpoint_every": 2, "keep": 1, "workers": "a:1,b:2", "index": 0, "tpu": "local",
    "size": "mini", "max_positions": 40, "initializer_range": 0.5, "num_heads": 4,
    "hidden_size": 16, "samples": 7, "max_predictions": 1, "attention": "dot",
    "dev": "{dev}", "unlabelled": "{dev}", "text_columns": ["other"], "label": "gold",
    "label_columns": ["a", "b"], "separator": ";", "limit": 8, "dev_limit": 2, "folds": 2,
    "seeds": [7], "search": 1, "metric": "nonsense", "features": "last", "freeze": 1, "lora": 2,
    "lora_matrices": ["key"], "train_weights": "bias", "class_weights": "balanced",
    "sizes": [4], "objective": "simcse", "max_answer": 1, "max_question": 4, "stride": 3,
    "batch_tokens": 64, "max_length": 12, "average": 1, "pooling": "cls",
    "finetune embed text_columns": ["anchor", "other"], "marks": ["[E1]"],
    "pretrain xlm-roberta vocab": str(golden("multilingual") / "mpnet"),
    "pretrain mpnet vocab": str(golden("multilingual") / "xlm"),
}  # fmt: skip
_TEACHER = {"teacher": "{teacher}"}
# Settings that take others to take effect; without these they may also be refused.
WITH = {
    "valid_source": {"valid_target": "{valid.txt}"},
    "valid_target": {"valid_source": "{valid.txt}"},
    **dict.fromkeys(("min_n", "max_n", "buckets"), {"subwords": True}),
    **dict.fromkeys(("new_weights", "soft_targets", "distillation_weight"), _TEACHER),
    **dict.fromkeys(("masked_lm_weight", "cosine_weight", "unlabelled"), _TEACHER),
    "temperature": _TEACHER,
    **dict.fromkeys(("lora_matrices", "lora_alpha", "lora_dropout"), {"lora": 2}),
    **dict.fromkeys(("units", "lstm_layers", "predicate_size"), {"features": "last"}),
    "word_embeddings": {"model": "{elmo}"},
    "lm_weight": {"model": "{gpt}"},
    "keep": {"steps": 4, "checkpoint_every": 1, "average": 0},
    "average": {"steps": 4, "checkpoint_every": 1},
    "patience": {"steps": 8, "evaluate_every": 1, "evaluations": 6, "learning_rate": 9.0},
    "epochs": {"steps": None},
    "skip_bad_rows": {"train": "{bad}"},
    "dev_limit": {"dev": "{dev}"},
}
# They do something in some runs alone: only together with the settings above.
SELDOM = {"patience", "skip_bad_rows", "epochs", "average"}
_SIZES = ("num_layers", "hidden_size", "num_heads", "max_positions", "vocab_size", "units")
_SIZES += ("projection_size", "generator_size")
# What of the base can't be given beside a setting.
WITHOUT = {
    **dict.fromkeys(("start", "teacher"), _SIZES),
    **dict.fromkeys(("valid", "valid_source", "valid_target", "dev"), ("held_out",)),
    "vocab": ("vocab_size", "min_count", "max_vocab"),
    "text": ("source", "target"),
    "size": ("num_layers",),
}

_WORDS = books.path().read_text(encoding="utf-8")[:5000].split()
LINES = [" ".join(_WORDS[i : i + 8]) + "\n" * (i % 5 == 0) for i in range(0, len(_WORDS), 8)]
_STEPS = dict(batch_size=4, steps=2, steps_per_call=2, layout="lines", held_out=0.3)
_ENCODER = _STEPS | dict(
    num_layers=1, hidden_size=8, num_heads=2, max_positions=32, vocab_size=250, seq_length=16
)
_PAIRS = dict(batch_size=8, steps=2, steps_per_call=2, hidden_size=8, vocab_size=270)
_PAIRS |= dict(source="{short.txt}", target="{short.txt}", held_out=0.3)
_TASK = dict(epochs=1, batch_size=4, accumulation=1, max_length=16)
BASES = {
    "word2vec": _STEPS | dict(dimension=4, block=8, window=2, min_count=1),
    "glove": _STEPS | dict(dimension=4, min_count=1, window=2, batch_size=1, held_out=0.6),
    "nnlm": _STEPS | dict(context=2, embedding_size=4, hidden_size=4),
    "seq2seq": _PAIRS,
    "transformer": _PAIRS | dict(num_layers=1, num_heads=2),
    "elmo": _STEPS | dict(units=8, projection_size=4, num_layers=1, window=4, samples=20),
    "gpt": _ENCODER | dict(vocab_size=270),
    "roberta": _ENCODER | dict(vocab_size=270),
    **{
        name: {k: v for k, v in _ENCODER.items() if k != "vocab_size"}
        | dict(vocab=str(golden("multilingual") / folder))
        for name, folder in (("xlm-roberta", "xlm"), ("mpnet", "mpnet"))
    },
    **dict.fromkeys(("bert", "distilbert", "albert", "electra"), _ENCODER),
    **dict.fromkeys(TASKS, _TASK),
    "answer": _TASK | dict(max_length=20, max_question=6, stride=4),
    "fill": dict(batch_size=4, steps=2, steps_per_call=2, layout="lines", seq_length=16),
}


def rows(task, count=24):
    """Labelled examples of a task, also with other columns than the usual ones."""
    if task == "fill":
        return "{text.txt}"
    rng, found = np.random.default_rng(5), []
    pool = "the dog ran a cat sat man will go he was here it is end new day".split()
    for n in range(count):
        one, two, three = (" ".join(rng.choice(pool, rng.integers(4, 9))) for _ in range(3))
        label, gold = ("yes" if n % 3 else "no"), ("yes" if n % 4 else "no")
        tags, marks = ([w[0] for w in one.split()], [w[-1] for w in one.split()])
        other, more = {"other": three, "gold": n % 3}, {"other": two, "a": n % 2, "b": n // 2 % 2}
        answers = {"text": [one.split()[1]], "answer_start": [one.index(" ") + 1]}
        split, roles = one.split(), ["A0", "V", *["O"] * len(tags[2:])]
        words = {"words": split, "other": one.upper().split(), "gold": marks}
        found.append({
            "classify": {"text": one, "label": label, "other": two, "gold": gold},
            "labels": {"text": one, "labels": "x|y;z" if n % 3 else "x;z", "gold": "u|v", **more},
            "similarity": {"text_a": one, "text_b": two, "label": n % 5, **other},
            "scores": {"text": one, "scores": {"a": n % 5}, "gold": {"u": n % 2}, **more},
            "choose": {"context": one, "choices": [two, three], "label": n % 2, "other": three,
                       "gold": (n + 1) % 2},
            "answer": {"id": str(n), "question": two, "context": one, "answers": answers},
            "tag": {**words, "tags": tags},
            "roles": {**words, "predicate": 1, "tags": roles, "gold": roles[::-1]},
            "coref": {"words": [*split, *split], "clusters": [[[0, 2], [4, 5]], [[6, 7], [7, 8]]]},
            "embed": {"anchor": one, "positive": two, "other": three, "gold": float(n % 3)},
        }[task])  # fmt: skip
    return found


class Runs:
    """Toy runs, each made once: `found(owner, settings)` is what came of one."""

    def __init__(self, folder):
        self.folder, self.seen, self.places = folder, {}, {}
        self.files = {"elmo": str(backbone("elmo", folder)), "gpt": str(backbone("gpt", folder))}
        short = [" ".join(line.split()[:3]) for line in LINES[:60]]  # translations end one by one
        files = {"text.txt": LINES, "short.txt": short, "valid.txt": LINES[20:40]}
        for name, lines in files.items():
            (folder / name).write_text("\n".join(lines), encoding="utf-8")
            self.files[name] = str(folder / name)

    def base(self, owner):
        command, name = owner.split()
        if command == "pretrain":
            texts = {} if name in TRANSLATORS else {"text": "{text.txt}"}
            return {**BASES[name], **texts}
        return {**BASES[name], "model": str(backbone("bert", self.folder)), "train": rows(name)}

    def filled(self, owner, value):
        """Return a value with the files that it names."""
        if value in ("{start}", "{teacher}", "{vocab}"):
            command, name = owner.split()
            if (command, value) == ("pretrain", "{teacher}"):
                return str(backbone("bert", self.folder))
            learnt = "vocab_size" in names_of(OWNERS[owner])
            smaller = {"vocab_size": 280} if learnt else {"max_vocab": 50}
            changes = smaller if value == "{vocab}" else {}
            self.found(owner, changes)
            place = self.places[owner, repr(sorted(changes.items()))]
            names = ("vocab.txt", "vocab", "spiece.model")
            if value != "{vocab}":
                return str(place)
            return str(next(place / n for n in names if (place / n).exists()))
        if value == "{dev}":
            return rows(owner.split()[1], 30)[24:]
        if value == "{bad}":
            return [*rows(owner.split()[1]), {"text": None}]
        return self.files.get(value[1:-1], value) if isinstance(value, str) else value

    def found(self, owner, changes):
        """Return what came of a run: files, results and lines; or the line that refused it."""
        key = owner, repr(sorted(changes.items()))
        if key not in self.seen:
            settings = {**self.base(owner), **changes}
            settings = {n: self.filled(owner, x) for n, x in settings.items() if x is not None}
            output = self.folder / f"run{len(self.seen)}"
            self.places[key], self.seen[key] = output, _outcome(owner, settings, output)
        return self.seen[key]


def _outcome(owner, settings, output):
    from tfnlp.families import FAMILIES as MODELS
    from tfnlp.runs.finetuning import finetune_task
    from tfnlp.runs.pretraining import train_family
    from tfnlp.tasks import TASKS as KINDS

    command, name = owner.split()
    if name == "fill":
        names = {"model": "start", "train": "text"}
        settings = {names.get(n, n): x for n, x in settings.items()}
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            config = OWNERS[owner].make(**settings, output=str(output))
            if command == "pretrain":
                results = train_family(MODELS[name], config)
            else:
                results, _ = finetune_task(KINDS[name], config)
    except (ValueError, OSError) as error:
        return str(error)
    files = [path for path in sorted(output.rglob("*")) if path.is_file()]
    files = [path for path in files if path.name != "config.json" and "logs" not in path.parts]
    kept = {str(p.relative_to(output)): hashlib.sha256(p.read_bytes()).digest() for p in files}
    return kept, json.dumps([results, said.getvalue()], default=str).replace(str(output), "")


def off(owner, name, base):
    """Return a value of a setting that is not that of the base."""
    kind = OWNERS[owner]
    (field,) = (field for field in dataclasses.fields(kind) if field.name == name)
    now, choices = base.get(name, default_of(field)), field.metadata["choices"]
    value = VALUES.get(f"{owner} {name}", VALUES.get(name))
    fits = not choices or isinstance(value, list) or value in choices
    if value is not None and value != now and fits:
        return value
    if choices:
        return next(choice for choice in choices if choice != now)
    of, _, _ = element_type(typing.get_type_hints(kind)[name])
    if of is bool:
        return not now
    if of is int:
        return (now or 2) * 2
    most = field.metadata["limits"]["at most"] or field.metadata["limits"]["below"] or np.inf
    return now / 2 if now and 2 * now >= most else 2 * (now or 0.1)


EVERY = sorted(set(itertools.chain(*map(names_of, OWNERS.values()))))


@pytest.mark.parametrize("owner", OWNERS)
def test_a_setting_of_others_is_refused_before_anything_is_read(owner, tmp_path):
    command, name = owner.split()
    function = {"pretrain": tfnlp.pretrain, "finetune": tfnlp.finetune}[command]
    given = {"output": tmp_path / "run"}
    given |= {"model": "m", "train": "t"} if command == "finetune" else {}
    own = {*names_of(OWNERS[owner]), *inspect.signature(function).parameters}
    for other in (each for each in EVERY if each not in own):
        with pytest.raises(ValueError) as caught:
            function(name, **given, **{other: 1})
        line = str(caught.value)
        owners = [who.split()[1] for who in OWNERS if other in names_of(OWNERS[who])]
        assert other in line and "\n" not in line
        assert "did you mean" in line or all(who in line for who in owners if command in who), line
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "kind", ["bert", *(pytest.param(x, marks=pytest.mark.slow) for x in ("elmo", "bert_tag"))]
)
def test_a_setting_of_other_formats_is_refused_before_anything_is_written(kind, tmp_path):
    task = golden("huggingface_heads") / kind
    model = tfnlp.load(task if task.exists() else backbone(kind, tmp_path / "toy"))
    every = set(itertools.chain(*(names_of(one.settings) for one in FORMATS))) | {"steps"}
    options = {one.option for one in FORMATS}
    for one in (each for each in FORMATS if each.takes(model) is None):
        for other in sorted(every - {*names_of(one.settings)} - options):
            with pytest.raises(ValueError) as caught:
                chosen = {one.option: True} if one.option else {}
                tfnlp.export(model, tmp_path / "out", format=one.name, **chosen, **{other: 1})
            assert other in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_no_mixin_is_hidden_by_what_another_base_lacks():
    """A `ClassVar` says that a class lacks a field of its bases: never by the order of these."""
    for kind in dict.fromkeys(subclasses(Settings)):
        fields = set(names_of(kind)) | set(vars(kind).get("__annotations__", ()))
        for base in kind.__bases__:
            lacking = set(names_of(base)) - fields if issubclass(base, Settings) else set()
            assert not lacking, f"{kind.__name__} lacks {lacking} of {base.__name__}"


def crossed(owner):
    """Return the names of the settings of an owner that are crossed with it."""
    command, name = owner.split()
    left_out = set(UNTOLD)
    if command == "pretrain" and name != "word2vec":
        left_out |= OF_THE_LOOP - ({"keep"} if name in TRANSLATORS else set())
    if command == "finetune" and name not in ("classify", "embed", "fill"):
        left_out |= OF_TASKS
    if name in ("roberta", "distilbert", "albert", "electra", "xlm-roberta", "mpnet"):
        left_out |= set(names_of(OWNERS["pretrain bert"])) - OF_ENCODERS
    left_out |= {"source", "target"} | ({"text"} if name not in TRANSLATORS else set())
    fields = dataclasses.fields(OWNERS[owner])
    return [field.name for field in fields if field.name not in left_out and not is_required(field)]


def ways(owner, name):
    """Return settings of the base beside which a setting is set off."""
    own, found = names_of(OWNERS[owner]), []
    if name not in SELDOM:
        found.append({})
    if name in WITH:
        own = {*own, "model", "train"}
        found.append({n: x for n, x in WITH[name].items() if n in own and n != name})
    return [
        {**dict.fromkeys(n for one in (name, *more) for n in WITHOUT.get(one, ())), **more}
        for more in found
    ]


# A sample of the others, which is run before each release only.
SAMPLE = {
    ("pretrain word2vec", "min_n"), ("pretrain glove", "x_max"), ("pretrain bert", "whole_word"),
    ("pretrain transformer", "evaluate_batches"), ("finetune classify", "word_embeddings"),
    ("finetune embed", "temperature"),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Toy runs without pages, step by step: two steps take less time than their graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "plotly.offline", None)
        tf.config.run_functions_eagerly(True)
        yield Runs(tmp_path_factory.mktemp("runs"))
        tf.config.run_functions_eagerly(False)


@pytest.mark.parametrize(
    "owner, changes, name",
    [
        ("pretrain word2vec", {"loss": "hierarchical", "negatives": 3.0}, "negatives"),
        ("pretrain transformer", {"keep": 2}, "keep"),
        ("pretrain transformer", {"text": VALUES["text"]}, "source"),
        ("pretrain bert", {"valid": "{valid.txt}"}, "held_out"),
        ("pretrain bert", {"vocab": "{valid.txt}"}, "vocab_size"),
        ("pretrain gpt", {**dict.fromkeys(_SIZES), "start": "{gpt}", "size": "mini"}, "size"),
        ("finetune classify", {"dev": "{dev}", "held_out": 0.5}, "held_out"),
        ("finetune embed", {"label": "gold", "objective": "cosine", "one_way": True}, "one_way"),
    ],
)
def test_what_another_setting_takes_the_place_of_is_refused(owner, changes, name, runs):
    line = runs.found(owner, changes)
    assert isinstance(line, str) and f"`{name}`" in line and "\n" not in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "owner, name",
    [
        pytest.param(*pair, marks=[] if pair in SAMPLE else pytest.mark.long)
        for pair in ((owner, name) for owner in OWNERS for name in crossed(owner))
    ],
)
def test_a_setting_changes_what_comes_out_or_is_refused(owner, name, runs):
    for more in ways(owner, name):
        value = off(owner, name, runs.base(owner))
        before, after = runs.found(owner, more), runs.found(owner, {**more, name: value})
        assert after != before, f"{owner} takes {name} {value} with {more}, and it changes nothing"
        if isinstance(after, str):
            assert name in after.replace("-", "_") and "\n" not in after
            assert not set(more) & set(WITH.get(name, ())), f"{owner}: {after}"
        elif isinstance(before, str):
            assert name in ("skip_bad_rows", "text", "valid_source", "valid_target"), before
