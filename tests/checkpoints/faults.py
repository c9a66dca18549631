"""Errors of one line."""

import re

import pytest


def one_line(pattern, error, call, *arguments, **keywords):
    """The message of the error that a call raises: one line that the pattern is found in."""
    with pytest.raises(error) as raised:
        call(*arguments, **keywords)
    message = str(raised.value)
    assert "\n" not in message and len(message) < 1500
    assert re.search(pattern, message), message
    return message


def drain(open_file, path):
    """Dict of every tensor of a file."""
    tensors = open_file(path)
    return {name: tensors[name] for name in tensors}


def unreadable(open_file, path, pattern, error=ValueError):
    """Fails unless a file or one of its tensors gives an error in one line that names the file."""
    assert str(path) in one_line(pattern, error, drain, open_file, path)


def no_model_of(module, name="assign"):
    """A fixture that fails a test in which a loader makes a model of the weights."""

    @pytest.fixture
    def no_model(monkeypatch):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("a model was made"))

    return no_model
