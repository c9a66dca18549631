"""The tokenizer that a `tokenizer.json` describes."""

import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tokenizers import Tokenizer

from tfnlp.files import write_text
from tfnlp.text.assets import make_assets
from tfnlp.text.base_tokenizers import END_OF_TEXT, PieceTokenizer
from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.gpt2_words import token_bytes
from tfnlp.text.pipeline.models import merges_of
from tfnlp.text.pipeline.normalizers import steps_of
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.pipeline import Pipeline

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
_NAMES = {  # of special tokens, where no other file names them
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "unk": ("[UNK]", "<unk>"),
}
_AS_TEXT = "split_special_tokens"
_SETTINGS = (*(f"{name}_token" for name in _NAMES), _AS_TEXT)


class PipelineTokenizer(PieceTokenizer):
    """Tokenizer that a `tokenizer.json` describes: strings to ids and back.

    Normalizers, pre-tokenizers, model and added tokens are executed as the tokenizers library does
    it, with its tables of characters. Tokens around texts are left to `pack_segments`.

    Loading a SavedModel with one of a BERT needs `import tensorflow_text`.

    Args:
        contents: the JSON, as text or as an object.
        config: what `tokenizer_config.json` says: `pad_token`, `mask_token` and the others, where
            common names and the file's own tokens around texts do not tell them;
            `split_special_tokens`, to read special tokens that a text has written as text.

    Attributes:
        vocab_size: Python int.
        cls_id, sep_id, pad_id, unk_id, mask_id: Python ints, -1 where there is no such token.
        end_id: id of `<|endoftext|>`, else of the separator, or None.
        mask_token: the token, or None.
        separators: how many separators stand between two segments.
        lowercase: whether text is lower-cased.
        word_style: see `tfnlp.text.words.words_with_offsets`.
        keeps_spaces: whether tokens hold the spaces before words.
        is_continuation: bool `[vocab_size]`, True for tokens that go on a word.
        contents: the file's text.
        config: the settings that were given.
        kind: "gpt2" or "gpt" for byte pairs, else the model's type.
        merges: of byte pairs, pairs of symbols, else none.
        vocabulary_assets: the two files as `tf.saved_model.Asset`s.

    Raises:
        NotExact: a part is not executed exactly; a ValueError that names it.
        ValueError: the library can't read the file.
    """

    def __init__(
        self, contents: str | Mapping[str, Any], config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        if not isinstance(contents, str):
            contents = json.dumps(contents, ensure_ascii=False)
        kept = {k: v for k, v in (config or {}).items() if k in _SETTINGS and v is not None}
        made, parts = library.made(json.loads(contents)), json.loads(contents)
        self.contents = contents
        self._config = lambda: dict(kept)  # a dict would be tracked, and wrapped
        tokens = _tokens(made)
        added = parts.get("added_tokens") or ()
        marks = [t["content"] for t in added if not (t["special"] and kept.get(_AS_TEXT))]
        self._marks = lambda: list(marks)
        with tf.init_scope(), tf.device("CPU:0"):  # where strings are
            pipeline = Pipeline(parts, made, bool(kept.get(_AS_TEXT)))
        self._pipeline = lambda: pipeline
        self._set_special(parts, tokens, {k: _name(v) for k, v in kept.items() if k != _AS_TEXT})
        self.lowercase = lowercases(parts)
        self._set_kind(parts, tokens)
        self.vocabulary_assets = make_assets([FILE, CONFIG], self.write)

    @classmethod
    def read(cls, folder: str | os.PathLike) -> "PipelineTokenizer":
        """Return the tokenizer of a folder with `tokenizer.json` and its settings, if any."""
        found = []
        for name in (FILE, CONFIG):
            path = pathlib.Path(folder, name)
            found.append(path.read_text("utf-8") if path.is_file() else "{}")
        return cls(found[0], json.loads(found[1]))

    def of_first(self, size: int) -> "PipelineTokenizer":
        """Return the tokenizer of the first tokens, without any around texts."""
        parts = json.loads(self.contents)
        vocab = parts["model"]["vocab"]
        if isinstance(vocab, list):
            parts["model"]["vocab"] = vocab[:size]
        else:
            parts["model"]["vocab"] = {token: i for token, i in vocab.items() if i < size}
        parts["added_tokens"] = [t for t in parts["added_tokens"] if t["id"] < size]
        return PipelineTokenizer(parts | {"post_processor": None}, self.config)

    def write(self, folder: str | os.PathLike) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json` into a folder."""
        write_text(os.path.join(folder, FILE), self.contents)
        write_text(os.path.join(folder, CONFIG), json.dumps(self.config))

    @property
    def config(self) -> dict[str, Any]:
        """The settings that were given."""
        return self._config()

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of symbols to merge, in the order they were learnt."""
        return merges_of(json.loads(self.contents)["model"])

    def _read(self, strings: tf.Tensor, encode: Any) -> tf.RaggedTensor:
        return encode(strings)  # marks are found by the pipeline itself

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._pipeline().encode(strings)

    def _set_special(
        self, parts: Mapping[str, Any], tokens: Sequence[str], names: Mapping[str, str]
    ) -> None:
        ids = {token: i for i, token in enumerate(tokens)}
        first, last, self.separators = around_texts(parts.get("post_processor"))
        known = {"cls": first, "sep": last, "unk": _unknown(parts["model"])}
        found = {}
        for name, usual in _NAMES.items():
            candidates = [names.get(f"{name}_token"), known.get(name), *usual]
            if name in ("cls", "sep") and first is None:
                candidates = candidates[:1]
            token = next((token for token in candidates if token in ids), None)
            found[name] = -1 if token is None else ids[token]
        self.cls_id, self.sep_id, self.pad_id, self.unk_id, self.mask_id = (
            found[name] for name in ("cls", "sep", "pad", "unk", "mask")
        )
        self.mask_token = None if self.mask_id < 0 else tokens[self.mask_id]
        end = ids.get(END_OF_TEXT, self.sep_id)
        self.end_id = None if end < 0 else end

    def _set_kind(self, parts: Mapping[str, Any], tokens: Sequence[str]) -> None:
        """Set what the tokens stand for."""
        model = parts["model"]
        steps = [*steps_of(parts.get("normalizer"), "normalizers")]
        steps += steps_of(parts.get("pre_tokenizer"), "pretokenizers")
        kinds = {step["type"] for step in steps}
        special = {token["id"] for token in parts.get("added_tokens") or () if token["special"]}
        self.keeps_spaces, self.word_style = False, "bert"
        self.kind = "gpt2" if "ByteLevel" in kinds else "gpt"
        if model["type"] != "BPE":
            self.kind = model["type"]
        prefix = model.get("continuing_subword_prefix") or ""
        suffix = model.get("end_of_word_suffix") or ""
        mark = next((s["replacement"] for s in steps if s["type"] == "Metaspace"), None)
        if mark is None and any(token.startswith("\u2581") for token in tokens):
            mark = "\u2581"
        if "ByteLevel" in kinds:
            self.keeps_spaces, self.word_style = True, "gpt"
            texts = [token_bytes(token) for token in tokens]
            continues = [not text[:1].isspace() for text in texts]
        elif mark is not None:
            texts = [_byte_text(token.replace(mark, " ")) for token in tokens]
            continues = [not token.startswith(mark) for token in tokens]
        elif suffix:
            texts = [t.replace(suffix, " ") if t.endswith(suffix) else t for t in tokens]
            continues = [False] * len(tokens)
        else:
            continues = [bool(prefix) and t.startswith(prefix) and t != prefix for t in tokens]
            texts = [
                t[len(prefix) :] if c else f" {t}" for t, c in zip(tokens, continues, strict=True)
            ]
        for i in special | {self.mask_id, self.unk_id} - {-1}:
            continues[i] = False
            texts[i] = "" if i not in (self.mask_id, self.unk_id) else f" {tokens[i]}"
        self._set_pieces(tokens, texts, continues)


def lowercases(parts: Mapping[str, Any]) -> bool:
    """Return whether the normalizer of a `tokenizer.json` lower-cases."""
    normalizer = library.made({"normalizer": parts.get("normalizer")}).normalizer
    return normalizer is not None and "A" not in normalizer.normalize_str("A")


def _name(token: Any) -> Any:
    """Return the name of a token of `tokenizer_config.json`, which may be an object."""
    return token.get("content") if isinstance(token, Mapping) else token


def _tokens(made: Tokenizer) -> list[str]:
    """Return the tokens by id."""
    ids = {i: token for token, i in made.get_vocab(with_added_tokens=True).items()}
    absent = next((i for i in range(len(ids)) if i not in ids), None)
    if absent is not None or not ids:
        raise NotExact(f"model.vocab without a token for the id {absent or 0}")
    return [ids[i] for i in range(len(ids))]


def _unknown(model: Mapping[str, Any]) -> str | None:
    if model["type"] == "Unigram":
        return model["vocab"][model["unk_id"]][0]
    return model.get("unk_token")


def around_texts(part: Any) -> tuple[str | None, str | None, int]:
    """Return the tokens before and after a text that a `post_processor` adds.

    They are None where there are none or other ones as well. The last result is how many of the
    last one stand between two texts.
    """
    for step in steps_of(part, "processors"):
        if step["type"] in ("BertProcessing", "RobertaProcessing"):
            return step["cls"][0], step["sep"][0], 1 + (step["type"] == "RobertaProcessing")
        if step["type"] == "TemplateProcessing":
            single, pair = ([*_template(step[name])] for name in ("single", "pair"))
            first, last = single[0], single[-1]
            for separators in (1, 2):
                around = [first, "A", *[last] * separators, "B", last]
                if single == [first, "A", last] and pair == around:
                    return first, last, separators
            return None, None, 1
        if step["type"] != "ByteLevel":  # which changes no ids
            raise NotExact(f"post_processor {step['type']}")
    return None, None, 1


def _template(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for part in parts:
        yield part["Sequence"]["id"] if "Sequence" in part else part["SpecialToken"]["id"]


def _byte_text(token: str) -> bytes:
    """Return the text of a token, of `<0x41>` its byte."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.encode()
