"""Files of byte-pair vocabularies: two files of tokens and merges, or `tokenizer.json`."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Sequence
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

from tfnlp.checkpoints.tokenizers.files import (
    FoundTokenizer,
    TokenizerFiles,
    check_size,
    is_usual,
    refused,
    write_config,
    write_pipeline,
)
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME, TokenizerJson, read_tokenizer_json
from tfnlp.text import PipelineTokenizer, RobertaTokenizer, gpt_tokenizer
from tfnlp.text.byte_pair_files import FILE_NAMES, read_bpe, write_bpe

_CLASSES = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}  # of transformers
_UNKNOWN, _END = "<unk>", "<|endoftext|>"
_BYTES = {"add_prefix_space": False, "trim_offsets": True}


class BytePairFiles(TokenizerFiles):
    """`vocab.json` and `merges.txt`, or OpenAI's names of them, and `tokenizer.json`.

    A `tokenizer.json` is executed as it stands, also beside the two files where these alone do not
    tell all.

    Args:
        make: function of (tokens, merges) to the tokenizer.
        needs: the special tokens that the model can't do without.
    """

    own = FILE_NAMES[-1]

    def __init__(
        self, make: Callable[..., Any] = gpt_tokenizer, needs: tuple[str, ...] = ()
    ) -> None:
        self.make, self.needs = make, needs

    def find(
        self,
        folder: pathlib.Path,
        vocab: str | os.PathLike | None,
        lowercase: bool | None,
        vocab_size: int,
    ) -> FoundTokenizer:
        if lowercase is not None:
            raise ValueError(
                f"lowercase={lowercase}: a byte-pair vocabulary says itself what it is of"
            )
        given = folder if vocab is None else pathlib.Path(vocab)
        path = given if given.is_file() else given / NAME
        if any(all((given / file).is_file() for file in pair) for pair in FILE_NAMES):
            path = given if is_usual(given / NAME, _check) else path
        elif not path.is_file():
            if vocab is None:
                absent = "the checkpoint has no vocabulary beside it; pass vocab="
                return refused(absent)
            pairs = ", or ".join(" and ".join(pair) for pair in FILE_NAMES)
            raise FileNotFoundError(
                f"vocab {given} holds no vocabulary; looked for {pairs}, or {NAME}"
            )
        return FoundTokenizer(functools.partial(self._made, path, vocab_size), str(path))

    def _made(self, path: pathlib.Path, vocab_size: int) -> Any:
        if path.is_dir():
            tokens, merges = read_bpe(path)
        else:
            found = read_tokenizer_json(path)
            if not found.of_words:
                return self.find_json(path, vocab_size).make()
            tokens, merges = found.words()
        check_size(f"in {path}", len(tokens), vocab_size)
        return self.make((tokens, merges))

    def write_own(self, folder: str, tokenizer: Any, max_length: int) -> None:
        write_byte_pairs(folder, tokenizer)
        own = tokenizer.vocabulary, tokenizer.merges, tokenizer.keeps_spaces
        write_gpt_json(folder, *own, marks=tokenizer.marks)
        write_config(folder, _CLASSES[tokenizer.kind], max_length, {})


class RobertaFiles(BytePairFiles):
    """Byte pairs with tokens around texts. The mask takes the place of the spaces before it."""

    def write_own(self, folder: str, tokenizer: Any, max_length: int) -> None:
        write_byte_pairs(folder, tokenizer)
        tokens = tokenizer.vocabulary
        names = ("pad", "unk", "cls", "sep", "mask")
        special = {f"{name}_token": tokens[getattr(tokenizer, f"{name}_id")] for name in names}
        mask, ids = special["mask_token"], {token: i for i, token in enumerate(tokens)}
        before, after = ((special[name], ids[special[name]]) for name in ("cls_token", "sep_token"))
        made = _bytes(ids, tokenizer.merges)
        made.post_processor = processors.RobertaProcessing(after, before, **_BYTES)
        in_order = sorted({*special.values(), *tokenizer.marks}, key=tokens.index)
        made.add_special_tokens(
            [AddedToken(token, lstrip=token == mask, normalized=False) for token in in_order]
        )
        made.save(os.path.join(folder, NAME))
        # Without this transformers gives the mask no such property, whatever tokenizer.json says.
        fixed = {"lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
        special["mask_token"] = {"__type": "AddedToken", "content": mask, **fixed}
        special |= {"bos_token": before[0], "eos_token": after[0]}
        write_config(folder, "RobertaTokenizer", max_length, special)


GPT_BYTE_PAIRS = BytePairFiles()
ROBERTA_BYTE_PAIRS = RobertaFiles(RobertaTokenizer, TokenizerFiles.needs)


def _check(found: TokenizerJson) -> None:
    """Check that GPT's or GPT-2's own code stands for a `tokenizer.json`."""
    if not found.of_words:
        found.check_bytes()


def write_byte_pairs(folder: str, tokenizer: Any) -> None:
    """Write `vocab.json` and `merges.txt`, Hugging Face's names of the two files."""
    write_bpe(folder, tokenizer.vocabulary, tokenizer.merges)
    for ours, theirs in zip(FILE_NAMES[0], FILE_NAMES[-1], strict=True):
        os.rename(os.path.join(folder, ours), os.path.join(folder, theirs))


