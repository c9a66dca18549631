"""Tokens that texts have written, beside the tokenizers library, which reads all special ones."""

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import Tokenizer

import tfnlp
from tests.support import GOLDENS
from tfnlp.checkpoints.tokenizers.byte_pairs import ROBERTA_BYTE_PAIRS, write_gpt_json
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE
from tfnlp.families.vocabularies import BYTE_PAIRS, WORD_PIECES
from tfnlp.text import (
    BertReader,
    GPT2Tokenizer,
    GPTTokenizer,
    RobertaTokenizer,
    WordPieceTokenizer,
    train_bpe,
)
from tfnlp.text.gpt_tokenizers import ROBERTA_TOKENS
from tfnlp.text.wordpiece import SPECIAL_TOKENS
from tfnlp.text.words import with_whole, word_places, words_with_offsets

WORDS = ["the", "cat", "sat", ".", "<", ">", "|", "[", "]", "e1", "mark", "##s"]
TEXTS = [
    "the cat<|e1|>sat <|endoftext|> the",
    "<|endoftext|>",
    "[SEP][SEP] the [sep] cat <mask>  <mask>sat [E1]the[/E1]",
    "",
    " the  <|e1|>  .",
    "no mark",
]


def bpe(kind="gpt2", extra=()):
    tokens, merges = train_bpe([text.lower() for text in TEXTS] * 3, 300, kind=kind)
    return [*tokens, *(t for t in (*extra, "<|e1|>", "<|endoftext|>") if t not in tokens)], merges


def made(kind):
    """A tokenizer, and what writes it for the tokenizers library."""
    if kind == "bert":
        tokens = [*SPECIAL_TOKENS, *WORDS, "[E1]", "[/E1]"]
        tokenizer = WordPieceTokenizer(tokens, marks=[*SPECIAL_TOKENS, "[E1]", "[/E1]"])
        return tokenizer, lambda folder: WORDPIECE.write(folder, tokenizer, 32)
    if kind == "roberta":
        vocabulary = bpe(extra=ROBERTA_TOKENS)
        tokenizer = RobertaTokenizer(vocabulary, marks=[*ROBERTA_TOKENS, "<|e1|>"])
        write = ROBERTA_BYTE_PAIRS.write
        return tokenizer, lambda folder: write(folder, tokenizer, 32)
    vocabulary = bpe(kind)
    marks = [*(["<unk>"] if kind == "gpt" else []), "<|endoftext|>", "<|e1|>"]
    tokenizer = (GPT2Tokenizer if kind == "gpt2" else GPTTokenizer)(vocabulary, marks=marks)
    rest = (tokenizer.keeps_spaces, None, marks)
    return tokenizer, lambda folder: write_gpt_json(folder, *vocabulary, *rest)


@pytest.mark.parametrize("kind", ["bert", "gpt", "gpt2", "roberta"])
def test_marks_are_tokens_as_the_tokenizers_library_reads_them(kind, tmp_path):
    tokenizer, write = made(kind)
    write(str(tmp_path))
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    want = [found.ids for found in theirs.encode_batch(TEXTS, add_special_tokens=False)]
    ids = tokenizer.tokenize(tf.constant(TEXTS))
    assert ids.to_list() == want
    mark = list(tokenizer.vocabulary).index(tokenizer.marks[-1])
    assert any(mark in row for row in want)
    if hasattr(tokenizer, "tokenize_words"):  # each mark is a word of its own
        words = tokenizer.tokenize_words(tf.constant(TEXTS)).to_list()
        assert [[i for word in row for i in word] for row in words] == want
        special = {list(tokenizer.vocabulary).index(mark) for mark in tokenizer.marks}
        assert all(len(word) == 1 or not special & {*word} for row in words for word in row)


def test_without_marks_they_are_text_and_unknown_ones_are_refused():
    tokens = [*SPECIAL_TOKENS, *WORDS]
    ids = WordPieceTokenizer(tokens).tokenize(["[SEP]"]).to_list()[0]
    assert tokens.index("[SEP]") not in ids and ids[0] == tokens.index("[")
    with pytest.raises(ValueError, match="no token of the vocabulary is so called"):
        WordPieceTokenizer(tokens, marks=["[E1]"])


