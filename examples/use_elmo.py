"""Uses an exported ELMo with TensorFlow alone: does a word mean the same in two sentences?

    python examples/use_elmo.py MODULE --word rose "She rose ." "A red rose ." "He rose and left ."

Prints the cosine of the word's vectors in each pair of sentences, and fine-tunes one step to show
that the module trains.
"""

import argparse
import itertools

import tensorflow as tf


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("module", help="folder written by `tfnlp export`")
    parser.add_argument("--word", required=True)
    parser.add_argument("sentences", nargs="+", help="that hold the word, split at spaces")
    arguments = parser.parse_args()
    for sentence in arguments.sentences:
        if arguments.word not in sentence.split():
            parser.error(f"{arguments.word!r} is not a word of {sentence!r}")

    elmo = tf.saved_model.load(arguments.module)
    layer = elmo(tf.constant(arguments.sentences))["lstm_outputs1"]  # [B, T, 2P]
    places = [s.split().index(arguments.word) for s in arguments.sentences]
    vectors = tf.math.l2_normalize(tf.gather(layer, places, batch_dims=1), axis=-1)  # [B, 2P]
    for i, j in itertools.combinations(range(len(places)), 2):
        cosine = float(tf.reduce_sum(vectors[i] * vectors[j]))
        print(f"  {cosine:.3f}  {arguments.sentences[i]} | {arguments.sentences[j]}")

    with tf.GradientTape() as tape:
        outputs = elmo(tf.constant(arguments.sentences), training=True)
        loss = tf.reduce_mean(tf.square(outputs["default"]))
    for variable, gradient in zip(
        elmo.trainable_variables, tape.gradient(loss, elmo.trainable_variables), strict=True
    ):
        variable.assign_sub(0.1 * gradient)
    count = sum(v.shape.num_elements() for v in elmo.trainable_variables)
    print(f"one step of fine-tuning moved {count} scalars of the mix")


if __name__ == "__main__":
    main()
