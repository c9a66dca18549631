"""The page in Chromium: what is pressed, what is shown, by day, by night and on a phone."""

import csv
import io
import json
import re
import shutil
import threading
from urllib.parse import parse_qs

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("uvicorn")

from tests.serving import toys  # noqa: E402
from tests.serving.toys import listening  # noqa: E402
from tfnlp.serving import texts, vectors  # noqa: E402
from tfnlp.serving.action import Action, array_of, of_task, outputs  # noqa: E402
from tfnlp.tasks import TASKS  # noqa: E402
from tfnlp.tasks.playground import Field  # noqa: E402

pytestmark = pytest.mark.slow
expect = sync_api.expect
expect.set_options(timeout=60_000)
# What the page shows of the toys' examples, by action.
SHOWN = {
    "classify": "0.024", "labels": "yes", "similarity": "score", "scores": "yes",
    "choose": "the sun burnt us.", "answer": "Lovelace", "tag": "name", "roles": "V",
    "search": "first", "outputs": "length",
    "fill": "away", "write": "the cat", "translate": "(end)",
    "neighbours": "A kitten is resting indoors.", "words": "cat",
}  # fmt: skip
CHANGED = {"write": {"#field-prompt": "the cat"}, "words": {"#field-word": "dog"}}
LABELS = {"tag": ["O", "B-name", "B-place"], "roles": ["O", "B-name", "B-V"]}
EXAMPLES = [{"text": "שלום עולם Zoë"}, {"text": "Ada and\nBob"}, {"words": ["no", "row"]}]
LONG = "x" * 600 + "<img src=nowhere>" + "Y" * 600
OPEN = threading.Event()  # what the action `wait` waits for


def of_rule(name):
    function, *specs = toys.RULES[name]

    def call(**inputs):
        typed = {x.name: tf.constant(inputs[x.name], x.dtype) for x in specs}
        return {key: array_of(x) for key, x in function(**typed).items()}

    if name not in TASKS:
        return vectors.search(call) if name == "search" else outputs(call, [specs[0].name])
    inputs = {x.name: x for x in specs}
    page = TASKS[name].playground(inputs, LABELS.get(name, ["no", "yes"]))
    return of_task(name, page, call, EXAMPLES if name == "tag" else ())


def fill(text):
    count = max(one.count("[MASK]") for one in text)
    tokens = [[["away", "##s"]] * one.count("[MASK]") + [["", ""]] * count for one in text]
    tokens = np.array([row[:count] for row in tokens], object).reshape(len(text), count, 2)
    filled = [one.replace("[MASK]", "away") for one in text]
    return {"text": filled, "tokens": tokens, "probabilities": np.where(tokens == "", 0.0, 0.5)}


def align(sentences):
    """Every letter is a token of the source; the translation is the sentence in small letters."""
    (text,) = sentences
    source = [letter.encode() for letter in text if letter.strip()] + [b"(end)"]
    target = [word.lower().encode() for word in text.split()] + [b"(end)"]
    weights = np.eye(len(target), len(source))[None] / 2 + 0.1
    return {
        "translation": [text.lower().encode()], "score": np.zeros(1), "attention": weights,
        "source_tokens": np.array([source], object), "target_tokens": np.array([target], object),
    }  # fmt: skip


def translate(sentences):
    return {"translation": [text.lower() for text in sentences], "score": np.zeros(len(sentences))}


def wait(rows):
    assert OPEN.wait(60)
    return [{"done": "at last"} for _ in rows]


def pieces(row):
    for end in (3, 7):
        yield {"text": "the cat"[:end], "continuation": "the cat"[:end]}
    assert OPEN.wait(60)
    yield {"text": "the cat sat", "continuation": "the cat sat"}


def embed(strings):
    return np.array([[len(text), text.count("i") + 1.0] for text in strings], "float32")


