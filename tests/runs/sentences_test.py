"""Vectors of sentences: those of each text alone, by the formula, of every kind of model."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.hub import gpt_toy
from tests.support import golden
from tfnlp import models
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES, sentences
from tfnlp.hub import BertPreprocessorModule, ElmoModule
from tfnlp.text import WordPieceTokenizer, WordVectors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
TEXTS = ["a b c", "", "h", "c d e f g h a b c d", "b a", "a " * 13, "e f g"]
SIZES = dict(num_layers=2, hidden_size=8, num_heads=2, intermediate_size=16)
GOLDEN = "bert_xsmall_dummy_pt"


def pooled(h, pooling, normalize):
    """The formula for one text's real tokens `[T, D]`."""
    h = np.asarray(h, "float64")
    e = {"mean": h.mean(0), "max": h.max(0), "cls": h[0], "last": h[-1]}[pooling]
    return e / np.linalg.norm(e) if normalize else e


def small_bert():
    encoder = models.bert(len(WORDS), **SIZES, max_positions=16, initializer_range=0.5)
    tokenizer = WordPieceTokenizer(WORDS)
    loaded = Pretrained(encoder, None, {"max_positions": 16}, lambda: tokenizer, path="bert")
    loaded.family = FAMILIES["bert"]
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize(
    "tokens, pooling, layer",
    [(1, "mean", -1), (40, "cls", 0), (40, "cls", 2), (40, "max", 1), (4096, "last", -1)],
)
def test_vectors_are_those_of_each_text_alone(tokens, pooling, layer, monkeypatch):
    monkeypatch.setattr(sentences, "_TOKENS", tokens)
    loaded = small_bert()
    found = loaded.embed([text for text in TEXTS if len(text) < 25], pooling, layer=layer)
    assert found.dtype == np.float32
    for text, vector in zip((t for t in TEXTS if len(t) < 25), found, strict=True):
        ids = np.array([[2, *(WORDS.index(word) for word in text.split()), 3]], "int32")
        inputs = dict(input_word_ids=ids, input_mask=np.ones_like(ids))
        outputs = loaded.encoder({**inputs, "input_type_ids": np.zeros_like(ids)})
        states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
        want = pooled(states[layer][0], pooling, True)
        np.testing.assert_allclose(vector, want, atol=2e-5, err_msg=text)


@pytest.mark.slow
def test_strings_are_encoded_as_each_alone(monkeypatch):
    monkeypatch.setattr(sentences, "_TOKENS", 40)
    loaded = small_bert()
    encoder = loaded.encoder
    found = sentences.string_vectors(loaded, BertPreprocessorModule, special=2)(TEXTS)
    assert list(found) == list(encoder.output)
    inputs = BertPreprocessorModule(loaded.tokenizer, 16)(tf.constant(TEXTS))
    for row, size in enumerate(inputs["input_mask"].numpy().sum(1)):
        alone = encoder({name: x[row : row + 1, :size] for name, x in inputs.items()})
        np.testing.assert_allclose(
            found["pooled_output"][row], alone["pooled_output"][0], atol=1e-5
        )
        for layer, want in zip(found["encoder_outputs"], alone["encoder_outputs"], strict=True):
            assert layer.shape == (len(TEXTS), 16, 8)
            np.testing.assert_allclose(layer[row, :size], want[0], atol=1e-5)
            assert not layer[row, size:].numpy().any()


@pytest.mark.slow
def test_settings_and_what_is_refused():
    loaded = small_bert()
    with pytest.warns(UserWarning, match="2 of 7 texts are longer than 10 tokens"):
        short = loaded.embed([*TEXTS[:5], *TEXTS[6:], "a " * 8 + "b"], max_length=10)
    np.testing.assert_allclose(short[-1], loaded.embed("a " * 8), atol=1e-5)
    raw = loaded.embed(TEXTS[:2], normalize=False)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(loaded.embed(TEXTS[:2]), unit, atol=1e-6)
    assert loaded.embed([]).shape == (0, 8)
    for settings, said in (
        ({"pooling": "first"}, "`pooling`"),
        ({"max_length": 2}, "`max_length` 2"),
        ({"max_length": 17}, "17"),
        ({"layer": 3}, "layer=3"),
    ):
        with pytest.raises(ValueError, match=said):
            loaded.embed(TEXTS, **settings)


