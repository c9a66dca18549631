"""An encoder that fills masks, as a SavedModel from strings with masks to tokens and text."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.traced import Traced, Untracked, named
from tfnlp.text import pack_segments

_SPACES = r"[\s\x{B}\x{85}\p{Z}]+$"


class FillModule(Traced):
    """Module that predicts the tokens of each mask with a masked language model.

    A mask is the tokenizer's `mask_token`: `[MASK]` of a BERT, `<mask>` of a RoBERTa.

    `module(text)`, strings `[B]`, which is also the signature `serving_default`, returns a dict:

        tokens         strings  [B, M, k]  the k most probable for each mask, in descending order;
                                           the text they stand for, where tokens hold spaces
        probabilities  float32  [B, M, k]  a softmax over all tokens of the vocabulary
        text           strings  [B]        each mask replaced by its most probable token

    M is the largest number of masks of a text, 0 if there are none; texts with fewer masks are
    padded with `""` and 0. Only masks are special: `[CLS]` and the like are plain text. A text
    of more than T pieces is cut; masks after the cut stay as they are, without predictions. In
    `text`, a token that continues a word (`##ing`) is joined to the text before it. Where tokens
    hold the spaces before words, a mask takes the place of those before it, too.

    Args:
        pretrainer: from `tfnlp.models.bert_pretrainer`, with a masked-LM head.
        tokenizer: the sentence tokenizer it was trained with.
        top: k, at most the size of the vocabulary.

    T is the model's number of positions; `[CLS]` and `[SEP]` take two of them.
    """

    kind = "fill"  # what the module states of itself

    def __init__(self, pretrainer: keras.Model, tokenizer: Any, top: int = 5) -> None:
        super().__init__(pretrainer)
        check_head(pretrainer)
        self._tokenizer, self._model = tokenizer, Untracked(pretrainer)
        self._top = min(top, tokenizer.vocab_size)
        self._positions = pretrainer.get_layer("position_embedding").max_positions
        self.__call__.get_concrete_function(_TEXT)

    @tf.function(autograph=False)
    def __call__(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        def logits(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
            return self._model.value(inputs, training=False)["mlm_logits"]

        return fill_masks(text, self._tokenizer, logits, self._positions, self._top)

    def signatures(self) -> dict[str, Callable]:
        """Return strings to the dict above, for `tfnlp.hub.save`."""
        return {"serving_default": named(lambda text: self(text), text=_TEXT)}


_TEXT = tf.TensorSpec([None], "string", name="text")


def fill_masks(
    text: tf.Tensor, tokenizer: Any, logits: Callable, max_positions: int, top: int
) -> dict[str, tf.Tensor]:
    """Return the tokens for each mask of strings `[B]`, and the texts; see `FillModule`.

    `logits` is a function of a dict of `input_word_ids`, `input_mask`, `input_type_ids` `[B, T]`
    and `masked_lm_positions` `[B, P]` to logits `[B, P, V]`; T is at most `max_positions`.
    """
    pieces, parts = masked_pieces(tokenizer, text)
    length = tf.minimum(_largest(pieces.row_lengths()) + 2, max_positions)
    inputs = pack_segments([pieces], length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    masked = inputs["input_word_ids"] == tokenizer.mask_id  # [B, T]
    places = tf.ragged.boolean_mask(tf.zeros_like(masked, "int32") + tf.range(length), masked)
    masks = parts.row_lengths() - 1  # [B], including those after the cut
    most = _largest(masks)  # M
    # The head needs at least one position.
    width = tf.maximum(most, 1)
    positions = places.to_tensor(shape=tf.stack([-1, width]))  # [B, P]
    real = tf.sequence_mask(places.row_lengths(), width)  # [B, P]

    found = logits({**inputs, "masked_lm_positions": positions})
    values, ids = best_tokens(found, tokenizer, top)  # [B, P, k]
    tokens, texts = tokens_and_texts(tokenizer, ids)  # [B, P, k]
    best = tf.where(real, texts[:, :, 0], tokenizer.mask_token)  # [B, P]
    joined = tf.gather(tokenizer.is_continuation, ids[:, :, 0]) | tokenizer.keeps_spaces
    continues = joined & real
    return {
        "tokens": tf.where(real[..., None], tokens, "")[:, :most],
        "probabilities": tf.where(real[..., None], values, 0.0)[:, :most],
        "text": _written(
            parts,
            tf.RaggedTensor.from_tensor(best, masks),
            tf.RaggedTensor.from_tensor(continues, masks),
        ),
    }


def check_head(pretrainer: keras.Model | None) -> None:
    """Raise ValueError if `pretrainer` has no masked-LM head, or is None."""
    if pretrainer is None or "mlm_logits" not in pretrainer.output:
        raise ValueError("the model has no masked-LM head, so it can't fill masks")


def masked_pieces(tokenizer: Any, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Convert strings `[B]` with masks to ids, int32 ragged `[B, (pieces)]`.

    The second result, strings ragged `[B, (masks + 1)]`, is the text between the masks.
    """
    # The text between the masks is tokenized. The tokenizer itself reads "[MASK]" as three words,
    # like Google's, so that text can't contain special tokens.
    parts = tf.strings.split(texts, tokenizer.mask_token)  # [B, (parts)]
    if tokenizer.mask_token in tokenizer.marks:  # it reads masks itself, as its file says
        return tokenizer.tokenize(texts), parts
    read = parts.values  # [N]
    if tokenizer.keeps_spaces:  # the mask stands for the space before it, as in `transformers`
        bare = tf.strings.regex_replace(read, _SPACES, "")
        last = [tf.zeros_like(parts[:, 1:], "bool"), tf.ones_like(parts[:, :1], "bool")]
        read = tf.where(tf.concat(last, 1).values, read, bare)
    pieces = tokenizer.tokenize(read)  # [N, (pieces)]
    first, others = tf.zeros_like(parts[:, :1], "int64"), tf.ones_like(parts[:, 1:], "int64")
    counts = tf.concat([first, others], 1).values  # [N], masks before the part, 0 or 1
    masks = tf.fill([tf.reduce_sum(counts)], tokenizer.mask_id)
    masks = tf.RaggedTensor.from_row_lengths(masks, counts)
    return parts.with_values(tf.concat([masks, pieces], 1)).merge_dims(1, 2), parts


