"""GPT's words against a plain rewrite of the reference's rules.

`gpt_tokenizer_test.py` compares with the recorded ids of the reference.
"""

import itertools
import random
import re
import sys
import unicodedata

import pytest
import tensorflow as tf

from tfnlp.text.gpt_words import EXCEPTIONS, gpt_words

_graph = tf.function(gpt_words, input_signature=[tf.TensorSpec([None], tf.string)])


def words_of(*texts):
    return [[word.decode() for word in row] for row in _graph(tf.constant(texts)).to_list()]


def test_line_breaks_are_words():
    assert words_of("a\n\n b\r\nc\x1b[0m\n", "\n") == [["a", "\n", "b", "\n", "c"], []]


# --- the rules of spaCy 3.8, as literal regular expressions ----------------------------------

_CHARS = [chr(code) for code in range(0x250)]
LOWER = "".join(char for char in _CHARS if unicodedata.category(char) == "Ll")
LOWER += "\u0c80-\u0cff"  # Kannada, for a face
UPPER = "".join(char for char in _CHARS if unicodedata.category(char) == "Lu")
ALPHA = LOWER + UPPER
PUNCT = r"… …… , : ; \! \? ¿ ؟ ¡ \( \) \[ \] \{ \} < > _ # \* & 。 ？ ！ ， 、 ； ： ～ · । ، ۔ ؛ ٪"
QUOTES = r"\' \" ” “ ` ‘ ´ ’ ‚ , „ » « 「 」 『 』 （ ） 〔 〕 【 】 《 》 〈 〉"
CURRENCY = r"\$ £ € ¥ ฿ US\$ C\$ A\$ ₽ ﷼ ₴"
HYPHENS = "- – — -- --- —— ~"
UNITS = (
    "km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s "
    "km/h kmh mph hPa Pa mbar mb MB kb KB gb GB tb TB T G M K %"
)
_SYMBOLS = (char for char in map(chr, range(sys.maxunicode)) if unicodedata.category(char) == "So")
ICONS = f"[{''.join(_SYMBOLS)}]"
BOTH = [*PUNCT.split(), r"\.\.+", "…", *QUOTES.split(), ICONS]
CONCAT = QUOTES.replace(" ", "")
PREFIX = re.compile(
    "|".join("^" + p for p in ["§", "%", "=", "—", "–", r"\+(?![0-9])", *BOTH, *CURRENCY.split()])
)
SUFFIX = re.compile(
    "|".join(
        p + "$"
        for p in [
            *BOTH,
            *("'s", "'S", "’s", "’S", "—", "–", r"(?<=[0-9])\+", r"(?<=°[FfCcKk])\."),
            rf"(?<=[0-9])(?:{CURRENCY.replace(' ', '|')})",
            rf"(?<=[0-9])(?:{UNITS.replace(' ', '|')})",
            rf"(?<=[0-9{LOWER}%²\-\+{PUNCT.replace(' ', '|')}(?:{CONCAT})])\.",
            rf"(?<=[{UPPER}][{UPPER}])\.",
        ]
    )
)
INFIX = re.compile(
    "|".join(
        [
            *(r"\.\.+", "…", ICONS, r"(?<=[0-9])[+\-\*^](?=[0-9-])"),
            rf"(?<=[{LOWER}{CONCAT}])\.(?=[{UPPER}{CONCAT}])",
            rf"(?<=[{ALPHA}]),(?=[{ALPHA}])",
            rf"(?<=[{ALPHA}0-9])(?:{HYPHENS.replace(' ', '|')})(?=[{ALPHA}])",
            rf"(?<=[{ALPHA}0-9])[:<>=/](?=[{ALPHA}])",
        ]
    )
)
URL = re.compile(
    r"(?:(?:[\w\+\-\.]{2,})://)?(?:\S+(?::\S*)?@)?(?:"
    r"(?!(?:10|127)(?:\.\d{1,3}){3})(?!(?:169\.254|192\.168)(?:\.\d{1,3}){2})"
    r"(?!172\.(?:1[6-9]|2\d|3[0-1])(?:\.\d{1,3}){2})"
    r"(?:[1-9]\d?|1\d\d|2[01]\d|22[0-3])(?:\.(?:1?\d{1,2}|2[0-4]\d|25[0-5])){2}"
    r"(?:\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4]))"
    r"|(?:(?:[A-Za-z0-9\u00a1-\uffff][A-Za-z0-9\u00a1-\uffff_-]{0,62})?"
    rf"[A-Za-z0-9\u00a1-\uffff]\.)+(?:[{LOWER}]{{2,63}}))(?::\d{{2,5}})?(?:[/?#]\S*)?$"
)


