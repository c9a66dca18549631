"""The command line of the translation benchmark."""

import pytest

pytest.importorskip("sacrebleu")
from benchmarks import translation  # noqa: E402


def test_runs_stand_behind_the_files(tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).write_text("a\n")
    files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    with pytest.raises((ValueError, OSError), match="nowhere"):
        translation.main([*files, f"a model={tmp_path / 'nowhere'}"])
