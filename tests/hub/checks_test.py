"""Damage to each file of a SavedModel, against what TensorFlow makes of the same files."""

import contextlib
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.fuzz.damage import damaged_bytes
from tfnlp import hub
from tfnlp.hub.loading.checks import check_saved_model

GRAPH, INDEX = "saved_model.pb", "variables/variables.index"
DATA, ASSET = "variables/variables.data-00000-of-00001", "assets/vocab.txt"


class Tiny(tf.Module):
    """Rows of a table, looked up by the words of an asset."""

    def __init__(self, vocabulary):
        self.rows = tf.Variable(tf.random.stateless_normal([4, 8], seed=(1, 2)))
        self.names = tf.Variable(["one", "another"])
        words = tf.lookup.TextFileInitializer(
            vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
        )  # fmt: skip
        self.table = tf.lookup.StaticVocabularyTable(words, 1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, words):
        return tf.gather(self.rows, self.table.lookup(words))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    (folder / "vocab.txt").write_text("a\nb\nc\n")
    tf.saved_model.save(Tiny(str(folder / "vocab.txt")), str(folder / "m"))
    return folder / "m"


@pytest.fixture
def folder(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "m"))


def refused(folder, error, says, **arguments):
    with pytest.raises(error, match=says) as caught:
        check_saved_model(folder, **arguments)
    assert "\n" not in str(caught.value) and str(caught.value).endswith("download it again")


def output(folder):
    return tf.saved_model.load(str(folder))(tf.constant(["b", "none"])).numpy()


@pytest.mark.parametrize("name", [GRAPH, INDEX, DATA, ASSET])
def test_missing(folder, name):
    check_saved_model(folder, tensors=True)
    (folder / name).unlink()
    says = f"has no {GRAPH}" if name == GRAPH else f"^{folder}/{name} is missing"
    refused(folder, FileNotFoundError, says)
    (folder / name).mkdir()  # a folder is no file
    refused(folder, FileNotFoundError, says)


@pytest.mark.parametrize("name", [GRAPH, INDEX, DATA])
def test_cut_off(folder, name):
    content, says = (folder / name).read_bytes(), f"^{folder}/{name.partition('.data')[0]}"
    for length in (0, 2, 100):  # of a data file also what its strings need
        (folder / name).write_bytes(content[:length])
        refused(folder, ValueError, says)
    (folder / name).write_bytes(content[:-1])
    refused(folder, ValueError, says, tensors=True)


@pytest.mark.parametrize("variables", [True, False])
def test_tensorflow_1(tmp_path, variables):
    """Its assets are in a collection, and it writes no index where there are no variables."""
    v1, folder = tf.compat.v1, tmp_path / "m"
    (tmp_path / "vocab.txt").write_text("a\n")
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        factor = v1.get_variable("v", [], use_resource=False) if variables else 2.0
        path = v1.constant(str(tmp_path / "vocab.txt"))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, path)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session, ["serve"],
            {"default": v1.saved_model.predict_signature_def({"x": x}, {"y": x * factor})},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        )  # fmt: skip
        builder.save(as_text=not variables)  # as saved_model.pbtxt
    tf.saved_model.load(str(folder))
    check_saved_model(folder, tensors=True)
    (folder / ASSET).unlink()
    refused(folder, FileNotFoundError, f"^{folder}/{ASSET} is missing")
    (folder / ASSET).write_text("a\n")
    if variables:
        (folder / INDEX).unlink()
        refused(folder, FileNotFoundError, f"^{folder}/{INDEX} is missing")
    else:
        (folder / "saved_model.pbtxt").write_text("meta_graphs { nonsense: 1 }")
        refused(folder, ValueError, f"^{folder}/saved_model.pbtxt is cut off or damaged .1:")


def test_shards(folder, tmp_path):
    two = folder / "variables"
    for k, content in enumerate(((two / DATA[10:]).read_bytes(), b"")):
        (two / f"variables.data-0000{k}-of-00002").write_bytes(content)
    (two / DATA[10:]).unlink()
    check_saved_model(folder)
    (two / "variables.data-00001-of-00002").unlink()
    refused(folder, FileNotFoundError, "variables.data-00001-of-00002 is missing")


def test_claims_are_compared_before_there_is_room_for_them(folder):
    checkpoint = tf.train.Checkpoint(x=tf.Variable(tf.zeros([1 << 10, 1 << 10])))
    checkpoint.write(str(folder / "variables" / "variables"))
    (folder / DATA).write_bytes(b"short")
    refused(folder, ValueError, r"hold 5 bytes, but the index lists tensors of 41\d{5}: ")


def test_asset_outside(folder):
    content = (folder / GRAPH).read_bytes()
    assert content.count(b"vocab.txt") >= 1
    (folder / GRAPH).write_bytes(content.replace(b"\x09vocab.txt", b"\x09../../bcd"))
    refused(folder, ValueError, r"names the asset '../../bcd'; expected a file inside of")


def inspected(folder):
    """What `inspect` describes, in a form that harms nobody; None if it says that it can't."""
    try:
        found = hub.inspect(folder)
    except (ValueError, OSError) as error:
        assert str(error) and "\n" not in str(error)
        return None
    assert str(found).replace("\n", "").isprintable()
    compile(found.usage or "", "usage", "exec")
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", [GRAPH, INDEX, DATA])
def test_edited(folder, whole, name):
    """An edit is refused in one line that names the file, or harms no variable; what it does to
    a graph that can still be decoded is TensorFlow's to judge."""
    rng, content, expected = random.Random(name), (folder / name).read_bytes(), output(whole)
    seen = 0
    for _ in range(150):
        changed = damaged_bytes(content, rng)
        (folder / name).write_bytes(changed)
        refusal = None
        try:
            check_saved_model(folder, tensors=name != GRAPH)
        except (ValueError, FileNotFoundError) as error:
            refusal = str(error)
            assert refusal.startswith(str(folder)) and "\n" not in refusal
        seen += refusal is not None
        if name == DATA:
            # What is behind the last tensor is nobody's.
            assert (refusal is None) == changed.startswith(content)
        elif name == INDEX and refusal is None:  # nothing of it was lost
            np.testing.assert_array_equal(output(folder), expected)
        elif refusal is None:
            with contextlib.suppress(Exception):  # which `load_module` turns into one line
                output(folder)
        if name != DATA:
            inspected(folder)
    assert seen > 75