@pytest.mark.slow
def test_a_gpt_reads_to_its_last_token():
    tokenizer, model = gpt_toy.tokenizer(), gpt_toy.model()
    loaded = Pretrained(model, None, {}, lambda: tokenizer, path="gpt")
    loaded.family = FAMILIES["gpt"]
    texts = ["the cat", "a", "the dog sat on the mat"]
    for text, vector in zip(texts, loaded.embed(texts, "last"), strict=True):
        ids = loaded.tokenizer.tokenize([text]).to_tensor().numpy()
        outputs = loaded.encoder({"input_word_ids": ids, "input_mask": np.ones_like(ids)})
        want = pooled(outputs["sequence_output"][0], "last", True)
        np.testing.assert_allclose(vector, want, atol=2e-5)


@pytest.mark.slow
def test_an_elmo_gives_the_mean_of_its_module():
    loaded = tfnlp.load(golden("elmo_bilm_tf"))
    texts = ["a b cat", "", "The cat sat on the mat .", "dogs"]
    want = ElmoModule(loaded.encoder)(tf.constant(texts))["default"].numpy()
    found = loaded.embed(texts, normalize=False)
    np.testing.assert_allclose(found, want, atol=1e-5)
    assert not found[1].any()
    module = ElmoModule(loaded.encoder)(tf.constant(texts[2:3]))
    lstm = module["lstm_outputs1"][0].numpy()
    np.testing.assert_allclose(
        loaded.embed(texts[2], "max", layer=1), pooled(lstm, "max", True), atol=1e-5
    )
    with pytest.raises(ValueError, match="`max_length`"):
        loaded.embed(texts, max_length=5)


def test_word_vectors():
    table = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    vectors = WordVectors(["a", "b", "c"], table)
    loaded = Pretrained(None, None, {}, words=vectors.words, word_vectors=vectors, path="v")
    loaded.family = FAMILIES["word2vec"]
    found = loaded.embed(["a b a", "c unseen", "", "unseen"], normalize=False)
    np.testing.assert_allclose(found[0], (2 * table[0] + table[1]) / 3, rtol=1e-6)
    np.testing.assert_allclose(found[1], table[2] / 2, rtol=1e-6)
    assert not found[2:].any()
    np.testing.assert_allclose(
        loaded.embed("b c", "max"), pooled(table[1:], "max", True), rtol=1e-6
    )


@pytest.mark.slow
def test_a_model_that_translates_gives_the_vectors_of_its_encoder():
    tokenizer = gpt_toy.tokenizer()
    for make in (models.transformer, models.seq2seq):
        sizes = dict(num_layers=1, hidden_size=8)
        if make is models.transformer:
            sizes.update(num_heads=2, intermediate_size=16)
        model = make(tokenizer.vocab_size, **sizes)
        loaded = Pretrained(model, None, {}, lambda: tokenizer, path="m")
        loaded.family = FAMILIES[make.__name__]
        texts = ["hello", "a longer sentence"]
        for text, vector in zip(texts, loaded.embed(texts), strict=True):
            ids = [*tokenizer.tokenize([text])[0].numpy(), tokenizer.end_id]
            ids = np.array([ids], "int32")
            inputs = dict(input_word_ids=ids, input_mask=np.ones_like(ids), target_word_ids=ids)
            want = pooled(model(inputs)["encoder_output"][0], "mean", True)
            np.testing.assert_allclose(vector, want, atol=2e-5)


def folder_of(path, pooling, normalize=True, **more):
    """A folder as sentence-transformers writes it: its files, without the weights."""
    kinds = ["Transformer", "Pooling", *["Normalize"] * normalize]
    places = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, place) in enumerate(zip(kinds, places, strict=False))
    ]
    (path / "1_Pooling").mkdir(parents=True)
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, **more}))
    for file in golden(GOLDEN).iterdir():
        os.symlink(file, path / file.name)
    return path


@pytest.mark.parametrize("stated, length", [({"model_max_length": 16}, 16), ({}, 512),
                                            ({"model_max_length": 1e30}, 512)])  # fmt: skip