def found(pattern, text):
    match = pattern.search(text)
    return match.group() if match else ""


def by_affixes(text, exceptions):
    """The words of one chunk, before exceptions among them are joined."""
    left, right, size = [], [], None
    while text and len(text) != size:
        if text in exceptions:
            break
        size = len(text)
        prefix = found(PREFIX, text)
        if prefix and text[len(prefix) :] in exceptions:
            left.append(prefix)
            text = text[len(prefix) :]
            break
        suffix = found(SUFFIX, text[len(prefix) :])
        if suffix and text[: -len(suffix)] in exceptions:
            right.append(suffix)
            text = text[: -len(suffix)]
            break
        left += [prefix] if prefix else []
        right += [suffix] if suffix else []
        text = text[len(prefix) : len(text) - len(suffix)]
    if text in exceptions:
        middle = exceptions[text].split(" ")
    elif not text or URL.match(text):
        middle = [text]
    else:
        middle, start = [], 0
        for match in INFIX.finditer(text):
            if match.start() > 0:
                middle += [text[start : match.start()], match.group()]
                start = match.end()
        middle.append(text[start:])
    return [word for word in [*left, *middle, *right[::-1]] if word]


def affected(word):
    return PREFIX.search(word) or INFIX.search(word) or SUFFIX.search(word)


PHRASES = {tuple(by_affixes(word, {})): word for word in EXCEPTIONS if affected(word)}


def by_phrases(words):
    """Replaces sequences of words that are exceptions: the longest first, then the first."""
    spans = [
        (end - start, -start)
        for start, end in itertools.combinations(range(len(words) + 1), 2)
        if tuple(words[start:end]) in PHRASES
    ]
    seen, taken = set(), {}
    for size, start in sorted(spans, reverse=True):
        covered = range(-start, -start + size)
        if covered[0] not in seen and covered[-1] not in seen:
            taken[covered[0]] = size
        seen.update(covered)
    place, out = 0, []
    while place < len(words):
        size = taken.get(place, 1)
        phrase = PHRASES.get(tuple(words[place : place + size])) if place in taken else None
        out += EXCEPTIONS[phrase].split(" ") if phrase else words[place : place + size]
        place += size
    return out


def reference(text):
    for old, new in zip("—–―…´", ["-", "-", "-", "...", "'"], strict=True):
        text = text.replace(old, new)
    runs = r"""(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|\+|\/+|\*+|\[+|\]+|}+|{+|\|+|_+)"""
    text = re.sub(runs, r" \1 ", text)
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"\s*\n\s*", " \n ", text)).strip()
    chunks = [chunk for chunk in text.split(" ") if chunk]
    words = [by_phrases(by_affixes(chunk, EXCEPTIONS)) for chunk in chunks]
    return [word.lower() for chunk in words for word in chunk]


