"""BERT and the encoders after it as TF-Hub's pair of modules: a preprocessor and an encoder."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.saving.export import export
from tfnlp.hub.saving.save import as_saved, check_free, check_parts
from tfnlp.hub.traced import Traced, other_vocabulary
from tfnlp.text import SentencePieceTokenizer, WordPieceTokenizer, pack_segments
from tfnlp.text.packing import merge_words

SERVED = ("pooled_output", "sequence_output", "default")  # outputs of the encoder's signature
OBJECTS = {"mlm": "mlm_logits", "discriminator": "discriminator_logits"}  # output of each
VOCABULARIES = {WordPieceTokenizer: "vocab_file", SentencePieceTokenizer: "sp_model_file"}
KIND, COMBINED = "encoder", "combined encoder"  # what the modules state of themselves
MAX_SEGMENTS = 4  # `bert_pack_inputs` is traced for 1 to so many ragged inputs


class BertPreprocessorModule(Traced):
    """Module from strings `[B]` to `input_word_ids`, `input_mask`, `input_type_ids` `[B, T]`.

    The outputs are int32. Sub-objects: `.tokenize` (strings `[B]` to int32 ragged
    `[B, (words), (pieces)]`, with `.get_special_tokens_dict()`) and
    `.bert_pack_inputs(list of ragged, seq_length=T)`, which packs `[CLS] A [SEP] B [SEP]` (with
    the tokenizer's special tokens and number of separators), truncated to near-equal prefixes.

    Args:
        tokenizer: a sentence tokenizer, such as `tfnlp.text.WordPieceTokenizer`.
        seq_length: T of the call from strings, and the default of `bert_pack_inputs`.
    """

    def __init__(self, tokenizer: Any, seq_length: int = 128) -> None:
        super().__init__()
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, seq_length)
        self._seq_length = seq_length
        self.__call__.get_concrete_function(_SENTENCES)

    def of_encoder(self) -> dict[str, Any]:
        """Return what TF-Hub's encoders have beside their calls: vocabulary and lower-casing."""
        tokenizer = self.tokenize._tokenizer
        name = VOCABULARIES.get(type(tokenizer))
        if name is None:
            return {}
        lowercase = tf.Variable(tokenizer.lowercase, trainable=False, name="do_lower_case")
        return {name: tokenizer.vocabulary_asset, "do_lower_case": lowercase}

    @tf.function(autograph=False)
    def __call__(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.bert_pack_inputs.pack([self.tokenize(sentences)], self._seq_length)


_SENTENCES = tf.TensorSpec([None], "string", name="sentences")


class _Tokenize(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string"))
        self.get_special_tokens_dict.get_concrete_function()

    @tf.function(autograph=False)
    def __call__(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenizer.tokenize_words(sentences)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        return self._tokenizer.special_tokens_dict()


class _PackInputs(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, tokenizer: Any, seq_length: int) -> None:
        super().__init__()
        self._layout = tuple(
            getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id", "separators")
        )
        self._seq_length = seq_length
        for rank in (1, 2):  # pieces of a sentence, with or without the level of words
            spec = tf.RaggedTensorSpec([None] * (rank + 1), "int32", ragged_rank=rank)
            for segments in range(1, MAX_SEGMENTS + 1):
                self.__call__.get_concrete_function(
                    [spec] * segments, tf.TensorSpec([], "int32", name="seq_length")
                )
                self.__call__.get_concrete_function([spec] * segments)

    @tf.function(autograph=False)
    def __call__(
        self, inputs: list[tf.RaggedTensor], seq_length: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        return self.pack(inputs, self._seq_length if seq_length is None else seq_length)

    def pack(
        self, inputs: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Pack ragged pieces, with or without the level of words, to `[B, seq_length]`."""
        pieces = [merge_words(x) if x.shape.rank == 3 else x for x in inputs]
        packed = self._pack(pieces, tf.convert_to_tensor(seq_length, "int32"))
        length = tf.get_static_value(seq_length)
        return {name: tf.ensure_shape(x, [None, length]) for name, x in packed.items()}

    @tf.function(autograph=False)
    def _pack(self, pieces: list[tf.RaggedTensor], seq_length: tf.Tensor) -> dict[str, tf.Tensor]:
        # One graph for each number of segments, called by every trace above.
        return pack_segments(pieces, seq_length, *self._layout)


def export_bert(
    directory: str | os.PathLike,
    encoder: keras.Model,
    tokenizer: Any,
    pretrainer: keras.Model | None = None,
    seq_length: int = 128,
    overwrite: bool = False,
    weights: str | None = None,
    family: str | None = None,
    combined: bool = False,
) -> tuple[str, str] | str:
    """Write `directory/encoder` and `directory/preprocessor`, both or none; return both paths.

    The encoder, called with a dict of `input_word_ids`, `input_mask`, `input_type_ids`, int32
    `[B, T]`, returns `pooled_output` `[B, H]`, `sequence_output` `[B, T, H]`, `encoder_outputs`
    (list of L), `embedding_output` and `default` (the pooled output; the sequence output of an
    encoder without pooler). `.mlm` also takes `masked_lm_positions` `[B, P]` and also returns
    `mlm_logits` `[B, P, V]`; `.discriminator` of an ELECTRA also returns `discriminator_logits`
    `[B, T]`. `.vocab_file` (`.sp_model_file`) and `.do_lower_case` are those of the tokenizer.

    Args:
        directory: folder for the two modules.
        encoder: from `tfnlp.models.bert`, or another encoder with its inputs and outputs.
        tokenizer: the sentence tokenizer it was trained with, for a BERT a
            `tfnlp.text.WordPieceTokenizer`.
        pretrainer: from `tfnlp.models.bert_pretrainer` on the same encoder, for `.mlm`, from
            `tfnlp.models.electra_discriminator`, for `.discriminator`, or None.
        seq_length: length to which the preprocessor packs.
        family: name of the family of the encoder, which a program that loads the pair asks for.
        overwrite, weights: see `tfnlp.hub.export`.
        combined: write one module `directory` instead, from strings `[B]` to these outputs, with
            both as its sub-objects `encoder` and `preprocessor`; return its path.
    """
    table = encoder.get_layer("token_embedding")
    positions = encoder.get_layer("position_embedding").max_positions
    # Some published tables are padded to a multiple of 8 to 128 rows.
    if not 0 <= table.vocab_size - tokenizer.vocab_size < 128:
        raise other_vocabulary(tokenizer.vocab_size, table.vocab_size)
    if seq_length > positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than the model's {positions} positions"
        )
    if combined:
        check_free(directory, overwrite)
    else:
        check_parts(directory, ("encoder", "preprocessor"), overwrite)
    default = "pooled_output" if "pooled_output" in encoder.output else "sequence_output"
    outputs = {} if pretrainer is None else pretrainer.output
    objects = {name: pretrainer for name, output in OBJECTS.items() if output in outputs}
    with as_saved():
        preprocessor = BertPreprocessorModule(tokenizer, seq_length)
    return export(
        encoder,
        directory,
        signatures={"serving_default": [x for x in SERVED if x in (*encoder.output, "default")]},
        default=default,
        objects=objects or None,
        preprocessor=preprocessor,
        pair=not combined,
        weights=weights,
        overwrite=overwrite,
        about={
            "kind": COMBINED if combined else KIND,
            "family": family,
            "max_positions": positions,
        },
    )