def test_since_version_6_the_longest_text_is_the_tokenizers(stated, length, tmp_path):
    folder = folder_of(tmp_path / "in", {"pooling_mode": "mean"}, max_seq_length=None)
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    loaded = tfnlp.load(folder)
    assert loaded.sentences.max_length == length
    long = "a man " * 300
    np.testing.assert_array_equal(loaded.embed(long), loaded.embed(long, max_length=length))


@pytest.mark.slow
def test_a_folder_of_sentence_transformers_comes_in_and_goes_out(tmp_path):
    pooling = {"word_embedding_dimension": 16, "pooling_mode_max_tokens": True}
    loaded = tfnlp.load(folder_of(tmp_path / "in", pooling, normalize=False))
    assert loaded.sentences.pooling == ("max",) and loaded.sentences.max_length == 32
    texts = ["a man plays", "one"]
    found = loaded.embed(texts)
    np.testing.assert_array_equal(found, loaded.embed(texts, "max", False, max_length=32))
    loaded.save(tmp_path / "out", format="sentence-transformers")
    again = tfnlp.load(tmp_path / "out")
    assert again.sentences == loaded.sentences
    np.testing.assert_allclose(again.embed(texts), found, atol=1e-6)
    newer = folder_of(tmp_path / "newer", {"pooling_mode": "lasttoken"})
    assert tfnlp.load(newer).sentences.pooling == ("last",)
    two = folder_of(tmp_path / "two", {"pooling_mode": ["mean", "weightedmean"]})
    assert tfnlp.load(two).embed(texts).shape == (2, 2 * found.shape[1])
    (tmp_path / "two" / "modules.json").write_text('[{"path": "../x", "type": "Transformer"}]')
    with pytest.raises(ValueError, match="modules.json"):
        tfnlp.load(tmp_path / "two")


@pytest.fixture(scope="module")
def model():
    return golden(GOLDEN)


@pytest.mark.slow
def test_files_in_and_out(model, tmp_path, capsys):
    texts = ["a man plays", "", "one two", "three"]
    (tmp_path / "a.txt").write_text("\n".join(texts[:2]) + "\n")
    (tmp_path / "b.jsonl").write_text("".join(f'{{"text": "{t}"}}\n' for t in texts[2:]))
    given = ["embed", "--model", model, "--input", tmp_path / "a.txt", tmp_path / "b.jsonl"]
    assert command(*given, "--output", tmp_path / "v.npy") == 0
    assert "4 texts" in capsys.readouterr().out
    found = np.load(tmp_path / "v.npy")
    np.testing.assert_allclose(found, tfnlp.load(model).embed(texts), atol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.jsonl", "v.npy"]
    assert command(*given, "--output", tmp_path / "v.tsv") == 0
    np.testing.assert_allclose(np.loadtxt(tmp_path / "v.tsv"), found, rtol=1e-6)
    assert (tmp_path / "v.metadata.tsv").read_text().split("\n") == [*texts, ""]
    parquet = pytest.importorskip("pyarrow.parquet")
    assert command(*given, "--output", tmp_path / "v.parquet") == 0
    table = parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert table["text"] == texts
    np.testing.assert_array_equal(np.array(table["embedding"], "float32"), found)
    again = ["embed", "--model", model, "--input", tmp_path / "v.parquet", "--output"]
    assert command(*again, tmp_path / "w.npy", "--no-normalize", "--layer", "0") == 0
    assert np.load(tmp_path / "w.npy").shape == found.shape


@pytest.mark.parametrize(
    "name, content, more, said",
    [
        ("a.txt", "", (), "no texts"),
        ("a.jsonl", '{"text": "a"}\n{"b": "c"}\n', (), "line 2"),
        ("a.tsv", "one\ttwo\na\tb\n", ("--text", "three"), "no column 'three'"),
        ("a.parquet", "no parquet", (), "a.parquet"),
    ],
)
def test_files_that_can_not_be_read(model, tmp_path, capsys, name, content, more, said):
    (tmp_path / name).write_text(content)
    given = ["embed", "--model", model, "--input", tmp_path / name, "--output", tmp_path / "v.npy"]
    assert command(*given, *more) == 1
    assert said in error(capsys)
    assert os.listdir(tmp_path) == [name]  # nothing half-written