def write_task_tokens(
    folder: str,
    tokenizer: Any,
    first: int,
    ends: tuple[str, str, str] | None,
    max_length: int,
    padding: int | None = None,
) -> None:
    """Write the tokenizer of a fine-tuned GPT, which puts the tokens `ends`, if any, around texts.

    `first` is the id of the first of them, `padding` that of padding where there are none.
    """
    tokens, more = list(tokenizer.vocabulary), list(ends or ())
    if None in tokens:
        raise ValueError("the vocabulary is a part of one, which tokenizer.json can't hold")
    if set(more) & set(tokens):
        raise ValueError(f"the vocabulary has one of {', '.join(more)}, the task's own tokens")
    size = first if more else 0 if padding is None else padding + 1
    unused = {f"<|unused {i}|>": i for i in range(len(tokens), size)}
    tokens += [*unused, *more]
    pad = more[1] if more else None if padding is None else tokens[padding]
    special = {} if pad is None else {"pad_token": pad}
    if not isinstance(tokenizer, PipelineTokenizer):
        own = tokenizer.merges, tokenizer.keeps_spaces, ends, tokenizer.marks
        write_gpt_json(folder, tokens, *own)
        # The class that takes all from tokenizer.json.
        return write_config(folder, "PreTrainedTokenizerFast", max_length, special)
    contents = json.loads(tokenizer.contents)
    contents["model"]["vocab"].update(unused)
    made = Tokenizer.from_str(json.dumps(contents))
    if ends is not None:
        made.add_special_tokens(more)
        made.post_processor = _around(ends, made.token_to_id)
    whole = PipelineTokenizer(made.to_str(), tokenizer.config | special)
    return write_pipeline(folder, whole, max_length)


def _around(ends: tuple[str, str, str], number: Callable[[str], int]) -> Any:
    start, delimiter, extract = ends
    return processors.TemplateProcessing(
        single=f"{start} $A {extract}",
        pair=f"{start} $A {delimiter} $B {extract}",
        special_tokens=[(token, number(token)) for token in ends],
    )


def write_gpt_json(
    folder: str,
    tokens: Sequence[str | None],
    merges: Sequence[tuple[str, str]],
    of_bytes: bool,
    ends: tuple[str, str, str] | None = None,
    marks: Sequence[str] = (),
) -> None:
    """Write the `tokenizer.json` of a GPT or a GPT-2; none of a part of a vocabulary.

    `of_bytes` says whether its symbols are bytes, as GPT-2's; `ends` are tokens before, between and
    after texts, `marks` those that texts have written.
    """
    if any(token is None for token in tokens):
        return
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = _bytes(ids, merges) if of_bytes else _words(ids, merges)
    if ends is None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        tokenizer.post_processor = _around(ends, ids.get)
    # Bytes are never unknown: there "<unk>" is a token like others.
    special = [token for token in ([] if of_bytes else [_UNKNOWN]) + [_END] if token in ids]
    tokenizer.add_special_tokens([*dict.fromkeys([*special, *marks, *(ends or ())])])
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