def test_new_marks_take_the_places_of_unused_tokens():
    asked = ["[E1]", "[SEP]", "[unused2]", "[E2]"]
    tokens = ["[PAD]", "[unused1]", "[SEP]", "[unused2]", "[unused3]", "cat"]
    want = ["[PAD]", "[E1]", "[SEP]", "[unused2]", "[E2]", "cat"]
    assert WORD_PIECES.marked(tokens, asked, grows=False) == want
    assert WORD_PIECES.marked(want, asked, grows=False) == want
    assert WORD_PIECES.marked(["[SEP]", "[unused2]"], asked) == [
        "[SEP]", "[unused2]", "[E1]", "[E2]",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="`marks` .E1.: the vocabulary has no unused token left"):
        WORD_PIECES.marked(["[SEP]", "[unused2]"], asked, grows=False)
    assert BYTE_PAIRS.marked((["a", None, "<|unused1|>"], [("a", "b")]), asked) == (
        ["a", None, "[E1]", "[SEP]", "[unused2]", "[E2]"], [("a", "b")],
    )  # fmt: skip


WHOLE = ["[E1]", "[/E1]", "<|e|>", "E2"]


@pytest.mark.parametrize("style", ["marks", "bert", "treebank", "gpt"])
def test_marks_are_whole_words_wherever_they_stand(style):
    texts = [
        "a[E1]b-c[/E1], [E1",
        "<|e|><|e|> x<|e|>é\u0301",
        "(E2) E1 [E2]",
        "no mark",
        "",
        "[E1]",
    ]
    want = [["[E1]", "[/E1]"], ["<|e|>"] * 3, ["E2", "E2"], [], [], ["[E1]"]]
    whole = with_whole(style, [*WHOLE, "two words"])
    words, starts, ends = words_with_offsets(tf.constant(texts), whole)
    words = [[word.decode() for word in row] for row in words.to_list()]
    assert [[word for word in row if word in WHOLE] for row in words] == want
    plain = words_with_offsets(tf.constant(texts), style)[0].to_list()
    assert words[3] == [word.decode() for word in plain[3]]  # without a mark as before
    for text, row in zip(texts, words, strict=True):
        assert "".join(row) == "".join(text.split())
    if style == "marks":  # Python's cut the same words, also where a mark stands among letters
        texts.append("xE2y")
        words.append(["x", "E2", "y"])
        assert words_with_offsets(tf.constant(texts[-1:]), whole)[0].to_list() == [
            [b"x", b"E2", b"y"]
        ]
        places = [word_places(text, whole) for text in texts]
        spans = [[t[a:b] for a, b in row] for t, row in zip(texts, places, strict=True)]
        assert spans == words
        assert [row[:4] for row in words[:1]] == [["a", "[E1]", "b", "-"]]


@pytest.fixture(scope="module")
def base():
    """A BERT with the tokens [unused0] and on in its vocabulary."""
    loaded = tfnlp.load(GOLDENS / "bert_google_tf_generated")
    assert "[unused0]" in loaded.tokenizer.vocabulary and not loaded.tokenizer.marks
    return loaded


@pytest.mark.slow
def test_a_task_reads_marks_and_keeps_them(base, tmp_path):
    text = "the [E1]cat[/E1] sat, [SEP]"
    rows = [{"text": text, "spans": [[8, 11, "A"]]}, {"text": "a dog", "spans": []}] * 8
    asked = ["[E1]", "[/E1]", "[SEP]"]
    settings = dict(epochs=1, batch_size=4, max_length=24)
    run = tfnlp.finetune("tag", base, rows, output=tmp_path / "run", marks=asked, **settings)
    again = tfnlp.load(tmp_path / "run")
    tokenizer = again.task_model.reader.tokenizer
    ids = [list(tokenizer.vocabulary).index(mark) for mark in asked]
    assert tokenizer.marks == asked and base.tokenizer.marks == []  # what was given is as it was
    assert [list(base.tokenizer.vocabulary)[i] for i in ids[:2]] == ["[unused0]", "[unused1]"]
    assert [i for i in tokenizer.tokenize([text]).to_list()[0] if i in ids] == ids
    words = ["the", "[E1]", "cat", "[/E1]", "sat", ",", "[SEP]"]
    found = [run.predict([text])[0], again.predict([text])[0]]
    assert [one["words"] for one in found] == [words, words]
    again.export(tmp_path / "module")
    module = tfnlp.load(tmp_path / "module")
    tokens = module(text=[text])["tokens"]
    assert [token.decode() for token in np.asarray(tokens)[0]] == words
    again.save(tmp_path / "written")
    theirs = Tokenizer.from_file(str(tmp_path / "written" / "tokenizer.json"))
    assert [i for i in theirs.encode(text, add_special_tokens=False).ids if i in ids] == ids
    with pytest.raises(ValueError, match="marks"):  # another run
        tfnlp.finetune("tag", base, rows, output=tmp_path / "run", marks=["[SEP]"], **settings)
    base.export(tmp_path / "pair")  # whose tokenizer is a graph
    with pytest.raises(ValueError, match="`marks` is for runs and checkpoints .* exported module"):
        tfnlp.finetune("tag", tmp_path / "pair", rows, output=tmp_path / "no", marks=asked)


