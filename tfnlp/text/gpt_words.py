"""GPT's normalisation and word splitting inside the TensorFlow graph.

The reference is finetune-transformer-lm (text_utils.py): `ftfy.fix_text`, `text_standardize`, then
spaCy's blank English tokenizer, each word lower-cased. Here, in this order:

1. ftfy, as far as it works on single characters (`clean`).
2. `text_standardize`: dashes become "-", an ellipsis three dots, an acute accent an apostrophe;
   runs of one of ``-~!";?+,)(/*[]}{|_`` are put between spaces; white space becomes one space or,
   if it holds a line break, one line break, which is a word; none is left at the ends.
3. spaCy, on each distinct chunk between spaces: cuts off a prefix and a suffix at a time (quotes,
   punctuation, symbols, currencies, units after digits, a full stop after a lower-case letter,
   "'s") until there is none or an exception ("don't", "Mr.", "5pm", ":D") is left; then splits an
   exception as its table says, keeps an address whole, and splits anything else at infixes
   ("..", "a:b", "end.Start", symbols).
4. Lower case.

Equal to ftfy 6.3 and spaCy 3.8 (spaCy 2.0, with which the weights were trained, differs in rare
cases), but for:

- mojibake and rare HTML entities, see `clean`;
- letters and symbols are those of Unicode's categories; spaCy's tables lack some rare letters
  (Coptic, Cyrillic beyond Russian, Ukrainian and Tatar) and the symbols after Unicode 11;
- a label of a web address may be longer than 64 letters, and addresses of private networks count
  as addresses.
"""

import html
import html.entities
import re
import unicodedata

import numpy as np
import tensorflow as tf

from tfnlp.text.packing import merge_words
from tfnlp.text.strings import apply_where, drop_invalid, tf_text

# --- 1. Cleaning -------------------------------------------------------------------------------
# Texts of these characters alone, without entities, stay as they are.
_CLEAN = r"[\t\n\f -~]*"
_ENTITY = r"&#?[0-9A-Za-z]{1,8};"

_LIGATURES = {"ﬅ": "ſt"} | {
    ligature: unicodedata.normalize("NFKC", ligature) for ligature in "ĲĳŉǱǲǳǄǅǆǇǈǉǊǋǌﬀﬁﬂﬃﬄﬆ"
}
_WIDTHS = {"\u3000": " "} | {
    wide: unicodedata.normalize("NFKC", wide) for wide in map(chr, range(0xFF01, 0xFFF0))
}
_WINDOWS = {chr(byte): bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0)}
_CHARACTERS = {
    old: new for old, new in (_LIGATURES | _WIDTHS | _WINDOWS).items() if new not in ("", old)
}
_IN_CHARACTERS = r"[\x{80}-\x{9F}ĲĳŉǱǲǳǄǅǆǇǈǉǊǋǌ\x{FB00}-\x{FB06}\x{3000}\x{FF01}-\x{FFEF}]"

# --- 2. text_standardize -----------------------------------------------------------------------
# Marks to put between spaces: the first set one by one, the others as runs. The backslash in the
# reference's pattern is an escape of the Python string: it is not a mark.
_APART = r"[!\";?+,)(*\[\]}{_]|-+|~+|/+|\|+"
# Stands for a line break; `clean` leaves no control characters.
_BREAK = "\x01"

