"""RoBERTa against Hugging Face's, whose numbers are in `goldens/roberta_huggingface`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.checkpoints.checkpoints import assert_hidden
from tests.support import golden
from tfnlp.checkpoints import load_roberta
from tfnlp.hub.modules.bert import BertPreprocessorModule
from tfnlp.hub.modules.fill import FillModule

FOLDER = golden("roberta_huggingface")


@pytest.fixture(scope="module")
def loaded():
    return load_roberta(FOLDER)


@pytest.fixture(scope="module")
def expected():
    with np.load(FOLDER / "expected.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def texts():
    return json.loads((FOLDER / "texts.json").read_text())


def batch(expected, more=0, before=0):
    """The inputs of the goldens, with more padding after them or before them."""
    pad = [[0, 0], [before, more]]
    return {
        "input_word_ids": np.pad(expected["input_ids"], pad, constant_values=1).astype("int32"),
        "input_mask": np.pad(expected["input_mask"], pad).astype("int32"),
        # RoBERTa has one segment: what is here is not read.
        "input_type_ids": np.full((2, 9 + before + more), 1, "int32"),
    }


def test_all_layers_and_logits(loaded, expected):
    """Positions are counted from the first token that is no padding."""
    more, before = 3, 2
    places = np.broadcast_to(np.arange(before, before + 9), (2, 9)).astype("int32")
    inputs = {**batch(expected, more, before), "masked_lm_positions": places}
    outputs = loaded.pretrainer(inputs)
    real = expected["input_mask"].astype(bool)
    rows = slice(before, before + 9)
    layers = {
        "embedding_output": outputs["embedding_output"][:, rows],
        "encoder_outputs": [layer[:, rows] for layer in outputs["encoder_outputs"]],
    }
    assert_hidden(layers, expected, real)
    logits = outputs["mlm_logits"].numpy()
    np.testing.assert_allclose(logits[real], expected["mlm_logits"][real], rtol=0, atol=5e-5)


@pytest.mark.slow
def test_ids_are_those_of_transformers(loaded, texts):
    tokenizer = loaded.tokenizer
    given = [text for text, _ in texts["ids"]]
    assert tokenizer.tokenize(given).to_list() == [ids for _, ids in texts["ids"]]
    assert tokenizer.detokenize(tokenizer.tokenize(given)).numpy().tolist() == [
        text.encode() for text in given
    ]
    words = tokenizer.tokenize_words(given).to_list()
    assert [[i for word in row for i in word] for row in words] == [ids for _, ids in texts["ids"]]
    module = BertPreprocessorModule(tokenizer, 12)
    first, second, ids = zip(*texts["pairs"], strict=True)
    packed = module.bert_pack_inputs([module.tokenize(list(first)), module.tokenize(list(second))])
    for row, mask, want in zip(packed["input_word_ids"], packed["input_mask"], ids, strict=True):
        assert row.numpy().tolist() == want + [1] * (12 - len(want))
        assert mask.numpy().sum() == len(want)
    assert not packed["input_type_ids"].numpy().any()


@pytest.mark.slow
def test_masks_are_filled_as_by_transformers(loaded, texts):
    fill = FillModule(loaded.pretrainer, loaded.tokenizer, top=5)
    for item in texts["masked"]:
        found = fill(tf.constant([item["text"]]))
        tokens = [
            [t.decode("utf-8", "replace") for t in mask] for mask in found["tokens"][0].numpy()
        ]
        assert tokens == item["tokens"]
        np.testing.assert_allclose(found["probabilities"][0], item["scores"], rtol=2e-4)
        (text,) = found["text"].numpy()
        assert b"<mask>" not in text
