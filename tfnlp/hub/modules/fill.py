"""Masked words filled in, as one SavedModel: strings with [MASK] in, tokens and text out."""

import os

import tensorflow as tf

from tfnlp.hub.saving.module import Hidden, without_seeds
from tfnlp.hub.saving.save import as_saved, check_free, save
from tfnlp.text import pack_segments
from tfnlp.text.wordpiece.vocabulary import CONTINUATION, MASK


class FillModule(tf.__internal__.tracking.AutoTrackable):
    """What a BERT's masked language model puts in the place of each `[MASK]`.

    `module(text)`, strings `[B]`, which is also the signature `serving_default`, returns a dict:

        tokens         strings  [B, M, k]  the k likeliest for each mask, the likeliest first
        probabilities  float32  [B, M, k]  of all tokens of the vocabulary
        text           strings  [B]        each mask replaced by its likeliest token

    M is the largest number of masks of a text, 0 if there are none; where a text has fewer, `""`
    and 0. Only `[MASK]`, so written, is special: `[CLS]` and the like are plain text. A text of
    more than T pieces is read up to there, and the masks behind stay as they are, without guesses.
    In `text`, a token that continues a word (`##ing`) is joined to what stands before it.

    Args:
        pretrainer: from `tfnlp.models.bert_pretrainer`, with a masked-LM head.
        tokenizer: the `tfnlp.text.WordPieceTokenizer` it was trained with.
        top: k; no more than the vocabulary has.

    T is the model's number of positions; `[CLS]` and `[SEP]` take two of them.

    Raises:
        ValueError: if there is no masked-LM head, `top` is below 1, or the vocabulary has more
            tokens than the model.
    """

    def __init__(self, pretrainer, tokenizer, top=5):
        super().__init__()
        check_head(pretrainer)
        if top < 1:
            raise ValueError(f"top={top} must be at least 1")
        size = pretrainer.get_layer("token_embedding").vocab_size
        if tokenizer.vocab_size > size:
            raise ValueError(
                f"vocabulary of {tokenizer.vocab_size} tokens, but the model has {size}; give the "
                "vocabulary that the model was trained with"
            )
        self._tokenizer, self._model = tokenizer, Hidden(pretrainer)
        self._top = min(top, tokenizer.vocab_size)
        self._positions = pretrainer.get_layer("position_embedding").max_positions
        self.variables = [v.value for v in without_seeds(pretrainer)]
        self.trainable_variables = [v.value for v in pretrainer.trainable_variables]
        self.regularization_losses = []
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string", name="text"))

    @tf.function(autograph=False)
    def __call__(self, text):
        tokenizer = self._tokenizer
        pieces, parts = masked_pieces(tokenizer, text)
        length = tf.minimum(_largest(pieces.row_lengths()) + 2, self._positions)
        inputs = pack_segments(
            [pieces], length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
        )
        masked = inputs["input_word_ids"] == tokenizer.mask_id  # [B, T]
        places = tf.ragged.boolean_mask(tf.zeros_like(masked, "int32") + tf.range(length), masked)
        masks = parts.row_lengths() - 1  # [B], those cut off too
        most = _largest(masks)  # M
        # The head is not made for no predictions at all.
        width = tf.maximum(most, 1)
        positions = places.to_tensor(shape=tf.stack([-1, width]))  # [B, P]
        real = tf.sequence_mask(places.row_lengths(), width)  # [B, P]

        logits = self._model.value({**inputs, "masked_lm_positions": positions}, training=False)
        values, ids = best_tokens(logits["mlm_logits"], tokenizer, self._top)  # [B, P, k]
        tokens = tokenizer.id_to_token(ids)
        best = tf.where(real, tokens[:, :, 0], MASK)  # [B, P]
        continues = tf.gather(tokenizer.is_continuation, ids[:, :, 0]) & real
        return {
            "tokens": tf.where(real[..., None], tokens, "")[:, :most],
            "probabilities": tf.where(real[..., None], values, 0.0)[:, :most],
            "text": _written(
                parts,
                tf.RaggedTensor.from_tensor(best, masks),
                tf.RaggedTensor.from_tensor(continues, masks),
            ),
        }

    def signature(self):
        """Strings to the dict above, for serving."""

        def serve(text):
            return self.__call__(text)

        spec = tf.TensorSpec([None], "string", name="text")
        return tf.function(serve, autograph=False).get_concrete_function(spec)


def check_head(pretrainer):
    """Raises ValueError if `pretrainer` (which may be None) can't fill masks."""
    if pretrainer is None or "mlm_logits" not in pretrainer.output:
        raise ValueError("the model has no masked-LM head, so it can't fill masks")


def masked_pieces(tokenizer, texts):
    """Strings `[B]` with `[MASK]`s to ids, int32 ragged `[B, (pieces)]`.

    Returns:
        `(ids, parts)`; `parts`, strings ragged `[B, (masks + 1)]`, is the text between the masks.
    """
    # Tokenized between the masks: the tokenizer itself reads "[MASK]" as three words, as
    # Google's does, so that text can't smuggle special tokens in.
    parts = tf.strings.split(texts, MASK)  # [B, (parts)]
    pieces = tokenizer.tokenize(parts.values)  # [N, (pieces)]
    first, others = tf.zeros_like(parts[:, :1], "int64"), tf.ones_like(parts[:, 1:], "int64")
    counts = tf.concat([first, others], 1).values  # [N], 0 or 1 mask before the part
    masks = tf.fill([tf.reduce_sum(counts)], tokenizer.mask_id)
    masks = tf.RaggedTensor.from_row_lengths(masks, counts)
    return parts.with_values(tf.concat([masks, pieces], 1)).merge_dims(1, 2), parts


def best_tokens(logits, tokenizer, top):
    """Logits `[..., V]` to the probabilities and ids of the likeliest, `[..., top]` each.

    The rows by which a table is larger than the vocabulary don't count.
    """
    size = tokenizer.vocab_size
    best = tf.math.top_k(tf.nn.softmax(logits[..., :size]), min(top, size))
    return best.values, best.indices


def _largest(lengths):
    """The largest of int64 `[B]`, or 0 of none, as int32."""
    return tf.cast(tf.reduce_max(tf.concat([lengths, [0]], 0)), "int32")


def _written(parts, best, continues):
    """The text with `best` and `continues`, ragged `[B, (masks)]`, between the `parts`."""
    edge = parts[:, :1]
    before = tf.concat([tf.zeros_like(edge), best], 1).values  # [N], the token before each part
    joined = tf.concat([tf.zeros_like(edge, "bool"), continues], 1).values
    followed = tf.concat([continues, tf.zeros_like(edge, "bool")], 1).values
    before = tf.where(joined, tf.strings.regex_replace(before, f"^{CONTINUATION}", ""), before)
    bare = tf.strings.regex_replace(parts.values, r"\s+$", "")
    return tf.strings.reduce_join(
        parts.with_values(before + tf.where(followed, bare, parts.values)), axis=1
    )


def export_fill(directory, pretrainer, tokenizer, top=5, overwrite=False):
    """Writes `FillModule(pretrainer, tokenizer, top)` as a SavedModel; returns its path.

    Raises:
        ValueError: see `FillModule`.
        OSError: see `tfnlp.hub.saving.save`.
    """
    check_free(directory, overwrite)
    with as_saved():
        module = FillModule(pretrainer, tokenizer, top)
        signatures = {"serving_default": module.signature()}
    save(module, directory, signatures, overwrite)
    return os.fspath(directory)
