"""ALBERT's vocabulary: a `spiece.model`, or the Unigram of a `tokenizer.json`."""

from __future__ import annotations

import base64
import functools
import os
import pathlib
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

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import reading
from tfnlp.checkpoints.tokenizers.files import FoundTokenizer, TokenizerFiles, check_size, refused
from tfnlp.checkpoints.tokenizers.tokenizer_json import (
    CONFIG,
    NAME,
    TokenizerJson,
    read_tokenizer_json,
    steps_of,
    write_config,
)
from tfnlp.text import SentencePieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.sentencepiece import (
    CLS,
    MASK,
    MODEL_FILE,
    PAD,
    SEP,
    SPECIAL_PIECES,
    UNK,
    make_model,
    piece_scores,
    read_pieces,
    stored_normalization,
)

_QUOTES = (("``", '"'), ("''", '"'))
_UNCASED = ("NFKD", "StripAccents", "Lowercase")


def find_sentencepiece(
    folder: pathlib.Path,
    vocab: str | os.PathLike | None,
    lowercase: bool | None,
    vocab_size: int,
    loader: str,
) -> FoundTokenizer:
    """Return the tokenizer of `vocab`, or of `spiece.model` or `tokenizer.json`.

    See `TokenizerFiles`; where nothing says it, text is lower-cased.
    """
    path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / MODEL_FILE
    if vocab is None and not path.exists():
        path = folder / NAME
        if not path.exists():
            absent = f"the checkpoint has no {MODEL_FILE} or {NAME} beside it"
            return refused(f"{absent}; pass vocab= to {loader}", lowercase=lowercase)
    try:
        if path.suffix == ".json":
            found = read_tokenizer_json(path)
            with reading(path):
                model, stated = _of_json(found)
                _, pieces = read_pieces(model)
        else:
            stated = _lowercase(folder)
            model, pieces = read_pieces(path)
    except ValueError as error:
        return refused(str(error), str(path), lowercase)
    check_size(str(path), len(pieces), vocab_size)
    lowercase = stated if lowercase is None else lowercase
    make = functools.partial(SentencePieceTokenizer, model, lowercase)
    return FoundTokenizer(make, str(path), lowercase)


def write_sentencepiece(folder: str, tokenizer: Any, max_length: int) -> None:
    """Write `spiece.model`, `tokenizer.json` and `tokenizer_config.json`."""
    tokenizer.write(folder)
    _write_json(folder, tokenizer)
    settings = {
        "do_lower_case": tokenizer.lowercase,
        "keep_accents": not tokenizer.lowercase,
        # Else the class of transformers 5 gives no segments, and a pair is read as one text.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    write_config(folder, "AlbertTokenizer", max_length, settings)


def _write_json(folder: str, tokenizer: Any) -> None:
    made = Tokenizer(models.Unigram(piece_scores(tokenizer.model), tokenizer.unk_id, False))
    steps = [normalizers.Replace(*quotes) for quotes in _QUOTES]
    if tokenizer.lowercase:
        steps += [getattr(normalizers, name)() for name in _UNCASED]
    table = stored_normalization(tokenizer.model)
    if table:
        steps.append(normalizers.Precompiled(table))
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, tokenizer.cls_id), (SEP, tokenizer.sep_id)],
    )
    made.add_special_tokens([PAD, UNK, CLS, SEP, AddedToken(MASK, lstrip=True)])
    made.save(os.path.join(folder, NAME))


def _of_json(found: TokenizerJson) -> tuple[bytes, bool]:
    """Return the model that a `tokenizer.json` describes, and whether text is lower-cased."""
    found.check_kind("Unigram", "ALBERT")
    found.check_added()
    if found.model.get("byte_fallback"):
        found.refuse("model.byte_fallback", True, "false")
    names, table = [], b""
    for step in steps_of(found.contents.get("normalizer"), "normalizers"):
        kind = step.get("type")
        if kind == "Precompiled" and isinstance(step.get("precompiled_charsmap"), str):
            table = base64.b64decode(step["precompiled_charsmap"])
        elif kind != "Replace":
            names.append(kind)
    lowercase = bool(names)
    if names not in ([], list(_UNCASED)):
        found.refuse("normalizer", names, f"none or {', '.join(_UNCASED)}")
    scores = [(piece, float(score)) for piece, score in found.model["vocab"]]
    if len(scores) != len(found.tokens):
        found.refuse("added_tokens", found.tokens[len(scores) :][:1], "those of the model")
    missing = [piece for piece in SPECIAL_PIECES if piece not in found.tokens]
    if missing:
        found.refuse("model.vocab", f"no {missing[0]}", "the special pieces of ALBERT")
    return make_model(scores, table), lowercase


def _lowercase(folder: pathlib.Path) -> bool:
    """Return whether `tokenizer_config.json` says that text is lower-cased; True without it."""
    path = folder / CONFIG
    stated = read_json(path) if path.is_file() else {}
    lowercase = stated.get("do_lower_case", True)
    keeps = stated.get("keep_accents", not lowercase)
    if type(lowercase) is not bool or type(keeps) is not bool or lowercase == keeps:
        raise ValueError(
            f"{path} has do_lower_case={shown(lowercase)} and keep_accents={shown(keeps)}; "
            "expected true and false, or false and true"
        )
    return lowercase


SENTENCEPIECE = TokenizerFiles(find_sentencepiece, write_sentencepiece, (MODEL_FILE, NAME, CONFIG))
