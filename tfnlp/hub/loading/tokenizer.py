"""The tokenizer of an exported preprocessor, rebuilt from its vocabulary."""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfnlp.hub.loading.kind import preprocessor_folder
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.text import tokenizer_candidates

_SPECIAL = ("vocab_size", "padding_id", "start_of_sequence_id", "end_of_segment_id", "mask_id")
_TEST_TEXTS = (
    "The quick brown fox jumped over the lazy dog.",
    "It's JUST what Mr. Smith-Jones said: \"don't\"!",
    "naïve café Über ÉCOLE Ångström e\u0301te\u0301 İstanbul straße",
    "北京 is a city, 東京 too; Привет, мир! สวัสดี 🙂",
    "  two  spaces,\ttabs\nand lines  ",
    "$3.50 + 10% = 1,234.56 <b>x_y</b> #1 @a~b^c`d",
    "[CLS] [MASK] <|endoftext|> unaffable antidisestablishmentarianism " + "x" * 210,
    "",
)
_RECASED = 300  # words of the vocabulary that are also tested with other capitals


def saved_tokenizer(path: str | os.PathLike) -> Any:
    """Rebuild the tokenizer of an exported preprocessor from the vocabulary in its assets.

    It is one of `tfnlp.text`, such as a `WordPieceTokenizer`, and is compared with the saved one: a
    few sentences, with capitals, accents, marks and many scripts, and the words of the vocabulary
    must get the ids that `preprocessor.tokenize` gives them. The comparison also tells whether a
    WordPiece tokenizer lower-cases.

    Args:
        path: the folder with `preprocessor` in it, or that folder itself.

    Raises:
        ValueError: if the preprocessor carries no vocabulary, or splits text in another way than
            these tokenizers.
    """
    path = preprocessor_folder(os.fspath(path))
    tokenize = getattr(load_module(path), "tokenize", None)
    if not callable(tokenize):
        raise ValueError(
            f"SavedModel {path} has no `tokenize`; expected a preprocessor with TF-Hub's "
            "interface, as `tfnlp export` writes it"
        )
    reasons = []
    for make in tokenizer_candidates(os.path.join(path, "assets"), reasons):
        tokenizer = make()
        reason = _difference(tokenizer, tokenize)
        if reason is None:
            return tokenizer
        reasons.append(reason)
    raise ValueError(
        f"the tokenizer of SavedModel {path} cannot be rebuilt: "
        f"{'; '.join(reasons) or 'it carries no vocabulary file in its assets'}"
    )


def _difference(tokenizer: Any, tokenize: Any) -> str | None:
    """Describe how the tokenizer differs from the saved function `tokenize`; None if equal."""
    name = type(tokenizer).__name__
    if hasattr(tokenizer, "lowercase"):
        name = f"{name}(lowercase={tokenizer.lowercase})"
    if hasattr(tokenize, "get_special_tokens_dict"):
        own, other = tokenizer.special_tokens_dict(), tokenize.get_special_tokens_dict()
        for key in _SPECIAL:
            if key in own and key in other and int(own[key]) != int(other[key]):
                return f"{name} has {key} {int(own[key])}, not {int(other[key])}"
    texts = [*_TEST_TEXTS, *_vocabulary_lines(tokenizer)]
    pairs = zip(_ids(tokenizer.tokenize, texts), _ids(tokenize, texts), strict=True)
    for text, (own, other) in zip(texts, pairs, strict=True):
        if own != other:
            return f"{name} makes {_short(own)} of {text[:60]!r}, not {_short(other)}"
    return None


def _vocabulary_lines(tokenizer: Any) -> list[str]:
    """Return all words of the vocabulary, and some of them with other capitals, 20 a line."""
    words = [t.removesuffix("</w>") for t in tokenizer.vocabulary if t is not None]
    words = [word for word in words if word.isalpha()]
    some = words[:: max(1, len(words) // _RECASED)]
    words += [w.swapcase() for w in some] + [w.title() for w in some]
    return [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]


def _ids(tokenize: Callable, texts: list[str]) -> list[list[int] | None]:
    """Return lists of ids; None for a text with a token that an incomplete vocabulary lacks."""
    try:
        ids = tokenize(tf.constant(texts))
    except tf.errors.InvalidArgumentError:
        if len(texts) == 1:
            return [None]
        return [row for text in texts for row in _ids(tokenize, [text])]
    return (ids.merge_dims(1, 2) if ids.shape.rank == 3 else ids).to_list()


def _short(ids: list[int] | None) -> str:
    return str(ids if ids is None or len(ids) <= 8 else [*ids[:8], "..."]).replace("'...'", "...")