def best_tokens(logits: tf.Tensor, tokenizer: Any, top: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the probabilities and ids of the most probable tokens, `[..., top]` each.

    V of `[..., V]` may be larger than the vocabulary; the rest is ignored.
    """
    size = tokenizer.vocab_size
    best = tf.math.top_k(tf.nn.softmax(logits[..., :size]), min(top, size))
    return best.values, best.indices


def tokens_and_texts(tokenizer: Any, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the tokens of ids int32 of any shape, for people, and the texts they stand for."""
    tokens = tokenizer.id_to_token(ids)
    flat = tf.reshape(ids, [-1, 1])
    texts = tf.reshape(tokenizer.detokenize(flat), tf.shape(ids))
    texts = tf.where(texts == "", tokens, texts)  # special tokens have no text
    return (texts if tokenizer.keeps_spaces else tokens), texts


def _largest(lengths: tf.Tensor) -> tf.Tensor:
    """Return the maximum of int64 `[B]` as int32; 0 if B is 0."""
    return tf.cast(tf.reduce_max(tf.concat([lengths, [0]], 0)), "int32")


def _written(
    parts: tf.RaggedTensor, best: tf.RaggedTensor, continues: tf.RaggedTensor
) -> tf.Tensor:
    """Join the `parts` of texts with the texts `best` between them, ragged `[B, (masks)]`.

    `continues`, bool, says which of them take the place of the spaces before them.
    """
    edge = parts[:, :1]
    before = tf.concat([tf.zeros_like(edge), best], 1).values  # [N], the token before each part
    followed = tf.concat([continues, tf.zeros_like(edge, "bool")], 1).values
    bare = tf.strings.regex_replace(parts.values, _SPACES, "")
    return tf.strings.reduce_join(
        parts.with_values(before + tf.where(followed, bare, parts.values)), axis=1
    )
