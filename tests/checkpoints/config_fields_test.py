"""Fields of other people's configurations: executed, harmless, refused, or named."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tfnlp
from tests.checkpoints.checkpoints import copied
from tests.support import golden
from tfnlp.checkpoints import load_bert, load_roberta, save_huggingface, save_roberta
from tfnlp.checkpoints.config import ONLY
from tfnlp.models import bert, bert_pretrainer, roberta, roberta_pretrainer

BERT, ROBERTA = golden("huggingface_heads") / "bert_classify", golden("roberta_huggingface")
TINY = dict(vocab_size=20, num_layers=1, hidden_size=4, num_heads=1, intermediate_size=4)


@pytest.mark.parametrize("name", ONLY)
def test_what_is_not_executed_is_refused_by_its_name(name, tmp_path):
    for number, value in enumerate(ONLY[name]):
        load_bert(copied(BERT, tmp_path / str(number), **{name: value}))
    with pytest.raises(ValueError, match=rf"config.json has {name}='other'"):
        load_bert(copied(BERT, tmp_path / "x", **{name: "other"}))


def test_a_field_that_nobody_knows_is_named(tmp_path, capsys):
    load_bert(copied(BERT, tmp_path / "x", rotary=True, classifier_dropout=0.3, use_cache=True))
    said = capsys.readouterr().err
    assert "config.json has fields that tfnlp does not know, and ignores: 'rotary'\n" in said


def test_names_that_a_parallel_module_gave(tmp_path):
    folder = copied(BERT, tmp_path / "x")
    tensors = load_file(folder / "model.safetensors")
    save_file({f"module.{n}": x for n, x in tensors.items()}, folder / "model.safetensors")
    ours, theirs = (tfnlp.load(path).task_model.model.weights for path in (folder, BERT))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_head_of_a_roberta_is_gelu_whatever_its_blocks_are(tmp_path):
    """Hugging Face's RobertaLMHead, and so a model with another can't be written."""
    loaded = load_roberta(copied(ROBERTA, tmp_path / "x", hidden_act="relu"))
    assert loaded.config["activation"] == "relu"
    assert loaded.pretrainer.get_layer("masked_lm_head").activation == "gelu"
    model = roberta_pretrainer(roberta(**TINY, activation="relu"), activation="relu")
    with pytest.raises(ValueError, match="head has activation='relu'.*has 'gelu'"):
        save_roberta(model, tmp_path / "out")
    model = bert_pretrainer(bert(**TINY, activation="relu"), next_sentence=False)
    with pytest.raises(ValueError, match="head has activation='gelu'.*has 'relu'"):
        save_huggingface(model, tmp_path / "out")
    save_roberta(roberta_pretrainer(roberta(**TINY, activation="relu")), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["hidden_act"] == "relu"


def test_a_head_on_a_pooler_that_is_missing_is_refused(tmp_path):
    folder = copied(BERT, tmp_path / "x")
    tensors = load_file(folder / "model.safetensors")
    save_file({n: x for n, x in tensors.items() if "pooler" not in n}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="no pooler, on which the head of BertForSequence"):
        tfnlp.load(folder)


@pytest.mark.parametrize("stated, name", [({"pad_token_id": 3}, "3"), ({}, "new")])
def test_a_gpt_is_written_with_its_padding(stated, name, tmp_path):
    """Without `pad_token_id` transformers takes batches of one text alone."""
    folder = copied(golden("huggingface_heads") / "gpt2_classify", tmp_path / "x")
    config = json.loads((folder / "config.json").read_text())
    del config["pad_token_id"]
    (folder / "config.json").write_text(json.dumps({**config, **stated}))
    tfnlp.load(folder).save(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    tokens = json.loads((tmp_path / "out" / "tokenizer.json").read_text())["model"]["vocab"]
    padding, size = written["pad_token_id"], config["vocab_size"]
    assert padding == (3 if name == "3" else size)
    assert written["vocab_size"] == max(size, padding + 1) == len(tokens)
    tokenizer = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert tokens[tokenizer["pad_token"]] == padding
    table = load_file(tmp_path / "out" / "model.safetensors")["transformer.wte.weight"]
    assert len(table) == written["vocab_size"]