@pytest.fixture(scope="module")
def address():
    line = (Field("text", "Text", "line", "a"),)
    prompt = (Field("prompt", "Beginning", "text", "", may_be_empty=True),)
    actions = [
        *map(of_rule, toys.RULES), texts.fill(fill), texts.translate(translate, align),
        vectors.neighbours(embed, "letters"), vectors.nearest_words(embed, toys.WORDS, True),
        Action("wait", "Wait", "Go", "Waits.", line, wait),
        Action("write", "Write on", "Write", "Writes.", prompt, wait, stream=pieces),
    ]  # fmt: skip
    with listening({action.name: action for action in actions}, max_bytes=20_000) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed; `make browser` installs it")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser):
    """Return a function of settings to a page, whose errors fail the test."""
    errors, contexts = [], []

    def new(**settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.set_default_timeout(30000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if failed(m) else None)
        return page

    OPEN.clear()
    yield new
    OPEN.set()
    for context in contexts:
        context.close()
    assert not errors


def failed(message):
    """Whether the console says an error that is none of the refusals that a test asks for."""
    return message.type == "error" and "status of 422" not in message.text


def open_action(page, address, name):
    page.goto(address)
    page.click(f"nav [data-name={name}]")


def test_every_button(address, new_page):
    page = new_page()
    page.goto(address)
    OPEN.set()
    for name in SHOWN:
        press(page, name)


def press(page, name):
    page.click(f"nav [data-name={name}]")
    expect(page.locator("nav [aria-pressed=true]")).to_have_attribute("data-name", name)
    for place, text in CHANGED.get(name, {}).items():
        page.fill(place, text)
    if name == "fill":
        page.fill("#field-text", "the [MASK] sat away")
    page.click("#run")
    expect(page.locator("#results")).to_contain_text(SHOWN[name])
    expect(page.locator("#json")).to_be_visible()
    expect(page.locator("#status")).to_be_hidden()
    if name == "write":
        return
    page.locator("[id^=field-]").first.fill("")
    page.click("#run")  # a check that fails leaves nothing of what was found before
    expect(page.locator("#error")).to_contain_text(re.compile("empty|no text"))
    for place in ("#results article", "#results table"):
        expect(page.locator(place)).to_have_count(0)
    for place in ("#json", "#tools", "#status"):
        expect(page.locator(place)).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone(address, new_page, scheme):
    """Long words don't widen the page; what is written can be read."""
    page = new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page.goto(address)
    for name in [name for name in SHOWN if name not in ("words", "write")]:
        page.click(f"nav [data-name={name}]")
        for place in page.locator("[id^=field-]:not([type=number])").all():
            place.fill(f"{LONG} [MASK]\n{LONG}" if name == "choose" else f"{LONG} a [MASK]")
        if name == "choose":
            page.fill("#field-choices", f"{LONG}\n{LONG}b\nc")
        page.click("#run")
        expect(page.locator("#results article").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
        assert page.locator("img").count() == 0
        assert min(contrasts(page, "#results *")) >= 4.5, name
    open_action(page, address, "translate")
    for text in ("one", "one two three four five six seven"):
        page.fill("#field-text", text)
        page.click("#run")
        cells = page.locator(".attention tbody td")
        expect(cells).to_have_count((len(text.split()) + 1) ** 2)
        assert min(contrasts(page, ".attention td")) >= 4.5


def contrasts(page, places):
    """Return the contrast of each text with what is behind it, as WCAG 2 defines it.

    The browser paints both colours, so that it is its own reading of them.
    """
    return page.evaluate("""(places) => {
      const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
      const light = (...colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((x) => x / 255)
          .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const written = (one) => [...one.childNodes].some((x) => x.nodeType === 3 && x.data.trim());
      return [...document.querySelectorAll(places)].filter(written).map((one) => {
        const behind = [];
        for (let at = one; at; at = at.parentElement) {
          behind.unshift(getComputedStyle(at).backgroundColor);
        }
        const pair = [light(...behind), light(...behind, getComputedStyle(one).color)];
        pair.sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
      });
    }""", places)  # fmt: skip


def test_text_from_right_to_left(address, new_page):
    page = new_page()

    def direction(place):
        return page.locator(place).first.evaluate("(x) => getComputedStyle(x).direction")

    open_action(page, address, "tag")
    page.fill("#field-text", "שלום Zoë עולם\nZoë sat")
    assert direction("#field-text") == "rtl"
    page.click("#run")
    expect(page.locator("#results article")).to_have_count(2)
    assert [direction(f"article:nth-of-type({n}) .tagged") for n in (1, 2)] == ["rtl", "ltr"]
    page.click("nav [data-name=classify]")
    page.fill("#field-text", "مرحبا")
    page.click("#run")
    expect(page.locator("article .given").first).to_have_text("مرحبا")
    assert direction("article .given") == "rtl"


def test_what_is_computed_is_said_and_can_be_stopped(address, new_page):
    page = new_page()
    open_action(page, address, "tag")
    page.click("#run")
    expect(page.locator(".legend")).to_contain_text("name 1")
    page.click("nav [data-name=wait]")
    status, results = page.locator("#status"), page.locator("#results")
    page.click("#run")
    expect(status).to_contain_text("Computing")
    expect(results).to_be_empty()
    expect(page.locator("#run")).to_be_disabled()
    page.click("#stop")
    expect(status).to_have_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()
    page.click("#run")
    OPEN.set()  # for both
    expect(results).to_contain_text("at last")
    expect(status).to_be_hidden()
    OPEN.clear()
    page.click("nav [data-name=write]")
    page.click("#run")
    expect(results).to_have_text("the cat")  # what has come of a text that goes on
    expect(status).to_contain_text("Computing")
    page.click("nav [data-name=classify]")  # hangs up
    expect(status).to_be_hidden()
    OPEN.set()
    page.click("#run")
    expect(results).to_contain_text("Probability")
    expect(results).not_to_contain_text("the cat")


def test_a_file(address, new_page, tmp_path):
    page = new_page()
    rows = [f"row {n}, Zoë" for n in range(150)] + ['a "quoted"\nline', "שלום"]
    (tmp_path / "rows.csv").write_text("", "utf-8")
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([["n", "text"], *([n, text] for n, text in enumerate(rows))])
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps({"text": x}) for x in rows), "utf-8")
    (tmp_path / "rows.txt").write_text("\r\n".join(rows[:5]) + "\n\n", "utf-8")
    want = [min(1.0, 1 - 1 / (1 + len(text.encode()))) for text in rows]
    open_action(page, address, "classify")
    for name, count in (("rows.csv", 152), ("rows.jsonl", 152), ("rows.txt", 5)):
        page.set_input_files("#file", tmp_path / name)
        expect(page.locator("#results tbody tr")).to_have_count(min(count, 100))
        with page.expect_download() as got:
            page.click("text=Download .csv")
        text = got.value.path().read_text("utf-8")
        found = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [row["text"] for row in found] == rows[:count]
        got = [float(row["probability"]) for row in found if row["label"] == "yes"]
        np.testing.assert_allclose(got, want[:count], rtol=1e-5)
    with page.expect_download() as got:
        page.click("text=Download .jsonl")
    found = list(map(json.loads, got.value.path().read_text("utf-8").splitlines()))
    assert [row["text"] for row in found] == rows[:5]
    assert set(found[0]["prediction"]) == {"label", "probabilities"}