PIECES = (
    "' '' \"' ` . .. ... : = < > $ US$ £ € % ° ©  ™ § ¿ « » # & @ ^ \\ - -- ~ ! ? ; , ( ) [ ] { "
    "} | / + * _ \" — … ´ 5 10 3.5 12 km m m² MB t g in % K °C °F C F s 's 'S S 'd d 're re 'll ll "
    "don't cannot im hell its Mr Mr. mr. U.S. u.s. e.g e.g. a.m. 9a.m. 12am 9a.m em 'em n't D P p "
    "o O x 3 word Word WORD é É straße v.v o.O 0.0 Ph.D. Ph.D D. goin goin' ol' y'all o'clock "
    "x.com com http mail space <space> c. z. I i A a"
).split() + [" ", "\n"]


@pytest.mark.slow
def test_equals_the_literal_rules():
    rng = random.Random(5)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(6000)]
    texts += [
        before + word + after
        for word in sorted(EXCEPTIONS)
        for before, after in (("", ""), ("", "."), ("''", "."), ("'", "'"), ("x:", "'s"))
    ]
    for text, words in zip(texts, words_of(*texts), strict=True):
        assert words == reference(text), text


# Facts about the exceptions, not taken from the table under test.
KNOWN = [
    ("Don't dont won't can't cannot", "do n't do nt wo n't ca n't can not"),
    ("I'm Im I'ma you'll've youd theyre", "i 'm i m i 'm a you 'll 've you d they re"),
    ("its ill hell she'll were well Shed", "its ill hell she 'll were well shed"),
    ("that's thats this'd these've that've", "that 's that s this 'd these 've that've"),
    ("let's Gonna c'mon how'd'y", "let 's gon na c'm on how 'd 'y"),
    ("5pm 5p.m. 12a.m. 13pm 13p.m.", "5 pm 5 p.m. 12 a.m. 13pm 13p.m ."),
    ("Mr. Smith's U.S. u.s. N.Y. end. END.", "mr. smith 's u.s. u.s . n.y. end . end ."),
    ("10km 10 km 50% x% $5 5$ US$5", "10 km 10 km 50 % x% $ 5 5 $ us$ 5"),
    ("a.b no.On a.B A.B 3.5 e.g.x", "a.b no . on a. b a.b 3.5 e.g.x"),
    ("me@x.com www.x.com Foo.Bar.com x:y 5:30", "me@x.com www.x.com foo.bar.com x : y 5:30"),
    (":D :P xD <3 o.O goin' 'em ``x''", ":d :p xd <3 o.o goin' 'em ` ` x ''"),
    ('re-use --- a/b (x) [y] "z" w_o', 're - use --- a / b ( x ) [ y ] " z " w _ o'),
]


def test_known_words():
    texts, words = zip(*KNOWN, strict=True)
    assert words_of(*texts) == [row.split(" ") for row in words]


# ftfy's part.
CHARACTERS = [
    ("“a” ‘b‛ c‚ „d‟ʼe", ['"', "a", '"', "'", "b", "'", "c", "'", '"', "d", '"', "'", "e"]),
    ("ﬁne oﬃce Ĳs ＡＢ　ｃ！ ｶﾅ", ["fine", "office", "ijs", "ab", "c", "!", "カナ"]),
    ("a&amp;b &lt;3 &eacute;t&#233;", ["a&b", "<3", "été"]),
    ("&#x27;n&#39; &bogus;", ["'", "n", "'", "&", "bogus", ";"]),
    ("<i> &amp;", ["<", "i", ">", "&", "amp", ";"]),
    ("a\r\nb\rc\u2028d\u2029e", ["a", "\n", "b", "\n", "c", "\n", "d", "\n", "e"]),
    ("\ufeffx\x00y\x1b[31;1mz\x7f \ufffcw", ["xyz", "w"]),
    ("e\u0301t\u00a0\u2003u \x93q\x94 v\x85", ["ét", "u", '"', "q", '"', "v", "..."]),
]


def test_characters():
    texts, words = zip(*CHARACTERS, strict=True)
    assert words_of(*texts) == list(words)


def test_what_is_not_utf8_is_dropped():
    assert gpt_words(tf.constant([b"caf\xff\xe9 a"])).to_list() == [[b"caf", b"a"]]
