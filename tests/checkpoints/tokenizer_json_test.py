"""Vocabularies: their case, and `tokenizer.json`, which gives the ids of its own library.

Or it is refused with what is different.
"""

import gzip
import json
import types

import pytest
from tokenizers import Tokenizer

from tests.checkpoints.checkpoints import GENERATED
from tests.checkpoints.faults import one_line
from tests.support import golden
from tfnlp.checkpoints.tokenizers.byte_pairs import GPT_BYTE_PAIRS, RobertaFiles, write_gpt_json
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE, WordPieces, is_lowercase
from tfnlp.text import GPT2Tokenizer, train_bpe

PLAIN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True}
PREFIX = {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
SMALL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
IDS = {token: i for i, token in enumerate(SMALL)}
TEXTS = [item["text"] for item in json.loads(golden("tokenizer_golden.json").read_text())["items"]]
# Special tokens written in a text are plain text here.
TEXTS = [text for text in TEXTS if "[CLS]" not in text and "<|endoftext|>" not in text]


def vocabulary(case):
    data = gzip.decompress(golden(f"bert_base_{case}_vocab.txt.gz").read_bytes())
    return data.decode().removesuffix("\n").split("\n")


def library_ids(path, texts):
    tokenizer = Tokenizer.from_file(str(path))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def edited(path, change):
    contents = json.loads(path.read_text())
    change(contents)
    path.write_text(json.dumps(contents))
    return path


def assert_same_ids(tokenizer, path, texts=TEXTS):
    theirs = library_ids(path, texts)
    ours = tokenizer.tokenize(texts).to_list()
    assert [t for t, a, b in zip(texts, ours, theirs, strict=True) if a != b] == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_gives_the_ids_of_the_library(tmp_path, lowercase):
    tokens = vocabulary("uncased" if lowercase else "cased")
    WORDPIECE.write(str(tmp_path), WordPieces(tokens, lowercase), 512)
    (tmp_path / "vocab.txt").unlink()
    found = WORDPIECE.find(tmp_path, None, None, len(tokens))
    assert found.lowercase is lowercase
    tokenizer = found.make()
    assert tokenizer.vocabulary == tokens
    assert_same_ids(tokenizer, tmp_path / "tokenizer.json")
    pair = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("a", "b")
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]


@pytest.mark.slow
def test_bytes_give_the_ids_of_the_library(tmp_path):
    """As GPT-2's, and with the special tokens of RoBERTa around them."""
    tokens, merges = train_bpe(TEXTS, 600, "gpt2")
    write_gpt_json(str(tmp_path), tokens, merges, of_bytes=True)
    tokenizer = GPT_BYTE_PAIRS.find(tmp_path, None, None, 600).make()
    assert (tokenizer.kind, tokenizer.vocabulary) == ("gpt2", tokens)
    assert tokenizer.merges == merges
    assert_same_ids(tokenizer, tmp_path / "tokenizer.json")

    ends = dict(cls_id=0, pad_id=1, sep_id=2, unk_id=3, mask_id=len(tokens) + 3)
    around = ["<s>", "<pad>", "</s>", "<unk>", *tokens[:-1], "<mask>"]
    files = RobertaFiles(GPT2Tokenizer)
    written = types.SimpleNamespace(vocabulary=around, merges=merges, marks=(), **ends)
    files.write(str(tmp_path), written, 512)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).unlink()
    found = files.find(tmp_path, None, None, len(around))
    assert found.make().vocabulary == around
    assert_same_ids(found.make(), tmp_path / "tokenizer.json")
    pair = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("a", "b")
    assert pair.tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]


def normalizer(**changes):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, **changes}


@pytest.mark.parametrize(
    "part, value, lowercase",
    [
        ("normalizer", normalizer(lowercase=False, strip_accents=False), False),
        (
            "normalizer",
            {
                "type": "Sequence",
                "normalizers": [normalizer(lowercase=True), {"type": "Lowercase"}],
            },
            True,
        ),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}]}, 1),
    ],
)
def test_other_words_for_the_same(tmp_path, part, value, lowercase):
    WORDPIECE.write(str(tmp_path), WordPieces(SMALL, True), 512)
    edited(tmp_path / "tokenizer.json", lambda contents: contents.update({part: value}))
    path = tmp_path / "tokenizer.json"
    assert WORDPIECE.find(tmp_path, path, None, 99).lowercase == lowercase


