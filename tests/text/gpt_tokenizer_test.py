import functools
import json

import pytest
import tensorflow as tf

from tests.support import golden
from tests.text import bpe_reference as reference
from tfnlp.text import GPT2Tokenizer, GPTTokenizer, gpt_tokenizer, write_bpe

MERGES = [("o", "w</w>"), ("l", "ow</w>"), ("e", "r</w>"), ("é", "é</w>")]
TOKENS = ["<unk>", *"lower", "\n</w>", "w</w>", "r</w>", "é", "é</w>"]
TOKENS += [left + right for left, right in MERGES] + ["<|endoftext|>"]


@functools.cache
def published():
    return gpt_tokenizer(reference.published("gpt1"))


def test_equals_openais_encoder():
    items = json.loads(golden("tokenizer_golden.json").read_text(encoding="utf-8"))["items"]
    texts = [item["text"] for item in items]
    expected = [item["gpt1_ids"] for item in items]
    assert published().tokenize(texts).to_list() == expected


def test_attributes():
    tokens, merges = reference.published("gpt1")
    tokenizer = published()
    assert type(tokenizer) is GPTTokenizer and tokenizer.kind == "gpt"
    assert tokenizer.vocab_size == 40478 and tokenizer.unk_id == 0
    assert tokenizer.end_id == 40477 and tokens[40477] == "\n</w>"
    assert tokenizer.vocabulary == tokens and tokenizer.merges == merges


def test_small_vocabulary():
    tokenizer = GPTTokenizer((TOKENS, MERGES))
    ids = tokenizer.tokenize(["Lower low", "low\nslow", "", "éé lé 博low"])
    assert [[t.decode() for t in row] for row in tokenizer.id_to_token(ids).to_list()] == [
        ["l", "o", "w", "er</w>", "low</w>"],
        ["low</w>", "\n</w>", "<unk>", "low</w>"],
        [],
        ["éé</w>", "l", "é</w>", "<unk>", "low</w>"],
    ]
    assert tokenizer.end_id == len(TOKENS) - 1


@pytest.mark.slow
def test_detokenize():
    tokenizer = GPTTokenizer((TOKENS, MERGES))
    ids = tokenizer.tokenize(["LOWER  low low", "low\nlow", ""])
    expected = [b"lower low low", b"low \n low", b""]
    assert tokenizer.detokenize(ids).numpy().tolist() == expected
    dense = ids.to_tensor(tokenizer.end_id)
    assert tokenizer.detokenize(dense).numpy().tolist() == expected
    # In the published vocabulary the line break ends a text.
    (one,) = published().tokenize(["low"]).to_list()[0]
    assert published().detokenize(tf.constant([[40477, one, one, 40477]])).numpy() == [b"low low"]


@pytest.mark.slow
def test_invalid_utf8_of_two_words_makes_no_character():
    tokenizer = GPTTokenizer((TOKENS, MERGES))
    ids = tokenizer.tokenize([b"low\xc3 \xa9low", b"l\xff"])
    assert tokenizer.vocabulary.index("é</w>") not in ids.flat_values.numpy()


@pytest.mark.slow
def test_the_right_class(tmp_path):
    write_bpe(tmp_path, TOKENS, MERGES)
    assert type(gpt_tokenizer(tmp_path)) is GPTTokenizer
    assert type(gpt_tokenizer((["a", "b", "ab"], [("a", "b")]))) is GPT2Tokenizer
    with pytest.raises(ValueError, match="^vocabulary lacks <unk>"):
        GPTTokenizer((TOKENS[1:], MERGES))
