"""Tokens that texts have written, beside the tokenizers library, which reads all special ones."""

import pytest
import tensorflow as tf
from tokenizers import Tokenizer

import tfnlp
from tfnlp.checkpoints.tokenizers.byte_pairs import sentence_byte_pairs, write_gpt_json
from tfnlp.checkpoints.tokenizers.wordpiece import write_wordpiece
from tfnlp.families.vocabularies import BYTE_PAIRS, WORD_PIECES
from tfnlp.text import GPT2Tokenizer, GPTTokenizer, RobertaTokenizer, WordPieceTokenizer, train_bpe
from tfnlp.text.gpt2_tokenizer import ROBERTA_TOKENS
from tfnlp.text.wordpiece import SPECIAL_TOKENS

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
        return tokenizer, lambda folder: write_wordpiece(folder, tokenizer, 32)
    if kind == "roberta":
        vocabulary = bpe(extra=ROBERTA_TOKENS)
        tokenizer = RobertaTokenizer(vocabulary, marks=[*ROBERTA_TOKENS, "<|e1|>"])
        write = sentence_byte_pairs(RobertaTokenizer, "RobertaTokenizer").write
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
