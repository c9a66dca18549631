"""What the pages of published modules tell their users to write, on modules that tfnlp exports.

Each snippet makes the calls of its page, with the page's handle. Handles are replaced by paths of
toy modules. In tf_keras, with `tensorflow_hub` and without tfnlp, nothing else is replaced; in
Keras 3 `import tensorflow_hub` becomes `import tfnlp.hub`.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.hub import bert_toy
from tests.hub.alone import alone
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # exports trace many graphs

IMPORT = "import tensorflow_hub as hub"
WORLDS = {"tf_keras": IMPORT, "keras": "import tfnlp.hub as hub"}

ELMO = "https://tfhub.dev/google/elmo/3"
BERT = "https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/4"
PREPROCESS = "https://tfhub.dev/tensorflow/bert_en_uncased_preprocess/3"
SENTENCES = "https://tfhub.dev/google/universal-sentence-encoder/4"

# --- The snippets. A piece ends where the weights of a head are set, to be the same in each Keras.

IMPORTS = f"import tensorflow as tf\n{IMPORT}\n"

ELMO_LAYERS = f"""
text_input = tf.keras.layers.Input(shape=(), dtype=tf.string)
elmo = hub.KerasLayer("{ELMO}", signature="default", output_key="elmo")
model = tf.keras.Model(text_input, elmo(text_input))
embeddings = model(tf.constant(["the cat is on a mat", "dogs run"]))

token_inputs = dict(
    tokens=tf.keras.layers.Input(shape=(None,), dtype=tf.string),
    sequence_len=tf.keras.layers.Input(shape=(), dtype=tf.int32))
by_tokens = hub.KerasLayer("{ELMO}", trainable=False, signature="tokens", output_key="elmo")
model = tf.keras.Model(token_inputs, by_tokens(token_inputs))
of_tokens = model(dict(
    tokens=tf.constant([["the", "cat", "is", "on", "a", "mat"], ["dogs", "run", "", "", "", ""]]),
    sequence_len=tf.constant([6, 2])))

model = tf.keras.Sequential([
    hub.KerasLayer("{ELMO}", input_shape=[], dtype=tf.string, signature="default",
                   output_key="default"),
    tf.keras.layers.Dense(2)])
"""
ELMO_HEAD = """
logits = model(tf.constant(["the cat is on a mat", "dogs run"]))
"""

BERT_PAGE = f"""
text_input = tf.keras.layers.Input(shape=(), dtype=tf.string)
preprocessor = hub.KerasLayer("{PREPROCESS}")
encoder_inputs = preprocessor(text_input)
encoder = hub.KerasLayer("{BERT}", trainable=True)
outputs = encoder(encoder_inputs)
pooled_output = outputs["pooled_output"]
sequence_output = outputs["sequence_output"]

embedding_model = tf.keras.Model(text_input, pooled_output)
sentences = tf.constant(["the cat sat", "a dog ran to the cat"])
pooled = embedding_model(sentences)
sequence = tf.keras.Model(text_input, sequence_output)(sentences)
"""

BERT_MLM = f"""
seq_length = 10
mlm_inputs = dict(
    input_word_ids=tf.keras.layers.Input(shape=(seq_length,), dtype=tf.int32),
    input_mask=tf.keras.layers.Input(shape=(seq_length,), dtype=tf.int32),
    input_type_ids=tf.keras.layers.Input(shape=(seq_length,), dtype=tf.int32),
    masked_lm_positions=tf.keras.layers.Input(shape=(None,), dtype=tf.int32))
encoder = hub.load("{BERT}")
mlm = hub.KerasLayer(encoder.mlm, trainable=True)
mlm_outputs = mlm(mlm_inputs)
model = tf.keras.Model(mlm_inputs, mlm_outputs["mlm_logits"])

words = tf.constant([[2, 5, 4, 9, 3, 0, 0, 0, 0, 0], [2, 4, 8, 10, 4, 3, 0, 0, 0, 0]])
logits = model(dict(
    input_word_ids=words, input_mask=tf.cast(words > 0, tf.int32),
    input_type_ids=tf.zeros_like(words), masked_lm_positions=tf.constant([[2, 0], [1, 4]])))
"""

SENTENCES_PAGE = f"""
embed = hub.load("{SENTENCES}")
embeddings = embed(["the cat sat", "a dog", ""])
served = embed.signatures["serving_default"](tf.constant(["the cat sat", "a dog", ""]))["outputs"]