@pytest.mark.parametrize("name, content, said", [
    ("a.csv", "review,label\ngood,1\n", "a.csv, row 1 has no text; it has review, label"),
    ("a.csv", "text,label\ngood\n", "a.csv, row 1 has 1 cells; its first line has 2"),
    ("a.jsonl", '{"text": "a"}\n{', "a.jsonl, line 2 is not JSON"),
    ("a.jsonl", '{"text": "a"}\n' * 70 + '{"text": 1}', "a.jsonl, row 71: text must be a string"),
    ("a.txt", b"\xff\xfe", "a.txt is not text in UTF-8"),
    ("a.txt", "\n", "a.txt has no rows"),
    ("a.txt", "a" * 20_001, "a.txt has 20,001 bytes; at most 20,000 are read"),
])  # fmt: skip
def test_files_that_are_refused(address, new_page, name, content, said):
    page = new_page()
    page.goto(address)
    page.click("#run")
    expect(page.locator("#results article")).to_have_count(1)
    body = content if isinstance(content, bytes) else content.encode()
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": body})
    expect(page.locator("#error")).to_have_text(said)
    expect(page.locator("#results")).to_be_empty()


def test_a_link_has_the_form_and_no_server_gets_it(address, new_page):
    text, asked = "secret & <b>\nשלום #1+1", []
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    open_action(page, address, "translate")
    page.fill("#field-text", text)
    page.uncheck("#option-attention")
    page.click("text=Copy link")
    link = copied(page, "#action=")
    assert parse_qs(link.split("#")[1])["field-text"] == [text]
    other = new_page()
    other.on("request", lambda request: asked.append(request))
    other.goto(link)
    expect(other.locator("nav [aria-pressed=true]")).to_have_text("Translate")
    assert other.input_value("#field-text") == text
    assert not other.is_checked("#option-attention")
    assert all(x.url.startswith(address) and "secret" not in x.url for x in asked)
    assert {x.method for x in asked} == {"GET"}  # nothing is computed before one presses
    other.goto(f"{address}/#action=dance")
    expect(other.locator("#error")).to_contain_text("dance")
    page.click("#run")
    expect(page.locator("#results article")).to_have_count(2)
    page.click("text=Copy results")
    table = copied(page, "translation").splitlines()
    assert table[0].split("\t") == ["text", "translation"] and len(table) == 3


def copied(page, part):
    """Return what is in the clipboard when it has a part."""
    page.wait_for_function(
        "(part) => navigator.clipboard.readText().then((text) => text.includes(part))", arg=part
    )
    return page.evaluate("navigator.clipboard.readText()")


def test_rows_of_the_dev_set(address, new_page):
    page = new_page()
    open_action(page, address, "tag")
    assert page.locator(".examples button").count() == 2  # the third is no row
    assert page.input_value("#field-text") == EXAMPLES[0]["text"]
    page.click(".examples button:nth-of-type(2)")
    assert page.input_value("#field-text") == "Ada and Bob"


def test_words_for_masks_are_marked(address, new_page):
    page = new_page()
    open_action(page, address, "fill")
    page.fill("#field-text", "Ada [MASK] fast AWAY [MASK]")
    page.click("#run")
    expect(page.locator("article mark")).to_have_text(["away", "away"])
    expect(page.locator("article p:nth-of-type(2)")).to_have_text("Ada away fast AWAY away")
    expect(page.locator(".scores").first).to_contain_text("…s")
