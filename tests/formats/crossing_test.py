"""Every model in every format: what is written is loaded as the same, with the same numbers."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.support import golden
from tfnlp.checkpoints import Pretrained
from tfnlp.formats import FORMATS, Module
from tfnlp.runs.search_index import Index
from tfnlp.runs.task_run import TaskRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXTS = ["the garden was", "a robin sang to the girl"]
SENTENCES = ["the dog sees", "big cat"]  # of the toy language that is translated
HEADS = golden("huggingface_heads")
ROWS = json.loads((HEADS / "texts.json").read_text())

# What each model is written as, by the names of the classes of `tfnlp.formats`, or of the files.
_VECTORS = "WordVectors word2vec word2vec-binary fasttext fasttext-binary glove"
_ENCODER = "Encoder Sentences SentenceTransformers HuggingFace Onnx LiteRT"
_TASK = "Task HuggingFace Onnx LiteRT"
WRITTEN = {
    **dict.fromkeys(["word2vec", "glove", "nnlm"], _VECTORS),
    **dict.fromkeys(["seq2seq", "transformer"], "Translation"),
    "elmo": "Elmo Bilm",
    "gpt": "LanguageModel Sentences HuggingFace Onnx LiteRT",
    **dict.fromkeys(["bert", "roberta", "distilbert", "albert", "mpnet"], f"{_ENCODER} Fill"),
    "electra": _ENCODER,
    "index": "Search",
    "elmo task": "Task",
    **dict.fromkeys(["bert task", "gpt task"], _TASK),
    # Checkpoints of other tasks.
    **dict.fromkeys(
        ["bert_answer", "bert_similarity", "bert_scores", "bert_tag", "roberta_choose"], _TASK
    ),
    **dict.fromkeys(["gpt2_classify", "peft/bert_classify"], _TASK),
}
IN_LONG = {
    *("glove", "nnlm", "transformer", "roberta", "distilbert", "albert", "electra", "mpnet"),
    *("elmo task", "gpt task", "bert_similarity", "bert_scores", "bert_answer", "bert_tag"),
    *("roberta_choose", "gpt2_classify", "peft/bert_classify"),
}


def model_of(name, made, folder):
    """The model that a key of `WRITTEN` names."""
    if name == "index":
        (folder / "texts.txt").write_text("\n".join(TEXTS))
        tfnlp.embed(str(made("bert").run), folder / "texts.txt", folder / "index")
        return tfnlp.load(folder / "index")
    if name.endswith(" task"):
        return tfnlp.load(made(name.split()[0]).task)
    if "_" in name:
        return tfnlp.load(golden(name) if "/" in name else HEADS / name)
    return tfnlp.load(made(name).run)


def rows_of(run):
    """Rows of a fine-tuned model: as `predict` takes them, and as its module does."""
    pairs = [tuple(pair) for pair in ROWS["pairs"]]
    first, second = zip(*pairs, strict=True)
    if run.task == "answer":
        return pairs, {"question": first, "context": second}
    if run.task == "similarity":
        return pairs, {"text_a": first, "text_b": second}
    if run.task == "choose":
        rows = [tuple(row) for row in ROWS["choices"]]
        return rows, {"text": [row[0] for row in rows], "choices": [row[1:] for row in rows]}
    return ROWS["texts"], {"text": ROWS["texts"]}


def numbers(model, like):
    """What a model says of a few texts; `like` is the model that it was written of."""
    if isinstance(like, TaskRun):
        return predicted(model, *rows_of(like))
    if isinstance(model, Index):
        return [[row["score"] for row in rows] for rows in model.search(TEXTS, 2)]
    if isinstance(like, Index):
        return model(TEXTS)["scores"]
    if like.decoder is not None:
        if isinstance(model, Pretrained):
            return [text.encode() for text in model(SENTENCES)]
        translate = model.module.signatures["serving_default"]
        return translate(sentences=tf.constant(SENTENCES))["translation"].numpy().tolist()
    if like.word_vectors is not None or isinstance(model, Module):
        return model(TEXTS)
    return model.embed(TEXTS)


def predicted(model, rows, named):
    """The probabilities or scores of rows, one after the other."""

    def of(found):
        return found[next(n for n in ("score", "scores", "probabilities") if n in found)]

    if isinstance(model, TaskRun):
        values = map(of, model.predict(rows))
        flat = [list(x.values()) if isinstance(x, dict) else x for x in values]
        return np.concatenate([np.ravel(x) for x in flat])
    values = of(model(**{name: list(values) for name, values in named.items()})).numpy()
    return values[values != 0]  # without padding


def guesses(model, text):
    """The words for the mask in a text, with their probabilities."""
    if isinstance(model, Pretrained):
        return dict(model.predict([text], top=5)[0][0])
    found = model([text])
    words = [word.decode("utf-8", "replace") for word in found["tokens"].numpy()[0, 0]]
    return dict(zip(words, found["probabilities"].numpy()[0, 0], strict=True))


def kind_of(model):
    return (model.kind,) if isinstance(model, Module) else (type(model), model.title)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n in IN_LONG)) for n in WRITTEN]
)
def test_what_is_written_is_loaded_again(name, made, tmp_path):
    model = model_of(name, made, tmp_path)
    if isinstance(model, TaskRun):
        model.predict(rows_of(model)[0])  # says how many texts an example has
    want, written = numbers(model, model), []
    taken = {one.name for one in FORMATS if one.takes(model) is None}
    for one in FORMATS:
        called, given = type(one).__name__, {"format": one.name}
        if called == "WordVectorsFile":
            called = one.name
        folder = tmp_path / called
        if one.takes(model) is not None:
            if one.name not in taken:
                with pytest.raises(ValueError):
                    model.export(folder, **given)
                assert not folder.exists()
            continue
        written.append(called)
        if one.option:
            given[one.option] = True
        assert model.export(folder, **given)
        if called in ("Onnx", "LiteRT"):  # which tests/hub/graphs_test.py runs
            assert (folder / "example.py").exists()
            continue
        again = tfnlp.load(folder)
        kind = kind_of(model) if one.pretrained else (one.kind,)
        if called in _VECTORS and one.pretrained:  # a file does not say how they were made
            kind = (Pretrained, "word vectors")
        assert kind_of(again) == kind, called
        if called == "HuggingFace" and isinstance(model, Pretrained):
            mask = model.tokenizer.mask_token if "Fill" in WRITTEN[name] else "blue"
            asked = {"max_new_tokens": 3} if name == "gpt" else {}
            want_words = model.predict([f"the {mask} was"], **asked)
            assert again.predict([f"the {mask} was"], **asked) == want_words
        if called == "Fill":
            text = f"the {model.tokenizer.mask_token} was"
            assert guesses(again, text) == pytest.approx(guesses(model, text), rel=1e-4)
        elif called == "Translation":
            assert numbers(again, model) == want
        else:
            np.testing.assert_allclose(numbers(again, model), want, atol=2e-5, err_msg=called)
    assert sorted(written) == sorted(WRITTEN[name].split())
