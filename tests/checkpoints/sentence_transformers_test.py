"""Folders of sentence-transformers 6.2: its vectors, its files again, and refusals."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.cli.command import tfnlp as command
from tests.support import golden
from tfnlp.checkpoints.sentence_transformers import (
    ACTIVATIONS,
    SentenceSettings,
    read_sentences,
    similarities,
)
from tfnlp.families.checked import section
from tfnlp.families.sentence_runs import LEFT_OUT, SECTION, SentenceRun
from tfnlp.text.task_readers import PromptReader

FOLDERS = golden("sentence_transformers")
TEXTS = json.loads((FOLDERS / "texts.json").read_text())
NAMES = ["e5", "bge", "labse", "all"]
pytestmark = pytest.mark.filterwarnings("ignore:.*texts are longer")


def expected(name):
    with np.load(FOLDERS / name / "expected.npz") as file:
        return dict(file)


def vectors(model, prompts):
    return {name: model.embed(TEXTS, prompt=name or None) for name in prompts}


def assert_equal(found, want):
    for name, array in found.items():
        np.testing.assert_allclose(array, want[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_sentence_transformers(name):
    model, want = tfnlp.load(FOLDERS / name), expected(name)
    assert_equal(vectors(model, ["", *(["query"] if name != "labse" else [])]), want)
    found = model.similarity(want[""], want[""][:2])
    np.testing.assert_allclose(found, want["similarity"], atol=1e-5)


def test_prompts_have_names_and_encode_is_embed():
    model, want = tfnlp.load(FOLDERS / "e5"), expected("e5")
    assert model.sentences.max_length == 24  # tokenizer_config.json alone says so
    assert_equal({"passage": model.encode(TEXTS, prompt="passage: ")}, want)
    with pytest.raises(ValueError, match="`prompt` 'pasage'.* has document, passage, query"):
        model.embed(TEXTS, prompt="pasage")
    np.testing.assert_allclose(model.encode(TEXTS[0], prompt=""), want[""][0], atol=1e-5)


def json_of(path):
    return {
        str(file.relative_to(path)): json.loads(file.read_text())
        for file in path.rglob("*.json")
        if file.name not in ("tokenizer.json", "tokenizer_config.json") and file.parent != path
        or file.name in ("modules.json", "config_sentence_transformers.json")
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n != "all" else n for n in NAMES]
)
def test_files_are_written_as_version_6_writes_them(name, tmp_path):
    model = tfnlp.load(FOLDERS / name)
    model.save(tmp_path / "out", format="sentence-transformers")
    theirs, ours = json_of(FOLDERS / name), json_of(tmp_path / "out")
    del theirs["config_sentence_transformers.json"]["__version__"]
    assert ours == theirs
    length = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert length["model_max_length"] == model.sentences.max_length
    again = tfnlp.load(tmp_path / "out")
    assert again.sentences == model.sentences
    assert_equal(vectors(again, [""]), expected(name))


@pytest.mark.slow
def test_a_module_of_strings_has_prompt_lower_case_and_layers(tmp_path):
    want = expected("all")
    model = tfnlp.load(FOLDERS / "all")
    for number, prompt in enumerate([None, "passage"]):
        model.export(tmp_path / str(number), sentences=True, prompt=prompt)
        found = tf.saved_model.load(str(tmp_path / str(number)))(TEXTS)
        np.testing.assert_allclose(found, want[prompt or ""], atol=1e-5)
    with pytest.raises(ValueError, match="prompt"):
        model.export(tmp_path / "ids", sentences=True, onnx=str(tmp_path / "x.onnx"))


@pytest.mark.slow
def test_an_index_has_one_prompt_and_queries_another(tmp_path, capsys):
    rows = [json.dumps({"text": text}) + "\n" for text in TEXTS[2:]]
    (tmp_path / "texts.jsonl").write_text("".join(rows))
    given = ["--input", tmp_path / "texts.jsonl", "--output", tmp_path / "index"]
    assert command("embed", "--model", FOLDERS / "e5", *given, "--prompt", "passage") == 0
    want = expected("e5")
    index = tfnlp.load(tmp_path / "index")
    np.testing.assert_allclose(index.vectors, want["passage"][2:], atol=1e-5)
    scores = np.sort(want["passage"][2:] @ want["query"][0])[::-1]
    arguments = ["--model", tmp_path / "index", "--prompt", "query", "--json", TEXTS[0]]
    capsys.readouterr()
    assert command("predict", *arguments) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    np.testing.assert_allclose([row["score"] for row in found], scores, atol=1e-5)
    index.export(tmp_path / "module", prompt="query", top=3)
    served = tf.saved_model.load(str(tmp_path / "module"))(TEXTS[:1])
    np.testing.assert_allclose(served["scores"][0], scores, atol=1e-5)


def test_the_section_of_a_run_is_checked():
    settings = tfnlp.load(FOLDERS / "all").sentences
    run = SentenceRun(**{**vars(settings), "texts": 3})
    stated = json.loads(json.dumps(run.section()))

    def read(changes):
        config = {SECTION: {**stated, **changes}}
        return SentenceRun(**section("folder", config, SECTION, SentenceRun, LEFT_OUT))

    assert read({}) == run and read({}).settings == settings
    older = {SECTION: {"pooling": "max", "max_length": 9, "texts": 2, "classes": 0}}
    found = SentenceRun(**section("folder", older, SECTION, SentenceRun, LEFT_OUT))
    assert found.settings == SentenceSettings(("max",), max_length=9)
    dense = stated["modules"][0]
    for name, value in (
        ("pooling", ["median"]), ("pooling", []), ("similarity", "l3"), ("prompt", 3),
        ("prompts", {"a": 1}), ("modules", ["dropout"]), ("modules", [{**dense, "units": 0}]),
        ("modules", [{**dense, "activation": "softmax"}]), ("modules", [{"units": 3}]),
        ("lowercase", 1), ("max_length", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"sentences.{name}="):
            read({name: value})


@pytest.mark.slow
def test_training_goes_on_with_pooling_layers_and_prompt(tmp_path):
    rows = [(text, f"{text} a robin") for text in ("the girl", "a door", "sang to", "in the", "a")]
    given = tfnlp.load(FOLDERS / "all")
    before = [layer.get_weights() for layer in given.sentence_layers]
    run = tfnlp.finetune(
        "embed", given, rows, dev=rows, output=tmp_path / "run", epochs=2, batch_size=4,
        learning_rate=1e-2,
    )  # fmt: skip
    assert run.sentences.modules == given.sentences.modules and run.sentences.normalize
    for layer, arrays in zip(given.sentence_layers, before, strict=True):
        for array, kept in zip(layer.get_weights(), arrays, strict=True):
            np.testing.assert_array_equal(array, kept)  # the model that was given is as it was
    assert np.abs(run.sentence_layers[0].get_weights()[0] - before[0][0]).max() > 1e-3
    loaded = tfnlp.load(tmp_path / "run")
    assert loaded.sentences == run.sentences
    found = loaded.embed(TEXTS)
    np.testing.assert_allclose(found, run.embed(TEXTS), atol=1e-6)
    loaded.save(tmp_path / "out", format="sentence-transformers")
    np.testing.assert_allclose(tfnlp.load(tmp_path / "out").embed(TEXTS), found, atol=1e-6)


def changed(folder, file, key, value):
    path = folder / file
    stated = json.loads(path.read_text()) if path.exists() else {}
    if file == "modules.json":
        stated[2][key] = value
    else:
        stated[key] = value
    path.write_text(json.dumps(stated))


LIBRARY, POOLING = "config_sentence_transformers.json", "sentence_transformers.models.Pooling"


@pytest.mark.parametrize(
    "file, key, value",
    [
        ("modules.json", "type", "sentence_transformers.models.WeightedLayerPooling"),
        ("modules.json", "type", "sentence_transformers.models.LSTM"),
        ("modules.json", "type", "sentence_transformers.models.CNN"),
        ("modules.json", "type", "sentence_transformers.base.modules.router.Router"),
        ("modules.json", "type", "custom.Dense"),
        ("modules.json", "type", POOLING),
        ("modules.json", "kwargs", ["task"]),
        ("1_Pooling/config.json", "pooling_mode", "median"),
        ("1_Pooling/config.json", "pooling_mode_median", True),
        ("2_Dense/config.json", "activation_function", "torch.nn.modules.activation.Softmax"),
        ("2_Dense/config.json", "activation_function", "my.Tanh"),
        ("2_Dense/config.json", "use_residual", True),
        ("2_Dense/config.json", "module_input_name", "token_embeddings"),
        ("3_Normalize/config.json", "module_output_name", "other"),
        ("sentence_bert_config.json", "transformer_task", "fill-mask"),
        ("sentence_bert_config.json", "module_output_name", "sentence_embedding"),
        ("sentence_bert_config.json", "processing_kwargs", {"text": {"max_length": 5}}),
        ("sentence_bert_config.json", "query_length", 5),
        ("tokenizer_config.json", "padding_side", "left"),
        ("tokenizer_config.json", "truncation_side", "left"),
        (LIBRARY, "truncate_dim", 4),
        (LIBRARY, "model_type", "CrossEncoder"),
        (LIBRARY, "similarity_fn_name", "maxsim"),
        (LIBRARY, "default_prompt_name", "question"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_key(file, key, value, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(FOLDERS / "labse", folder)
    changed(folder, file, key, value)
    settings, layers = read_sentences(str(folder), 8, 32, True)
    said = key if key != "type" else value if value != POOLING else "Transformer, Pooling, Pooling"
    assert said in settings.refused and file in settings.refused
    assert not layers


def test_a_refused_folder_gives_no_vectors_but_plain_ones(tmp_path):
    shutil.copytree(FOLDERS / "labse", tmp_path / "folder")
    changed(tmp_path / "folder", LIBRARY, "truncate_dim", 4)
    model = tfnlp.load(tmp_path / "folder")
    for call in (model.embed, model.encode):
        with pytest.raises(ValueError, match="truncate_dim=4"):
            call(TEXTS)
    with pytest.raises(ValueError, match="truncate_dim=4"):
        model.save(tmp_path / "out", format="sentence-transformers")
    assert model.embed(TEXTS[:1], "cls").shape == (1, 8)


def test_a_dense_of_another_size_is_named(tmp_path):
    shutil.copytree(FOLDERS / "labse", tmp_path / "folder")
    with pytest.raises(ValueError, match="2_Dense"):
        read_sentences(str(tmp_path / "folder"), 16, 32, True)
    (tmp_path / "folder" / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="2_Dense"):
        read_sentences(str(tmp_path / "folder"), 8, 32, True)


# What torch 2.13 gives for -2.5 and 1.5.
TORCH = {
    "Identity": (-2.5, 1.5), "Tanh": (-0.986614, 0.905148), "ReLU": (0.0, 1.5),
    "GELU": (-0.015524, 1.399789), "SiLU": (-0.189646, 1.226362), "Sigmoid": (0.075858, 0.817574),
    "ELU": (-0.917915, 1.5), "SELU": (-1.613786, 1.576051), "ReLU6": (0.0, 1.5),
    "Mish": (-0.196816, 1.403378), "Softplus": (0.078890, 1.701413),
    "Softsign": (-0.714286, 0.6), "Hardswish": (-0.208333, 1.125),
}  # fmt: skip


def test_activations_are_those_of_torch():
    import keras

    assert set(TORCH) == set(ACTIVATIONS)
    for name, want in TORCH.items():
        found = keras.activations.get(ACTIVATIONS[name])(tf.constant([-2.5, 1.5]))
        np.testing.assert_allclose(found, want, atol=2e-6, err_msg=name)


def test_lower_case_before_the_tokenizer_is_of_each_character():
    """As the normalizer `Lowercase` of tokenizers: no final sigma."""

    class Texts:
        def read(self, texts):
            return texts

    found = PromptReader(Texts(), "Query: ", True).read([tf.constant(["ΣΑΣ İ ÄB", ""])])
    assert [text.decode() for text in found[0].numpy()] == ["query: σασ i̇ äb", "query: "]


def test_similarities():
    u, v = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[3.0, 0.0]])
    for name, want in (
        ("cosine", [[0.6], [0.0]]),
        ("dot", [[9.0], [0.0]]),
        ("euclidean", [[-4.0], [-3.0]]),
        ("manhattan", [[-4.0], [-3.0]]),
    ):
        np.testing.assert_allclose(similarities(u, v, name), want, rtol=1e-6)
    assert similarities(u[0], v).shape == (1, 1)
