"""Writing `tokenizer.json` with the tokenizers library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME
from tfnlp.text.wordpiece import CLS, MAX_WORD_CHARS, SEP, SPECIAL_TOKENS, UNK

CONFIG = "tokenizer_config.json"
_UNKNOWN, _END = "<unk>", "<|endoftext|>"
_BYTES = {"add_prefix_space": False, "trim_offsets": True}


def write_wordpiece_json(folder: str, tokens: Sequence[str], lowercase: bool) -> None:
    """Write the `tokenizer.json` of a BERT; none if the vocabulary lacks a special token."""
    ids = {token: i for i, token in enumerate(tokens)}
    if any(token not in ids for token in SPECIAL_TOKENS) or len(ids) != len(tokens):
        return
    model = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, ids[CLS]), (SEP, ids[SEP])],
    )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.save(os.path.join(folder, NAME))


def write_gpt_json(
    folder: str,
    tokens: Sequence[str | None],
    merges: Sequence[tuple[str, str]],
    of_bytes: bool,
    ends: tuple[str, str, str] | None = None,
) -> None:
    """Write the `tokenizer.json` of a GPT or a GPT-2; none of a part of a vocabulary.

    `of_bytes` says whether its symbols are bytes, as GPT-2's; `ends` are tokens before, between and
    after texts.
    """
    if any(token is None for token in tokens):
        return
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = _bytes(ids, merges) if of_bytes else _words(ids, merges)
    if ends is None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        start, delimiter, extract = ends
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A {extract}",
            pair=f"{start} $A {delimiter} $B {extract}",
            special_tokens=[(token, ids[token]) for token in ends],
        )
    # Bytes are never unknown: there "<unk>" is a token like others.
    special = [token for token in ([] if of_bytes else [_UNKNOWN]) + [_END] if token in ids]
    tokenizer.add_special_tokens([*special, *(ends or ())])
    tokenizer.save(os.path.join(folder, NAME))


def write_sentence_json(
    folder: str,
    tokens: Sequence[str],
    merges: Sequence[tuple[str, str]],
    special: Sequence[str],
    ends: tuple[str, str],
    mask: str,
) -> None:
    """Write the `tokenizer.json` of a byte-level BPE with tokens around texts, as RoBERTa's.

    `ends` are those before and after a text; `mask` takes the place of the spaces before it.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = _bytes(ids, merges)
    before, after = ((token, ids[token]) for token in ends)
    tokenizer.post_processor = processors.RobertaProcessing(after, before, **_BYTES)
    added = (AddedToken(t, lstrip=t == mask, normalized=False) for t in special)
    tokenizer.add_special_tokens(list(added))
    tokenizer.save(os.path.join(folder, NAME))


def _bytes(ids: dict[str, int], merges: Sequence[tuple[str, str]]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ids, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**_BYTES)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _words(ids: dict[str, int], merges: Sequence[tuple[str, str]]) -> Tokenizer:
    model = models.BPE(ids, list(merges), unk_token=_UNKNOWN, end_of_word_suffix="</w>")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def after_spaces(token: str) -> dict[str, Any]:
    """Return a special token of `tokenizer_config.json` that takes the place of spaces before it.

    Without it transformers gives the token no such property, whatever `tokenizer.json` says.
    """
    fixed = {"normalized": False, "rstrip": False, "single_word": False}
    return {"__type": "AddedToken", "content": token, "lstrip": True, **fixed}


def write_config(folder: str, kind: str, max_length: int, settings: Mapping[str, Any]) -> None:
    """Write `tokenizer_config.json`."""
    stated = {"tokenizer_class": kind, "model_max_length": max_length, **settings}
    write_json(os.path.join(folder, CONFIG), stated)
