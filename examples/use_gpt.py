"""Uses an exported GPT in plain TensorFlow: writes text, measures a text, trains on it.

    python examples/use_gpt.py MODULES PROMPT [--tokens 40]

Nothing of tfnlp is imported.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
import tensorflow_text  # noqa: F401  the tokenizer has its operations

TEXT = "The robin flew to the top of the wall and sang."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", help="folder with model/ and preprocessor/")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=40)
    arguments = parser.parse_args()
    model = tf.saved_model.load(os.path.join(arguments.modules, "model"))
    preprocessor = tf.saved_model.load(os.path.join(arguments.modules, "preprocessor"))

    written = model.signatures["generate"](
        prompt=tf.constant([arguments.prompt] * 2),
        max_new_tokens=tf.constant(arguments.tokens),
        temperature=tf.constant(0.8),
        top_k=tf.constant(0),
        top_p=tf.constant(0.9),
        seed=tf.constant(0),
    )
    for text in written["text"].numpy():
        print(text.decode("utf-8", "replace"), end="\n\n")

    inputs = preprocessor(tf.constant([TEXT]))
    print(f"{TEXT}\n  loss a token {float(_loss(model, inputs, training=False)):.3f}", end="")
    weights = model.trainable_variables
    rate = 0.05  # of plain gradient descent
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = _loss(model, inputs, training=True)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(rate * tf.convert_to_tensor(gradient))
    print(f", after five updates {float(_loss(model, inputs, training=False)):.3f}")
    assert not any(name.split(".")[0] == "tfnlp" for name in sys.modules)


def _loss(model, inputs, training):
    """Mean of `-log p` over the tokens after the first."""
    logits = model(inputs, training=training)["lm_logits"][:, :-1]  # [B, T - 1, V]
    real = tf.cast(inputs["input_mask"][:, 1:], "float32")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(inputs["input_word_ids"][:, 1:], logits)
    return tf.reduce_sum(losses * real) / tf.reduce_sum(real)


if __name__ == "__main__":
    main()
