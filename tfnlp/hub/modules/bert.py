"""BERT as the pair of TF-Hub modules that its users know: a preprocessor and an encoder."""

import os

import tensorflow as tf

from tfnlp.hub.saving.export import export
from tfnlp.hub.saving.save import as_saved, check_free
from tfnlp.text import pack_segments
from tfnlp.text.packing import merge_words

SERVED = ("pooled_output", "sequence_output", "default")  # by the encoder's signature
MAX_SEGMENTS = 4  # ragged inputs for which `bert_pack_inputs` is traced


class BertPreprocessorModule(tf.__internal__.tracking.AutoTrackable):
    """Strings `[B]` to `input_word_ids`, `input_mask`, `input_type_ids`, int32 `[B, T]`.

    Sub-objects: `.tokenize` (strings `[B]` to int32 ragged `[B, (words), (pieces)]`, with
    `.get_special_tokens_dict()`) and `.bert_pack_inputs(list of ragged, seq_length=T)`, which
    packs `[CLS] A [SEP] B [SEP]`, truncated to near-equal prefixes.

    Args:
        tokenizer: a `tfnlp.text.WordPieceTokenizer`.
        seq_length: T of the one-step call, and the default of `bert_pack_inputs`.
    """

    def __init__(self, tokenizer, seq_length=128):
        super().__init__()
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, seq_length)
        self._seq_length = seq_length
        self.variables = []
        self.trainable_variables = []
        self.regularization_losses = []
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string", name="sentences"))

    @tf.function(autograph=False)
    def __call__(self, sentences):
        return self.bert_pack_inputs.pack([self.tokenize(sentences)], self._seq_length)

    def signature(self):
        """Strings to the encoder's inputs, for serving."""

        def serve(sentences):
            return self.__call__(sentences)

        spec = tf.TensorSpec([None], "string", name="sentences")
        return tf.function(serve, autograph=False).get_concrete_function(spec)


class _Tokenize(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string"))
        self.get_special_tokens_dict.get_concrete_function()

    @tf.function(autograph=False)
    def __call__(self, sentences):
        return self._tokenizer.tokenize_words(sentences)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        return self._tokenizer.special_tokens_dict()


class _PackInputs(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, tokenizer, seq_length):
        super().__init__()
        self._ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        self._seq_length = seq_length
        for rank in (1, 2):  # pieces of a sentence, with or without the level of words
            spec = tf.RaggedTensorSpec([None] * (rank + 1), "int32", ragged_rank=rank)
            for segments in range(1, MAX_SEGMENTS + 1):
                self.__call__.get_concrete_function(
                    [spec] * segments, tf.TensorSpec([], "int32", name="seq_length")
                )
                self.__call__.get_concrete_function([spec] * segments)

    @tf.function(autograph=False)
    def __call__(self, inputs, seq_length=None):
        return self.pack(inputs, self._seq_length if seq_length is None else seq_length)

    def pack(self, inputs, seq_length):
        pieces = [merge_words(x) if x.shape.rank == 3 else x for x in inputs]
        packed = self._pack(pieces, tf.convert_to_tensor(seq_length, "int32"))
        length = tf.get_static_value(seq_length)
        return {name: tf.ensure_shape(x, [None, length]) for name, x in packed.items()}

    @tf.function(autograph=False)
    def _pack(self, pieces, seq_length):
        # One graph for each number of segments, called by every trace above.
        cls_id, sep_id, pad_id = self._ids
        return pack_segments(
            pieces, seq_length=seq_length, cls_id=cls_id, sep_id=sep_id, pad_id=pad_id
        )


def export_bert(
    directory,
    encoder,
    tokenizer,
    pretrainer=None,
    seq_length=128,
    overwrite=False,
    weights=None,
    litert=None,
):
    """Writes `directory/encoder` and `directory/preprocessor`; returns both paths.

    The encoder, called with a dict of `input_word_ids`, `input_mask`, `input_type_ids`, int32
    `[B, T]`, returns `pooled_output` `[B, H]`, `sequence_output` `[B, T, H]`, `encoder_outputs`
    (list of L), `embedding_output` and `default` (the pooled output; the sequence output of an
    encoder without pooler). `.mlm` also takes `masked_lm_positions` `[B, P]` and also returns
    `mlm_logits` `[B, P, V]`.

    Args:
        directory: folder for the two.
        encoder: from `tfnlp.models.bert`.
        tokenizer: the `tfnlp.text.WordPieceTokenizer` it was trained with.
        pretrainer: from `tfnlp.models.bert_pretrainer` on the same encoder, for `.mlm`, or None.
        seq_length: length to which the preprocessor packs.
        overwrite: replace earlier exports.
        weights, litert: see `tfnlp.hub.saving.export`.

    Raises:
        ValueError: if vocabulary and model disagree, or `seq_length` is longer than the model's
            positions.
        OSError: if something can't be written.
    """
    table = encoder.get_layer("token_embedding")
    positions = encoder.get_layer("position_embedding").max_positions
    # Some published tables are padded to a multiple of 8 to 128 rows.
    if not 0 <= table.vocab_size - tokenizer.vocab_size < 128:
        raise ValueError(
            f"vocabulary of {tokenizer.vocab_size} tokens, but the model has "
            f"{table.vocab_size}; give the vocabulary that the model was trained with"
        )
    if seq_length > positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than the model's {positions} positions"
        )
    for name in ("encoder", "preprocessor"):
        check_free(os.path.join(os.fspath(directory), name), overwrite)
    default = "pooled_output" if "pooled_output" in encoder.output else "sequence_output"
    heads = pretrainer is not None and "mlm_logits" in pretrainer.output
    with as_saved():
        preprocessor = BertPreprocessorModule(tokenizer, seq_length)
    return export(
        encoder,
        directory,
        signatures={"serving_default": [x for x in SERVED if x in (*encoder.output, "default")]},
        default=default,
        objects={"mlm": pretrainer} if heads else None,
        preprocessor=preprocessor,
        pair=True,
        weights=weights,
        litert=litert,
        overwrite=overwrite,
    )
