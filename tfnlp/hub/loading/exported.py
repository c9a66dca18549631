"""Exported modules as what they were: their kind, encoders, ELMos and tokenizers."""

import os
import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.checks import is_saved_model, read_about, read_graph
from tfnlp.hub.loading.layer import Layer
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.text import tokenizer_candidates

_PAIRS = {"encoder": "encoder", "model": "language model"}  # the folder beside `preprocessor`
# The signature of an ELMo that states nothing: its inputs, and some of its outputs.
_ELMO_INPUTS, _ELMO_OUTPUTS = {"tokens", "sequence_len"}, {"word_emb", "lstm_outputs1"}
_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output", "lm_logits")
_POSITIONS = re.compile(r"(^|/)position_embeddings?(/|$)")
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


def saved_kind(path: str | os.PathLike) -> str | None:
    """Return what the folder `path` of exported modules is; None if that is not known.

    An "encoder" is the SavedModels `encoder` and `preprocessor` of a BERT or another encoder with
    its interface, a "language model" the SavedModels `model` and `preprocessor` of a GPT; one of
    the two is enough. One SavedModel is what tfnlp has recorded in it: "elmo", "task" (a fine-tuned
    model), "sentences", "fill", "search", "translation", "word vectors" or "combined encoder".
    Without a record it is an "elmo" if a signature takes `tokens` and `sequence_len` and returns
    `word_emb` and `lstm_outputs1`.
    """
    path = os.fspath(path)
    kind = _pair_kind(path)
    if kind is not None or not is_saved_model(path):
        return kind
    stated = read_about(path).get("kind")
    if isinstance(stated, str):
        return None if stated in _PAIRS.values() else stated
    for graph in read_graph(path).meta_graphs:
        for signature in graph.signature_def.values():
            if set(signature.inputs) == _ELMO_INPUTS and _ELMO_OUTPUTS <= set(signature.outputs):
                return "elmo"
    return None


def saved_family(path: str | os.PathLike) -> str | None:
    """Return the name of the family that exported modules state, None if they state none."""
    for name in (*_PAIRS, ""):
        found = read_about(os.path.join(os.fspath(path), name)).get("family")
        if isinstance(found, str):
            return found
    return None


def _pair_kind(path: str) -> str | None:
    has_preprocessor = is_saved_model(os.path.join(path, "preprocessor"))
    for name, kind in _PAIRS.items():
        folder = os.path.join(path, name)
        if is_saved_model(folder) or (has_preprocessor and os.path.isdir(folder)):
            return kind
    return None


def saved_encoder(path: str | os.PathLike, trainable: bool = True) -> keras.Model:
    """Load an exported BERT or GPT as a functional model.

    It is used like a model of `tfnlp.models.bert` or `tfnlp.models.gpt`. Its one layer is the
    `tfnlp.hub.Layer` "saved_model".

    Args:
        path: the folder with `encoder` or `model` in it, or one of these itself.
        trainable: False freezes all weights.

    Inputs: dict of int32 `[B, T]`, the inputs of the module.

    Outputs: dict; those of `sequence_output` `[B, T, H]`, `pooled_output` `[B, H]`,
    `encoder_outputs` (list of L), `embedding_output` `[B, T, H]` and `lm_logits` `[B, T, V]` that
    the module has.

    Dropout: a module draws its masks from TensorFlow's own generator. So two runs with dropout are
    not equal, unlike those with a model of `tfnlp.models`.

    Raises:
        ValueError: see `tfnlp.hub.Layer`; also if the module is not called with a dict of ids, or
            has no `sequence_output`.
    """
    folders = (os.path.join(os.fspath(path), name) for name in _PAIRS)
    path = next(filter(os.path.isdir, folders), os.fspath(path))
    layer = Layer(path, trainable, name="saved_model")
    inputs = {
        key: keras.Input((spec.shape[1],), dtype=spec.dtype.name, name=key)
        for key, spec in _input_specs(layer, path).items()
    }
    outputs = layer(inputs)
    outputs = {name: outputs[name] for name in _OUTPUTS if name in outputs}
    return keras.Model(inputs, outputs, name="saved_encoder")


def max_positions(layer: Layer) -> int | None:
    """Return the longest sequence of the module of a `Layer`; None if that is unknown.

    tfnlp's modules say it; of others it is the number of rows of the position embeddings.
    """
    if isinstance(layer.handle, str):
        stated = read_about(layer.handle).get("max_positions")
        if isinstance(stated, int) and stated > 0:
            return stated
    rows = [v.shape[0] for v in layer.variables if _POSITIONS.search(v.path) and len(v.shape) == 2]
    return rows[0] if rows else None


def _input_specs(layer: Layer, path: str) -> dict[str, tf.TensorSpec]:
    for inputs, outputs in zip(layer.input_specs, layer.output_specs, strict=True):
        named = isinstance(inputs, dict) and isinstance(outputs, dict)
        if named and all(x.dtype.is_integer and x.shape.rank == 2 for x in inputs.values()):
            if "sequence_output" in outputs:
                return inputs
    raise ValueError(
        f"SavedModel {path} does not return a sequence_output for a dict of named ids [B, T]; "
        "expected the encoder of a BERT or the model of a GPT, as `tfnlp export` writes it"
    )


def saved_elmo(path: str | os.PathLike) -> Callable[[dict], dict[str, tf.Tensor]]:
    """Load an exported ELMo, or the published one, for `tfnlp.hub.sentence_layers`.

    Returns:
        a function from a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int `[B]`, to a
        dict of `word_emb` `[B, T, P]`, `lstm_outputs1`, ... `[B, T, 2P]` and the module's other
        outputs. It does not train. Its attribute `module` is the loaded module.
    """
    path = os.fspath(path)
    module = load_module(path)
    function = module.signatures.get("tokens")  # also of the published module, which has no other
    outputs = {} if function is None else function.structured_outputs
    if not {"word_emb", "lstm_outputs1"} <= outputs.keys():
        raise ValueError(
            f"SavedModel {path} is not an ELMo: it does not return word_emb, lstm_outputs1, ... "
            "for tokens and sequence_len; give one that `tfnlp export` wrote"
        )

    def layers(inputs: dict) -> dict:
        tokens = tf.convert_to_tensor(inputs["tokens"])
        return function(tokens=tokens, sequence_len=tf.cast(inputs["sequence_len"], "int32"))

    layers.module = module  # without it the signature is not valid
    return layers


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
    path = os.fspath(path)
    folder = os.path.join(path, "preprocessor")
    if _pair_kind(path) is not None or os.path.isdir(folder):
        path = folder
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
            return f"{name} makes {own!s:.40} of {text[:60]!r}, not {other!s:.40}"
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
