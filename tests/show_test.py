"""Pictures of what is in a model: their numbers against numpy and scikit-learn."""

import json

import keras
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import StandardScaler

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import GOLDENS, TEXTS, backbone
from tests.hub import gpt_toy
from tests.support import golden, shown_on
from tfnlp import models, show
from tfnlp.layers import RelativePositionBias
from tfnlp.runs.attention_maps import encoder_attention, shown_tokens
from tfnlp.settings.show import PICTURES
from tfnlp.show.heads import transformer_attention
from tfnlp.text import WordVectors

SIZES = dict(vocab_size=40, num_layers=2, hidden_size=16, num_heads=2, intermediate_size=24)
IDS = np.array([[3, 4, 5, 6, 0], [7, 8, 9, 10, 11]], "int32")
ENCODERS = {
    "bert": (models.bert, {}),
    "albert": (models.albert, dict(embedding_size=8, num_layers=4, num_groups=2)),
    "mpnet": (models.mpnet, {}),
    "gpt": (models.gpt, dict(norm_first=False)),
    "gpt2": (models.gpt, dict(norm_first=True)),
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x, layer):
    x = np.asarray(x, "float64")
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + layer.epsilon)
    return x * layer.gamma.numpy() + layer.beta.numpy()


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def probabilities(q, k, heads, visible, bias=0.0):
    """`softmax(Q K^T / sqrt(D))` over the visible positions, float64 `[B, N, T, S]`."""
    q, k = split(q, heads), split(k, heads)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    return softmax(np.where(visible, scores, -np.inf))


def of_block(block, x, visible, bias=0.0):
    x = norm(x, block.attention_norm) if block.norm_first else np.asarray(x, "float64")
    kernel, offset = (w.numpy() for w in (block.attention.qkv.kernel, block.attention.qkv.bias))
    q, k, _ = np.split(x @ kernel + offset, 3, -1)
    return probabilities(q, k, block.attention.num_heads, visible, bias)


def inputs_of(model):
    mask = (IDS != 0).astype("int32")
    given = dict(input_word_ids=IDS, input_mask=mask, input_type_ids=0 * IDS)
    return {name: given[name] for name in model.input}


@pytest.mark.parametrize("kind", ENCODERS)
def test_attention_is_that_of_the_weights(kind):
    keras.utils.set_random_seed(3)
    build, more = ENCODERS[kind]
    model = build(**{**SIZES, **more}, initializer_range=0.5)
    inputs = inputs_of(model)
    outputs = model(inputs)
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    visible = np.broadcast_to((IDS != 0)[:, None, None, :], (2, 1, 5, 5))
    names, bias = [f"layer_{n}" for n in range(2)], 0.0
    if kind == "albert":
        names = [f"shared_layer_{n // 2}_0" for n in range(4)]
    if kind == "mpnet":
        (layer,) = (x for x in model.layers if isinstance(x, RelativePositionBias))
        bias = np.asarray(layer(states[0]), "float64")
        assert np.abs(bias).max() > 0
    if kind.startswith("gpt"):
        visible = visible & np.tri(5, dtype=bool)
    found = encoder_attention(model, inputs)
    assert len(found) == len(names)
    for name, x, got in zip(names, states, found, strict=False):
        want = of_block(model.get_layer(name), x, visible, bias)
        np.testing.assert_allclose(got[0, :, :4], want[0, :, :4], atol=1e-5)
        np.testing.assert_allclose(got[1], want[1], atol=1e-5)
        np.testing.assert_allclose(got.sum(-1), 1, atol=1e-5)
    assert [layer.output.shape[-1] for layer in model.layers if layer.name in names][0] == 16


