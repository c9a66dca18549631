import json

import pytest

from tests.support import golden
from tfnlp.text import read_bpe, write_bpe

TOKENS = ["a", "b", "é</w>", "ab", "abé</w>"]
MERGES = [("a", "b"), ("ab", "é</w>")]
NAMES = [
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
    ("vocab.json", "merges.txt"),
]


def put(folder, tokens='{"a": 0, "b": 1, "ab": 2}', merges="#version: 0.2\na b\n", names=NAMES[0]):
    for name, content in zip(names, (tokens, merges), strict=True):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("names", NAMES)
def test_reads_all_names(tmp_path, names):
    put(tmp_path, names=names)
    assert read_bpe(tmp_path) == (["a", "b", "ab"], [("a", "b")])


@pytest.mark.parametrize(
    "merges", ["a b", "a b\n", "#version: 0.2\r\na b\r\n", "\ufeff#version: 0.2\na b"]
)
def test_line_ends_and_versions(tmp_path, merges):
    assert read_bpe(put(tmp_path, merges=merges))[1] == [("a", "b")]


def test_a_merge_may_look_like_a_comment(tmp_path):
    put(tmp_path, '{"#": 1, "##": 0, "#v": 2, "v": 3}', "#version: 0.2\n# #\n# v\n")
    assert read_bpe(tmp_path) == (["##", "#", "#v", "v"], [("#", "#"), ("#", "v")])


def test_write_then_read(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_bpe(folder, TOKENS, MERGES)
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.json", "vocab.bpe"]
    assert json.loads((folder / "encoder.json").read_text())["abé</w>"] == 4
    assert read_bpe(folder) == (TOKENS, MERGES)
    assert (folder / "vocab.bpe").stat().st_mode & 0o777 == 0o644
    write_bpe(folder, TOKENS[:4], MERGES[:1])
    assert read_bpe(folder) == (TOKENS[:4], MERGES[:1])


def test_failed_writing_leaves_the_old_files(tmp_path):
    write_bpe(tmp_path, TOKENS, MERGES)
    for tokens, merges, message in [
        (TOKENS, [("a", "a")], "^merges .*merge 0, .*'aa'"),
        (["a", " b", "a b"], [("a", " b")], "^merges .*merge 0"),
        ([], [], "^tokens"),
        (["a", ""], [], "^tokens .*token 1"),
        (["a"], ["ab"], "^merges .*merge 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_bpe(tmp_path, tokens, merges)
    assert read_bpe(tmp_path) == (TOKENS, MERGES)
    assert len(list(tmp_path.iterdir())) == 2


def test_parts_of_a_vocabulary(tmp_path):
    tokens, merges = read_bpe(golden("gpt2_openai_tf"))
    there = {token: i for i, token in enumerate(tokens) if token is not None}
    assert there == json.loads((golden("gpt2_openai_tf") / "encoder.json").read_text())
    assert len(tokens) == 13435 and ("r", "e") in merges
    write_bpe(tmp_path, tokens, merges)
    assert read_bpe(tmp_path) == (tokens, merges)


@pytest.mark.parametrize(
    "tokens, message",
    [
        ('{"a": 0', r"encoder\.json"),
        ("{}", r"encoder\.json"),
        (b'{"\xff": 0}', r"encoder\.json .*byte 2"),
        ('{"a": -1}', r"encoder\.json .*'a' the id -1"),
        ('{"a": 0, "b": 0}', r"encoder\.json .*'a' and 'b'"),
        ('{"a": 0, "a": 1}', r"encoder\.json .*'a' twice"),
        ('{"a": 1000000000}', r"encoder\.json .*'a' the id 1000000000"),
        ('{"": 0}', r"encoder\.json .*token 0"),
    ],
)
def test_faulty_tokens(tmp_path, tokens, message):
    with pytest.raises(ValueError, match=message):
        read_bpe(put(tmp_path, tokens))


@pytest.mark.parametrize(
    "merges, message",
    [
        ("#version: 0.2\na b\na b ab\n", r"vocab\.bpe .*line 3"),
        ("a  b\n", r"vocab\.bpe .*line 1"),
        ("b a\n", r"vocab\.bpe .*merge 0, .*encoder\.json .*'ba'"),
        (b"a \xe9\n", r"vocab\.bpe .*byte 2"),
        (b"a \0\n", r"vocab\.bpe"),
    ],
)
def test_faulty_merges(tmp_path, merges, message):
    with pytest.raises(ValueError, match=message):
        read_bpe(put(tmp_path, merges=merges))


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no vocabulary; expected encoder.json"):
        read_bpe(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        read_bpe(tmp_path / "nowhere")
    put(tmp_path)
    with pytest.raises(FileNotFoundError, match="vocab.bpe is not a folder"):
        read_bpe(tmp_path / "vocab.bpe")
    (tmp_path / "vocab.bpe").unlink()
    with pytest.raises(FileNotFoundError, match="has encoder.json but lacks vocab.bpe"):
        read_bpe(tmp_path)
