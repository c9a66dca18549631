"""Errors for an operation that a TPU lacks name the operation and its layer."""

import keras
import pytest
import tensorflow as tf

from tfnlp.plan.lowering import PlannedStep, layer_of, lower, refused


class Python(keras.layers.Layer):
    def call(self, x):
        return tf.ensure_shape(tf.py_function(lambda y: y * 2, [x], "float32"), x.shape)


class Strings(keras.layers.Layer):
    def call(self, x):
        return x + tf.strings.to_number(tf.strings.as_string(x))


class Candidates(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(50, shape[-1]), name="kernel")
        self.bias = self.add_weight(shape=(50,), name="bias")

    def call(self, x):
        labels = tf.zeros((tf.shape(x)[0], 1), "int64")
        return tf.nn.sampled_softmax_loss(self.kernel, self.bias, labels, x, 8, 50)[:, None]


def planned(layer):
    """A step that trains `layer` between two others."""
    inputs = keras.Input((4,))
    x = keras.layers.Dense(4, name="before")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="after")(layer(x)), name="toy")

    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        for v, g in zip(variables, gradients, strict=True):
            if g is not None:
                v.assign_sub(0.1 * tf.convert_to_tensor(g))
        return loss

    return PlannedStep(model, train, (tf.TensorSpec((8, 4), "float32"),))


@pytest.mark.parametrize(
    "layer, operation",
    [(Python, "EagerPyFunc"), (Strings, "AsString"), (Candidates, "LogUniformCandidateSampler")],
)
def test_operation_is_named_with_its_layer(layer, operation):
    with pytest.raises(ValueError) as error:
        lower(planned(layer(name="culprit")))
    message = str(error.value)
    assert message.startswith(f"culprit ({layer.__name__}): ")
    assert operation in message and "\n" not in message


def test_a_step_that_compiles_updates_its_weights_in_place():
    text = lower(planned(keras.layers.Dense(4, name="fine")))
    # Six variables, the kernels and biases of three layers, and the loss.
    assert text.count("output_index") == 6
    assert "tensor<4x2xf32>" in text


def test_message_of_the_tpus_compiler():
    model = planned(keras.layers.Dense(4, name="fine")).model
    message = 'INTERNAL: no rule for %x = f32[] y(), metadata={op_name="toy_1/fine_2/MatMul"}'
    assert str(refused(message, model)).startswith("fine (Dense): a TPU's compiler refuses it")
    assert "outside the layers, at a/b" in str(refused("{{node a/b}} is bad", model))
    assert str(refused("it is bad", model)).startswith("the training step: ")


@pytest.mark.parametrize(
    "place, layer",
    [
        ("toy_1/stack_2/inner/MatMul", "stack/inner (Dense)"),
        ("gradient_tape/toy_1/stack/inner_3/MatMul/MatMul", "stack/inner (Dense)"),
        ("x/y;StatefulPartitionedCall/toy_1/stack/add", "stack (Sequential)"),
        ("toy_1/inner/add", None),
        ("global_norm/L2Loss", None),
    ],
)
def test_layer_of_an_operation(place, layer):
    inputs = keras.Input((4,))
    stack = keras.Sequential([keras.layers.Dense(4, name="inner")], name="stack")
    assert layer_of(place, keras.Model(inputs, stack(inputs), name="toy")) == layer
