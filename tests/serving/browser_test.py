"""The page in Chromium: every button of every kind of module."""

import re
import shutil
import threading

import pytest

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("uvicorn")

from tests.serving import toys  # noqa: E402
from tfnlp.serving.app import make_app  # noqa: E402
from tfnlp.serving.batching import Batcher  # noqa: E402
from tfnlp.serving.module import load_served  # noqa: E402
from tfnlp.serving.server import _bound, server_of  # noqa: E402
from tfnlp.settings.serve import ServeSettings  # noqa: E402

pytestmark = pytest.mark.long
# What the page shows of the toys' examples, by action.
SHOWN = {
    "classify": "0.024", "labels": "yes", "similarity": "score", "choose": "the sun burnt us.",
    "answer": "Lovelace", "tag": "name", "roles": "V", "search": "first", "outputs": "length",
    "fill": "away", "write": "the cat", "translate": "(end)",
    "neighbours": "A kitten is resting indoors.", "words": "cat",
}  # fmt: skip
CHANGED = {"write": {"#field-prompt": "the cat", "#option-max_new_tokens": "5"},
           "words": {"#field-word": "dog"}}  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed; `make browser` installs it")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.parametrize("kind", toys.KINDS)
def test_every_button(module_of, browser, kind):
    config = ServeSettings.make(module=module_of(kind), port=0)
    served = load_served(config.module)
    batcher = Batcher(served.run)
    server = server_of(make_app(served, config, batcher, True))
    with _bound("127.0.0.1", 0) as listening:
        listening.listen()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if failed(m) else None)
        try:
            page.goto(address)
            press_all(page, served)
            assert not errors
        finally:
            page.close()
            server.should_exit = True
            thread.join()
            batcher.close()


def failed(message):
    """Whether the console says an error that is none of the refusals that the test asks for."""
    return message.type == "error" and "status of 422" not in message.text


def press_all(page, served):
    sync_api.expect(page.locator("nav button")).to_have_count(len(served.actions))
    for action in served.actions.values():
        page.get_by_role("button", name=action.title, exact=True).first.click()
        sync_api.expect(page.locator("nav [aria-pressed=true]")).to_have_text(action.title)
        assert page.locator("form button").count() == 1  # the tabs and this one are all buttons
        for place, text in CHANGED.get(action.name, {}).items():
            page.fill(place, text)
        if action.name == "fill":
            page.fill("#field-text", "the [MASK] sat away")
        page.click("#run")
        results = page.locator("#results")
        sync_api.expect(results).to_contain_text(SHOWN[action.name], timeout=60000)
        assert page.locator("#json").is_visible()
        page.fill("textarea, form input", "")
        if action.name != "write":
            page.click("#run")
            sync_api.expect(page.locator("#error")).to_contain_text(re.compile("empty|no text"))
