"""What the pages of published modules tell their users to write, on modules that tfnlp exports.

Each snippet makes the calls of its page, with the page's handle. Handles are replaced by paths of
toy modules. In tf_keras, with `tensorflow_hub` and without tfnlp, nothing else is replaced; in
Keras 3 `import tensorflow_hub` becomes `import tfnlp.hub`.
"""

import json
import pathlib

import numpy as np
import pytest

from tests.hub import elmo_toy, snippets_reader
from tests.support import run_python
from tfnlp import hub, models
from tfnlp.convert.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, WordVectors

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # exports trace many graphs

IMPORT = "import tensorflow_hub as hub"
WORLDS = {"tf_keras": IMPORT, "keras": "import tfnlp.hub as hub"}
CLOSE = dict(rtol=1e-4, atol=1e-5)

ELMO = "https://tfhub.dev/google/elmo/3"
BERT = "https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/4"
PREPROCESS = "https://tfhub.dev/tensorflow/bert_en_uncased_preprocess/3"
SENTENCES = "https://tfhub.dev/google/universal-sentence-encoder/4"
NNLM = "https://tfhub.dev/google/nnlm-en-dim128/2"

# --- The snippets. A piece ends where the weights of a head are set, to be the same in each Keras.

IMPORTS = f"import tensorflow as tf\n{IMPORT}\n"

ELMO_LOADED = f"""
elmo = hub.load("{ELMO}")
embeddings = elmo.signatures["default"](tf.constant(["the cat is on a mat", "dogs run"]))["elmo"]

tokens_input = [["the", "cat", "is", "on", "a", "mat"], ["dogs", "run", "", "", "", ""]]
tokens_length = [6, 2]
outputs = elmo.signatures["tokens"](
    tokens=tf.constant(tokens_input), sequence_len=tf.constant(tokens_length))
"""

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

BERT_PAIRS = f"""
preprocessor = hub.load("{PREPROCESS}")
text_inputs = [tf.keras.layers.Input(shape=(), dtype=tf.string),
               tf.keras.layers.Input(shape=(), dtype=tf.string)]
tokenize = hub.KerasLayer(preprocessor.tokenize)
tokenized_inputs = [tokenize(segment) for segment in text_inputs]

seq_length = 10
bert_pack_inputs = hub.KerasLayer(
    preprocessor.bert_pack_inputs, arguments=dict(seq_length=seq_length))
encoder_inputs = bert_pack_inputs(tokenized_inputs)

encoder = hub.KerasLayer("{BERT}", trainable=True)
model = tf.keras.Model(text_inputs, [encoder_inputs, encoder(encoder_inputs)["pooled_output"]])
packed, pooled = model([tf.constant(["the cat sat", "dogs"]), tf.constant(["a dog ran", "a cat"])])
special = preprocessor.tokenize.get_special_tokens_dict()

tokens = [preprocessor.tokenize(tf.constant([text])) for text in ("the cat sat", "a dog ran")]
again = preprocessor.bert_pack_inputs(tokens, seq_length=tf.constant(10))
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

NNLM_PAGE = f"""
embed = hub.load("{NNLM}")
embeddings = embed(["the cat sat", "cat zebra", ""])

hub_layer = hub.KerasLayer("{NNLM}", input_shape=[], dtype=tf.string, trainable=True)
model = tf.keras.Sequential()
model.add(hub_layer)
model.add(tf.keras.layers.Dense(16, activation="relu"))
model.add(tf.keras.layers.Dense(1))
model.summary()
"""
NNLM_FIT = """
texts = tf.constant(["the cat sat", "cat zebra", "", "the dog", "dog sat", "sat sat"])
labels = tf.constant([1, 0, 0, 1, 1, 0])
model.compile(optimizer="adam",
              loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
              metrics=["accuracy"])