@pytest.mark.parametrize("norm_first", [False, True])
def test_attention_of_a_transformer_is_that_of_the_weights(norm_first):
    keras.utils.set_random_seed(3)
    model = models.transformer(**SIZES, norm_first=norm_first)
    mask = (IDS != 0).astype("int32")
    inputs = dict(input_word_ids=IDS, input_mask=mask, target_word_ids=IDS[:, ::-1][:, :3])
    outputs = model(inputs)
    of_source, of_target, across = transformer_attention(model, inputs)
    real = np.broadcast_to((IDS != 0)[:, None, None, :], (2, 1, 5, 5))
    causal = np.tri(3, dtype=bool)[None, None]
    want = of_block(model.get_layer("encoder_layer_1"), outputs["encoder_outputs"][0], real)
    np.testing.assert_allclose(of_source[1], want, atol=1e-5)
    want = of_block(model.get_layer("decoder_layer_1"), outputs["decoder_outputs"][0], causal)
    np.testing.assert_allclose(of_target[1], want, atol=1e-5)
    # The model itself returns what its last block looks at in the source.
    np.testing.assert_allclose(across[1], outputs["attention"], atol=1e-6)
    assert across[0].shape == (2, 2, 3, 5) and (across[0][0, :, :, 4] < 1e-6).all()
    np.testing.assert_allclose(across[0].sum(-1), 1, atol=1e-5)


def test_tokens_of_a_task_alone_have_numbers():
    tokenizer = gpt_toy.tokenizer()
    size = tokenizer.vocab_size
    names = shown_tokens(tokenizer, np.array([size, 5, size + 2]))
    assert names == [f"[{size}]", *shown_tokens(tokenizer, [5]), f"[{size + 2}]"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["albert", "bert", "gpt", "roberta"])
def test_attention_of_a_text(kind, tmp_path):
    loaded = tfnlp.load(backbone(kind, tmp_path))
    picture = show.attention(loaded, TEXTS[0])
    count = len(loaded.encoder.output["encoder_outputs"])
    assert [one.name for one in picture.values] == [f"layer {n + 1}" for n in range(count)]
    for one in picture.values:
        size = len(one.tokens)
        assert one.scores.shape[1:] == (size, size) and one.context == one.tokens
        np.testing.assert_allclose(one.scores.sum(-1), 1, atol=1e-5)
    assert len(picture.figure.data) == sum(len(one.scores) for one in picture.values)
    one = show.attention(loaded, TEXTS[0], layer=count)
    assert [x.name for x in one.values] == [f"layer {count}"]
    np.testing.assert_array_equal(one.values[0].scores, picture.values[-1].scores)
    with pytest.raises(ValueError, match="`layer` 99"):
        show.attention(loaded, TEXTS[0], layer=99)


def vectors_of(loaded, words):
    """The vector of each word's first piece in all layers, `[W, L, D]`, a piece at a time."""
    tokenizer = loaded.tokenizer
    pieces = [tokenizer.tokenize([word]).to_list()[0] for word in words]
    ids = [tokenizer.cls_id, *(i for word in pieces for i in word), tokenizer.sep_id]
    firsts = 1 + np.cumsum([0, *map(len, pieces[:-1])])
    ids = np.array([ids], "int32")
    given = dict(input_word_ids=ids, input_mask=np.ones_like(ids), input_type_ids=0 * ids)
    outputs = loaded.encoder({name: given[name] for name in loaded.encoder.input})
    every = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    return np.stack([np.asarray(x)[0][firsts] for x in every], 1).astype("float64")


@pytest.fixture(scope="module")
def bert():
    return tfnlp.load(golden("bert_google_tf_generated"))


@pytest.mark.slow
def test_neighbours_are_those_of_the_cosines(bert):
    texts, among = (
        ["the dog ran home", "a cat and the Dog"],
        [*TEXTS, "the dog ran home", "dogs go"],
    )
    found = show.neighbours(bert, "dog", texts, among, top=3).values
    places, layers = (1, 4), list(found)
    assert layers == ["embeddings", *(f"layer {n + 1}" for n in range(len(layers) - 1))]
    for query, (text, place) in enumerate(zip(texts, places, strict=True)):
        asked = vectors_of(bert, text.split())[place]  # [L, D]
        for layer, name in enumerate(layers):
            best = []
            for other in among:
                if other in texts:
                    continue
                vectors = vectors_of(bert, other.split())[:, layer]
                lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked[layer])
                cosines = vectors @ asked[layer] / lengths
                best.append((cosines.max(), other.split(), int(cosines.argmax())))
            best = sorted(best, key=lambda row: -row[0])[:3]
            for (got, words, at), (want, *rest) in zip(found[name][query], best, strict=True):
                assert got == pytest.approx(want, abs=1e-5) and [words, at] == rest
    with pytest.raises(ValueError, match="`word` 'bird'"):
        show.neighbours(bert, "bird", texts, among)


