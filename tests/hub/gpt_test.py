"""The exported GPT, loaded where there is no tfnlp, against the model and the tokenizer."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.hub.alone import KERAS, again, alone, listed
from tests.hub.gpt_toy import KINDS, POSITIONS, TEXTS, model, tokenizer
from tfnlp import hub

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

SEQ_LENGTH = 12
ROWS = [*TEXTS, "", "the " * 30]
PROMPTS = ["the cat", "", "北京 naïve", "the dog ran " * 9]
GREEDY = dict(max_new_tokens=5, temperature=0.0, top_k=0, top_p=1.0, seed=0)
CALLS = [
    GREEDY,
    dict(max_new_tokens=7, temperature=2.0, top_k=20, top_p=0.9, seed=11),
    dict(max_new_tokens=3, temperature=1.5, top_k=0, top_p=1.0, seed=2**31 - 2),
    dict(max_new_tokens=18, temperature=2.0, top_k=7, top_p=1.0, seed=-4),
]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The models by kind, and what a process without tfnlp saw of them."""
    folder = tmp_path_factory.mktemp("gpt")
    models = {kind: model(kind, dropout=0.3) for kind in KINDS}
    for kind in KINDS:
        hub.export_gpt(folder / kind, models[kind], tokenizer(kind), SEQ_LENGTH)
    plan = {"texts": ROWS, "prompts": PROMPTS, "calls": CALLS}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return models, alone(folder, look, KERAS)


def look(folder):
    import json

    with open(f"{folder}/plan.json", encoding="utf-8") as file:
        plan = json.load(file)
    texts, prompts = tf.constant(plan["texts"]), tf.constant(plan["prompts"])
    types, calls = dict(max_new_tokens="int32", top_k="int32", seed="int32"), []
    for call in plan["calls"]:
        calls.append({k: tf.constant(x, types.get(k, "float32")) for k, x in call.items()})
    seen = {}
    for kind in ("gpt2", "gpt"):
        if kind == "gpt":  # whose words are of tensorflow_text, which imports a Keras itself
            for name in ("tensorflow_text", "keras", "tf_keras"):
                del sys.modules[name]
            import tensorflow_text  # noqa: F401
        preprocessor = tf.saved_model.load(f"{folder}/{kind}/preprocessor")
        module = tf.saved_model.load(f"{folder}/{kind}/model")
        inputs = preprocessor(texts)
        packed = preprocessor.signatures["serving_default"](texts)
        seen |= listed(f"{kind}/inputs", inputs) | listed(f"{kind}/inputs_by_signature", packed)
        tokens = preprocessor.tokenize(texts)
        seen[f"{kind}/tokens"], seen[f"{kind}/splits"] = tokens.flat_values, tokens.row_splits
        seen[f"{kind}/detokenized"] = preprocessor.detokenize(tokens).numpy()
        dense = preprocessor.detokenize(inputs["input_word_ids"])
        seen[f"{kind}/detokenized_dense"] = dense.numpy()
        seen |= listed(f"{kind}/outputs", module(inputs))
        seen |= listed(f"{kind}/served", module.signatures["serving_default"](**inputs))
        for i, call in enumerate(calls):
            seen |= listed(f"{kind}/method/{i}", module.generate(prompts, **call))
        generated = module.signatures["generate"](prompt=prompts, **calls[-1])
        seen |= listed(f"{kind}/signature", generated)
        if kind == "gpt2":
            seen |= listed("again/inputs", again(folder, "gpt2/preprocessor")(texts))
            copy = again(folder, "gpt2/model")
            seen |= listed("again/outputs", copy(inputs))
            generated = copy.signatures["generate"](prompt=prompts, **calls[-1])
            seen |= listed("again/signature", generated)
    return seen


def expected_inputs(kind):
    rows = tokenizer(kind).tokenize(ROWS).to_list()
    ids = np.zeros((len(rows), SEQ_LENGTH), "int32")
    mask = np.zeros_like(ids)
    for i, m, row in zip(ids, mask, rows, strict=True):
        row = row[:SEQ_LENGTH]
        i[: len(row)], m[: len(row)] = row, 1
    return {"input_word_ids": ids, "input_mask": mask}


@each_kind
def test_preprocessor_equals_the_tokenizer(exported, kind):
    seen = exported[1]
    inputs = expected_inputs(kind)
    for name in ("inputs", "inputs_by_signature"):
        for key, value in inputs.items():
            assert seen[f"{kind}/{name}/{key}"].dtype == np.int32
            np.testing.assert_array_equal(seen[f"{kind}/{name}/{key}"], value)
    tokens = tokenizer(kind).tokenize(ROWS)
    np.testing.assert_array_equal(seen[f"{kind}/tokens"], tokens.flat_values)
    np.testing.assert_array_equal(seen[f"{kind}/splits"], tokens.row_splits)
    want = tokenizer(kind).detokenize(tokens).numpy()
    assert seen[f"{kind}/detokenized"].tolist() == want.tolist()
    if kind == "gpt2":
        assert want.tolist() == [row.encode() for row in ROWS]
    dense = tokenizer(kind).detokenize(inputs["input_word_ids"]).numpy()
    assert seen[f"{kind}/detokenized_dense"].tolist() == dense.tolist()


