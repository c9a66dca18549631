"""The exported ELMo, against the Keras model on padded character ids."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub.alone import KERAS, again, alone, listed, trained
from tests.hub.elmo_toy import NAMES, P, assert_equal, expected, tiny
from tfnlp import hub
from tfnlp.hub.modules import elmo as elmo_module
from tfnlp.hub.modules.elmo import read_cache_words
from tfnlp.text import character_ids

# It traces much; a busy machine takes its time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LONG = "x" * 200
VOCABULARY = "<S>\n</S>\n<UNK>\nthe\ncat\n北京\n"


@pytest.fixture(scope="module")
def encoder():
    keras.utils.set_random_seed(0)
    return tiny()


@pytest.fixture(scope="module")
def module(encoder):
    return hub.ElmoModule(encoder)


ROWS = [["the", "cat", "sat"], [], ["naïve", "北京", "cat", "<UNK>"]]  # what `look` reads


@pytest.fixture(scope="module")
def exported(encoder, tmp_path_factory):
    """The exports' folder, the encoder of FOLDER/all, and what TensorFlow alone saw of them."""
    keras.utils.set_random_seed(1)
    folder, still = tmp_path_factory.mktemp("elmo"), tiny(dropout=0.0)
    (folder / "vocab.txt").write_text(VOCABULARY)
    hub.export_elmo(folder / "cache", encoder, cache=folder / "vocab.txt", l2=0.3)
    hub.export_elmo(folder / "all", still, "all")
    (folder / "vocab.txt").unlink()
    return folder, still, alone(folder, look, KERAS)


def look(folder):
    texts = tf.constant(["the cat  sat", "", "naïve 北京 cat <UNK>"])
    rows = [["the", "cat", "sat", "rest"], ["x"] * 4, ["naïve", "北京", "cat", "<UNK>"]]
    tokens = {"tokens": tf.constant(rows), "sequence_len": tf.constant([3, -2, 9])}
    names, seen = ("elmo", "default", "lstm_outputs1"), {}
    for name in ("cache", "all"):
        module = tf.saved_model.load(f"{folder}/{name}")
        seen |= listed(f"{name}/text", module(texts)) | listed(f"{name}/tokens", module(tokens))
        seen |= listed(f"{name}/default", module.signatures["default"](text=texts))
        seen |= listed(f"{name}/signature", module.signatures["tokens"](**tokens))
        seen |= trained(
            name, module, texts, lambda y: tf.add_n([tf.reduce_sum(y[n] ** 2) for n in names])
        )
        if name == "cache":
            mixed = {id(v) for v in module.trainable_variables}
            others = [v for v in module.variables if id(v) not in mixed]
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(module(texts, training=True)["elmo"])
            seen["frozen"] = np.array([g is None for g in tape.gradient(loss, others)])
    copy = again(folder, "cache")
    seen |= listed("again", copy(texts))
    return seen | listed("again/signature", copy.signatures["default"](text=texts))


def outputs(seen, prefix):
    return {name: seen[f"{prefix}/{name}"] for name in NAMES}


# --- What the module computes


def test_strings_are_the_models_words(encoder, module):
    texts = ["  the cat   sat ", "", f"naïve 北京 the the {LONG} 👩‍👩‍👧", "a\tb\nc"]
    texts.append("<S> </S> <UNK>")
    want = expected(encoder, [text.split() for text in texts])
    got = module(tf.constant(texts))
    assert_equal(got, want)
    np.testing.assert_array_equal(got["elmo"][0, 3:], 0)
    np.testing.assert_array_equal(got["default"][1], 0)
    mean = np.mean(got["elmo"][0, :3], axis=0)  # over three words, not six places
    np.testing.assert_allclose(got["default"][0], mean, atol=1e-6)


def test_tokens_are_read_up_to_sequence_len(encoder, module):
    tokens = [["the", "cat", "no", "no"], ["no"] * 4, ["a b", "", "c", "d"], ["no"] * 4]
    got = module(
        {"tokens": tf.constant(tokens), "sequence_len": tf.constant([2, 0, 99, -1], "int32")}
    )
    # A token may be empty or hold a space; lengths are clipped to 0..T.
    assert_equal(got, expected(encoder, [["the", "cat"], [], ["a b", "", "c", "d"], []]))


def test_no_words_at_all(encoder, tmp_path):
    (tmp_path / "words.txt").write_text("the\n")
    module = hub.ElmoModule(encoder, cache=tmp_path / "words.txt")
    empty = tf.constant([], "int32")
    for inputs, shape in (
        (tf.constant(["", "  "]), (2, 0)),
        (tf.constant([], "string"), (0, 0)),
        ({"tokens": tf.zeros((0, 3), "string"), "sequence_len": empty}, (0, 3)),
        ({"tokens": tf.fill((2, 3), "x"), "sequence_len": tf.constant([0, 0])}, (2, 3)),
    ):
        got = module(inputs)
        assert got["word_emb"].shape == (*shape, P)
        assert got["elmo"].shape == got["lstm_outputs2"].shape == (*shape, 2 * P)
        assert got["default"].shape == (shape[0], 2 * P)
        assert not any(np.any(x) for x in got.values())


def test_other_encoders():
    arguments = dict(layer_norm=True, num_layers=3, residual=False)
    encoder = tiny(**arguments, keep_sentence_boundaries=True)
    got = hub.ElmoModule(encoder)(tf.constant([" ".join(row) for row in ROWS]))
    # A module's outputs stand at the words, as the published one's do.
    same = tiny(**arguments)
    same.set_weights(encoder.get_weights())
    want = expected(same, ROWS)
    assert sorted(got) == sorted(want)
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, rtol=0, atol=3e-6, err_msg=name)


