"""What is to be had of an exported module besides its encoder: its kind, its tokenizer, and
ELMo's layers of words."""

import os

import tensorflow as tf

from tfnlp.hub.loading.saved_model import GRAPH, load_module
from tfnlp.text import WordPieceTokenizer, gpt_tokenizer, read_bpe, read_vocabulary

_FOLDERS = {"bert": "encoder", "gpt": "model"}  # beside `preprocessor`
_SPECIAL = ("vocab_size", "padding_id", "start_of_sequence_id", "end_of_segment_id", "mask_id")
_PROBES = (
    "The quick brown fox jumped over the lazy dog.",
    "It's JUST what Mr. Smith-Jones said: \"don't\"!",
    "naïve café Über ÉCOLE Ångström e\u0301te\u0301 İstanbul straße",
    "北京 is a city, 東京 too; Привет, мир! สวัสดี 🙂",
    "  two  spaces,\ttabs\nand lines  ",
    "$3.50 + 10% = 1,234.56 <b>x_y</b> #1 @a~b^c`d",
    "[CLS] [MASK] <|endoftext|> unaffable antidisestablishmentarianism " + "x" * 210,
    "",
)
_RECASED = 300  # words of the vocabulary that are also tried with other capitals


def saved_kind(path):
    """"bert", "gpt" or "elmo": which kind of model was exported to the folder `path`, else None.

    A BERT is the SavedModels `encoder` and `preprocessor`, a GPT `model` and `preprocessor`; one
    of the two is enough to be recognised. An ELMo is one SavedModel with a signature that takes
    `tokens` and `sequence_len`.

    Raises:
        ValueError: for a SavedModel whose graph can't be read.
    """
    path = os.fspath(path)
    prepared = _is_saved_model(os.path.join(path, "preprocessor"))
    for kind, name in _FOLDERS.items():
        folder = os.path.join(path, name)
        if _is_saved_model(folder) or prepared and os.path.isdir(folder):
            return kind
    if not _is_saved_model(path):
        return None
    return "elmo" if any(s == {"tokens", "sequence_len"} for s in _signatures(path)) else None


def saved_tokenizer(path):
    """The tokenizer of an exported preprocessor, made anew from the vocabulary that it carries.

    That it is the same is made sure of: a few sentences, with capitals, accents, marks and many
    scripts, and the words of the vocabulary get the ids that `preprocessor.tokenize` gives them.
    That is also how it comes out whether a WordPiece vocabulary goes with lower-casing.

    Args:
        path: the folder with `preprocessor` in it, or that folder itself.

    Returns:
        a `tfnlp.text.WordPieceTokenizer`, `GPT2Tokenizer` or `GPTTokenizer`.

    Raises:
        FileNotFoundError: if there is no preprocessor.
        ValueError: if it can't be read, carries no vocabulary, or cuts text in another way than
            these tokenizers do.
    """
    path = os.fspath(path)
    if saved_kind(path) in _FOLDERS or os.path.isdir(os.path.join(path, "preprocessor")):
        path = os.path.join(path, "preprocessor")
    module = load_module(path)
    tokenize = getattr(module, "tokenize", None)
    if not callable(tokenize):
        raise ValueError(
            f"SavedModel {path} has no `tokenize`; expected a preprocessor of TF-Hub's interface, "
            "as `tfnlp export` writes it"
        )
    reasons = []
    for make in _candidates(os.path.join(path, "assets"), reasons):
        tokenizer = make()
        reason = _difference(tokenizer, tokenize)
        if reason is None:
            return tokenizer
        reasons.append(reason)
    raise ValueError(
        f"the tokenizer of SavedModel {path} cannot be made anew: "
        f"{'; '.join(reasons) or 'it carries no file of a vocabulary in its assets'}"
    )


