"""Examples made by Beam, once for a whole run of pytest; no test writes to them."""

import json

import pytest


@pytest.fixture(scope="session")
def corpus(made):
    """The paths of a text."""
    from tests.data.examples_support import files_of, write_corpus
    from tests.made import once

    return files_of(once(made("bert").folder / "corpus", write_corpus))


@pytest.fixture(scope="session")
def examples_of(made, corpus):
    """A function of a model: the folder of its examples of the text, and their manifest."""
    from tests.data.examples_support import make
    from tests.made import once

    def found(model):
        folder = made(model).folder / f"{model}_examples"
        once(folder, lambda output: make(model, corpus, output))
        return folder, json.loads((folder / "manifest.json").read_text())

    return found