# --- 3. The tokenizer; the characters above are words of their own by now -----------------------
_UNCASED = (
    r"\p{Bengali}\p{Hebrew}\x{620}-\x{64A}\x{66E}-\x{6D5}\x{6E5}-\x{6FF}\x{750}-\x{77F}"
    r"\x{8A0}-\x{8BD}\p{Sinhala}\p{Devanagari}\p{Kannada}\p{Tamil}\p{Telugu}\p{Hangul}\p{Han}"
)
_LOWER, _UPPER = rf"\p{{Ll}}{_UNCASED}", rf"\p{{Lu}}{_UNCASED}"
_LETTER = rf"\p{{Ll}}\p{{Lu}}{_UNCASED}"
_QUOTES = r"'`”“‘’‚„»«「」『』（）〔〕【】《》〈〉"
_PUNCTUATION = r":<>#&¿؟¡。、·।،۔؛٪"
_CURRENCY = r"US\$|C\$|A\$|[$£€¥฿₽﷼₴]"
_UNITS = (
    "km[²³]?|m[²³]?|dm[²³]?|cm[²³]?|mm[²³]?|ha|µm|nm|yd|in|ft|kg|g|mg|µg|t|lb|oz|kmh|mph|hPa|Pa|"
    "mbar|mb|MB|kb|KB|gb|GB|tb|TB|T|G|M|K|%|км[²³]?|м[²³]?|дм[²³]?|см[²³]?|мм[²³]?|нм|кг|г|мг|кПа|"
    "Па|мбар|Кб|КБ|кб|Мб|МБ|мб|Гб|ГБ|гб|Тб|ТБ|тб"
)
_EITHER_END = rf"\.\.+|[{_PUNCTUATION}{_QUOTES}\p{{So}}]"
_PREFIX = rf"^(?:[§%=]|{_EITHER_END}|{_CURRENCY})"
# Groups hold what must precede a suffix.
_SUFFIX = (
    rf"(?:{_EITHER_END}|'[sS]|([0-9])(?:{_CURRENCY}|{_UNITS})|(°[FfCcKk])\."
    rf"|([0-9{_LOWER}%²{_PUNCTUATION}{_QUOTES}])\.|([{_UPPER}][{_UPPER}])\.)$"
)
_INFIXES = (
    (r"\.\.+|\p{So}", r" \0 "),
    (r"([0-9])(\^)([0-9])", r"\1 \2 \3"),
    (rf"([{_LOWER}{_QUOTES}])(\.)([{_UPPER}{_QUOTES}])", r"\1 \2 \3"),
    (rf"([{_LETTER}0-9])([:<>=])([{_LETTER}])", r"\1 \2 \3"),
)
_ADDRESS = (  # of the web, of mail or an IP address; dashes and slashes are already cut off
    r"(?:.+@)?(?:(?:[1-9]\d?|1\d\d|2[01]\d|22[0-3])(?:\.(?:1?\d{1,2}|2[0-4]\d|25[0-5])){2}"
    r"\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])"
    rf"|(?:[A-Za-z0-9\x{{A1}}-\x{{FFFF}}]+\.)+[{_LOWER}][{_LOWER}]+)(?::\d{{2,5}})?(?:#.*)?"
)
# A chunk that no rule splits.
_PLAIN = r"[A-Za-z\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{17F}]*[0-9]*|[!\";?,)(*\[\]}{_]|-+|/+|\x01"

# --- 4. spaCy's exceptions: words and their splits ---------------------------------------------
# Facts from spaCy 3.8 (spacy/lang/tokenizer_exceptions.py, spacy/lang/en/tokenizer_exceptions.py).
# Words with a character that `text_standardize` puts between spaces ("and/or", ":-)") never reach
# the tokenizer and are left out.
_ENDINGS = (  # stems, also with a capital; endings, also without their apostrophes
    ("i", "'m", "'m a"),
    ("i you he she it we they", "'ll", "'ll 've", "'d", "'d 've"),
    ("i you we they", "'ve"),
    ("you we they", "'re"),
    ("he she it", "'s"),
    ("who what when where why how there", "'s", "'ll", "'ll 've", "'re", "'ve", "'d", "'d 've"),
    ("that this", "'s", "'ll", "'ll 've", "'d", "'d 've"),
    ("these those", "'ll", "'ll 've", "'re", "'ve", "'d", "'d 've"),
    ("ca could do does did had may might must need ought sha should wo would", "n't", "n't 've"),
    ("could might must should would", "'ve"),
    ("ai are is was were have has dare", "n't"),
)
_NOT_SPLIT = "ill its hell shell shed were well whore"  # words of their own, with a capital too
_SPLIT = (  # at the spaces
    "y' all|y all|how 'd 'y|How 'd 'y|not 've|not ve|Not 've|Not ve|can not|Can not|gon na|Gon na|"
    "got ta|Got ta|let 's|Let 's|c'm on|C'm on"
)
# Kept whole; the first of these lists, for `_join_split`, without their mark.
_ABBREVIATIONS = (
    "a b c d e f g h i j k l m n o p q r s t u v w x y z ä ö ü a.m p.m e.g E.g i.e I.e v.s vs co "
    "Adm Ak Ala Apr Ariz Ark Aug Bros Calif Co Colo Conn Corp Dec Del Dr Feb Fla Ga Gen Gov Ia Id "
    "Ill Inc Ind Jan Jr Jul Jun Kan Kans Ky La Ltd Mar Mass Md Messrs Mich Minn Miss Mo Mont Mr "
    "Mrs Ms Mt Neb Nebr Nev Nov Oct Okla Ore Pa Prof Rep Rev Sen Sep Sept St Tenn Va Wash Wis"
)
_AFTER_APOSTROPHE = "' s S re d ll em nuff Cause cause cos Cos coz Coz cuz Cuz bout"
_BEFORE_APOSTROPHE = "doin goin nothin nuthin ol somethin lovin havin"  # with a capital too
_WITH_SIGNS = ":1 :P :p :O :o :0 :3 :X :x :D :> =3 =D <3 <33 <333 >.< >.> <.< >:o <space> o.O Ph.D."
_WHOLE = (
    "' D.C. E.G. I.E. N.C. N.D. N.H. N.J. N.M. N.Y. S.C. em ll nuff ma'am Ma'am o'clock O'clock "
    "xD XD xDD XDD 8D v.v V.V O.o O.O o.o 0.0 o.0 0.o ಠ︵ಠ "
    r"\t \n"
)


