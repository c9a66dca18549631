"""ALBERT's vocabulary: a `spiece.model`, or the Unigram of a `tokenizer.json`."""

from __future__ import annotations

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
from tfnlp.checkpoints.tokenizers.files import FoundTokenizer, TokenizerFiles, check_size, refused
from tfnlp.checkpoints.tokenizers.tokenizer_json import (
    CONFIG,
    NAME,
    find_json,
    write_config,
    write_pipeline,
)
from tfnlp.text import PipelineTokenizer, SentencePieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.sentencepiece import (
    CLS,
    MASK,
    MODEL_FILE,
    PAD,
    SEP,
    UNK,
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
    if path.suffix == ".json" or (vocab is None and not path.exists()):
        return find_json(folder, vocab, lowercase, vocab_size, loader, MODEL_FILE)
    try:
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
    if isinstance(tokenizer, PipelineTokenizer):
        return write_pipeline(folder, tokenizer, max_length)
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
