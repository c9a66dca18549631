"""RoBERTa's tokenizer against the tokenizers library, on the published byte-level vocabulary."""

import functools
import json

import pytest
import tensorflow as tf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.support import golden, shared_data
from tfnlp.text import (
    ROBERTA_TOKENS,
    GPT2Tokenizer,
    RobertaTokenizer,
    read_bpe,
    tokenizer_candidates,
    train_roberta_bpe,
)

TRAINING = ["the cat sat on the mat and the dog sat on the log, but the rat ran"] * 3
MORE = ["", " ", "  two  spaces, ", "a\n\nb\t c", "<s> plain </s>", "I'll say 'no'", "x" * 300]


@functools.cache
def published():
    """The published tokens with RoBERTa's special ones around them."""
    tokens, merges = read_bpe(shared_data("vocab/gpt2"))
    return [*ROBERTA_TOKENS[:4], *tokens[:-1], ROBERTA_TOKENS[4]], merges


@functools.cache
def small():
    return train_roberta_bpe(TRAINING, 300)


def reference(pair):
    """The same tokenizer of the library; special tokens in a text are plain, as ours reads them."""
    tokens, merges = pair
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    ends = (("</s>", ids["</s>"]), ("<s>", ids["<s>"]))
    tokenizer.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False)
    return tokenizer


@pytest.mark.parametrize("pair", [pytest.param(published, marks=pytest.mark.slow), small])
def test_ids_are_those_of_tokenizers(pair):
    items = json.loads(golden("tokenizer_golden.json").read_text(encoding="utf-8"))["items"]
    texts = [item["text"] for item in items] + MORE
    tokenizer, other = RobertaTokenizer(pair()), reference(pair())
    ids = tokenizer.tokenize(texts)
    assert ids.to_list() == [other.encode(text, add_special_tokens=False).ids for text in texts]
    assert tokenizer.detokenize(ids).numpy().tolist() == [text.encode() for text in texts]
    words = tokenizer.tokenize_words(texts)
    assert words.shape.rank == 3 and words.merge_dims(1, 2).to_list() == ids.to_list()
    assert all(word for row in words.to_list() for word in row)
    for text, row in zip(texts, words.to_list(), strict=True):
        cut = [word for word, _ in other.pre_tokenizer.pre_tokenize_str(text)]
        assert [len(word) for word in row] == [len(other.model.tokenize(word)) for word in cut]


@pytest.mark.slow
def test_attributes_and_special_tokens():
    tokens, merges = published()
    tokenizer = RobertaTokenizer(published())
    ids = [tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id, tokenizer.unk_id]
    assert ids == [0, 1, 2, 3] and tokenizer.mask_id == 50260 == tokenizer.vocab_size - 1
    assert tokenizer.vocabulary == tokens and tokenizer.merges == merges
    # Shifted by the special tokens before them; written in a text they are plain.
    text = ["<s> Hello<mask>"]
    plain = GPT2Tokenizer(shared_data("vocab/gpt2")).tokenize(text)
    assert tokenizer.tokenize(text).to_list() == (plain + 4).to_list()
    assert tokenizer.detokenize(tf.constant([[0, 4, 2, 1, 1]])).numpy() == [b"!"]
    continues = tokenizer.is_continuation.numpy()
    assert not continues[[0, 1, 2, 3, 50260]].any()
    for token in ("the", "!", "Ġthe", "ĠThe", "Ċ", "é"):
        assert continues[tokens.index(token)] == (token[0] not in "ĠĊ")


def test_training_puts_special_tokens_first():
    tokens, merges = small()
    assert tuple(tokens[:5]) == ROBERTA_TOKENS and len(tokens) == 5 + 256 + len(merges)
    assert "<|endoftext|>" not in tokens and len(train_roberta_bpe(TRAINING, 270)[0]) == 270
    with pytest.raises(ValueError, match="vocab_size=260 .* pass vocab_size >= 261"):
        train_roberta_bpe(TRAINING, 260)


def test_vocabularies_without_special_tokens_are_refused():
    with pytest.raises(ValueError, match="lacks <pad>, <mask>"):
        tokens, merges = small()
        RobertaTokenizer(([x for x in tokens if x not in ("<pad>", "<mask>")], merges))


@pytest.mark.slow
def test_files_come_back(tmp_path):
    tokenizer = RobertaTokenizer(small())
    tokenizer.write(tmp_path)
    first, *_ = (make() for make in tokenizer_candidates(str(tmp_path), []))
    assert isinstance(first, RobertaTokenizer) and first.vocabulary == tokenizer.vocabulary
    special = {name: int(i) for name, i in tokenizer.special_tokens_dict().items()}
    assert special["mask_id"] == 4 and special["padding_id"] == 1