def _with_capitals(words: str) -> list[str]:
    return [form for word in words.split() for form in (word, word.title())]


def _exceptions() -> dict[str, str]:
    """Return each exception with its words, a space between."""
    found = {}
    for stems, *endings in _ENDINGS:
        for stem in _with_capitals(stems):
            for ending in endings:
                for form in (ending, ending.replace("'", "")):
                    found[stem + form.replace(" ", "")] = f"{stem} {form}"
    for word in _with_capitals(_NOT_SPLIT):
        found.pop(word, None)
    for hour in range(1, 13):
        for period in ("a.m.", "am", "p.m.", "pm"):
            found[f"{hour}{period}"] = f"{hour} {period}"
    found |= {words.replace(" ", ""): words for words in _SPLIT.split("|")}
    whole = [f"{word}." for word in _ABBREVIATIONS.split()]
    whole += [f"'{word}" for word in _AFTER_APOSTROPHE.split()]
    whole += [word + end for word in _with_capitals(_BEFORE_APOSTROPHE) for end in ("", "'")]
    whole += f"{_WITH_SIGNS} {_WHOLE}".split()
    return found | {word: word for word in whole}


EXCEPTIONS = _exceptions()

_HOUR = "(?:1[0-2]|[1-9])"


def _any_of(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in words)


# Patterns of words with two spaces between, so that a match can include one space on each side.
_AFTER = _any_of(_AFTER_APOSTROPHE.split())
_TRIPLE = r" (Ph  \.  D\.|o  \.  O|<  space  >|>  \.  [<>]|<  \.  <|>  :  o) "
_PAIR = (
    # What overlaps a pair is not joined, nor what overlaps that.
    rf" (?:((?:'|{_any_of(_with_capitals(_BEFORE_APOSTROPHE))})  ')((?:  ')*(?:  (?:{_AFTER}))?)"
    rf"|('  (?:{_AFTER})|(?:{_any_of(_ABBREVIATIONS.split())}|{_HOUR}[ap]\.m)  \."
    r"|:  [1PpOo03XxD>]|=  [3D]|<  33?3?)) "
)


def _entities() -> dict[str, str]:
    found = {f"&{name};": chr(code) for name, code in html.entities.name2codepoint.items()}
    for code in (*range(0x20, 0x100), *range(0x2010, 0x203B)):
        forms = (f"&#{code};", f"&#{code:03};", f"&#x{code:x};", f"&#x{code:X};")
        found |= {form: html.unescape(form) for form in forms}
    return found


_ENTITIES = _entities()

_FTFY = (
    (r"[ʼ‘-‛]", "'"),
    (r"[“-‟]", '"'),
    (r"\r\n|[\r\x{2028}\x{2029}]", "\n"),
    (r"\x1b\[[0-9;]*[A-Za-z]", ""),
    (r"[\x{0}-\x{8}\x{B}\x{E}-\x{1F}\x{7F}\x{206A}-\x{206F}\x{FEFF}\x{FFF9}-\x{FFFC}]+", ""),
)
_STANDARD = (
    (r"[–—―]", "-"),
    (r"…", "..."),
    (r"´", "'"),
    (r"[\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}]", " "),
)