def tagged(count=30):
    rng, pool = np.random.default_rng(0), " ".join(TEXTS).split()
    rows = [list(rng.permutation(pool)[: rng.integers(3, 9)]) for _ in range(count)]
    return [(list(map(str, row)), ["A" if w in ("the", "a") else "B" for w in row]) for row in rows]


def learnt(vectors, labels, held_out):
    scaler = StandardScaler().fit(vectors[~held_out])
    model = RidgeClassifierCV((1.0, 10.0, 100.0, 1000.0))
    model.fit(scaler.transform(vectors[~held_out]), labels[~held_out])
    return np.mean(model.predict(scaler.transform(vectors[held_out])) == labels[held_out])


@pytest.mark.slow
def test_probes_of_words_are_those_of_scikit_learn(bert):
    rows = tagged()
    rows = [(words, ["C" if i % 3 else t for i, t in enumerate(tags)]) for words, tags in rows]
    found = show.probe(bert, "tag", rows).values
    vectors = np.concatenate([vectors_of(bert, words) for words, _ in rows])
    labels = np.array([tag for _, tags in rows for tag in tags])
    held_out = np.repeat([n % 5 == 4 for n in range(len(rows))], [len(tags) for _, tags in rows])
    for layer, (name, accuracy) in enumerate(list(found.items())[: vectors.shape[1]]):
        assert accuracy == learnt(vectors[:, layer], labels, held_out), name
    common = max("ABC", key=lambda tag: np.sum(labels[~held_out] == tag))
    assert found["the commonest label"] == np.mean(labels[held_out] == common)
    assert len(set(found.values())) > 2


@pytest.mark.slow
def test_probes_of_texts_are_those_of_scikit_learn():
    elmo = tfnlp.load(golden("elmo_bilm_tf"))
    rows = [(" ".join(words), "the" in words) for words, _ in tagged(40)]
    found = show.probe(elmo, "classify", rows).values
    labels, held_out = np.array([str(x) for _, x in rows]), np.arange(40) % 5 == 4
    outputs, sizes = elmo([text for text, _ in rows]), [len(text.split()) for text, _ in rows]
    for key, name in (("word_emb", "letters"), ("lstm_outputs1", "LSTM 1")):
        pairs = zip(outputs[key].numpy(), sizes, strict=True)
        vectors = np.stack([x[:size].mean(0) for x, size in pairs])
        assert found[name] == learnt(vectors, labels, held_out)
    with pytest.raises(ValueError, match="ten examples"):
        show.probe(elmo, "classify", [(text, "one") for text, _ in rows])


def test_the_mixture_of_an_elmo():
    elmo = tfnlp.load(golden("elmo_bilm_tf"))
    elmo.encoder.get_layer("scalar_mix").scalars.assign(np.array([0.0, 1.0, -2.0]))
    (found,) = show.mixture(elmo).values.values()
    want = np.exp([0.0, 1.0, -2.0]) / np.exp([0.0, 1.0, -2.0]).sum()
    assert list(found) == ["letters", "LSTM 1", "LSTM 2"]
    np.testing.assert_allclose(list(found.values()), want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["elmo", "bert"])
def test_the_mixture_of_a_task(kind, tmp_path):
    rows = [(text, "ab"[n % 2]) for n, text in enumerate(TEXTS * 3)]
    given = dict(features="sum-all", epochs=2, learning_rate=0.1, max_length=16)
    run = tfnlp.finetune("classify", golden(GOLDENS[kind]), rows, output=tmp_path / "x", **given)
    (layer,) = (x for x in run.task_model.model.layers if hasattr(x, "scalars"))
    (found,) = show.mixture(str(tmp_path / "x")).values.values()
    assert list(found)[0] == ("letters" if kind == "elmo" else "layer 1")
    np.testing.assert_allclose(list(found.values()), softmax(layer.scalars.numpy()), rtol=1e-5)
    assert len(set(found.values())) > 1
    maps = [x for x in shown_on(tmp_path / "x/page.html")["charts"] if "sliders" in x["layout"]]
    assert len(maps) == (kind == "bert")  # ELMo has no attention
    if kind == "bert":  # the frozen encoder of the task
        assert show.attention(run, TEXTS[0]).values[0].tokens[1] == "the"