def saved_elmo(path):
    """An exported ELMo, or the published one, for `tfnlp.hub.sentence_layers`.

    Returns:
        a function of a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int `[B]`, to a
        dict of `word_emb` `[B, T, P]`, `lstm_outputs1`, ... `[B, T, 2P]` and what else the module
        gives. Nothing trains in it. Its attribute `module` is what was loaded.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it can't be read, or is no such ELMo.
    """
    path = os.fspath(path)
    module = load_module(path)
    probe = {"tokens": tf.constant([["a"]]), "sequence_len": tf.constant([1])}
    # The published module has signatures alone. They live as long as their module does.
    for run in (module, module.signatures.get("tokens")):
        if not callable(run):
            continue

        def layers(inputs, run=run, module=module):
            tokens = tf.convert_to_tensor(inputs["tokens"])
            lengths = tf.cast(inputs["sequence_len"], "int32")
            if run is module:
                return run({"tokens": tokens, "sequence_len": lengths})
            return run(tokens=tokens, sequence_len=lengths)

        try:
            found = layers(probe)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            continue  # it takes something else
        if isinstance(found, dict) and {"word_emb", "lstm_outputs1"} <= found.keys():
            layers.module = module
            return layers
    raise ValueError(
        f"SavedModel {path} is no ELMo: it does not make word_emb, lstm_outputs1, ... of tokens "
        "and sequence_len; give one that `tfnlp export` wrote"
    )


def _is_saved_model(path):
    return os.path.isfile(os.path.join(path, GRAPH))


def _signatures(path):
    """The set of inputs of each signature, from the graph's file alone."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    with open(os.path.join(path, GRAPH), "rb") as file:
        try:
            graphs = SavedModel.FromString(file.read()).meta_graphs
        except DecodeError as error:
            raise ValueError(
                f"SavedModel {path} cannot be read ({GRAPH} is damaged); export or download it "
                "again"
            ) from error
    return [set(s.inputs) for graph in graphs for s in graph.signature_def.values()]


def _candidates(assets, reasons):
    """Yields functions that make a tokenizer; writes to `reasons` which files are no vocabulary."""
    names = sorted(os.listdir(assets)) if os.path.isdir(assets) else []
    if any(name.endswith(".json") for name in names):
        try:
            pair = read_bpe(assets)
        except (ValueError, OSError) as error:
            reasons.append(str(error))
        else:
            yield lambda: gpt_tokenizer(pair)
        return
    for name in names:
        try:
            tokens = read_vocabulary(os.path.join(assets, name))
        except (ValueError, OSError) as error:
            reasons.append(str(error))
            continue
        for lowercase in (True, False):
            yield lambda tokens=tokens, lowercase=lowercase: WordPieceTokenizer(tokens, lowercase)


def _difference(tokenizer, tokenize):
    """What tells the tokenizer from the function `tokenize`, as a line, or None."""
    name = type(tokenizer).__name__
    if hasattr(tokenizer, "lowercase"):
        name = f"{name}(lowercase={tokenizer.lowercase})"
    if hasattr(tokenize, "get_special_tokens_dict"):
        own, other = tokenizer.special_tokens_dict(), tokenize.get_special_tokens_dict()
        for key in _SPECIAL:
            if key in own and key in other and int(own[key]) != int(other[key]):
                return f"{name} has {key} {int(own[key])}, not {int(other[key])}"
    texts = [*_PROBES, *_vocabulary_lines(tokenizer)]
    pairs = zip(_ids(tokenizer.tokenize, texts), _ids(tokenize, texts), strict=True)
    for text, (own, other) in zip(texts, pairs, strict=True):
        if own != other:
            return f"{name} makes {_short(own)} of {text[:60]!r}, not {_short(other)}"
    return None


def _vocabulary_lines(tokenizer):
    """All words of the vocabulary, and some of them with other capitals, 20 a line."""
    words = [t.removesuffix("</w>") for t in tokenizer.vocabulary if t is not None]
    words = [word for word in words if word.isalpha()]
    some = words[:: max(1, len(words) // _RECASED)]
    words += [w.swapcase() for w in some] + [w.title() for w in some]
    return [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]


def _ids(tokenize, texts):
    """Lists of ids; None for a text that needs a token which a part of a vocabulary lacks."""
    try:
        ids = tokenize(tf.constant(texts))
    except tf.errors.InvalidArgumentError:
        if len(texts) == 1:
            return [None]
        return [row for text in texts for row in _ids(tokenize, [text])]
    return (ids.merge_dims(1, 2) if ids.shape.rank == 3 else ids).to_list()


def _short(ids):
    return str(ids if ids is None or len(ids) <= 8 else [*ids[:8], "..."]).replace("'...'", "...")