@each_kind
def test_outputs_are_the_models(exported, kind):
    models, seen = exported
    want = models[kind](expected_inputs(kind))
    for name in ("sequence_output", "lm_logits"):  # the largest numbers are 50
        for way in ("outputs", "served"):
            got = seen[f"{kind}/{way}/{name}"]
            np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(
        seen[f"{kind}/outputs/default"], seen[f"{kind}/outputs/sequence_output"]
    )


def cut(kind, prompt, room):
    """The prompt's last tokens as bytes: what is read of it."""
    ids = tokenizer(kind).tokenize([prompt]).to_list()[0]
    text = tokenizer(kind).detokenize(tf.constant([ids[-room:]], "int32")).numpy()[0]
    assert len(ids) <= room or tokenizer(kind).tokenize([text]).to_list()[0] == ids[-room:]
    return prompt if len(ids) <= room else text


def wrapped(seed):
    return (seed + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    "kind, number", [*(("gpt2", n) for n in range(len(CALLS))), ("gpt", 1), ("gpt", 3)]
)
def test_generated_text_is_the_generators(exported, kind, number):
    models, seen = exported
    call = dict(CALLS[number])
    count, seed = call.pop("max_new_tokens"), call.pop("seed")
    prompts = [cut(kind, prompt, POSITIONS - count) for prompt in PROMPTS]
    assert prompts[3] != PROMPTS[3] and prompts[1] == ""
    seeds = [wrapped(seed + row) for row in range(4)]
    generator = hub.TextGenerator(models[kind], tokenizer(kind))
    want = generator(prompts, count, seeds=seeds, **call)
    ways = ["method/" + str(number)] + ["signature"] * (number == len(CALLS) - 1)
    for way in ways:
        got = [x.decode("utf-8", "replace") for x in seen[f"{kind}/{way}/continuation"]]
        assert got == want
        between = b" " if kind == "gpt" else b""
        pieces = zip(PROMPTS, seen[f"{kind}/{way}/continuation"], strict=True)
        texts = [prompt.encode() + between + piece for prompt, piece in pieces]
        if kind == "gpt":  # its words are what stands between spaces
            texts = [text.strip() for text in texts]
        assert seen[f"{kind}/{way}/text"].tolist() == texts
    assert len(set(want)) == 4


def test_survives_another_save(exported):
    seen = exported[1]
    for name in ("input_word_ids", "input_mask"):
        np.testing.assert_array_equal(seen[f"again/inputs/{name}"], seen[f"gpt2/inputs/{name}"])
    for name in ("default", "lm_logits", "encoder_outputs/0"):
        got, want = (seen[f"{n}/outputs/{name}"] for n in ("again", "gpt2"))
        np.testing.assert_array_equal(got, want)
    for name in ("continuation", "text"):
        assert (seen[f"again/signature/{name}"] == seen[f"gpt2/signature/{name}"]).all()


@pytest.fixture(scope="module")
def module(exported):
    return hub.GPTModule(exported[0]["gpt2"], tokenizer())


def call(module, prompts, **settings):
    settings = {**GREEDY, **settings}
    return module.generate(tf.constant(prompts, tf.string), **settings)


def test_generate_at_its_limits(module):
    assert call(module, [])["text"].shape == (0,)
    one, none = (call(module, ["the cat"], max_new_tokens=n) for n in (1, -3))
    assert one["text"].numpy() == none["text"].numpy()
    assert module.generate.experimental_get_tracing_count() == 1  # whatever comes in
    most, more = (call(module, ["the cat"], max_new_tokens=n) for n in (POSITIONS - 1, 999))
    assert most["text"].numpy() == more["text"].numpy() != one["text"].numpy()
    # Settings that mean nothing are taken for the nearest that do.
    for settings in (dict(top_k=10**6), dict(top_k=-1)):
        got = call(module, ["the cat"], temperature=1.5, seed=3, **settings)
        want = call(module, ["the cat"], temperature=1.5, seed=3)
        assert got["text"].numpy() == want["text"].numpy()
    for settings in (dict(top_p=0.0), dict(temperature=-1.0, top_p=1.0)):
        got = call(module, ["the cat"], **{"temperature": 1.5, **settings})
        assert got["text"].numpy() == call(module, ["the cat"])["text"].numpy()