history = model.fit(texts, labels, epochs=4, batch_size=512, verbose=0).history
results = model.evaluate(texts, labels, verbose=0)
"""

TRAINED = {
    "losses": "history['loss']",
    "shape": "str(model.output_shape)",
    "moved": "[w.numpy() for w in hub_layer.trainable_variables][0]",
}
SNIPPETS = {  # pieces of code, and what to keep
    "elmo loaded": ([ELMO_LOADED], dict(embeddings="embeddings", tokens="dict(outputs)")),
    "elmo layers": (
        [ELMO_LAYERS, ELMO_HEAD],
        dict(embeddings="embeddings", of_tokens="of_tokens", logits="logits"),
    ),
    "bert": ([BERT_PAGE], dict(pooled="pooled", sequence="sequence")),
    "bert pairs": (
        [BERT_PAIRS],
        dict(packed="packed", pooled="pooled", special="special", again="dict(again)"),
    ),
    "bert mlm": ([BERT_MLM], dict(logits="logits", weights="len(mlm.trainable_weights)")),
    "sentences": (
        [SENTENCES_PAGE, SENTENCES_FIT],
        dict(
            embeddings="embeddings",
            served="served",
            count="len(hub_layer.trainable_weights)",
            **TRAINED,
        ),
    ),
    "nnlm": (
        [NNLM_PAGE, NNLM_FIT],
        dict(embeddings="embeddings", evaluated="results", **TRAINED),
    ),
}

# --- The modules, and what the snippets must give

WORDS = [*SPECIAL_TOKENS, "the", "a", "cat", "dog", "sat", "ran", "to", "##s"]
TEXTS = ["the cat is on a mat", "dogs run"]
LENGTH = 12  # of the preprocessor
VECTORS = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")
VECTOR_WORDS = ["the", "cat", "sat", "dog"]


def small_bert(layers, seed):
    """A pretrainer without dropout, and its encoder."""
    encoder = models.bert(
        len(WORDS), layers, 16, 2, 32, max_positions=24, dropout=0.0, attention_dropout=0.0
    )
    pretrainer = models.bert_pretrainer(encoder)
    rng = np.random.default_rng(seed)
    for variable in pretrainer.trainable_variables:  # biases too, so that nothing hides in a zero
        variable.assign(rng.normal(0, 0.3, variable.shape))
    return pretrainer, encoder


def bert(folder):
    pretrainer, encoder = small_bert(2, 0)
    hub.export_bert(folder, encoder, WordPieceTokenizer(WORDS), pretrainer, seq_length=LENGTH)
    return pretrainer


def packed(first, second=None, length=LENGTH):
    """The encoder's inputs, by hand, for lists of texts whose words are one token each."""
    ids, types = np.zeros((2, len(first), length), "int32")
    for i, text in enumerate(first):
        pieces = [["[CLS]", *text.split(), "[SEP]"]]
        pieces += [] if second is None else [[*second[i].split(), "[SEP]"]]
        row = [WORDS.index(word) for piece in pieces for word in piece]
        ids[i, : len(row)] = row
        types[i, len(pieces[0]) : len(row)] = 1
    return dict(input_word_ids=ids, input_mask=(ids > 0).astype("int32"), input_type_ids=types)


def head(features, widths):
    """The layers behind a module, with the weights of `snippets_reader.start`."""
    rng = np.random.default_rng(0)
    for i, width in enumerate(widths):
        features = np.maximum(features, 0) if i else features
        kernel, bias = rng.normal(0, 0.5, (features.shape[1], width)), rng.normal(0, 0.5, width)
        features = features @ kernel + bias
    return features


def elmo_outputs(folder):
    encoder = elmo_toy.tiny()
    hub.export_elmo(folder, encoder)
    outputs = elmo_toy.expected(encoder, [text.split() for text in TEXTS])
    outputs = {name: np.asarray(outputs[name]) for name in elmo_toy.NAMES}
    elmo = outputs["elmo"]
    return {
        "elmo loaded": {"embeddings": elmo, **{f"tokens/{n}": x for n, x in outputs.items()}},
        "elmo layers": dict(embeddings=elmo, of_tokens=elmo, logits=head(outputs["default"], [2])),
    }


def bert_outputs(folder):
    full = bert(folder / "bert")
    inputs = packed(["the cat sat", "a dog ran to the cat"])
    positions = dict(masked_lm_positions=np.array([[2, 0], [1, 4]], "int32"))
    outputs = full({**inputs, **positions})
    want = {"bert": dict(pooled=outputs["pooled_output"], sequence=outputs["sequence_output"])}
    pairs = packed(["the cat sat", "dog ##s"], ["a dog ran", "a cat"], 10)
    ids = np.array([[2, 5, 4, 9, 3, 0, 0, 0, 0, 0], [2, 4, 8, 10, 4, 3, 0, 0, 0, 0]], "int32")
    masked = dict(input_word_ids=ids, input_mask=(ids > 0) * 1, input_type_ids=0 * ids)
    special = dict(vocab_size=len(WORDS), padding_id=0, mask_id=4)
    special.update(start_of_sequence_id=2, end_of_segment_id=3)
    want["bert pairs"] = {
        "pooled": full({**pairs, **positions})["pooled_output"],
        **{f"packed/{name}": x for name, x in pairs.items()},
        **{f"again/{name}": x[:1] for name, x in pairs.items()},
        **{f"special/{name}": x for name, x in special.items()},
    }
    want["bert mlm"] = dict(
        logits=full({**masked, **positions})["mlm_logits"],
        weights=len(full.trainable_variables),
    )
    return want


