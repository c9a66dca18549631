"""Every action over HTTP beside the module called directly, and what is refused."""

import contextlib
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient  # noqa: E402

from tests.serving import toys  # noqa: E402
from tfnlp import hub, models  # noqa: E402
from tfnlp.serving.action import Action, Option  # noqa: E402
from tfnlp.serving.app import Refused, make_app, read_rows  # noqa: E402
from tfnlp.serving.batching import Batcher  # noqa: E402
from tfnlp.serving.module import load_served  # noqa: E402
from tfnlp.serving.texts import translate  # noqa: E402
from tfnlp.settings.serve import ServeSettings  # noqa: E402
from tfnlp.tasks import TASKS  # noqa: E402
from tfnlp.tasks.playground import Field  # noqa: E402
from tfnlp.text.task_readers import BertReader  # noqa: E402


@contextlib.contextmanager
def client_of(path, **limits):
    config = ServeSettings.make(module=path, **limits)
    served = load_served(path)
    batcher = Batcher(served.run, config.batch_size, 0, config.max_waiting)
    try:
        yield TestClient(make_app(served, config, batcher, True), base_url="http://127.0.0.1")
    finally:
        batcher.close()


def ask(client, action, instances, **options):
    body = {"instances": instances, "options": options}
    response = client.post(f"/api/{action}", json=body)
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


SIX, TWENTY_NINE = ({"no": 1 / n, "yes": 1 - 1 / n} for n in (6, 29))
SENTENCE = "the dog ran to a good film ."
# What is asked of the toys' rules, and what they say: of texts by their lengths in bytes.
SAID = {
    "classify": [
        ("a cat", {"label": "yes", "probabilities": SIX}),
        (SENTENCE, {"label": "yes", "probabilities": TWENTY_NINE}),
    ],
    "labels": [
        ("a cat", {"labels": ["yes"], "probabilities": SIX}),
        (SENTENCE, {"labels": ["yes"], "probabilities": TWENTY_NINE}),
    ],
    "similarity": [({"text_a": "abc", "text_b": "é"}, {"score": 1})],
    "scores": [("a cat", {"scores": {"no": 5, "yes": -5}})],
    "choose": [(
        {"text": "x", "choices": ["a", "abc", "ab"]},
        {"choice": 1, "text": "abc", "probabilities": [0.09003, 0.66524, 0.24473]},
    )],
    "answer": [(  # the module counts bytes, the page characters
        {"question": "who?", "context": "🙂é Zoë sat"},
        {"answer": "Zoë", "score": 4, "null_score": 0, "start": 3, "end": 6,
         "answers": [{"text": "Zoë", "score": 4}]},
    )],
    "tag": [
        ("🙂 Zoë sat .", {
            "tokens": ["🙂", "Zoë", "sat", "."], "tags": ["O", "B-name", "O", "O"],
            "probabilities": [0.75] * 4, "starts": [0, 2, 6, 10], "ends": [1, 5, 9, 11],
            "spans": [[2, 5, "name"]],
        }),
        ("to Rome", {
            "tokens": ["to", "Rome"], "tags": ["O", "B-name"], "probabilities": [0.75] * 2,
            "starts": [0, 3], "ends": [2, 7], "spans": [[3, 7, "name"]],
        }),
    ],
    "roles": [({"text": "the dog ran", "predicate": 2}, {
        "tokens": ["the", "dog", "ran"], "tags": ["O", "O", "B-V"], "probabilities": [0.75] * 3,
        "starts": [0, 4, 8], "ends": [3, 7, 11], "spans": [[8, 11, "V"]],
    })],
    "search": [("a query", {"neighbours": [
        {"text": "first", "score": 0.9, "row": 3}, {"text": "second", "score": 0.1, "row": 1},
    ]})],
    "outputs": [("abc", {"length": 3})],
}  # fmt: skip


@pytest.mark.parametrize("kind", toys.RULES)
def test_tasks_are_what_the_module_returns(module_of, kind):
    instances, said = zip(*SAID[kind], strict=True)
    with client_of(module_of(kind)) as client:
        found = ask(client, kind, instances)
        assert found == [ask(client, kind, [one])[0] for one in instances]
    assert json.loads(json.dumps(found), parse_float=rounded) == [*said]


def rounded(number):
    return pytest.approx(float(number), rel=1e-4)


