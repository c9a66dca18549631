"""Files of the tokenizers library of many kinds, learnt from a little text, and texts to cut."""

import functools
import io
import json
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.support import golden
from tfnlp.text.pipeline.gpt2_words import PATTERN
from tfnlp.text.sentencepiece import stored_normalization

N, P = normalizers, pre_tokenizers
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ALBERT = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
LLAMA = ["<unk>", "<s>", "</s>"]
HEXES = [f"<0x{i:02X}>" for i in range(256)]
PLAIN = [
    AddedToken("the", single_word=True),
    AddedToken("New York", lstrip=True, rstrip=True),
    AddedToken("É", normalized=True),
    AddedToken("[X]", normalized=False, rstrip=True),
    AddedToken("[XX]"),
    AddedToken("ing"),
]


@functools.cache
def lines():
    items = json.loads(golden("tokenizer_golden.json").read_text())["items"]
    texts = [item["text"] for item in items if item["text"].strip()]
    return [*texts, *["don't we've I'll Héllo wörld e\u0301 12 345 ``a''"] * 9]


@functools.cache
def charsmap():
    """The table of NFKC that sentencepiece puts into its models, as XLM-R's and ALBERT's."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()[-20:]),
        model_writer=content,
        vocab_size=200,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return stored_normalization(content.getvalue())


def learnt(model, trainer, normalizer=None, splitter=None, special=(), mask=None, **settings):
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if splitter is not None:
        tokenizer.pre_tokenizer = splitter
    options = dict(special_tokens=list(special), show_progress=False, vocab_size=900)
    tokenizer.train_from_iterator(lines(), trainer(**options | settings))
    if mask:
        tokenizer.add_special_tokens([AddedToken(mask, lstrip=True, normalized=False)])
    return json.loads(tokenizer.to_str())


def wordpiece(normalizer, splitter=None, special=BERT, **model):
    made = models.WordPiece(unk_token="[UNK]", **model)
    splitter = P.BertPreTokenizer() if splitter is None else splitter
    return learnt(made, trainers.WordPieceTrainer, normalizer, splitter, special, special[-1])


def in_bytes(splitter, normalizer=None, special=ROBERTA, ignore_merges=False):
    alphabet = dict(initial_alphabet=P.ByteLevel.alphabet(), vocab_size=700)
    made = models.BPE(ignore_merges=ignore_merges)
    mask = special[-1]
    return learnt(made, trainers.BpeTrainer, normalizer, splitter, special, mask, **alphabet)


def unigram(normalizer, splitter, special=ROBERTA, **changes):
    unk = {"unk_token": "<unk>"}
    mask = special[-1]
    made = learnt(
        models.Unigram(), trainers.UnigramTrainer, normalizer, splitter, special, mask, **unk
    )
    made["model"] |= changes
    return made


def pairs(normalizer, splitter, special=LLAMA, suffix=None, **model):
    suffix = {"end_of_word_suffix": suffix} if suffix else {}
    made = models.BPE(unk_token="<unk>", **model, **suffix)
    few = dict(limit_alphabet=60, **suffix)
    return learnt(made, trainers.BpeTrainer, normalizer, splitter, special, special[-1], **few)


def words(normalizer, splitter):
    made = models.WordLevel(unk_token="<unk>")
    return learnt(made, trainers.WordLevelTrainer, normalizer, splitter, ["<unk>"])


def llama(splitter, normalizer):
    made = pairs(normalizer, splitter, [*LLAMA, *HEXES], fuse_unk=True)
    made["added_tokens"] = [t for t in made["added_tokens"] if t["content"] not in HEXES]
    made["model"]["byte_fallback"] = True
    return made


def falling_back():
    made = unigram(N.Precompiled(charsmap()), P.Metaspace(), LLAMA, byte_fallback=True)
    made["model"]["vocab"] += [[name, -20.0 - i / 1000] for i, name in enumerate(HEXES)]
    return made


def with_plain(contents):
    tokenizer = Tokenizer.from_str(json.dumps(contents))
    tokenizer.add_tokens(PLAIN)
    return json.loads(tokenizer.to_str())


def cleaned(**changes):
    return N.BertNormalizer(**changes)


def albert(*steps):
    return N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), *steps])


def uncased():
    return [N.NFKD(), N.StripAccents(), N.Lowercase()]


def table():
    return N.Precompiled(charsmap())


def apart():
    return P.Sequence([P.WhitespaceSplit(), P.Metaspace()])


FILES = {
    "bert": lambda: wordpiece(cleaned()),
    "bert cased": lambda: wordpiece(cleaned(lowercase=False)),
    "bert with accents": lambda: wordpiece(cleaned(strip_accents=False)),
    "bert cased without accents": lambda: wordpiece(cleaned(lowercase=False, strip_accents=True)),
    "bert without chinese": lambda: wordpiece(cleaned(handle_chinese_chars=False)),
    "bert not cleaned": lambda: wordpiece(cleaned(clean_text=False)),
    "mpnet": lambda: wordpiece(cleaned(), special=["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]),
    "bert with tokens": lambda: with_plain(wordpiece(cleaned())),
    "wordpiece, nfc": lambda: wordpiece(N.NFC(), P.Whitespace()),
    "wordpiece, nfkc": lambda: wordpiece(
        N.Sequence([N.NFKC(), N.Lowercase()]), P.WhitespaceSplit(), max_input_chars_per_word=30
    ),
    "wordpiece, nfd": lambda: wordpiece(
        N.Sequence([N.NFD(), N.StripAccents(), N.Strip()]),
        P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous")]),
    ),
    "wordpiece, nfkd": lambda: wordpiece(
        N.NFKD(), P.Sequence([P.Whitespace(), P.Digits(individual_digits=True)])
    ),
    "roberta": lambda: in_bytes(P.ByteLevel(add_prefix_space=False)),
    "roberta with a space": lambda: in_bytes(P.ByteLevel(add_prefix_space=True)),
    "roberta with tokens": lambda: with_plain(in_bytes(P.ByteLevel(add_prefix_space=True))),
    "gpt2": lambda: in_bytes(P.ByteLevel(add_prefix_space=False), special=["<|endoftext|>"]),
    "bytes, digits": lambda: in_bytes(
        P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])
    ),
    "bytes, numbers": lambda: in_bytes(
        P.Sequence([P.Digits(individual_digits=False), P.ByteLevel(add_prefix_space=False)]),
        N.NFC(),
    ),
    "bytes, split": lambda: in_bytes(
        P.Sequence([P.Split(Regex(PATTERN), "isolated"), P.ByteLevel(False, use_regex=False)])
    ),
    "bytes, runs": lambda: in_bytes(
        P.Sequence(
            [
                P.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                P.Split(Regex(r"[\r\n]+"), "merged_with_previous"),
                P.ByteLevel(add_prefix_space=False),
            ]
        )
    ),
    "bytes, whole": lambda: in_bytes(P.ByteLevel(add_prefix_space=True, use_regex=False)),
    "bytes, whole words": lambda: in_bytes(P.ByteLevel(False), ignore_merges=True),
    "albert of transformers 4": lambda: unigram(albert(*uncased(), table()), apart(), ALBERT),
    "albert cased": lambda: unigram(albert(table()), apart(), ALBERT),
    "albert of transformers 5": lambda: unigram(
        albert(*uncased(), N.Replace(Regex(" {2,}"), " ")), P.Metaspace(), ALBERT
    ),
    "xlm-r": lambda: unigram(table(), apart()),
    "xlm-r of transformers 5": lambda: unigram(
        N.Sequence([table(), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "▁")]),
        P.Metaspace(prepend_scheme="always"),
    ),
    "xlm-r with tokens": lambda: with_plain(unigram(table(), apart())),
    "unigram, nmt": lambda: unigram(
        N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(r"\s+"), " ")]), P.Metaspace()
    ),
    "unigram, first": lambda: unigram(None, P.Metaspace(prepend_scheme="first")),
    "unigram, never": lambda: unigram(N.Strip(), P.Metaspace(prepend_scheme="never")),
    "unigram, bytes": falling_back,
    "pairs": lambda: pairs(None, P.Metaspace()),
    "pairs, fused": lambda: pairs(N.NFKC(), P.Metaspace(), fuse_unk=True),
    "llama": lambda: llama(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])),
    "llama, first": lambda: llama(P.Metaspace(prepend_scheme="first", split=False), None),
    "gpt": lambda: pairs(cleaned(), P.BertPreTokenizer(), ["<unk>"], suffix="</w>"),
    "words": lambda: words(N.Lowercase(), P.Whitespace()),
    "words, split": lambda: words(
        N.Nmt(),
        P.Sequence(
            [
                P.Split(Regex(r"\s"), "removed"),
                P.Split(".", "merged_with_next"),
                P.Split(Regex("[aeiou]+"), "removed", invert=True),
            ]
        ),
    ),
    "words, delimited": lambda: words(None, P.CharDelimiterSplit(" ")),
}

# White space, controls and joiners; marks; characters that a normalizer changes; pieces of text.
_SPACES = list(
    "\t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2000\u200a\u200b\u2028\u202f\u205f\u3000\ufeff\0\x01\x1f\x7f"
    "\u200c\u200d\u2060\xad\ufffd\ufdd0\U0010ffff\ue000\U000f0000"
)
_MARKS = list(
    "\u0300\u0301\u0308\u0327\u0323\u0345\u0338\u20d0\u20dd\u0591\u05b0\u064b\u093c\u094d\u09be"
    "\u0e38\u0f71\u0f72\u3099\u309a\u302e\U0001d165\U0001d16e\ufe0f\ufe20\u0334\u035d"
)
_OTHERS = list(
    "éÉàñÅåﬁ①Ⅷ½ªº™ＡｂｶﾞΩΣςσİıßẞŒœǅǆ漢字가각한글あはば￥€_-'\"`´‘’“”…–—¿·•٣۷०༣𝟘𝒜🙂👩🏽🇩🇪नมแאΆДйё"
    "\u1100\u1161\u11a8\u212b\u0958\u0344\u0374\u037e\u1e9b\ufb2c\u0600\u06dd\u070f\u2126\u212a"
    "\u0cca\u0d4e\u2adc"
)
_PIECES = [
    *BERT, *ROBERTA, "<|endoftext|>", "<0x41>", "the", "New York", "É", "[X]", "[XX]", "ing", "##s",
    "▁", "▁the", "``", "'''", "''''", "'s", "'ll", " 't", "  ", "   ", " \n", "\r\n", "e\u0301",
    "a\u0323\u0302", "12345", "1,000.50", "don't", "we've",
]  # fmt: skip
_ALONE = [
    "", " ", "  ", "\0", "\u0301", "a" * 101, "ab" * 50, " a", "\0a", "\u00a0a", "[MASK]",
    " [MASK] [MASK]", "<s><s></s>", "e" + "\u0301\u0323" * 40, "字e 推場",
]  # fmt: skip


def texts(number, longest, seed=0):
    """Return texts, two of which are words of `longest` letters."""
    made = random.Random(seed)
    letters = "".join(made.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(longest))
    found = [*_ALONE, letters, ("xyz" * longest)[:longest]]
    known = " ".join(lines()).split()
    while len(found) < number:
        if made.random() < 0.25:
            found.append(made.choice(lines())[:200])
            continue
        parts = []
        for _ in range(made.randint(1, 14)):
            kinds = (known, [" ", "  ", *_SPACES], _MARKS, _OTHERS, _PIECES, None)
            kind = made.choices(kinds, (30, 20, 12, 13, 15, 10))[0]
            parts.append(made.choice(kind) if kind else _any_character(made))
            parts.append(made.choice(["", "", " "]))
        found.append("".join(parts))
    return found


def _any_character(made):
    point = made.randrange(made.choice([0x80, 0x3000, 0x20000, 0x110000]))
    return " " if 0xD800 <= point < 0xE000 else chr(point)