@pytest.mark.parametrize(
    "part, value",
    [
        ("normalizer", {"type": "Lowercase"}),
        ("normalizer", normalizer(lowercase=True, strip_accents=False)),
        ("added_tokens", [{"id": 7, "content": "#a", "special": False, **PLAIN}]),
        ("model", {"type": "WordLevel", "vocab": IDS, "unk_token": "[UNK]"}),
    ],
)
def test_wordpieces_of_other_kinds_are_cut_as_the_file_says(tmp_path, part, value):
    """Beside a `vocab.txt`, too, which does not tell how text is cleaned."""
    WORDPIECE.write(str(tmp_path), WordPieces(SMALL, True), 512)
    path = edited(tmp_path / "tokenizer.json", lambda contents: contents.update({part: value}))
    texts = ["AB áb ab", "ab\u0301 á \tb", "x#a ab##b", "[MASK]ab [SEP]"]
    assert_same_ids(WORDPIECE.find(tmp_path, None, None, 99).make(), path, texts)


def test_a_part_that_is_not_exact_is_refused_by_its_name(tmp_path):
    """The weights can be loaded; the tokenizer can't be made."""
    WORDPIECE.write(str(tmp_path), WordPieces(SMALL, True), 512)
    part = {"pre_tokenizer": {"type": "UnicodeScripts"}}
    path = edited(tmp_path / "tokenizer.json", lambda contents: contents.update(part))
    make = WORDPIECE.find(tmp_path, None, None, 99).make
    one_line(f"{path} has pre_tokenizer UnicodeScripts, which", ValueError, make)


@pytest.mark.parametrize(
    "part, value, pattern",
    [
        ("normalizer", {"type": "NFC"}, None),
        ("pre_tokenizer", {"type": "ByteLevel", **PREFIX}, None),
        ("model.ignore_merges", True, None),
        ("model.type", "Unigram", "tokenizer.json is truncated, corrupt"),
        ("model.merges", ["a b c"], "has 'a b c' as merge 0; expected two symbols"),
        ("model.vocab", {"a": 0, "b": 2}, "gives no token the id 1"),
        ("model.vocab", {"a": 0, "b": 0}, "gives the id 0 to 'a' and to 'b'"),
    ],
)
def test_byte_pairs_of_other_kinds_are_merged_or_refused(tmp_path, part, value, pattern):
    write_gpt_json(str(tmp_path), ["a", "b", "ab"], [("a", "b")], of_bytes=True)

    def change(contents):
        place, _, name = part.rpartition(".")
        (contents[place] if place else contents)[name] = value

    edited(tmp_path / "tokenizer.json", change)
    found = GPT_BYTE_PAIRS.find(tmp_path, None, None, 9)
    if pattern is None:
        assert_same_ids(found.make(), tmp_path / "tokenizer.json", ["ab abb", "a", "e\u0301b"])
    else:
        one_line(pattern, ValueError, found.make)


LOWER, UPPER = ["[PAD]", "[CLS]", "<S>", "the", "##ing", "é"], ["[PAD]", "the", "##Ing"]


@pytest.mark.parametrize(
    "folder, file, tokens, settings, expected",
    [
        ("x", "vocab.txt", LOWER, None, True),
        ("x", "vocab.txt", UPPER, None, False),
        ("uncased_L-2_H-128_A-2", "vocab.txt", UPPER, None, True),
        ("multi_cased_L-12_H-768_A-12", "vocab.txt", LOWER, None, False),
        ("cased", "bert-uncased-vocab.txt", UPPER, None, True),
        ("uncased", "vocab.txt", LOWER, {"do_lower_case": False}, False),
    ],
)
def test_case(tmp_path, folder, file, tokens, settings, expected):
    folder = tmp_path / folder
    folder.mkdir()
    path = folder / file
    path.write_text("\n".join(tokens))
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert is_lowercase(folder, path, tokens) is expected


def test_case_that_is_not_a_boolean(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    with pytest.raises(ValueError, match="do_lower_case='no'"):
        is_lowercase(tmp_path, tmp_path / "vocab.txt", LOWER)


def test_lowercase_argument_comes_first():
    found = {case: WORDPIECE.find(golden(GENERATED), None, case, 200) for case in (None, False)}
    assert (found[None].lowercase, found[False].lowercase) == (True, False)
    folder = golden("bert_xsmall_dummy_pt")  # it has capitals
    assert WORDPIECE.find(folder, None, None, 10**6).lowercase is False