def test_a_module_is_of_the_task_that_it_states(tmp_path):
    def more(text):
        return {**toys.classify(text), "length": tf.strings.length(text)}

    rule = toys.Rule(more, toys.strings("text"))
    for name, about in (("stated", {"task": {"task": "classify"}}), ("outputs", None)):
        hub.save(rule, tmp_path / name, {"serving_default": rule.served}, about=about)
    with client_of(str(tmp_path / "stated")) as client:
        (found,) = ask(client, "classify", ["a cat"])
        assert found["label"] == "yes" and set(found) == {"label", "probabilities"}
    assert list(load_served(tmp_path / "outputs").actions) == ["outputs"]


@pytest.mark.parametrize(
    "splitter, text", [("spaces", "Hello , world !"), ("marks", "Hello, world!")]
)
def test_a_module_is_called_with_words_as_it_splits_them(tmp_path, splitter, text):
    """In the code of `inspect`, which cards have, too."""

    class Lengths(tf.Module):
        @tf.function(input_signature=[{"text": toys.strings("text")}])
        def __call__(self, inputs):
            return {"length": tf.strings.length(inputs["text"])}

    about = {"task": {"task": "tag", "splitter": splitter}}
    hub.save(Lengths(), tmp_path / "module", about=about)
    assert f'["{text}"]' in hub.inspect(tmp_path / "module").usage


