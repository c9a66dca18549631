"""Libraries that seem absent while others are imported."""

import gc
import importlib
import sys

import pytest

from tfnlp import quick_imports


def test_extras_are_absent_inside_and_there_afterwards(tmp_path, monkeypatch):
    (tmp_path / "an_extra.py").write_text("here = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(quick_imports, "_EXTRAS", ("an_extra", "json"))
    json = sys.modules["json"]
    with pytest.raises(ImportError), quick_imports.quick_imports():
        assert sys.modules["json"] is json  # what was imported before stays
        importlib.import_module("an_extra")
    assert importlib.import_module("an_extra").here
    del sys.modules["an_extra"]


@pytest.mark.parametrize("before", [True, False])
def test_no_garbage_is_looked_for_meanwhile(before):
    was = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        with pytest.raises(KeyError), quick_imports.quick_imports():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == before
    finally:
        (gc.enable if was else gc.disable)()
