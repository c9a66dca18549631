"""What holds for every tokenizer: any batch, a `tf.data` pipeline, a SavedModel of a SavedModel."""

import functools
import gc
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text import (
    SPECIAL_TOKENS,
    GPT2Tokenizer,
    GPTTokenizer,
    RobertaTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_bpe,
    train_roberta_bpe,
    train_sentencepiece,
)

TEXTS = ["the cat sat on a mat, the dog sat", "a dog and the cats ran; the rats sat on it"] * 3
STRINGS = ["the Cats sat", "", "é" * 300, "dög\u200bs 博\n ran", b"sat\xff on", "it, it"]
PIECES = ["the", "cat", "##s", "sat", "on", ",", "dog", "##!"]

MAKERS = {
    "wordpiece": lambda: WordPieceTokenizer([*SPECIAL_TOKENS, *PIECES]),
    "sentencepiece": lambda: SentencePieceTokenizer(train_sentencepiece(TEXTS, 40)),
    "gpt": lambda: GPTTokenizer(train_bpe(TEXTS, 60, "gpt")),
    "gpt2": lambda: GPT2Tokenizer(train_bpe(TEXTS, 270)),
    "roberta": lambda: RobertaTokenizer(train_roberta_bpe(TEXTS, 275)),
}
ASSETS = {"wordpiece": ["vocab.txt"], "sentencepiece": ["spiece.model"]}


@functools.cache
def of(kind):
    return MAKERS[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_any_batch_eagerly_and_in_a_dataset(kind):
    tokenizer = of(kind)
    whole = tokenizer.tokenize(STRINGS)
    assert whole.dtype == tf.int32 and whole.to_list()[1] == []
    for text, row in zip(STRINGS, whole.to_list(), strict=True):  # no row depends on the others
        assert tokenizer.tokenize([text]).to_list() == [row]
    none = tokenizer.tokenize(tf.zeros([0], tf.string))
    assert none.to_list() == [] and tokenizer.detokenize(none).shape == [0]
    if hasattr(tokenizer, "tokenize_words"):
        words = tokenizer.tokenize_words(STRINGS)
        assert words.merge_dims(1, 2).to_list() == whole.to_list()
        assert all(word for row in words.to_list() for word in row)
        continues = tokenizer.is_continuation.numpy()
        for row in words.to_list():
            for before, word in zip([None, *row], row, strict=False):
                assert before is None or not continues[word[0]] or kind == "roberta"
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(STRINGS)).batch(4)
    dataset = dataset.map(tokenizer.tokenize, num_parallel_calls=2)
    assert [row for batch in dataset for row in batch.to_list()] == whole.to_list()
    assert dataset.element_spec.dtype == tf.int32
    with pytest.raises(tf.errors.InvalidArgumentError):
        tokenizer.detokenize(tf.constant([[tokenizer.vocab_size]]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_save_load_save_load(kind, tmp_path):
    tokenizer = MAKERS[kind]()
    assets = getattr(tokenizer, "vocabulary_assets", None) or [tokenizer.vocabulary_asset]
    copies = [asset.asset_path.numpy().decode() for asset in assets]
    special = {name: int(value) for name, value in tokenizer.special_tokens_dict().items()}
    assert special["vocab_size"] == tokenizer.vocab_size
    texts, tokens = tf.constant(STRINGS), tf.constant(tokenizer.vocabulary)
    loaded = tokenizer
    for generation in range(2):
        folder = tmp_path / f"generation{generation}"
        tf.saved_model.save(loaded, folder)
        names = sorted(path.name for path in (folder / "assets").iterdir())
        assert names == ASSETS.get(kind, ["encoder.json", "vocab.bpe"])
        loaded = tf.saved_model.load(str(folder))
        shutil.rmtree(tmp_path / f"generation{generation - 1}", ignore_errors=True)
        ids = loaded.tokenize(texts)
        assert ids.to_list() == tokenizer.tokenize(texts).to_list()
        layouts = [ids, ids.to_tensor()]
        if hasattr(tokenizer, "tokenize_words"):
            layouts.append(loaded.tokenize_words(texts))
            assert layouts[-1].to_list() == tokenizer.tokenize_words(texts).to_list()
        for layout in layouts[:2] if kind == "roberta" else layouts:
            np.testing.assert_array_equal(loaded.detokenize(layout), tokenizer.detokenize(layout))
            want = tf.ragged.map_flat_values(lambda x: tf.gather(tokens, x), layout)
            assert tf.reduce_all(loaded.id_to_token(layout) == want)
        assert {name: int(v) for name, v in loaded.special_tokens_dict().items()} == special
        dataset = tf.data.Dataset.from_tensors(texts).map(loaded.tokenize)
        assert next(iter(dataset)).to_list() == ids.to_list()
    del tokenizer, loaded, assets
    gc.collect()
    assert not any(map(os.path.exists, copies))


@pytest.mark.slow
def test_a_tokenizer_is_kept_alive_by_its_method():
    words = tf.data.Dataset.from_tensors(["cats"]).map(MAKERS["wordpiece"]().tokenize_words)
    assert next(iter(words)).to_list() == [[[6, 7]]]
    found = tf.data.Dataset.from_tensors(["the"]).map(MAKERS["gpt2"]().tokenize)
    assert next(iter(found)).to_list() == of("gpt2").tokenize(["the"]).to_list()