LABELS = {"labels": ("O", "B-x")}
FINE_TUNED = [
    *(("classify", {**LABELS, "texts": texts}) for texts in (1, 2)),
    *((name, LABELS) for name in ("labels", "scores", "tag", "roles")),
    ("similarity", {"texts": 2}),
    ("choose", {"choices": 2}),
    ("answer", {"max_question": 8}),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, arguments", FINE_TUNED)
def test_modules_of_a_task_fit_its_page_alone(name, arguments):
    task = TASKS[name](max_length=16, **arguments)
    encoder, _, tokenizer = toys.pretrainer()
    model = models.bert_task(encoder, task.output, **task.head)
    served = hub.FineTunedModule(hub.TaskModel(task, BertReader(tokenizer), model)).signatures()
    _, inputs = served["serving_default"].structured_input_signature
    outputs = set(served["serving_default"].structured_outputs)
    pages = {n: kind.playground for n, kind in TASKS.items() if kind.playground is not None}
    assert [n for n, page in pages.items() if page.fits(set(inputs), outputs)] == [name]
    assert {field.name for field in pages[name](inputs).fields} == set(inputs)


def test_choices_of_several_numbers_in_one_request(tmp_path):
    specs = toys.strings("text"), toys.strings("choices", 2)
    path = toys.Rule(toys.choose, *specs).write(tmp_path / "choose")
    rows = [{"text": "x", "choices": ["a", "abc", "ab"][:count]} for count in (2, 3, 2)]
    with client_of(str(path)) as client:
        found = ask(client, "choose", rows)
        assert [len(one["probabilities"]) for one in found] == [2, 3, 2]
        assert [one["text"] for one in found] == ["abc"] * 3


@pytest.mark.slow
def test_an_encoder_with_its_preprocessor(module_of):
    path = module_of("bert")
    encoder, preprocess = (hub.load(f"{path}/{name}") for name in ("encoder", "preprocessor"))

    def vector(text):
        packed = preprocess(tf.constant([text]))
        count = int(packed["input_mask"][0].numpy().sum())
        mean = encoder(packed)["sequence_output"][0, :count].numpy().mean(0)
        return mean / np.linalg.norm(mean)

    with client_of(path) as client:
        row = {"query": "the cat", "texts": ["bad film", "the cat", "a dog ran"]}
        (found,) = ask(client, "neighbours", [row], top=3)
        masks = ask(client, "fill", ["the [MASK] sat"])[0]["masks"]
    with client_of(module_of("fill")) as client:
        (alone,) = ask(client, "fill", ["the [MASK] sat"])[0]["masks"]
    assert len(masks) == 1 and sum(x["probability"] for x in masks[0]) <= 1 and len(alone) == 3
    assert found["neighbours"][0]["row"] == 1
    for one in found["neighbours"]:
        expected = vector("the cat") @ vector(one["text"])
        assert one["score"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_text_goes_on_the_same_in_any_company(module_of):
    path = module_of("gpt")
    settings = dict(max_new_tokens=6, temperature=1.0, top_k=0, top_p=1.0, seed=7)
    generate = hub.load(f"{path}/model").signatures["generate"]
    with client_of(path, batch_size=2) as client:
        found = ask(client, "write", ["the cat", "a mat", "the dog"], **settings)
        assert ask(client, "write", ["a mat"], **{**settings, "seed": 8}) == found[1:2]
    typed = {k: tf.constant(v, "float32" if k in ("temperature", "top_p") else "int32")
             for k, v in settings.items()}  # fmt: skip
    direct = generate(prompt=tf.constant(["the cat", "a mat", "the dog"]), **typed)
    assert [one["text"] for one in found] == [
        x.decode("utf-8", "replace") for x in direct["text"].numpy()
    ]


@pytest.mark.slow
def test_a_stream_is_what_comes_at_once_piece_by_piece(module_of):
    """Of the service, and of the module alone, as TensorFlow loads it."""
    path = module_of("gpt")
    with client_of(path) as client:
        assert client.get("/api/module").json()["actions"][0]["stream"]
        for prompt, settings in (("the cat", {"temperature": 0}), ("é", {"seed": 3}), ("", {})):
            options = {"max_new_tokens": 9, "temperature": 1.5, **settings}
            body = {"instances": [prompt], "options": options}
            response = client.post("/api/write/stream", json=body)
            *pieces, last = map(json.loads, response.text.splitlines())
            (want,) = ask(client, "write", [prompt], **options)
            assert last == {"predictions": [want]}
            assert "".join(piece["text"] for piece in pieces) == want["text"]
            assert 1 < len(pieces) <= 9
        two = client.post("/api/write/stream", json={"instances": ["a", "b"]})
        assert two.status_code == 422 and "one instance" in two.json()["error"]
        assert client.post("/api/neighbours/stream", json=body).status_code == 422
        assert client.post("/api/nothing/stream", json=body).status_code == 404
    module = tf.saved_model.load(f"{path}/model")
    prompts, how = tf.constant(["the cat", "a mat sat", ""]), [1.5, 0, 1.0, 7]
    how = [tf.constant(x, "float32" if isinstance(x, float) else "int32") for x in how]
    want = module.generate(prompts, tf.constant(9), *how)
    state = module.start(prompts, tf.constant(9))
    while state["left"] > 0 and not all(state["done"].numpy()):
        state = module.advance(state, *how)
    for name in ("text", "continuation"):
        assert state[name].numpy().tolist() == want[name].numpy().tolist()


def test_words(module_of):
    module = tf.saved_model.load(module_of("words"))
    table = module(tf.constant(toys.WORDS[:6])).numpy()
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    cosines = table @ table[2]
    best = [toys.WORDS[i] for i in np.argsort(-cosines) if i != 2][:3]
    with client_of(module_of("words")) as client:
        (found,) = ask(client, "words", ["cat"], top=3)
        wrong = client.post("/api/words", json={"instances": ["zebra"]})
    assert [one["text"] for one in found["neighbours"]] == best
    assert wrong.status_code == 422 and "not among the 6 words" in wrong.json()["error"]


@pytest.mark.slow
def test_translations_with_their_attention(module_of):
    module = tf.saved_model.load(module_of("translate"))
    texts = ["the cat", "the dog ran to the cat"]
    direct = module.translate(tf.constant(texts))
    with client_of(module_of("translate")) as client:
        found = ask(client, "translate", texts)
        plain = ask(client, "translate", texts, attention=False)
    for i, one in enumerate(found):
        assert plain[i]["translation"] == one["translation"] and "attention" not in plain[i]
        assert one["translation"] == direct["translation"][i].numpy().decode("utf-8", "replace")
        attention = np.array(one["attention"])
        assert attention.shape == (len(one["target_tokens"]), len(one["source_tokens"]))
        np.testing.assert_allclose(attention.sum(1), 1, atol=1e-3)
        assert one["source_tokens"][-1] == one["target_tokens"][-1] == "(end)"


@pytest.mark.parametrize("text, tokens, words", [
    ("Zoë's CAT sat.", ["Zo", b"\xc3", b"\xab", "'", "s", "CA", "T", "s", "at", "."],
     [("Zoë's", 5), ("CAT", 2), ("sat", 2), (".", 1)]),
    ("Zoë's CAT sat.", ["zoë's", "cat", "sat", "."],
     [("Zoë's", 1), ("CAT", 1), ("sat", 1), (".", 1)]),
    ("so... (we)", ["so", "...(", "we", "", ")"], [("so", 1), ("...(", 1), ("we", 2), (")", 1)]),
    ("a—b c", ["a", "-", "b", "c"], [("a", 1), ("-", 1), ("b", 1), ("c", 1)]),
    ("أهلا، بك", ["أه", "لا", "،", "ب", "ك"], [("أهلا", 2), ("،", 1), ("بك", 2)]),
])  # fmt: skip
def test_attention_is_of_words_as_they_are_written(text, tokens, words):
    tokens = [t if isinstance(t, bytes) else t.encode() for t in (*tokens, "(end)")]
    attention = np.random.default_rng(1).random((2, len(tokens) + 1))

    def align(sentences):
        return {
            "translation": [b"a"], "score": [0.5], "source_tokens": [[*tokens, b""]],
            "target_tokens": [[b"a", b"(end)", b""]], "attention": attention[None],
        }  # fmt: skip

    (found,) = translate(None, align).run([{"text": text, "attention": True}])
    words = [*words, ("(end)", 1)]
    assert found["source_tokens"] == [word for word, _ in words]
    assert found["target_tokens"] == ["a", "(end)"]
    starts = np.cumsum([0, *(count for _, count in words)])
    want = [[row[a:b].sum() for a, b in itertools.pairwise(starts)] for row in attention]
    np.testing.assert_allclose(found["attention"], want, atol=1e-4)


@pytest.mark.parametrize("body, status, said", [
    (b"{", 422, "not JSON"),
    (b'{"instances": [1]}', 422, "instance 0 must be an object with text"),
    (b'{"instances": ["\\ud800"]}', 422, "surrogate"),
    (b'{"instances": ["a"], "options": {"top": 1}}', 422, "classify has none"),
    (json.dumps({"instances": ["a"] * 5}).encode(), 413, "5 texts; at most 4"),
    (json.dumps({"instances": ["a" * 21]}).encode(), 413, "21 characters; at most 20"),
    (b" " * 501, 413, "more than 500 bytes"),
])  # fmt: skip
def test_what_is_refused(module_of, body, status, said):
    headers = {"Content-Type": "application/json"}
    limits = dict(max_texts=4, max_characters=20, max_bytes=500)
    with client_of(module_of("classify"), **limits) as client:
        response = client.post("/api/classify", content=body, headers=headers)
        assert response.status_code == status and said in response.json()["error"]
        ask(client, "classify", ["still here"])


@pytest.mark.parametrize("options, said", [
    ('{"temperature": NaN}', "temperature must be from 0 to 2"),
    ('{"temperature": 1e999}', "temperature must be from 0 to 2"),
    ('{"temperature": true}', "temperature must be a number"),
    (f'{{"tokens": 1{"0" * 400}}}', "tokens must be from 1 to 9"),
    ('{"tokens": 2.0}', "tokens must be a whole number"),
    ('{"attention": 1}', "attention must be true or false"),
])  # fmt: skip
def test_options_that_are_refused(options, said):
    known = (
        Option("temperature", "", 0.5, 0, 2), Option("tokens", "", 3, 1, 9),
        Option("attention", "", True),
    )  # fmt: skip
    action = Action("write", "", "", "", (Field("prompt", "", "line", ""),), list, options=known)
    body = f'{{"instances": ["a"], "options": {options}}}'.encode()
    with pytest.raises(Refused, match=said):
        read_rows(body, action, ServeSettings.make(module="a"))


def test_other_sites_and_other_addresses(module_of):
    with client_of(module_of("classify")) as client:
        body = {"instances": ["a"]}
        as_form = client.post("/api/classify", content=json.dumps(body))
        assert as_form.status_code == 415
        rebound = client.post("/api/classify", json=body, headers={"Host": "evil.example"})
        assert rebound.status_code == 400
        assert client.get("/api/module", headers={"Host": "[::1]:80"}).status_code == 200
        unknown = client.post("/api/dance", json=body)
        assert unknown.status_code == 404 and "there are classify" in unknown.json()["error"]
        page = client.get("/")
        assert page.status_code == 200 and "default-src 'self'" in str(page.headers)


@pytest.mark.slow
def test_a_module_without_text_is_refused(module_of):
    with pytest.raises(ValueError, match="takes no text, but input_mask.*preprocessor"):
        load_served(f"{module_of('bert')}/encoder")
