"""ELMo in bilm-tf's format: its own recorded outputs, a numpy reimplementation, round trips.

What is no ELMo is refused in one line, before a model is built.
"""

import json
import os
import re

import keras
import numpy as np
import pytest

import tfnlp.checkpoints.elmo
from tests.checkpoints.elmo_reference import (
    layers,
    lstm,
    random_arrays,
    read,
    sentence_ids,
    small_options,
    token_vector,
    with_boundaries,
    write,
)
from tests.checkpoints.faults import no_model_of, one_line
from tests.support import golden
from tfnlp.checkpoints import load_elmo, save_elmo
from tfnlp.checkpoints.elmo import read_options
from tfnlp.models import elmo, elmo_lstm, elmo_pretrainer

FIXTURE = "elmo_bilm_tf"
SENTENCES = ["It seems so .", "Mo", "naïve 北京 antidisestablishmentarianism" + "s" * 60]


def padded(rows):
    """`[B, T, 50]`, zeros where a row is shorter than the longest."""
    batch = np.zeros((len(rows), max(map(len, rows)), 50), np.int32)
    for filled, row in zip(batch, rows, strict=True):
        filled[: len(row)] = row
    return batch


@pytest.mark.slow
def test_recorded_outputs_of_bilm_tf():
    """Three texts of ten sentences are read side by side, the state of each carried on; recorded
    is the last layer, forward and backward."""
    folder = golden(FIXTURE)
    encoder = load_elmo(folder).encoder
    char_cnn, recurrent = encoder.get_layer("char_cnn"), elmo_lstm(encoder)
    texts = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    recorded = [read(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    state = np.zeros((3, 4, 64 + 16), np.float32)
    compared = 0
    for i in range(10):
        ids = padded([with_boundaries(sentence_ids(text[i].split())) for text in texts])
        outputs = recurrent(
            {
                "word_embeddings": keras.ops.convert_to_numpy(char_cnn(ids)),
                "word_mask": ids[:, :, 0] > 0,
                "state": state,
            }
        )
        state = keras.ops.convert_to_numpy(outputs["state"])
        found = keras.ops.convert_to_numpy(outputs["lstm_outputs2"])
        for k in range(3):
            expected = np.concatenate(list(recorded[k][str(i)]), axis=-1)  # [T, 2P]
            words = len(texts[k][i].split())
            assert expected.shape == (words, 32)
            np.testing.assert_allclose(found[k, :words], expected, rtol=0, atol=2e-6)
            assert not found[k, words:].any()
            compared += words
    assert compared == sum(array.shape[1] for text in recorded for array in text.values()) == 744


CASES = {
    "residual": small_options(),
    "clipped": small_options({"cell_clip": 0.3, "proj_clip": 0.2, "n_layers": 3}),
    "plain, no clips": small_options(
        {"use_skip_connections": False, "cell_clip": None, "proj_clip": 0}
    ),
    "tanh, one layer": small_options({"n_layers": 1}, {"activation": "tanh"}),
    "three highways": small_options(cnn={"n_highway": 3, "filters": [[3, 4], [3, 2], [1, 1]]}),
    "no projection": small_options(cnn={"n_highway": 0, "filters": [[2, 3], [3, 1]]}),
    "widest filter": small_options(cnn={"filters": [[50, 4], [1, 2]]}),
    "training run": small_options(cnn={"n_characters": 261})
    | {"bidirectional": True, "n_tokens_vocab": 9, "unroll_steps": 20, "dropout": 0.1},
}


def absent_keys():
    """Only what bilm-tf itself has a default for is left out."""
    options = small_options()
    for section, key in (
        ("lstm", "n_layers"),
        ("lstm", "cell_clip"),
        ("lstm", "proj_clip"),
        ("char_cnn", "n_highway"),
    ):
        del options[section][key]
    return options


@pytest.mark.parametrize("case", [*CASES, "absent keys"])
def test_every_layer_equals_numpy(tmp_path, case):
    options = CASES.get(case) or absent_keys()
    # Large weights, so that clips bite; stored as float32, computed in float64 by the reference.
    arrays = random_arrays(options, seed=len(case), size=0.7)
    encoder = load_elmo(write(tmp_path / "model", options, arrays)).encoder
    rows = [sentence_ids(text.split()) for text in SENTENCES]
    outputs = {
        name: keras.ops.convert_to_numpy(array)
        for name, array in encoder({"character_ids": padded(rows)}).items()
    }
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    for row, ids in enumerate(rows):
        expected, _ = layers(wide, options, with_boundaries(ids))
        names = ["word_emb", *(f"lstm_outputs{i}" for i in range(1, len(expected)))]
        assert set(outputs) == {*names, "elmo", "default"}
        expected = [layer[1:-1] for layer in expected]
        for name, layer in zip(names, expected, strict=True):
            np.testing.assert_allclose(
                outputs[name][row, : len(ids)], layer, rtol=0, atol=2e-5, err_msg=name
            )
        # Untrained weights of the mix: the mean of all layers.
        mean = np.mean([np.tile(expected[0], 2), *expected[1:]], axis=0)
        np.testing.assert_allclose(outputs["elmo"][row, : len(ids)], mean, rtol=0, atol=2e-5)
        np.testing.assert_allclose(outputs["default"][row], mean.mean(0), rtol=0, atol=2e-5)


def test_state_is_the_references(tmp_path):
    options = CASES["clipped"]
    arrays = random_arrays(options, seed=5, size=0.7)
    recurrent = elmo_lstm(load_elmo(write(tmp_path / "model", options, arrays)).encoder)
    rng = np.random.default_rng(0)
    before = rng.uniform(-0.3, 0.3, (6, 11)).astype(np.float32)
    ids = with_boundaries(sentence_ids(SENTENCES[0].split()))
    expected, after = layers(arrays, options, ids, before)
    outputs = recurrent(
        {
            "word_embeddings": expected[0][None].astype(np.float32),
            "word_mask": np.ones((1, len(ids)), bool),
            "state": before[None],
        }
    )
    np.testing.assert_allclose(outputs["state"][0], after, rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["lstm_outputs3"][0], expected[3][1:-1], rtol=0, atol=1e-5)


def test_softmax_makes_a_pretrainer(tmp_path):
    options = small_options()
    arrays = random_arrays(options)
    rng = np.random.default_rng(1)
    arrays["softmax/W"] = rng.normal(size=(6, 4)).astype(np.float32)
    arrays["softmax/b"] = rng.normal(size=6).astype(np.float32)
    pretrainer = load_elmo(write(tmp_path / "model", options, arrays)).pretrainer
    ids = sentence_ids(["a", "word", "here"])
    words, targets = np.array([[0, 2, 1]]), np.array([[3, 5, 0]])
    outputs = pretrainer(
        {
            "word_characters": ids,
            "forward_words": words.astype(np.int32),
            "backward_words": words[:, ::-1].astype(np.int32),
            "forward_targets": targets.astype(np.int32),
            "backward_targets": targets[:, ::-1].astype(np.int32),
            "state": np.zeros((1, 4, 11), np.float32),
        }
    )
    for direction, name in enumerate(("forward", "backward")):
        order = slice(None, None, -1 if direction else 1)  # of reading
        x = np.array([token_vector(arrays, options, ids[word]) for word in words[0][order]])
        for layer in range(2):
            x, _ = lstm(arrays, options, direction, layer, x, (np.zeros(7), np.zeros(4)))
        scores = x @ arrays["softmax/W"].T + arrays["softmax/b"]
        scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
        losses = -scores[np.arange(3), targets[0][order]]
        np.testing.assert_allclose(outputs[f"{name}_losses"][0], losses, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", ["clipped", "no projection", "three highways", "absent keys"])
def test_import_then_export(tmp_path, case):
    """Every dataset comes back under its name, and the options mean the same."""
    options = CASES.get(case) or absent_keys()
    arrays = random_arrays(options)
    arrays["softmax/W"] = random_arrays(options, 1)["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"]
    arrays["softmax/b"] = np.arange(7, dtype=np.float32)
    first = load_elmo(write(tmp_path / "first", options, arrays))
    save_elmo(tmp_path / "second", first.encoder, first.pretrainer)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["first", "second"]
    written = read(tmp_path / "second" / "weights.hdf5")
    assert written.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(written[name], array, err_msg=name)
    if case == "clipped":
        assert json.loads((tmp_path / "second" / "options.json").read_text()) == options
    second = load_elmo(tmp_path / "second")
    assert second.config == first.config
    for before, after in zip(first.pretrainer.weights, second.pretrainer.weights, strict=True):
        np.testing.assert_array_equal(before, after, err_msg=before.path)


def tiny(**changes):
    arguments = dict(
        num_layers=1, units=6, projection_size=3, embedding_size=2, filters=((1, 4),),
        num_highway=1,
    )  # fmt: skip
    return elmo(**{**arguments, **changes})


def test_models_without_a_place_in_the_format(tmp_path):
    def refuses(pattern, *arguments):
        one_line(pattern, ValueError, save_elmo, *arguments)

    encoder = tiny()
    pretrainer = elmo_pretrainer(encoder, 5)
    target = tmp_path / "out"
    for other in (elmo_lstm(encoder), pretrainer, keras.Sequential(name="s")):
        refuses(f"encoder '{other.name}'", target, other)
    refuses("num_characters=300", target, tiny(num_characters=300))
    refuses("units=3", target, tiny(units=3))
    for other in (encoder, elmo_pretrainer(tiny(), 5)):
        refuses(f"pretrainer '{other.name}'", target, encoder, other)
    assert not os.listdir(tmp_path)


CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"

no_model = no_model_of(tfnlp.checkpoints.elmo, "Pretrained")


def fails(pattern, error=ValueError, path=None, **arguments):
    return one_line(pattern, error, load_elmo, path, **arguments)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "model", small_options(), random_arrays(small_options()))


@pytest.mark.parametrize(
    "lstm, cnn, key",
    [
        (dict(dim=4), {}, "lstm.dim=4 is not above lstm.projection_dim=4"),
        (dict(cell_clip=-1), {}, "lstm.cell_clip=-1"),
        (dict(proj_clip=10**400), {}, "lstm.proj_clip=1000"),
        ({}, dict(embedding=16), "missing char_cnn.embedding.dim"),
        ({}, dict(n_characters=260), "char_cnn.n_characters=260, expected 262"),
        ({}, dict(max_characters_per_token=25), "max_characters_per_token=25, expected 50"),
        ({}, dict(filters=[[1, 2], [3]]), "char_cnn.filters="),
    ],
)
def test_options_that_make_no_sense(tmp_path, lstm, cnn, key):
    (tmp_path / "options.json").write_text(json.dumps(small_options(lstm, cnn)))
    pattern = f"options.json does not fit ELMo in 1 places: .*{re.escape(key)}"
    one_line(pattern, ValueError, read_options, tmp_path / "options.json")


def test_all_faults_of_the_options_are_listed(tmp_path):
    options, path = small_options({"dim": -7, "cell_clip": "3"}, {"filters": [1]}), tmp_path / "x"
    del options["lstm"]["projection_dim"]
    path.write_text(json.dumps(options))
    message = one_line("in 4 places", ValueError, read_options, path)
    for fault in ("lstm.dim=-7", "lstm.cell_clip='3'", "char_cnn.filters=[1]",
                  "missing lstm.projection_dim"):  # fmt: skip
        assert fault in message


def test_missing_surplus_and_misshapen_are_listed_together(tmp_path, no_model):
    arrays = random_arrays(small_options())
    del arrays["CNN_proj/b_proj"]
    arrays[f"{CELL}/W_P_0"] = np.ascontiguousarray(arrays[f"{CELL}/W_P_0"].T)
    arrays["char_embed"] = np.ones((262, 3), "f4")  # with a row for padding: another format
    arrays["CNN/b_cnn_1"] = np.ones(5, "i8")
    arrays[CELL.replace("Cell1", "Cell2") + "/B"] = np.ones(28, "f4")
    arrays["softmax/W"] = np.ones((9, 3), "f4")
    arrays["softmax/b"] = np.ones(8, "f4")
    message = fails("weights.hdf5 does not fit .* in 7 ten.*sizes from .*options.json",
                    path=write(tmp_path, small_options(), arrays))  # fmt: skip
    for fault in (
        "missing 'CNN_proj/b_proj', expected [4]",
        f"misshapen '{CELL}/W_P_0', found [4, 7], expected [7, 4]",
        "misshapen 'char_embed', found [262, 3], expected [261, 3]",
        "'CNN/b_cnn_1' has dtype int64",
        "surplus 'RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell/B', found [28]",
        "misshapen 'softmax/W', found [9, 3], expected [9, 4]",
        "misshapen 'softmax/b', found [8], expected [9]",
    ):
        assert fault in message


def test_ignored_datasets(tmp_path):
    arrays = random_arrays(small_options())
    arrays |= {"softmax/W": np.ones((9, 4), "f4"), "softmax/b": np.ones(9, "f4")}
    arrays["extra/thing"] = np.ones(2, "f4")
    folder = write(tmp_path, small_options(), arrays)
    fails("surplus 'extra/thing', found", path=folder)
    assert load_elmo(folder, ignore="extra/").pretrainer is not None
    assert load_elmo(folder, ignore=["extra", "softmax/"]).pretrainer is None


@pytest.mark.parametrize(
    "softmax, pattern",
    [
        ({"W": np.zeros((0, 4), "f4")}, "misshapen 'softmax/W'"),
        ({"b": np.ones(9, "f4")}, r"missing 'softmax/W', expected \[9, 4\]"),
    ],
)
def test_softmax_without_words(tmp_path, no_model, softmax, pattern):
    arrays = random_arrays(small_options()) | {f"softmax/{n}": a for n, a in softmax.items()}
    fails(pattern, path=write(tmp_path, small_options(), arrays))


def test_which_files_are_taken(folder, tmp_path):
    (folder / "options.json").rename(folder / "elmo_2x7_options.json")
    (folder / "weights.hdf5").rename(folder / "elmo_2x7_weights.hdf5")
    (folder / "vocab.txt").write_text("the")
    expected = load_elmo(folder).config
    apart = tmp_path / "apart.json"
    (folder / "elmo_2x7_options.json").rename(apart)
    message = fails(r"holds no \*options\*.json", FileNotFoundError, folder)
    assert "['elmo_2x7_weights.hdf5', 'vocab.txt']" in message
    assert load_elmo(folder, options=apart).config == expected
    weights = folder / "elmo_2x7_weights.hdf5"
    assert load_elmo(options=str(apart), weights=str(weights)).config == expected
    (folder / "old_weights.hdf5").write_bytes(b"")
    fails("2 files .*: elmo_2x7_weights.hdf5, old_weights.hdf5; say which",
          path=folder, options=apart)  # fmt: skip
    assert load_elmo(folder, options=apart, weights=weights).config == expected
