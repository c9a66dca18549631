"""Encoder-decoders of LSTMs: Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015."""

import keras
from keras import ops

from tfnlp.layers import AttentionLSTM, Dropout, LogitBias, ProjectedLSTM, TokenEmbedding
from tfnlp.layers.attention_scores import ATTENTIONS

# Published sizes, without vocabulary. Sutskever et al., section 3.4.
SEQ2SEQ_SUTSKEVER = dict(num_layers=4, hidden_size=1000, attention=None, tied=False)
SEQ2SEQ_SUTSKEVER.update(bidirectional=False, reverse_source=True, dropout=0.0)
# Bahdanau et al., appendix A.2.3. Theirs are GRUs (A.1.1), each direction of the encoder as wide as
# the decoder, and a maxout layer (A.2.2) in place of `tanh(W [c; h])`.
SEQ2SEQ_BAHDANAU = dict(num_layers=1, hidden_size=1000, embedding_size=620, tied=False)
SEQ2SEQ_BAHDANAU.update(attention="additive", dropout=0.0)
# Luong et al., section 4.1; of the scores of global attention dot was their best (table 4).
SEQ2SEQ_LUONG = dict(num_layers=4, hidden_size=1000, attention="dot", input_feeding=True)
SEQ2SEQ_LUONG.update(bidirectional=False, reverse_source=True, tied=False, dropout=0.2)
# For a CPU; not published.
SEQ2SEQ_MINI = dict(num_layers=1, hidden_size=256, attention="additive")