@pytest.mark.slow
def test_vectors_read_marks(base, tmp_path):
    pairs = [(f"the [E1] {word}", f"[E1] {word}") for word in "cat dog man house tree".split()] * 4
    settings = dict(marks=["[E1]"], epochs=1, batch_size=4)
    run = tfnlp.finetune("embed", base, pairs, output=tmp_path / "run", **settings)
    again = tfnlp.load(tmp_path / "run")
    assert again.tokenizer.marks == run.tokenizer.marks == ["[E1]"]
    assert again.embed("the [E1]").tolist() == run.embed("the [E1]").tolist()


def test_words_of_answers_keep_marks():
    tokens = [*SPECIAL_TOKENS, *WORDS, "[E1]"]
    reader = BertReader(WordPieceTokenizer(tokens, marks=["[E1]"]))
    words, _, _ = words_with_offsets(tf.constant(["the [E1]cat."]), reader.style)
    assert words.to_list() == [[b"the", b"[E1]", b"cat", b"."]]
    _, pieces, _ = reader.read([], words)
    assert pieces.to_list() == [[[tokens.index(word.decode())] for word in words.to_list()[0]]]


TEXT = ["the cat [E1] sat .\nthe cat sat [E1] .\n\nthe [E1] sat .\nthe cat [E1] ."] * 8
SMALL = dict(num_layers=1, hidden_size=8, num_heads=2, max_positions=16, batch_size=2, steps=1)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_a_run_with_marks_keeps_them(family, tmp_path):
    settings = SMALL | dict(seq_length=8, held_out=0.3, layout="lines")
    size = {"bert": 60, "gpt": 280}[family]
    run = tfnlp.pretrain(
        family, TEXT, tmp_path / "run", vocab_size=size, marks=["[E1]", "[unused1]"], **settings
    )
    loaded = tfnlp.load(tmp_path / "run").tokenizer
    assert loaded.marks == ["[E1]", "[unused1]"]
    mark = list(loaded.vocabulary).index("[E1]")
    assert loaded.tokenize(["the [E1] sat"]).to_list()[0].count(mark) == 1
    assert run.config["vocab_size"] == loaded.vocab_size
    # Going on keeps them; a new one would take an unused place, but there is no other.
    more = {n: settings[n] for n in ("batch_size", "steps", "seq_length", "held_out", "layout")}
    on = {"start": str(tmp_path / "run"), **more}
    again = tfnlp.pretrain(family, TEXT, tmp_path / "on", marks=["[unused1]"], **on)
    assert again.tokenizer.marks == tfnlp.load(tmp_path / "on").tokenizer.marks == loaded.marks
    with pytest.raises(ValueError, match="no unused token left"):
        tfnlp.pretrain(family, TEXT, tmp_path / "other", marks=["[E2]"], **on)
    if family == "bert":  # a task reads them, too, and its folder keeps them
        rows = [("the [E1]", "a"), ("the cat", "b")] * 8
        task = tfnlp.finetune("classify", run, rows, output=tmp_path / "task", epochs=1)
        kept = tfnlp.load(tmp_path / "task").task_model.reader.tokenizer
        assert kept.marks == task.task_model.reader.tokenizer.marks == loaded.marks
