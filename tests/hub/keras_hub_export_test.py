"""Models of keras-hub as SavedModels from strings; keras-hub alone says what is right."""

import numpy as np
import pytest
import tensorflow as tf

from tests.hub.alone import alone
from tests.text.bpe_reference import byte_names
from tfnlp import hub
from tfnlp.text import train_sentencepiece

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "!"]
MERGES = ["t h", "th e", "c a", "ca t", "Ġ the", "Ġ cat"]
SPECIAL = ["<s>", "<pad>", "</s>", "<mask>", "<|endoftext|>"]
BYTES = [*SPECIAL, *byte_names(), *(merge.replace(" ", "") for merge in MERGES)]
TEXTS = ["The cat sat the the!", "a cat <mask> the", "", "one two three four five six seven"]
LINES = ["the cat sat on the mat ! a b c d e f g"] * 20
SIZES = dict(num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=12)
CLOSE = dict(rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("keras_hub").models


def made(models, name):
    """A backbone with random weights and a preprocessor of the family `name`."""
    ids = {token: i for i, token in enumerate(BYTES)}
    tokenizer = {
        "Bert": lambda: models.BertTokenizer(PIECES, lowercase=True),
        "GPT2": lambda: models.GPT2Tokenizer(ids, MERGES),
        "Albert": lambda: models.AlbertTokenizer(train_sentencepiece(LINES, 40)),
    }[name]()
    sizes = {**SIZES, "embedding_dim": 4} if name == "Albert" else SIZES
    kind = "GPT2CausalLMPreprocessor" if name == "GPT2" else f"{name}TextClassifierPreprocessor"
    backbone = getattr(models, f"{name}Backbone")(tokenizer.vocabulary_size(), **sizes)
    return randomized(backbone), getattr(models, kind)(tokenizer, sequence_length=12)


def randomized(model):
    rng = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape, scale=0.3))
    return model


@pytest.fixture(scope="module")
def exported(models, tmp_path_factory):
    """The tasks, and what a process without keras-hub saw of their exports."""
    folder = tmp_path_factory.mktemp("exported")
    gpt2 = models.GPT2CausalLM(*made(models, "GPT2"))
    backbone, preprocessor = made(models, "Bert")
    bert = models.BertTextClassifier(backbone, num_classes=3, preprocessor=preprocessor)
    tasks = dict(bert=randomized(bert), gpt2=gpt2)
    for name, task in tasks.items():
        hub.export(task, folder / name, preprocessor=task.preprocessor)
    np.savez(folder / "inputs.npz", texts=TEXTS, others=TEXTS[::-1])
    return tasks, alone(folder, look, ["keras", "keras_hub"])


def look(folder):
    import tensorflow_text  # noqa: F401

    given, seen = np.load(f"{folder}/inputs.npz"), {}
    texts, others = (tf.constant(given[name].astype(str)) for name in ("texts", "others"))
    for name in ("bert", "gpt2"):
        module = tf.saved_model.load(f"{folder}/{name}")
        seen[name] = module(texts).numpy()
        (served,) = module.signatures["serving_default"](sentences=texts).values()
        seen[f"{name}_served"] = served.numpy()
        if "serving_pairs" in module.signatures:
            seen[f"{name}_pairs"] = module([texts, others]).numpy()
            pairs = module.signatures["serving_pairs"](text_a=texts, text_b=others)
            (seen[f"{name}_pairs_served"],) = (x.numpy() for x in pairs.values())
        graphs = [f.graph.as_graph_def().library for f in module.__call__.concrete_functions]
        nodes = [node for graph in graphs for f in graph.function for node in f.node_def]
        seen[f"{name}_operations"] = np.array(sorted({node.op for node in nodes}))
    return seen


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_tasks_without_keras_hub(exported, name):
    tasks, seen = exported
    want = tasks[name].predict(TEXTS, verbose=0)
    np.testing.assert_allclose(seen[name], want, **CLOSE)
    np.testing.assert_allclose(seen[f"{name}_served"], want, **CLOSE)
    if name != "gpt2":
        want = tasks[name].predict((TEXTS, TEXTS[::-1]), verbose=0)
        np.testing.assert_allclose(seen[f"{name}_pairs"], want, **CLOSE)
        np.testing.assert_allclose(seen[f"{name}_pairs_served"], want, **CLOSE)
    # keras-hub's cache of words is a table that only grows.
    assert not [x for x in seen[f"{name}_operations"] if "Mutable" in x or "TableInsert" in x]


@pytest.mark.parametrize("name", ["Albert", "GPT2"])
def test_backbones(models, name, tmp_path):
    backbone, preprocessor = made(models, name)
    module = tf.saved_model.load(
        hub.export(backbone, tmp_path / "module", preprocessor=preprocessor)
    )
    features = preprocessor(TEXTS)
    features = features[0] if isinstance(features, tuple) else features
    want, found = backbone(features), module(tf.constant(TEXTS))
    for x, y in zip(tf.nest.flatten(want), tf.nest.flatten(found), strict=True):
        np.testing.assert_allclose(y, x, **CLOSE)
    # The tokenizer remembers words again.
    tokenizer = preprocessor.tokenizer
    if name == "GPT2":
        tf.function(lambda x: tokenizer(x))(tf.constant(["new words"]))
        assert tokenizer.cache.id2value.size() > 1
