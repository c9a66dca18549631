"""What is left to do of examples whose making was interrupted."""

import types

import pytest

pytest.importorskip("apache_beam")

from tfnlp.data.shards import examples  # noqa: E402
from tfnlp.data.shards.folder import Folder  # noqa: E402
from tfnlp.data.shards.pieces import piece_name, read_name, text_name  # noqa: E402


def test_texts_that_were_read_are_tokenized_without_reading_the_file_again(tmp_path):
    folder, plans = Folder(tmp_path / "made"), []
    folder.make()
    files = {  # chunks of each if it was read to its end, those tokenized, those with their text
        "whole": (2, {0, 1}, {}),
        "read": (3, {1}, {0, 2}),
        "damaged": (3, {1}, {0}),  # and chunk 2 has neither
        "begun": (None, {0}, {1}),
    }
    for number, (chunks, pieces, texts) in enumerate(files.values()):
        if chunks is not None:
            folder.write_noted(read_name(number), b"", chunks=chunks)
        for name, those in ((piece_name, pieces), (text_name, texts)):
            for chunk in those:
                folder.write_noted(name(number, chunk), b"content")

    class Runner:
        def run(self, build, *_):
            plans.append((build.keywords["todo"], build.keywords["left"]))
            raise KeyboardInterrupt

    paths = [tmp_path / f"{name}.txt" for name in files]
    for path in paths:
        path.write_text("A text.\n")
    settings = {"input": [[str(p), None] for p in paths], "valid": None, "layout": "lines",
                "chunk": 9}  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        examples._table(folder, settings, types.SimpleNamespace(paragraphs=False), Runner())
    assert plans == [([2, 3], [(1, 0), (1, 2)])]