@pytest.fixture
def word_vectors():
    rng = np.random.default_rng(1)
    return WordVectors([f"w{n}" for n in range(40)], rng.normal(size=(40, 6)).astype("float32"))


def vectors_file(vectors, folder):
    rows = zip(vectors.words, vectors.vectors, strict=True)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in rows]
    (folder / "vectors.txt").write_text("\n".join(["40 6", *lines, ""]))
    return folder / "vectors.txt"


@pytest.mark.slow
def test_words_and_their_neighbours(word_vectors, tmp_path):
    table = word_vectors.vectors / np.linalg.norm(word_vectors.vectors, axis=1, keepdims=True)
    some = ["w3", "w1", "w20", "w39"]
    found = show.words(word_vectors, some).values
    want = PCA(2).fit_transform(table[[3, 1, 20, 39]])
    np.testing.assert_allclose(list(found.values()), want, atol=1e-5)
    assert list(found) == some
    assert len(show.words(word_vectors, top=35).values) == 35  # t-SNE
    cosines = table[1:] @ table[0]
    nearest = show.neighbours(vectors_file(word_vectors, tmp_path), "w0", top=4).values
    assert [word for word, _ in nearest] == [f"w{n + 1}" for n in np.argsort(-cosines)[:4]]
    np.testing.assert_allclose([x for _, x in nearest], np.sort(cosines)[::-1][:4], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["seq2seq", "transformer"])
def test_attention_of_a_translation(kind, made):
    toy = made(kind)
    maps = show.attention(toy.run, "the red dog").values
    loaded = tfnlp.load(toy.run)
    (said,) = loaded.predict(["the red dog"])
    again = show.attention(loaded, ["the red dog", said]).values
    assert [one.tokens for one in again] == [one.tokens for one in maps]
    last = maps[-1]
    assert last.name == "layer 1, target to source"
    assert last.tokens[-1] == last.context[-1] == "(end)"
    ids, target = loaded.tokenizer.tokenize(["the red dog", said]).to_list()
    end = loaded.tokenizer.end_id
    ids, target = np.array([[*ids, end]]), np.array([[end, *target]])
    given = dict(input_word_ids=ids, input_mask=np.ones_like(ids), target_word_ids=target)
    want = np.asarray(loaded.encoder(given)["attention"]).reshape(last.scores.shape)
    np.testing.assert_allclose(last.scores, want, atol=1e-6)


PICTURED = {  # of each picture the models that have it, and what else it is given
    "attention": ({"bert", "gpt"}, ["the dog ran"]),
    "mixture": ({"elmo"}, []),
    "neighbours": ({"bert", "gpt", "elmo"}, ["dog", "the dog ran", "--input", "{texts}"]),
    "probe": ({"bert", "gpt", "elmo"}, ["tag", "--input", "{rows}", "--limit", 20]),
    "words": ({"vectors"}, ["w1", "w2", "w3"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt", "elmo", "vectors"])
def test_the_command_writes_a_page_or_says_why_not(kind, tmp_path, capsys, word_vectors):
    assert PICTURED.keys() == PICTURES.keys()
    texts, rows = tmp_path / "texts.txt", tmp_path / "rows.jsonl"
    texts.write_text("\n".join(TEXTS))
    dicts = [{"words": words, "tags": tags} for words, tags in tagged(20)]
    rows.write_text("".join(json.dumps(row) + "\n" for row in dicts))
    if kind == "vectors":
        model = vectors_file(word_vectors, tmp_path)
    else:
        model = backbone(kind, tmp_path)
    for name, (kinds, more) in PICTURED.items():
        page = tmp_path / f"{name}.html"
        more = [str(x).format(texts=texts, rows=rows) for x in more]
        status = command("show", name, "--model", model, *more, "--output", page)
        if kind in kinds:
            assert status == 0 and capsys.readouterr().out.endswith(f"{page}\n")
            written = page.read_text(encoding="utf-8")
            assert "Plotly.newPlot" in written and "cdn.plot.ly" not in written[-100_000:]
        else:
            assert status == 1 and not page.exists(), name
            error(capsys)  # one line


def test_a_page_ends_in_html(word_vectors, tmp_path):
    with pytest.raises(ValueError, match="`output` .*html"):
        show.words(word_vectors, ["w1", "w2", "w3"]).save(tmp_path / "x.png")
