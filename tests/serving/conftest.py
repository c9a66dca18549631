"""Toy modules, each written once."""

import pytest

from tests.serving import toys


@pytest.fixture(scope="session")
def module_of(tmp_path_factory):
    """Return a function of a kind of toy to its path."""
    paths = {}

    def path(kind):
        if kind not in paths:
            paths[kind] = toys.make(kind, tmp_path_factory.mktemp(kind) / kind)
        return str(paths[kind])

    return path