def test_dropout_is_for_training_where_all_is_trained(encoder):
    module = hub.ElmoModule(encoder, "all")
    first, second = (module(tf.constant(["the cat"]), training=True)["elmo"] for _ in range(2))
    assert np.abs(first - second).max() > 1e-3


def test_bfloat16(encoder, tmp_path):
    (tmp_path / "words.txt").write_text("the\ncat\n")
    half = tiny(dtype="mixed_bfloat16")
    half.set_weights(encoder.get_weights())
    got = hub.ElmoModule(half, cache=tmp_path / "words.txt")(tf.constant(["the cat sat", "", "a"]))
    want = expected(encoder, [["the", "cat", "sat"], [], ["a"]])
    for name, x in got.items():
        assert x.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(x, "float32"), want[name], atol=0.05)


# --- The cache


@pytest.mark.parametrize(
    "data",
    [
        "\ufeffthe\r\n\ncat\r\n\r\n\n北京",
        f"cat\nthe\ncat\nn\x85l\nthe\nps\u2028ls\u2029\n\x1c\n!!!MAXTERMID\n{LONG}\n{'é' * 60}\n",
    ],
)
def test_cache_changes_no_vector(encoder, data, tmp_path, monkeypatch):
    monkeypatch.setattr(elmo_module, "_CHUNK", 2)  # several chunks, and a last one that is short
    path = tmp_path / "words.txt"
    path.write_text(data, encoding="utf-8", newline="")
    asked = []

    def embed(words):
        asked.extend(words.numpy().tolist())
        return encoder.get_layer("char_cnn")(character_ids(words))

    cache = elmo_module.WordCache(path, embed)
    words = read_cache_words(path)
    assert sorted(asked) == sorted(word.encode() for word in words)  # each once
    other = ["<S>", "</S>", "<UNK>", "the", LONG, "", "the\r", "cat", "\ufeffthe"]
    tokens = tf.constant(words + other)
    want = embed(tokens)
    del asked[:]
    np.testing.assert_allclose(cache.lookup(tokens, embed), want, rtol=0, atol=1e-6)
    assert asked == [word.encode() for word in other if word not in words]


def test_bad_cache_is_named(encoder, tmp_path):
    path = tmp_path / "words.txt"
    for data in (None, b"", b"\x89HDF\r\n\0\0", b"the 123\ncat 7\n"):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises((ValueError, FileNotFoundError), match="cache .*words.txt ") as error:
            hub.ElmoModule(encoder, cache=path)
        assert "\n" not in str(error.value)


# --- What comes back from the disk


@pytest.mark.parametrize("name", ["cache", "all"])
def test_loaded_module_equals_the_model(encoder, exported, name):
    _, still, seen = exported
    want = expected(still if name == "all" else encoder, ROWS)
    for call in ("text", "tokens", "default", "signature"):
        assert_equal(outputs(seen, f"{name}/{call}"), want)


def test_survives_another_save_with_its_own_words(encoder, exported):
    folder, _, seen = exported
    for name in ("again", "again/signature"):
        assert_equal(outputs(seen, name), expected(encoder, ROWS))
    for copy in ("cache", "again/cache"):
        assert (folder / copy / "assets" / "words.txt").read_text() == VOCABULARY


def test_variables(encoder, exported):
    seen = exported[2]
    count = len(encoder.trainable_variables)
    assert seen["cache/counts"].tolist() == [count + 1, 2]
    assert seen["all/counts"].tolist() == [count, count]
    assert seen["frozen"].all() and len(seen["frozen"]) == count - 1
    assert seen["cache/dropout"] == seen["all/dropout"] == 0


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["cache", "all"])
def test_loaded_gradients_equal_the_models(encoder, exported, name, training):
    _, still, seen = exported
    model, variables = encoder, encoder.get_layer("scalar_mix").trainable_variables
    if name == "all":
        model, variables = still, still.trainable_variables
    with tf.GradientTape() as tape:
        # The mix alone is trained without dropout.
        outputs = expected(model, ROWS, training and name == "all")
        names = ("elmo", "default", "lstm_outputs1")
        loss = tf.add_n([tf.reduce_sum(outputs[n] ** 2) for n in names])
    for i, gradient in enumerate(tape.gradient(loss, [v.value for v in variables])):
        want = tf.convert_to_tensor(gradient).numpy()
        scale = np.abs(want).max()
        assert scale > 0
        got = seen[f"{name}/gradient/{training}/{i}"]
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * scale)


def test_regularization_losses_are_exact(encoder, exported):
    seen = exported[2]
    scalars = encoder.get_layer("scalar_mix").scalars.numpy()
    np.testing.assert_allclose(seen["cache/penalties"], [0.3 * (scalars**2).sum()], rtol=1e-6)
    assert seen["all/penalties"].size == 0
    own = tiny(l2=0.1)  # the encoder's regularizer counts too
    losses = [float(loss()) for loss in hub.ElmoModule(own, "mix", l2=0.2).regularization_losses]
    squared = (own.get_layer("scalar_mix").scalars.numpy() ** 2).sum()
    np.testing.assert_allclose(losses, [0.1 * squared, 0.2 * squared], rtol=1e-6)
