"""Masked sentences and sentence pairs through a loaded BERT."""

import tensorflow as tf

from tfnlp.hub.modules.fill import best_tokens, check_head, masked_pieces


def encode(loaded, text, pair=None):
    """`text` (with `[MASK]`s) and an optional `pair` as the encoder's inputs, int32 `[1, T]`.

    Returns:
        `(inputs, positions)`, positions of the masks in the sequence.

    Raises:
        ValueError: if the text is longer than the model's positions.
    """
    tokenizer = loaded.tokenizer
    ids = masked_pieces(tokenizer, tf.constant([text]))[0][0].numpy().tolist()
    first = [tokenizer.cls_id, *ids, tokenizer.sep_id]
    second = []
    if pair is not None:
        second = [*tokenizer.tokenize(tf.constant([pair]))[0].numpy().tolist(), tokenizer.sep_id]
    limit = loaded.encoder.get_layer("position_embedding").max_positions
    if len(first) + len(second) > limit:
        raise ValueError(
            f"text of {len(first) + len(second)} tokens, but the model reads {limit}; shorten it"
        )
    row = tf.constant([first + second], "int32")  # [1, T]
    inputs = {
        "input_word_ids": row,
        "input_mask": tf.ones_like(row),
        "input_type_ids": tf.constant([[0] * len(first) + [1] * len(second)], "int32"),
    }
    return inputs, [i for i, token in enumerate(first) if token == tokenizer.mask_id]


def fill_masks(loaded, text, top):
    """For each mask of `text` a list of `(token, probability)`, the likeliest first."""
    inputs, positions = encode(loaded, text)
    if not positions:
        return []
    check_head(loaded.pretrainer)
    outputs = _pretrainer_outputs(loaded, inputs, positions)
    values, ids = best_tokens(outputs["mlm_logits"][0], loaded.tokenizer, top)  # [P, top]
    vocabulary = loaded.tokenizer.vocabulary
    return [
        [(vocabulary[i], float(p)) for i, p in zip(row, probabilities, strict=True)]
        for row, probabilities in zip(ids.numpy(), values.numpy(), strict=True)
    ]


def follows(loaded, text, pair):
    """Probability that `pair` is the sentence after `text`."""
    if loaded.pretrainer is None or "next_sentence_logits" not in loaded.pretrainer.output:
        raise ValueError("the model has no next-sentence head")
    inputs, _ = encode(loaded, text, pair)
    logits = _pretrainer_outputs(loaded, inputs, [0])["next_sentence_logits"]
    return float(tf.nn.softmax(logits)[0, 0])


def _pretrainer_outputs(loaded, inputs, positions):
    if "mlm_logits" in loaded.pretrainer.output:
        inputs = {**inputs, "masked_lm_positions": tf.constant([positions], "int32")}
    return loaded.pretrainer(inputs)