def seq2seq(
    vocab_size,
    num_layers=1,
    hidden_size=256,
    embedding_size=None,
    attention="additive",
    input_feeding=False,
    bidirectional=True,
    reverse_source=False,
    shared_embeddings=True,
    tied=True,
    dropout=0.2,
    source_length=None,
    target_length=None,
    dtype=None,
    name="seq2seq",
):
    """Reads a source, then predicts a target token by token, as a functional model.

    The encoder's LSTMs read `E[source]`; layer l of the decoder starts from the last state of the
    encoder's layer l. With h_t the decoder's last layer, and c_t what attention saw,

        attention=None:             h_t = LSTM(E[y_{t-1}]), o_t = h_t
        "additive":                 h_t = LSTM([E[y_{t-1}]; c_t]), c_t = attend(h_{t-1})
        "dot", "general", "cosine": h_t = LSTM(E[y_{t-1}]), c_t = attend(h_t)
        input_feeding, any score:   h_t = LSTM([E[y_{t-1}]; o_{t-1}]), c_t = attend(h_t)

    and in all but the first `o_t = tanh(W [c_t; h_t])`; then `logits_t = E' o_t + b`. Sutskever et
    al. 2014, section 2; Bahdanau et al. 2015, section 3; Luong et al. 2015, section 3. Without
    attention all that the decoder knows of the source is the state that it starts from.

    Args:
        vocab_size: tokens V, the same for source and target.
        num_layers: LSTMs above each other L, in encoder and decoder.
        hidden_size: width H of the decoder's states and of the encoder's, half for each direction.
        embedding_size: columns of E; None: H.
        attention: None or the name of a score, see `tfnlp/layers/attention_scores.py`.
        input_feeding: as above.
        bidirectional: every layer of the encoder reads both ways.
        reverse_source: the encoder reads the source's end first (Sutskever et al., section 3.3);
            only if not `bidirectional`. The outputs are in the order of the source.
        shared_embeddings: one table E for source and target, or one each.
        tied: E' is the target's E (Press & Wolf 2017), or a table of its own.
        dropout: rate on embeddings, on what goes from one layer to the next, and on o_t.
        source_length, target_length: static S and T, or None for any.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.
        name: name of the model.

    Inputs: dict of int32 `input_word_ids` and `input_mask` `[B, S]` (1 for real tokens; padding may
    stand anywhere), and `target_word_ids` `[B, T]`, what the decoder reads: the start token, then
    the target without its last. Padding on its right changes nothing before it.

    Outputs: dict of `lm_logits` float32 `[B, T, V]`, `sequence_output` (o) `[B, T, H]`,
    `encoder_output` `[B, S, H]` (zero at padding), `encoder_state` float32 `[B, L, 2H]` (c and h
    of each layer), and with attention `attention` float32 `[B, T, S]`, its weights.

    Raises:
        ValueError: for an unknown score, or arguments that don't fit together.
    """
    embedding_size = embedding_size or hidden_size
    _check(num_layers, hidden_size, embedding_size, attention, input_feeding, tied)
    if bidirectional and hidden_size % 2:
        raise ValueError(f"hidden_size={hidden_size} must be even for a bidirectional encoder")
    if bidirectional and reverse_source:
        raise ValueError(
            "reverse_source=True needs bidirectional=False: reading both ways, the encoder reads "
            "the source from its end anyway"
        )

    def drop(x, place):
        return Dropout(dropout, dtype=dtype, name=f"{place}_dropout")(x)

    def embedding(table, size=embedding_size):
        initializer = keras.initializers.RandomUniform(-0.1, 0.1)  # Luong et al., section 4.1
        return TokenEmbedding(vocab_size, size, initializer, dtype=dtype, name=table)

    def lstm(units, place):
        return ProjectedLSTM(units, None, None, None, dtype=dtype, name=place)

    source = keras.Input((source_length,), dtype="int32", name="input_word_ids")
    mask = keras.Input((source_length,), dtype="int32", name="input_mask")
    target = keras.Input((target_length,), dtype="int32", name="target_word_ids")
    real = ops.not_equal(mask, 0)  # bool [B, S]
    if shared_embeddings:
        read = written = embedding("token_embedding")
    else:
        read, written = embedding("source_embedding"), embedding("target_embedding")

    ways = ("backward",) if reverse_source else ("forward",)
    if bidirectional:
        ways = ("forward", "backward")
    x = drop(read(source), "source")
    states = []
    for index in range(num_layers):
        x = drop(x, f"encoder_{index}") if index else x
        x, state = _encoded(x, real, hidden_size // len(ways), ways, lstm, f"encoder_{index}")
        states.append(state)
    encoder_output = x
    encoder_state = ops.stack(states, axis=1)  # [B, L, 2H]

    y = drop(written(target), "target")
    outputs = {"encoder_output": encoder_output, "encoder_state": encoder_state}
    if input_feeding or attention == "additive":
        y, outputs["attention"], _ = AttentionLSTM(
            hidden_size, num_layers, attention, input_feeding, dropout, dtype=dtype, name="decoder"
        )(y, encoder_output, mask=real, initial_state=encoder_state)
    else:
        for index in range(num_layers):
            y = drop(y, f"decoder_{index}") if index else y
            y, _ = lstm(hidden_size, f"decoder_{index}")(y, initial_state=states[index])
        if attention:
            # What nothing waits for comes after the recurrence, for all times at once.
            context, outputs["attention"] = ATTENTIONS[attention](dtype=dtype, name="attention")(
                y, encoder_output, mask=real
            )
            y = keras.layers.Dense(
                hidden_size, "tanh", use_bias=False, dtype=dtype, name="attentional_vector"
            )(ops.concatenate([context, y], -1))
    outputs["sequence_output"] = y
    table = written if tied else embedding("softmax", hidden_size)
    logits = table(drop(y, "output"), reverse=True)
    outputs["lm_logits"] = LogitBias(name="logit_bias")(logits)
    inputs = {x.name: x for x in (source, mask, target)}
    return keras.Model(inputs, outputs, name=name)


def _encoded(x, real, units, ways, lstm, name):
    """One layer of the encoder: `[B, S, H]` and its last state, `[c; h]`, float32 `[B, 2H]`."""
    outputs, cells, states = [], [], []
    for way in ways:
        backward = way == "backward"
        # The state passes by padding, which stands first when a row is read from its end.
        inputs, mask = (ops.flip(v, axis=1) if backward else v for v in (x, real))
        y, state = lstm(units, f"{name}_{way}")(inputs, mask=mask)
        outputs.append(ops.flip(y, axis=1) if backward else y)
        cells.append(state[:, :units])
        states.append(state[:, units:])
    return ops.concatenate(outputs, -1), ops.concatenate([*cells, *states], -1)


def _check(num_layers, hidden_size, embedding_size, attention, input_feeding, tied):
    if num_layers < 1 or hidden_size < 1:
        raise ValueError(
            f"num_layers={num_layers} and hidden_size={hidden_size} must be at least 1"
        )
    if attention is not None and attention not in ATTENTIONS:
        names = ", ".join(map(repr, ATTENTIONS))
        raise ValueError(f"attention={attention!r} must be one of {names}, or None")
    if input_feeding and attention is None:
        raise ValueError("input_feeding=True feeds what attention found; choose an `attention`")
    if tied and embedding_size != hidden_size:
        raise ValueError(
            f"tied=True needs embedding_size={embedding_size} equal to hidden_size={hidden_size}; "
            "make them equal, or take tied=False"
        )