def _find(table: dict[str, str], strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Look up strings `[N]`: whether each is in the table, `[N]`, and its value, `[N]`, or itself.

    By binary search among the hashes of the keys. A lookup table would be a resource, which a plain
    function cannot carry into a SavedModel.
    """
    with tf.init_scope():  # once when traced, not in every call
        hashes = tf.strings.to_hash_bucket_fast(list(table), 2**62).numpy()
    order = np.argsort(hashes)
    keys = tf.constant(np.array(list(table), object)[order])
    values = tf.constant(np.array(list(table.values()), object)[order])
    place = tf.searchsorted(hashes[order], tf.strings.to_hash_bucket_fast(strings, 2**62))
    place = tf.minimum(place, len(table) - 1)
    hit = tf.gather(keys, place) == strings
    return hit, tf.where(hit, tf.gather(values, place), strings)


def clean(strings: tf.Tensor) -> tf.Tensor:
    r"""Clean strings `[B]`; what remains of white space is tab, newline, form feed and space.

    The reference is `ftfy.fix_text` of ftfy 6.3 with its defaults, followed by the replacements of
    single characters in finetune-transformer-lm's `text_standardize`. Done here, in this order:

    - HTML entities, unless there is a "<" before the end of the text (ftfy: of the line, or
      before): the named ones of HTML 4, the numeric ones of U+20..U+FF and U+2010..U+203A;
    - C1 control characters are read as Windows-1252; Latin ligatures are taken apart; half- and
      full-width forms get their normal width;
    - curly quotes become straight, all line breaks "\n";
    - terminal escapes (colours), control characters and what is not UTF-8 are removed;
    - NFC;
    - dashes, the ellipsis and the acute accent are replaced as in `text_standardize`; white space
      beyond ASCII becomes a space.

    Left out: the repair of mojibake (text decoded with the wrong encoding), which ftfy does by
    trial; the other entities of HTML 5; a second pass over the result of the first ("&amp;amp;").
    """
    escaped = tf.strings.regex_full_match(strings, rf"[^<]*{_ENTITY}[^<]*")
    strings = apply_where(escaped, _unescape, strings)
    dirty = ~tf.strings.regex_full_match(strings, _CLEAN)
    return apply_where(dirty, _clean_any, strings)


def _unescape(strings: tf.Tensor) -> tf.Tensor:
    pieces = tf_text.regex_split(strings, _ENTITY, _ENTITY)
    _, text = _find(_ENTITIES, pieces.flat_values)
    return tf.strings.reduce_join(pieces.with_flat_values(text), axis=-1)


def _clean_any(strings: tf.Tensor) -> tf.Tensor:
    strings = drop_invalid(strings)
    translated = tf.strings.regex_full_match(strings, rf"(?s).*{_IN_CHARACTERS}.*")
    strings = apply_where(translated, _translate, strings)
    for pattern, replacement in _FTFY:
        strings = tf.strings.regex_replace(strings, pattern, replacement)
    strings = tf_text.normalize_utf8(strings, "NFC")
    for pattern, replacement in _STANDARD:
        strings = tf.strings.regex_replace(strings, pattern, replacement)
    return strings


def _translate(strings: tf.Tensor) -> tf.Tensor:
    characters = tf.strings.unicode_split(strings, "UTF-8")
    _, text = _find(_CHARACTERS, characters.flat_values)
    return tf.strings.reduce_join(characters.with_flat_values(text), axis=-1)


# Traced once in a process, which takes longer than the rest of making a tokenizer.
@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def gpt_words(strings: tf.Tensor) -> tf.RaggedTensor:
    r"""Split texts into the words that GPT's byte pair encoding begins with, see the module.

    Args:
        strings: string tensor `[B]`, texts of any length. Bytes that are not UTF-8 are dropped.

    Returns:
        Strings `[B, (words)]`, lower-case, none empty. Line breaks are words "\n".
    """
    chunks = _chunks(strings)
    distinct, place = tf.unique(chunks.flat_values)
    words = tf.strings.split(_lower(_tokenize(distinct)), " ")  # [U, (words)]
    words = words.with_flat_values(tf.where(words.flat_values == _BREAK, "\n", words.flat_values))
    return merge_words(chunks.with_flat_values(tf.gather(words, place)))


def _chunks(strings: tf.Tensor) -> tf.RaggedTensor:
    """Return what is between white space, `[B, (chunks)]`."""
    strings = tf.strings.strip(clean(strings))
    strings = tf.strings.regex_replace(strings, r"\n[\t\n\f ]*", f" {_BREAK} ")
    return tf.strings.split(tf.strings.regex_replace(strings, _APART, r" \0 "))


def _lower(strings: tf.Tensor) -> tf.Tensor:
    # ASCII first: Unicode lower-casing may depend on the process's locale (Turkish I).
    return tf.strings.lower(tf.strings.lower(strings), encoding="utf-8")


def _tokenize(chunks: tf.Tensor) -> tf.Tensor:
    """Return chunks `[U]` with a space between their words."""
    hit, words = _find(EXCEPTIONS, chunks)
    rows = tf.where(~hit & ~tf.strings.regex_full_match(chunks, _PLAIN))  # [N, 1]
    before, core, after = _cut_affixes(tf.gather_nd(chunks, rows))
    split = tf.strings.join([before, _split_core(core), after])
    return tf.tensor_scatter_nd_update(words, rows, _join_split(split))


def _cut_affixes(chunks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the prefixes of chunks `[N]`, each followed by a space, the rest, the suffixes."""

    def cut(
        rows: tf.Tensor, before: tf.Tensor, core: tf.Tensor, after: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        chunk, left, right = (tf.gather(column, rows) for column in (core, before, after))
        rest = tf.strings.regex_replace(chunk, _PREFIX, "", replace_global=False)
        stem = tf.strings.regex_replace(rest, _SUFFIX, r"\1\2\3\4", replace_global=False)
        cut_off = tf.strings.length(chunk) - tf.strings.length(rest)
        prefix = tf.strings.substr(chunk, tf.zeros_like(cut_off), cut_off)
        suffix = tf.strings.substr(rest, tf.strings.length(stem), tf.strings.length(rest))
        unsuffixed = tf.strings.join([prefix, stem])
        known, _ = _find(EXCEPTIONS, tf.concat([rest, unsuffixed, stem], 0))
        rest_known, unsuffixed_known, stem_known = tf.unstack(tf.reshape(known, [3, -1]))
        # Do not cut both if an exception is left without the prefix, or else without the suffix.
        keep_suffix = rest_known & (prefix != "")
        keep_prefix = unsuffixed_known & (suffix != "") & ~keep_suffix
        left = tf.where(keep_prefix | (prefix == ""), left, tf.strings.join([left, prefix, " "]))
        right = tf.where(keep_suffix | (suffix == ""), right, tf.strings.join([" ", suffix, right]))
        new = tf.where(keep_suffix, rest, tf.where(keep_prefix, unsuffixed, stem))
        done = keep_suffix | keep_prefix | stem_known | (new == chunk) | (new == "")
        at = rows[:, tf.newaxis]
        return (
            tf.boolean_mask(rows, ~done),
            tf.tensor_scatter_nd_update(before, at, left),
            tf.tensor_scatter_nd_update(core, at, new),
            tf.tensor_scatter_nd_update(after, at, right),
        )

    nothing = tf.zeros_like(chunks)
    _, before, core, after = tf.while_loop(
        lambda rows, *_: tf.size(rows) > 0,
        cut,
        (tf.range(tf.size(chunks)), nothing, chunks, nothing),
        shape_invariants=(tf.TensorShape([None]), *[chunks.shape] * 3),
    )
    return before, core, after


def _split_core(cores: tf.Tensor) -> tf.Tensor:
    """Split what is left in the middle, `[N]`: an exception, an address, or a word with infixes."""
    known, words = _find(EXCEPTIONS, cores)
    split = cores
    for pattern, replacement in _INFIXES * 2:  # twice, since a letter may be between two
        split = tf.strings.regex_replace(split, pattern, replacement)
    whole = known | (split == cores) | tf.strings.regex_full_match(cores, _ADDRESS)
    return tf.where(whole, words, split)


def _join_split(chunks: tf.Tensor) -> tf.Tensor:
    """Join exceptions that were split: "' ' Mr ." -> "'' Mr.".

    Affixes are cut off on both sides at once, which can miss an exception; spaCy then looks for
    the words of exceptions in the result. Of those that overlap it takes the longest, then the
    first.

    Args:
        chunks: `[N]`, the words of one chunk each, a space between.
    """
    for pattern, replacement in (
        ("^ *| +|$", "  "),
        (_TRIPLE, " \x02\\1\x02 "),
        (_PAIR, " \x02\\1\\3\x02\\2 "),
        (f"\x02({_HOUR})([ap]\\.m)  \\.\x02", r"\1  \2."),
        ("\x02([^ \x02]+)  ([^ \x02]+)(?:  ([^ \x02]+))?\x02", r"\1\2\3"),
        ("  +", " "),
    ):
        chunks = tf.strings.regex_replace(chunks, pattern, replacement)
    return tf.strings.strip(chunks)
