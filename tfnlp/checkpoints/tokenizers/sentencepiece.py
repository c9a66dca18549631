"""ALBERT's vocabulary: a `spiece.model`, or the Unigram of a `tokenizer.json`."""

from __future__ import annotations

import functools
import os
import pathlib
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.tokenizers.files import (
    FoundTokenizer,
    TokenizerFiles,
    check_size,
    put_around,
    refused,
    write_config,
)
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME
from tfnlp.text import SentencePieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.pipeline import CONFIG
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


class SentencePieceFiles(TokenizerFiles):
    """`spiece.model`, `tokenizer.json` and `tokenizer_config.json`.

    Where nothing says it, text is lower-cased.
    """

    own = (MODEL_FILE,)

    def find(
        self,
        folder: pathlib.Path,
        vocab: str | os.PathLike | None,
        lowercase: bool | None,
        vocab_size: int,
    ) -> FoundTokenizer:
        path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / MODEL_FILE
        if path.suffix == ".json" or (vocab is None and not path.exists()):
            return super().find(folder, vocab, lowercase, vocab_size)
        try:
            stated = _lowercase(folder)
            model, pieces = read_pieces(path)
        except ValueError as error:
            return refused(str(error), str(path), lowercase)
        check_size(str(path), len(pieces), vocab_size)
        lowercase = stated if lowercase is None else lowercase
        make = functools.partial(SentencePieceTokenizer, model, lowercase)
        return FoundTokenizer(make, str(path), lowercase)

    def write_own(self, folder: str, tokenizer: Any, max_length: int) -> None:
        tokenizer.write(folder)
        settings = {
            "do_lower_case": tokenizer.lowercase,
            "keep_accents": not tokenizer.lowercase,
            # Else the class of transformers 5 gives no segments, and a pair is read as one text.
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        }
        write_config(folder, "AlbertTokenizer", max_length, settings)
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
        put_around(made, CLS, SEP)
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


SENTENCEPIECE = SentencePieceFiles()
