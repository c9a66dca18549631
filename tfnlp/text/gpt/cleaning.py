r"""GPT's text cleaning inside the TensorFlow graph: what ftfy does to single characters.

The reference is `ftfy.fix_text` of ftfy 6.3 with its defaults, followed by the replacements of
single characters in finetune-transformer-lm's `text_standardize`. Done here, in this order:

- HTML entities, unless there is a "<" before the end of the text (ftfy: of the line, or before):
  the named ones of HTML 4 and the numeric ones of U+20..U+FF and U+2010..U+203A;
- C1 control characters are read as Windows-1252; Latin ligatures are taken apart; half- and
  full-width forms get their normal width;
- curly quotes become straight, all line breaks "\n";
- terminal escapes (colours), control characters and what is not UTF-8 are removed;
- NFC;
- dashes, the ellipsis and the acute accent are replaced as in `text_standardize`; white space
  beyond ASCII becomes a space.

Left out: the repair of mojibake (text decoded with the wrong encoding), which ftfy does by trial;
the other entities of HTML 5; a second pass over the result of the first ("&amp;amp;").
"""

import html
import html.entities
import unicodedata

import tensorflow as tf

from tfnlp.text.gpt.exceptions import find
from tfnlp.text.strings import apply_where, drop_invalid
from tfnlp.text.tf_text import tf_text

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


def clean(strings: tf.Tensor) -> tf.Tensor:
    """Clean strings `[B]`; what remains of white space is tab, newline, form feed and space."""
    escaped = tf.strings.regex_full_match(strings, rf"[^<]*{_ENTITY}[^<]*")
    strings = apply_where(escaped, _unescape, strings)
    dirty = ~tf.strings.regex_full_match(strings, _CLEAN)
    return apply_where(dirty, _clean_any, strings)


def _unescape(strings: tf.Tensor) -> tf.Tensor:
    pieces = tf_text.regex_split(strings, _ENTITY, _ENTITY)
    _, text = find(_ENTITIES, pieces.flat_values)
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
    _, text = find(_CHARACTERS, characters.flat_values)
    return tf.strings.reduce_join(characters.with_flat_values(text), axis=-1)
