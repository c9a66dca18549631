"""Small SavedModels of every kind, each as somebody would write it."""

import keras
import pytest
import tensorflow as tf

import tfnlp
from tfnlp import hub


class ListModule(tf.Module):
    """A list in, a list with a dict in it out; called with and without `training`."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones([4, 3]), name="w")
        self.count = tf.Variable(0, trainable=False, name="count")

    @tf.function
    def __call__(self, inputs, training=False):
        total = tf.nn.relu((inputs[0] + inputs[1]) @ self.w)
        return [total, {"half": total / 2, "training": tf.constant(training)}]


def list_module():
    module, spec = ListModule(), tf.TensorSpec([None, 4])
    for training in (False, True):
        module.__call__.get_concrete_function([spec, spec], training=training)
    return module


class Swish(tf.__internal__.tracking.AutoTrackable):
    """Reusable, but for its activation, whose gradient is TensorFlow's own in Python alone."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones([4, 3]))
        self.variables = self.trainable_variables = [self.w]
        self.regularization_losses = []

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def __call__(self, x):
        return self._swish(x)

    @tf.function
    def _swish(self, x):
        return tf.nn.silu(x @ self.w)


class Odd(tf.Module):
    """Not callable, with functions that take what is seldom taken."""

    @tf.function
    def encode(self, first, *others, scale, flag=True, **named):
        first = first.to_tensor() if isinstance(first, tf.RaggedTensor) else first
        total = tf.strings.length(first)
        for x in (*others, *named.values()):
            total += tf.cast(tf.reduce_sum(x), "int32")
        return (total * scale,) if flag else {}

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 5], "float32")])
    def sparse(self, x):
        return x

    @tf.function
    def untraced(self, x):
        return x


def odd():
    module, number = Odd(), tf.TensorSpec([], "float32")
    words = tf.RaggedTensorSpec([None, None, None], "string", 2, "int32")
    module.encode.get_concrete_function(words, number, scale=2, extra=tf.TensorSpec(None))
    return module


def write_all(folder, made):
    """Dict of name to what `folder/name` was written from; ours are toys of `tests.made`."""
    written = {"bert/preprocessor": None}
    for family, module in (("bert", "encoder"), ("elmo", ""), ("gpt", "")):
        exported = made(family).exported
        (folder / family).symlink_to(exported / "model" if family == "gpt" else exported)
        written[f"{family}/{module}".rstrip("/")] = tfnlp.load(made(family).run).encoder

    swish = Swish()
    kept = {"swish": False, "swish_with_gradient": True}
    modules = {"list": list_module(), "odd": odd(), **dict.fromkeys(kept, swish)}
    for name, module in modules.items():
        gradients = kept.get(name, True)
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=gradients)
        tf.saved_model.save(module, folder / name, options=options)
        written[name] = module

    untraced, spec = ListModule(), tf.TensorSpec([None, 4], name="features")
    score = tf.function(lambda x: {"score": x @ untraced.w}).get_concrete_function(spec)
    tf.saved_model.save(untraced, folder / "signature", signatures={"score it": score})
    written["signature"] = untraced

    keras3 = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)], name="keras3"
    )
    keras3.export(folder / "keras3", verbose=False)
    written["keras3"] = keras3
    written["keras2"] = write_keras2(folder / "keras2")
    write_tf1(folder / "tf1")
    return written


def write_keras2(path):
    tf_keras = pytest.importorskip("tf_keras")
    left, right = (tf_keras.Input((4,), name=name) for name in ("left", "right"))
    dense = tf_keras.layers.Dense(3, kernel_regularizer="l2")
    y = dense(tf_keras.layers.Dropout(0.5)(left + right))
    model = tf_keras.Model({"left": left, "right": right}, {"y": y, "z": y * 2})
    model.compile("adam", "mse")
    batch, targets = tf.ones([2, 4]), tf.ones([2, 3])  # which makes the optimizer's variables
    model.train_on_batch({"left": batch, "right": batch}, {"y": targets, "z": targets})
    model.save(path, save_format="tf")
    return model


def write_tf1(path):
    """As TF-Hub's first format has it: two graphs, a partitioned table, a constant counter."""
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(str(path))
    for tags in ([], ["train"]):
        with v1.Graph().as_default(), v1.Session() as session:
            text = v1.placeholder(tf.string, [None], "text")
            table = v1.get_variable("table", [4, 3], partitioner=v1.fixed_size_partitioner(2))
            v1.get_variable("step", [], tf.int32, v1.zeros_initializer(), trainable=False)
            ids = tf.strings.to_hash_bucket_fast(text, 4)
            vectors = v1.nn.embedding_lookup(table, ids, partition_strategy="div")
            info = v1.saved_model.build_tensor_info
            signature = v1.saved_model.build_signature_def(
                {"the text": info(text)}, {"default": info(vectors)}, "default"
            )
            session.run(v1.global_variables_initializer())
            if tags:
                builder.add_meta_graph(tags, {"default": signature})
            else:
                builder.add_meta_graph_and_variables(session, tags, {"default": signature})
    builder.save()


def message(path):
    """The one line that says why something can't be read."""
    with pytest.raises((ValueError, OSError)) as caught:
        hub.inspect(path)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 500
    return text
