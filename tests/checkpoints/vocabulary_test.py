"""Reading `vocab.txt` and finding out whether it is for lower-cased text."""

import json

import pytest

from tests.checkpoints.checkpoints import GENERATED
from tests.support import golden
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE, is_lowercase

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
