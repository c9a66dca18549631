"""What anyone can do with an exported BERT: this imports TensorFlow, but not tfnlp.

    python examples/use_modules.py MODULES TEXT --fill "She looked at the [MASK] ." \
        --query "The robin sang in the tree."

MODULES holds `encoder` and `preprocessor` (written by `tfnlp export`). The masked sentence is
filled, and the sentences of the file TEXT that are nearest to the query are printed.
"""

import argparse
import glob
import os
import re

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)


def fill(preprocessor, encoder, text, top=5):
    """The `top` likeliest tokens for each [MASK] of `text`, with their probabilities."""
    special = preprocessor.tokenize.get_special_tokens_dict()
    parts = preprocessor.tokenize(tf.constant(text.split("[MASK]"))).merge_dims(1, 2)
    ids = []
    for index, part in enumerate(parts):
        ids += [special["mask_id"].numpy()] if index else []
        ids += part.numpy().tolist()
    inputs = preprocessor.bert_pack_inputs([tf.ragged.constant([ids], dtype=tf.int32)])
    masks = tf.where(inputs["input_word_ids"][0] == special["mask_id"])[:, 0]
    positions = tf.cast(masks, tf.int32)[tf.newaxis]
    logits = encoder.mlm({**inputs, "masked_lm_positions": positions})["mlm_logits"][0]
    best = tf.math.top_k(tf.nn.softmax(logits), top)
    return best.indices.numpy(), best.values.numpy()


def embed(preprocessor, encoder, sentences, batch_size=64):
    """Mean of the last layer over the real tokens, centred and of length 1: `[N, H]`."""
    vectors = []
    for start in range(0, len(sentences), batch_size):
        inputs = preprocessor(tf.constant(sentences[start : start + batch_size]))
        hidden = encoder(inputs)["sequence_output"]  # [B, T, H]
        mask = tf.cast(inputs["input_mask"], hidden.dtype)[..., tf.newaxis]
        vectors.append(tf.reduce_sum(hidden * mask, 1) / tf.reduce_sum(mask, 1))
    vectors = tf.concat(vectors, 0)
    return tf.math.l2_normalize(vectors - tf.reduce_mean(vectors, 0), axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules")
    parser.add_argument("text")
    parser.add_argument("--fill", required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--sentences", type=int, default=2000, help="how many to search")
    arguments = parser.parse_args()

    preprocessor = tf.saved_model.load(os.path.join(arguments.modules, "preprocessor"))
    encoder = tf.saved_model.load(os.path.join(arguments.modules, "encoder"))
    (path,) = glob.glob(os.path.join(arguments.modules, "preprocessor", "assets", "*"))
    vocabulary = open(path, encoding="utf-8").read().split("\n")

    print(f"\n{arguments.fill}")
    for row in zip(*fill(preprocessor, encoder, arguments.fill), strict=True):
        guesses = [f"{vocabulary[i]} {value:.3f}" for i, value in zip(*row, strict=True)]
        print("  " + "  ".join(guesses))

    text = " ".join(open(arguments.text, encoding="utf-8").read().split())
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", text) if 20 <= len(s) <= 120]
    sentences = sentences[: arguments.sentences]
    vectors = embed(preprocessor, encoder, [arguments.query, *sentences])
    similarity = tf.linalg.matvec(vectors[1:], vectors[0])
    best = tf.math.top_k(similarity, 5)
    print(f"\nnearest to: {arguments.query}")
    for value, index in zip(best.values.numpy(), best.indices.numpy(), strict=True):
        print(f"  {value:.3f}  {sentences[index]}")


if __name__ == "__main__":
    main()
