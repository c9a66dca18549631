"""Damaged files of every format; `python -m benchmarks.damaged_files` reads thousands of them.

And vocabularies that make no tokenizer.
"""

import json

import pytest

from benchmarks.damaged_files import MEMORY, SECONDS, measure
from tests.fuzz.damage import damaged_bytes, damaged_json, damaged_lines, examples, survives
from tests.fuzz.formats import NAMES
from tests.support import golden
from tfnlp.checkpoints.tokenizers.wordpiece import is_lowercase
from tfnlp.text import (
    SPECIAL_TOKENS,
    SPECIAL_WORDS,
    WordPieceTokenizer,
    gpt_tokenizer,
    read_bpe,
    read_words,
    write_bpe,
)

WORDS = [*SPECIAL_WORDS, "the", "didn't", "é", "中"]


@pytest.mark.long
def test_lists_of_words_and_settings(tmp_path):
    path = tmp_path / "words.txt"
    for damage in (damaged_bytes, damaged_lines):
        for content in examples(damage, "\n".join(WORDS).encode(), 150):
            path.write_bytes(content)
            if survives(lambda: read_words(path), path):
                assert len(read_words(path)) == len(set(read_words(path)))
    settings = tmp_path / "tokenizer_config.json"
    for damage in (damaged_bytes, damaged_json):
        for content in examples(damage, b'{"do_lower_case": true}', 100):
            settings.write_bytes(content)
            survives(lambda: is_lowercase(tmp_path, path, ["a"]), settings)


def test_vocabularies_that_make_no_tokenizer(tmp_path):
    path = tmp_path / "special.txt"
    path.write_text("\n".join(SPECIAL_TOKENS))
    with pytest.raises(ValueError, match="special.txt makes no tokenizer"):
        WordPieceTokenizer(path)
    alone = tmp_path / "alone"
    write_bpe(alone, ["a", "b</w>"], [])
    with pytest.raises(ValueError, match=f"vocabulary folder {alone} lacks <unk>"):
        gpt_tokenizer(alone)


@pytest.mark.slow
def test_ids_that_are_left_out_take_no_memory(tmp_path):
    """A part of a vocabulary may leave ids out, but not any number of them."""
    held = read_bpe(golden("gpt2_openai_tf"))[0]
    assert len(held) > 100 * sum(token is not None for token in held)
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\n")
    for last, read in ((2**20, False), (10**12, False), (2**20 - 1, True)):
        (tmp_path / "encoder.json").write_text(json.dumps({"a": 0, "b": last}))
        assert survives(lambda: read_bpe(tmp_path), tmp_path) is read


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_only_documented_errors(name):
    result = measure(name, 300)
    counts = result.counts
    assert counts.total() == 300
    if "TensorFlow" not in name:  # whose own reader can end the process
        assert not result.errors and counts["read"]
        assert counts["refused"] or name == "README.md"  # which is text, whatever it holds
    assert not counts["not finite"] and not counts["hangs"]
    assert result.seconds < SECONDS and result.memory < MEMORY
