"""`tokenizer.json`, executed in the graph, beside the library that the file is of."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

import tfnlp
from tests.checkpoints.faults import one_line
from tests.support import golden
from tests.text.pipeline_files import FILES, texts, wordpiece
from tfnlp.text import PipelineTokenizer
from tfnlp.text.pipeline import NotExact
from tfnlp.text.pipeline.pipeline import Pipeline

SAMPLE = ["bert", "roberta with tokens"]
SLOW = ["xlm-r of transformers 5", "llama, first"]


def differences(contents, strings, as_text=False):
    """The texts of which ids differ from the library's."""
    library = Tokenizer.from_str(json.dumps(contents))
    library.encode_special_tokens = as_text
    pipeline = Pipeline(contents, library, as_text)
    encode = tf.function(pipeline.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    found = []
    for first in range(0, len(strings), 500):
        batch = strings[first : first + 500]
        want = [one.ids for one in library.encode_batch(batch, add_special_tokens=False)]
        ids = encode(tf.constant(batch)).to_list()
        found += [t for t, a, b in zip(batch, ids, want, strict=True) if a != b]
    return found


@pytest.mark.parametrize(
    "name", [*SAMPLE, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_ids_are_those_of_the_library(name):
    assert differences(FILES[name](), texts(120, 300)) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FILES)
def test_ids_of_many_texts_are_those_of_the_library(name):
    assert differences(FILES[name](), texts(2000, 20000, seed=1)) == []


@pytest.mark.slow
def test_special_tokens_are_text_on_request():
    """As `encode_special_tokens` of the library; other added tokens are found all the same."""
    contents = FILES["bert with tokens"]()
    assert differences(contents, [*texts(60, 50), "[X] [CLS]the the[SEP]"], as_text=True) == []
    written = ["[CLS] New York"]
    plain = PipelineTokenizer(contents, {"split_special_tokens": True})
    usual = PipelineTokenizer(contents)
    mark, place = (usual.vocabulary.index(token) for token in ("[CLS]", "New York"))
    assert usual.tokenize(written).to_list() == [[mark, place]]
    ids = plain.tokenize(written).to_list()[0]
    assert mark not in ids and ids[-1] == place


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["xlm-r", *(pytest.param(x, marks=pytest.mark.long) for x in ("mpnet", "roberta"))]
)
def test_save_load_save_load(name, tmp_path):
    tokenizer = PipelineTokenizer(FILES[name](), {"pad_token": "<pad>"})
    strings = tf.constant(texts(60, 50))
    want = tokenizer.tokenize(strings)
    loaded = tokenizer
    for folder in ("one", "two"):
        tf.saved_model.save(loaded, tmp_path / folder)
        loaded = tf.saved_model.load(str(tmp_path / folder))
        assert loaded.tokenize(strings).to_list() == want.to_list()
        assert loaded.tokenize_words(strings).merge_dims(1, 2).to_list() == want.to_list()
        np.testing.assert_array_equal(loaded.detokenize(want), tokenizer.detokenize(want))
    again = PipelineTokenizer.read(tmp_path / "two" / "assets")
    assert again.contents == tokenizer.contents and again.pad_id == tokenizer.pad_id
    assert again.tokenize(strings).to_list() == want.to_list()


@pytest.mark.slow
def test_special_ids_words_and_texts():
    contents = FILES["mpnet"]()
    ends = {"cls": ["<s>", 0], "sep": ["</s>", 2]}
    contents["post_processor"] = {"type": "RobertaProcessing", **ends, "trim_offsets": True}
    contents["post_processor"]["add_prefix_space"] = False
    tokenizer = PipelineTokenizer(contents)
    special = [getattr(tokenizer, f"{name}_id") for name in ("cls", "pad", "sep", "unk", "mask")]
    assert special == [0, 1, 2, 3, 4]
    assert (tokenizer.separators, tokenizer.mask_token, tokenizer.lowercase) == (2, "<mask>", True)
    ids = tokenizer.tokenize(["The don't <mask>."])
    assert tokenizer.detokenize(ids).numpy()[0].decode() == "the don ' t <mask> ."
    words = tokenizer.tokenize_words(["Thexq the"]).to_list()[0]
    assert len(words) == 2 and len(words[0]) > 1


@pytest.mark.slow
def test_a_run_keeps_the_file_and_writes_it_again(tmp_path):
    """Of a BERT that lower-cases and keeps accents, which BERT's own tokenizer can't do."""
    folder = tmp_path / "model"
    shutil.copytree(golden("huggingface_heads/bert_classify"), folder)
    path = folder / "tokenizer.json"
    contents = json.loads(path.read_text())
    contents["normalizer"] |= {"lowercase": True, "strip_accents": False}
    path.write_text(json.dumps(contents))
    library = Tokenizer.from_file(str(path))
    library.no_padding()
    library.no_truncation()
    rows = [("the cat á", "a"), ("a dog", "b")] * 8
    task = tfnlp.finetune("classify", folder, rows, output=tmp_path / "run", epochs=1)
    loaded = tfnlp.load(tmp_path / "run")
    tokenizer = loaded.task_model.reader.tokenizer
    strings = texts(40, 30)
    want = [one.ids for one in library.encode_batch(strings, add_special_tokens=False)]
    assert tokenizer.tokenize(strings).to_list() == want
    found, wanted = (one.predict(["the á"])[0]["probabilities"] for one in (loaded, task))
    assert found == pytest.approx(wanted, abs=1e-6)
    tfnlp.export(loaded, tmp_path / "out", format="huggingface")
    again = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    again.no_padding()
    again.no_truncation()
    assert [one.ids for one in again.encode_batch(strings, add_special_tokens=False)] == want


def part(kind, **pattern):
    more = {"behavior": "Isolated", "invert": False} if kind == "Split" else {"content": ""}
    return {"type": kind, "pattern": pattern, **more}


def with_part(name, part):
    contents = wordpiece(normalizers.BertNormalizer())
    contents[name] = part
    return contents


@pytest.mark.parametrize(
    "name, part, pattern",
    [
        ("pre_tokenizer", {"type": "FixedLength", "length": 5}, "pre_tokenizer FixedLength"),
        ("pre_tokenizer", {"type": "UnicodeScripts"}, "pre_tokenizer UnicodeScripts"),
        ("pre_tokenizer", part("Split", Regex="(?i)a"), "pre_tokenizer Split with the regular exp"),
        ("normalizer", part("Replace", Regex="a|b"), "normalizer Replace .* expression 'a|b'"),
        ("normalizer", part("Replace", String="aba"), "normalizer Replace of the string 'aba'"),
        ("model", {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 1}, "model.dropout"),
    ],
)
def test_what_is_not_exact_is_refused_by_its_name(name, part, pattern):
    one_line(pattern.replace("|", r"\|"), NotExact, PipelineTokenizer, with_part(name, part))


def test_merges_happen_in_the_order_of_the_library():
    """`(ab, a)` ranks before `(a, b)`, which makes its symbol: abab is aba b, not ab ab."""
    vocab = {token: i for i, token in enumerate(["a", "b", "ab", "aba"])}
    tokenizer = Tokenizer(models.BPE(vocab, [("ab", "a"), ("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s"), "removed")
    contents = json.loads(tokenizer.to_str())
    ids = Pipeline(contents, tokenizer).encode(tf.constant(["abab", "ab abb"])).to_list()
    assert ids == [[3, 1], [2, 2, 1]]
    assert [tokenizer.encode(t).ids for t in ("abab", "ab abb")] == ids
