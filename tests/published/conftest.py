"""A Hub on this machine, for the test process and for those that it starts."""

import os

import pytest

from tests.published.hub_server import serving

constants = pytest.importorskip("huggingface_hub.constants")
_OF_THE_USER = ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty Hub, and an empty cache in `tmp_path / "hf" / "hub"`."""
    for name in _OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "hf"
    with serving() as server:
        # For new processes; this one has read them when huggingface_hub was imported.
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(home))
        for name, value in {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_HUB_OFFLINE": False,
            "HF_TOKEN_PATH": os.devnull,
        }.items():
            monkeypatch.setattr(constants, name, value)
        yield server