def sentence_outputs(folder):
    encoder = small_bert(1, 2)[1]
    loaded = Pretrained(encoder, None, {"max_positions": 24}, lambda: WordPieceTokenizer(WORDS))
    loaded.family = FAMILIES["bert"]
    loaded.export(folder, sentences=True)

    def embedded(texts):
        """The mean over real tokens, of length 1."""
        inputs = packed(texts)
        states = np.asarray(encoder(inputs)["sequence_output"]) * inputs["input_mask"][..., None]
        means = states.sum(1) / inputs["input_mask"].sum(1, keepdims=True)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    errors = head(embedded(["the cat", "a dog", "the dog ran", ""]), [1])[:, 0] - [1, 2, 3, 3]
    embeddings = embedded(["the cat sat", "a dog", ""])
    return dict(
        embeddings=embeddings,
        served=embeddings,
        count=len(encoder.trainable_variables) - 2,  # all but the pooler
        first_loss=(errors**2).mean(),
    )


def nnlm_outputs(folder):
    hub.export_word_vectors(folder, WordVectors(VECTOR_WORDS, VECTORS))

    def embedded(texts):
        rows = dict(zip(VECTOR_WORDS, VECTORS, strict=True))
        found = [[rows.get(word, np.zeros(3)) for word in text.split()] for text in texts]
        return np.array([np.sum([np.zeros(3), *x], 0) / max(1, len(x)) ** 0.5 for x in found])

    texts = ["the cat sat", "cat zebra", "", "the dog", "dog sat", "sat sat"]
    logits, labels = head(embedded(texts), [16, 1])[:, 0], np.array([1, 0, 0, 1, 1, 0])
    loss = np.log1p(np.exp(np.where(labels, -logits, logits))).mean()
    return dict(embeddings=embedded(["the cat sat", "cat zebra", ""]), first_loss=loss)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The paths of the modules by the handles of the snippets, and the results to expect."""
    folder = tmp_path_factory.mktemp("modules")
    want = {
        **elmo_outputs(folder / "elmo"),
        **bert_outputs(folder),
        "sentences": sentence_outputs(folder / "sentences"),
        "nnlm": nnlm_outputs(folder / "nnlm"),
    }
    paths = {
        ELMO: "elmo",
        BERT: "bert/encoder",
        PREPROCESS: "bert/preprocessor",
        SENTENCES: "sentences",
        NNLM: "nnlm",
    }
    return {handle: str(folder / path) for handle, path in paths.items()}, want


@pytest.fixture(scope="module")
def seen(made, tmp_path_factory):
    """What all snippets made in each world."""
    found = {}
    for world, import_hub in WORLDS.items():
        folder = tmp_path_factory.mktemp(world)
        snippets = {}
        for name, (pieces, results) in SNIPPETS.items():
            code = [IMPORTS + pieces[0], *pieces[1:]]
            for handle, path in {**made[0], IMPORT: import_hub}.items():
                code = [piece.replace(handle, path) for piece in code]
            snippets[name] = code, results
        if world == "keras":  # that of this process
            found[world] = snippets_reader.made(snippets)
        else:
            (folder / "snippets.json").write_text(json.dumps(snippets))
            env = {"TF_USE_LEGACY_KERAS": "1"}
            run_python(pathlib.Path(snippets_reader.__file__), folder, env=env, without_tfnlp=True)
            found[world] = dict(np.load(folder / "seen.npz"))
        assert str(found[world].pop("library")) == world
    return found


@pytest.mark.parametrize("name", SNIPPETS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_numbers_are_those_of_the_model(made, seen, world, name):
    if f"{name}/error" in seen[world]:
        pytest.fail(str(seen[world][f"{name}/error"]))
    want = dict(made[1][name])
    if "first_loss" in want:
        losses = seen[world][f"{name}/losses"]
        np.testing.assert_allclose(losses[0], want.pop("first_loss"), **CLOSE)
        assert losses[-1] < losses[0]
        assert str(seen[world][f"{name}/shape"]) == "(None, 1)"
    for result, value in want.items():
        got = seen[world][f"{name}/{result}"]
        assert got.shape == np.shape(value), result
        np.testing.assert_allclose(got, value, **CLOSE, err_msg=result)


def test_both_libraries_give_the_same(seen):
    """The steps of `fit` too: losses, and the first of the module's weights."""
    theirs, ours = seen.values()
    names = [name for name in theirs if not name.endswith("/shape")]
    assert theirs.keys() == ours.keys() and len(names) > 30
    for name in names:
        np.testing.assert_allclose(ours[name], theirs[name], **CLOSE, err_msg=name)
    assert np.abs(ours["nnlm/moved"][:4] - VECTORS).max() > 1e-4
