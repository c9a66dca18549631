"""Damaged vocabularies: an error in one line that names the file, or a list that makes sense."""

import json

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.damage import changed, damaged, settings, survives
from tests.support import golden
from tfnlp.convert.tokenizers.wordpiece import is_lowercase, vocabulary_lines
from tfnlp.text import (
    SPECIAL_TOKENS,
    SPECIAL_WORDS,
    WordPieceTokenizer,
    gpt_tokenizer,
    read_bpe,
    read_vocabulary,
    read_words,
    write_bpe,
    write_vocabulary,
    write_words,
)

PIECES = [*SPECIAL_TOKENS, "the", "##s", "é", "\u2028x", "中"]
WORDS = [*SPECIAL_WORDS, "the", "didn't", "é", "中"]
TOKENS = {token: i for i, token in enumerate(["<unk>", "a", "b", "ab", "c</w>", "abc</w>", "\n"])}
MERGES = "#version: 0.2\na b\nab c</w>\n"
LINES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["", "##", "a" * 300, "x" * 10**6, "\r", "a\rb", "\0", "\u2028", "\ufeff",
                     "[UNK]", "<S>", "a b", "a  b", "a b c", " ", "#version: 9", "\x85"]),
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])


def broken(lines):
    """Strategy: the lines with others put in, in any order, and any ends."""
    return st.builds(
        lambda kept, more, end: end.join(kept[: len(kept) // 2] + more + kept[len(kept) // 2 :]),
        st.permutations(lines),
        st.lists(LINES, max_size=3),
        ENDS,
    ).map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.long
@pytest.mark.parametrize(
    "lines, read, write",
    [(PIECES, read_vocabulary, write_vocabulary), (WORDS, read_words, write_words)],
)
@settings
@given(st.data())
def test_lists_of_words(folder, lines, read, write, data):
    path = folder / "vocab.txt"
    whole = "\n".join(lines).encode()
    content = data.draw(st.one_of(broken(lines), damaged(whole), st.binary(max_size=40)))
    path.write_bytes(content)
    if survives(lambda: read(path), path):
        found = read(path)
        assert len(found) == len(set(found)) and all(found)
        write(folder / "again.txt", found)
        assert read(folder / "again.txt") == found
    survives(lambda: vocabulary_lines(path), path)


IDS = st.one_of(
    st.integers(-1, 9),
    st.sampled_from([10**6, 10**7, 2**31, 10**12, 10**30, 1.0, 1.5, True, None, "0", [0], {"a": 0},
                     float("nan")]),
)  # fmt: skip


@pytest.mark.long
@settings
@given(
    st.one_of(
        changed(TOKENS).map(lambda value: json.dumps(value).encode()),
        st.dictionaries(LINES, IDS, max_size=4).map(
            lambda more: json.dumps({**TOKENS, **more}).encode()
        ),
        damaged(json.dumps(TOKENS).encode()),
        st.sampled_from([b'{"a": 0, "a": 0}', b"[" * 10**5, b'{"a":' * 10**5, b"\xef\xbb\xbf{}",
                         b'{"a": %b}' % (b"9" * 5000), b'{"\\ud800": 0}', b'[["a", 0]]', b"0"]),
    ),
    st.one_of(
        st.just(MERGES.encode()), broken(MERGES.split("\n")), damaged(MERGES.encode())
    ),
)  # fmt: skip
def test_byte_pairs(folder, tokens, merges):
    (folder / "encoder.json").write_bytes(tokens)
    (folder / "vocab.bpe").write_bytes(merges)
    if survives(lambda: read_bpe(folder), folder):
        pair = read_bpe(folder)
        write_bpe(folder / "again", *pair)
        assert read_bpe(folder / "again") == pair


@pytest.mark.long
def test_settings_of_a_tokenizer(folder):
    path, settings_path = folder / "words.txt", folder / "tokenizer_config.json"

    @settings
    @given(
        st.one_of(
            changed({"do_lower_case": True}).map(lambda value: json.dumps(value).encode()),
            damaged(b'{"do_lower_case": true}'),
        )
    )
    def check(content):
        settings_path.write_bytes(content)
        survives(lambda: is_lowercase(folder, path, ["a"]), settings_path)

    check()


# What is read makes a tokenizer, too: it takes seconds, so there are few examples.
few = hypothesis.settings(settings, max_examples=5)


@pytest.mark.slow
@few
@given(broken(PIECES))
def test_tokenizers_of_pieces(folder, content):
    path = folder / "pieces.txt"
    path.write_bytes(content)
    survives(lambda: WordPieceTokenizer(path).tokenize(["the thes 中\0é"]), path)


@pytest.mark.long
@few
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(7, 12), max_size=3),
       broken(MERGES.split("\n")[1:3]))  # fmt: skip
def test_tokenizers_of_byte_pairs(folder, more, merges):
    (folder / "vocab.json").write_text(json.dumps({**TOKENS, **more}))
    (folder / "merges.txt").write_bytes(merges)
    for name in ("encoder.json", "vocab.bpe"):
        (folder / name).unlink(missing_ok=True)
    survives(lambda: gpt_tokenizer(folder).tokenize(["abc ab\0é"]), folder)


def test_vocabularies_that_make_no_tokenizer(folder):
    path = folder / "special.txt"
    path.write_text("\n".join(SPECIAL_TOKENS))
    with pytest.raises(ValueError, match="special.txt makes no tokenizer .*besides the special"):
        WordPieceTokenizer(path)
    alone = folder / "alone"
    write_bpe(alone, ["a", "b</w>"], [])
    with pytest.raises(ValueError, match=f"vocabulary folder {alone} lacks <unk>"):
        gpt_tokenizer(alone)


def test_ids_that_are_left_out_take_no_memory(folder):
    """A part of a vocabulary may leave ids out, but not any number of them."""
    held = read_bpe(golden("gpt2_openai_tf"))[0]
    assert len(held) > 100 * sum(token is not None for token in held)
    sparse = folder / "sparse"
    sparse.mkdir()
    (sparse / "vocab.bpe").write_text("#version: 0.2\n")
    for i in (2**20, 10**12):
        (sparse / "encoder.json").write_text(json.dumps({"a": 0, "b": i}))
        assert not survives(lambda: read_bpe(sparse), sparse)
    (sparse / "encoder.json").write_text(json.dumps({"a": 0, "b": 2**20 - 1}))
    assert survives(lambda: read_bpe(sparse), sparse)
