import json
import os
import subprocess
import sys

import pytest

from tests.text import bpe_reference as reference
from tfnlp.text import GPT2Tokenizer, GPTTokenizer, train_bpe, train_wordpiece

TEXTS = ["the cat's cats sat, the hats sat", "that rat sat at the mat; the rats'", "é Ünï 12 1212"]


def test_gpt2():
    tokens, merges = train_bpe(TEXTS, 265)
    names = reference.byte_names()
    assert tokens[:256] == sorted(names) == reference.published("gpt2")[0][:256]
    assert tokens[256:] == [left + right for left, right in merges] + ["<|endoftext|>"]
    assert len(tokens) == 265
    tokenizer = GPT2Tokenizer((tokens, merges))
    ids = tokenizer.tokenize(TEXTS)
    assert tokenizer.detokenize(ids).numpy().tolist() == [text.encode() for text in TEXTS]
    assert ids.values.shape[0] < sum(len(text.encode()) for text in TEXTS)
    assert b"\xc4\xa0the" in tokenizer.id_to_token(ids).to_list()[0]


@pytest.mark.slow
def test_gpt():
    texts = ["low low low lower newest", "widest newest\nlow", "newest newest newest é"]
    tokens, merges = train_bpe(texts, 60, "gpt")
    chars = sorted(set("\n" + "".join(texts)) - {" "})
    ends = sorted({w[-1] + "</w>" for t in texts for w in t.split()} | {"\n</w>"})
    assert tokens[: len(chars) + len(ends) + 1] == ["<unk>", *chars, *ends]
    rest = tokens[len(chars) + len(ends) + 1 :]
    assert rest == [left + right for left, right in merges] + ["<|endoftext|>"]
    tokenizer = GPTTokenizer((tokens, merges))
    found = tokenizer.id_to_token(tokenizer.tokenize(["Newest low\nslow q"])).to_list()[0]
    assert found == [b"newest</w>", b"low</w>", b"\n</w>", b"s", b"low</w>", b"<unk>"]


def test_limits():
    # The trainer would reserve memory for the size, and end the process.
    assert train_bpe(TEXTS, 4_000_000_000) == train_bpe(TEXTS, 1000)
    assert len(train_bpe(TEXTS, 257)[0]) == 257 and train_bpe(TEXTS, 257)[1] == []
    assert len(train_bpe(["ab" * 50], 1000, min_frequency=1000)[1]) == 0
    # Equal to counting words by hand: "the" 4 times, " the" 3 of them.
    assert train_bpe(["the the the the"], 1000, min_frequency=4)[1] == [("h", "e"), ("t", "he")]
    tokens, _ = train_bpe(["aaab aab ab zq"], 100, "gpt", min_frequency=99, limit_alphabet=2)
    assert tokens == ["<unk>", "a", "b", "b</w>", "<|endoftext|>"]


COMMAND = """
import json, sys
from tfnlp.text import train_bpe, train_wordpiece
texts = json.loads(sys.argv[1])
found = [train_bpe(texts, 400, kind) for kind in ("gpt", "gpt2")]
found.append(train_wordpiece(texts, 300, min_frequency=1, limit_alphabet=12))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_same_texts_same_vocabulary():
    """Also in another process with another seed of hashes and one thread; the order of ties is
    fixed."""
    texts = [
        chr(97 + i % 26) * 2 + " " + chr(97 + i * 7 % 26) + chr(97 + i % 25) for i in range(99)
    ]
    expected = []
    for kind in ("gpt", "gpt2"):
        expected.append(train_bpe(iter(texts), 400, kind))
        assert train_bpe(texts, 400, kind) == expected[-1]
    expected.append(train_wordpiece(iter(texts), 300, min_frequency=1, limit_alphabet=12))
    command = [sys.executable, "-c", COMMAND, json.dumps(texts)]
    environment = dict(os.environ, PYTHONHASHSEED="1", RAYON_NUM_THREADS="1")
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert json.loads(output.stdout.splitlines()[-1]) == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("one string", 1000), "^texts"),
        (([""], 1000), "^texts"),
        (([" \n"], 1000, "gpt"), "^texts"),
        ((["a", b"b"], 1000), r"^texts\[1\]"),
        ((["a"], 256), "^vocab_size=256 .*257"),
        ((["ab"], 4, "gpt"), "^vocab_size=4 .*5"),
        ((["ab"], 400, "bert"), "^kind"),
    ],
)
def test_faulty_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        train_bpe(*arguments)
