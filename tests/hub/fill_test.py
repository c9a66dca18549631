"""Masked words filled in by one module: against the model taken text by text."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp.hub.modules.fill import FillModule
from tfnlp.models import bert, bert_pretrainer
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer

pytestmark = pytest.mark.slow

WORDS = "the cat sat on mat walk dog [ ] cls mask ##ing ##ed .".split()
TOKENS = [*SPECIAL_TOKENS, *WORDS]
TEXTS = ["the [MASK] sat", "no mask", "", "[MASK]", "walk [MASK] [MASK].the[MASK]"]
TEXTS += ["[CLS] the [mask]"]


def model(positions=16, **heads):
    keras.utils.set_random_seed(1)
    encoder = bert(
        len(TOKENS) + 3, 1, 16, 2, 32, max_positions=positions, initializer_range=0.5
    )  # a table with more rows than tokens
    return bert_pretrainer(encoder, **heads)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(TOKENS)


def ids_of(text, tokenizer):
    """Ids of a text, by Python."""
    ids = []
    for index, part in enumerate(text.split("[MASK]")):
        ids += [tokenizer.mask_id] * (index > 0)
        ids += tokenizer.tokenize([part]).to_list()[0]
    return ids


def expected(pretrainer, tokenizer, text, limit):
    """For each mask its probabilities `[V]`, one text at a time, without padding."""
    ids = [tokenizer.cls_id, *ids_of(text, tokenizer)[: limit - 2], tokenizer.sep_id]
    row = tf.constant([ids])
    places = [i for i, token in enumerate(ids) if token == tokenizer.mask_id]
    if not places:
        return np.zeros([0, tokenizer.vocab_size])
    logits = pretrainer(
        {
            "input_word_ids": row,
            "input_mask": tf.ones_like(row),
            "input_type_ids": tf.zeros_like(row),
            "masked_lm_positions": tf.constant([places]),
        }
    )["mlm_logits"].numpy()[0, :, : tokenizer.vocab_size]
    powers = np.exp(logits.astype("float64"))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("positions, next_sentence", [(16, True), (6, False)])
def test_a_batch_is_its_texts_one_by_one(tokenizer, positions, next_sentence):
    pretrainer = model(positions, next_sentence=next_sentence)
    module = FillModule(pretrainer, tokenizer, top=4)
    found = {name: x.numpy() for name, x in module(tf.constant(TEXTS)).items()}
    assert found["tokens"].shape == found["probabilities"].shape == (6, 3, 4)
    cut = 0
    for row, text in enumerate(TEXTS):
        want = expected(pretrainer, tokenizer, text, positions)
        cut += text.count("[MASK]") - len(want)
        order = np.argsort(-want, axis=-1)[:, :4]
        masks = len(want)
        np.testing.assert_allclose(
            found["probabilities"][row, :masks],
            np.take_along_axis(want, order, -1),
            rtol=2e-4,
        )
        assert found["tokens"][row, :masks].tolist() == [
            [TOKENS[i].encode() for i in best] for best in order
        ]
        assert not found["probabilities"][row, masks:].any()
        assert set(found["tokens"][row, masks:].ravel().tolist()) <= {b""}
        written = text
        for best in order[:, 0]:
            token = TOKENS[best]
            if token.startswith("##"):
                head, tail = written.split("[MASK]", 1)
                written = head.rstrip() + token[2:] + tail
            else:
                written = written.replace("[MASK]", token, 1)
        assert found["text"][row].decode() == written
    assert cut == (0 if positions == 16 else 1)  # "walk [MASK] [MASK] . the" has no room for more


def test_a_continuation_joins_the_word_before(tokenizer):
    pretrainer = model()
    bias = np.zeros(len(TOKENS) + 3, "float32")
    bias[TOKENS.index("##ing")] = 1e4
    pretrainer.get_layer("masked_lm_bias").set_weights([bias])
    found = FillModule(pretrainer, tokenizer)(
        tf.constant(["walk \t[MASK] on", "[MASK]  [MASK]", "a walk[MASK] .", "none "])
    )
    assert [text.decode() for text in found["text"].numpy()] == [
        "walking on",
        "inging",
        "a walking .",
        "none ",
    ]
    assert found["tokens"][0, 0, 0] == b"##ing"


def test_no_masks_and_no_texts(tokenizer):
    module = FillModule(model(), tokenizer, top=2)
    found = module(tf.constant(["the cat", ""]))
    assert found["tokens"].shape == found["probabilities"].shape == (2, 0, 2)
    assert found["text"].numpy().tolist() == [b"the cat", b""]
    assert module(tf.constant([], "string"))["tokens"].shape == (0, 0, 2)


def test_a_model_without_a_head_is_refused(tokenizer):
    for pretrainer in (model(masked_lm=False), None):
        with pytest.raises(ValueError, match="no masked-LM head"):
            FillModule(pretrainer, tokenizer)