hub_layer = hub.KerasLayer("{SENTENCES}", input_shape=[], dtype=tf.string, trainable=True)
model = tf.keras.Sequential([hub_layer, tf.keras.layers.Dense(1)])
"""
SENTENCES_FIT = """
texts = tf.constant(["the cat", "a dog", "the dog ran", ""])
targets = tf.constant([[1.], [2.], [3.], [3.]])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")
history = model.fit(texts, targets, epochs=3, shuffle=False, verbose=0).history
"""

TRAINED = {
    "losses": "history['loss']",
    "moved": "[w.numpy() for w in hub_layer.trainable_variables][0]",
}
SNIPPETS = {  # pieces of code, and what to keep
    "elmo": (
        [ELMO_LAYERS, ELMO_HEAD],
        dict(embeddings="embeddings", of_tokens="of_tokens", logits="logits"),
    ),
    "bert": ([BERT_PAGE], dict(pooled="pooled", sequence="sequence")),
    "bert mlm": ([BERT_MLM], dict(logits="logits", weights="len(mlm.trainable_weights)")),
    "sentences": (
        [SENTENCES_PAGE, SENTENCES_FIT],
        dict(embeddings="embeddings", served="served", **TRAINED),
    ),
}

# --- The modules


@pytest.fixture(scope="module")
def paths(made, tmp_path_factory):
    """The modules by the handles of the snippets."""
    folder = tmp_path_factory.mktemp("modules")
    encoder = bert_toy.encoder(layers=1)
    loaded = Pretrained(encoder, None, {"max_positions": 24}, bert_toy.tokenizer)
    loaded.family = FAMILIES["bert"]
    loaded.export(folder / "sentences", sentences=True)
    places = {
        ELMO: made("elmo").exported,
        BERT: made("bert").exported / "encoder",
        PREPROCESS: made("bert").exported / "preprocessor",
        SENTENCES: folder / "sentences",
    }
    return {handle: str(place) for handle, place in places.items()}


@pytest.fixture(scope="module")
def seen(paths, tmp_path_factory):
    """What all snippets made in each world."""
    found = {}
    for world, import_hub in WORLDS.items():
        folder = tmp_path_factory.mktemp(world)
        snippets = {}
        for name, (pieces, results) in SNIPPETS.items():
            code = [IMPORTS + pieces[0], *pieces[1:]]
            for handle, path in {**paths, IMPORT: import_hub}.items():
                code = [piece.replace(handle, path) for piece in code]
            snippets[name] = code, results
        (folder / "snippets.json").write_text(json.dumps(snippets))
        if world == "keras":  # that of this process
            found[world] = look(folder)
        else:
            found[world] = alone(folder, look, env={"TF_USE_LEGACY_KERAS": "1"})
        assert str(found[world].pop("library")) == world
    return found


def look(folder):
    """What snippets make, by name; `name/error` if one failed."""
    import json
    import traceback

    import tensorflow_text  # noqa: F401  registers the operations of WordPiece

    def arrays(name, value):
        if isinstance(value, dict):
            return {k: x for key, y in value.items() for k, x in arrays(f"{name}/{key}", y).items()}
        return {name: np.asarray(value)}

    with open(f"{folder}/snippets.json") as file:
        snippets = json.load(file)
    seen = {"library": np.asarray(tf.keras.Model.__module__.split(".")[0])}
    for name, (pieces, results) in snippets.items():
        names = {}
        try:
            for i, piece in enumerate(pieces):
                rng = np.random.default_rng(0)
                for layer in names["model"].layers[1:] if i else ():  # those behind the module
                    layer.set_weights([rng.normal(0, 0.5, w.shape) for w in layer.get_weights()])
                exec(piece, names)
            for result, expression in results.items():
                seen |= arrays(f"{name}/{result}", eval(expression, names))
        except Exception:
            seen[f"{name}/error"] = np.asarray(traceback.format_exc())
    return seen


@pytest.mark.parametrize("name", SNIPPETS)
def test_both_libraries_give_the_same(seen, name):
    """The steps of `fit` too: losses, and the first of the module's weights."""
    theirs, ours = (
        {key: x for key, x in found.items() if key.startswith(f"{name}/")}
        for found in seen.values()
    )
    for found in (theirs, ours):
        if f"{name}/error" in found:
            pytest.fail(str(found[f"{name}/error"]))
    assert theirs.keys() == ours.keys() and len(ours) >= len(SNIPPETS[name][1])
    for key in ours:
        assert ours[key].shape == theirs[key].shape
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-4, atol=1e-5, err_msg=key)
