"""The exceptions of GPT's tokenizer, spaCy's English one: a table of words and their splits.

Facts from spaCy 3.8 (spacy/lang/tokenizer_exceptions.py, spacy/lang/en/tokenizer_exceptions.py).
Words with a character that `text_standardize` puts between spaces ("and/or", ":-)") never reach
the tokenizer and are left out.
"""

import re

import numpy as np
import tensorflow as tf

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
# Kept whole; the first of these lists, for `join_split`, without their mark.
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


def find(table: dict[str, str], strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
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


def join_split(chunks: tf.Tensor) -> tf.Tensor:
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
