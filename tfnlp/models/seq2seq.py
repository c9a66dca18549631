"""Encoder-decoders of LSTMs: Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015.

The model, and its decoder one token at a time.
"""

from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers import AttentionLSTM, Dropout, LogitBias, ProjectedLSTM, TokenEmbedding
from tfnlp.layers.attention_scores import ATTENTIONS
from tfnlp.layers.base import DType, Tensor, check_positive

# Published sizes, without vocabulary. Sutskever et al., section 3.4.
SEQ2SEQ_SUTSKEVER = dict(num_layers=4, hidden_size=1000, attention=None, tied=False)
SEQ2SEQ_SUTSKEVER.update(bidirectional=False, reverse_source=True, dropout=0.0)
# Bahdanau et al., appendix A.2.3. Their model has GRUs (A.1.1), each direction of the encoder as
# wide as the decoder, and a maxout layer (A.2.2) in place of `tanh(W [c; h])`.
SEQ2SEQ_BAHDANAU = dict(num_layers=1, hidden_size=1000, embedding_size=620, tied=False)
SEQ2SEQ_BAHDANAU.update(attention="additive", dropout=0.0)
# Luong et al., section 4.1; of the scores of global attention dot was their best (table 4).
SEQ2SEQ_LUONG = dict(num_layers=4, hidden_size=1000, attention="dot", input_feeding=True)
SEQ2SEQ_LUONG.update(bidirectional=False, reverse_source=True, tied=False, dropout=0.2)
# For a CPU; not published.
SEQ2SEQ_MINI = dict(num_layers=1, hidden_size=256, attention="additive")


def seq2seq(
    vocab_size: int,
    num_layers: int = 1,
    hidden_size: int = 256,
    embedding_size: int | None = None,
    attention: str | None = "additive",
    input_feeding: bool = False,
    bidirectional: bool = True,
    reverse_source: bool = False,
    shared_embeddings: bool = True,
    tied: bool = True,
    dropout: float = 0.2,
    dtype: DType = None,
    name: str = "seq2seq",
) -> keras.Model:
    """Return a model that encodes a source and predicts a target token by token.

    The encoder's LSTMs read `E[source]`; layer l of the decoder starts from the last state of the
    encoder's layer l. With h_t the decoder's last layer, and c_t the context that attention gives,

        attention=None:             h_t = LSTM(E[y_{t-1}]), o_t = h_t
        "additive":                 h_t = LSTM([E[y_{t-1}]; c_t]), c_t = attend(h_{t-1})
        "dot", "general", "cosine": h_t = LSTM(E[y_{t-1}]), c_t = attend(h_t)
        input_feeding, any score:   h_t = LSTM([E[y_{t-1}]; o_{t-1}]), c_t = attend(h_t)

    and in all but the first `o_t = tanh(W [c_t; h_t])`; then `logits_t = E' o_t + b`. Sutskever et
    al. 2014, section 2; Bahdanau et al. 2015, section 3; Luong et al. 2015, section 3. Without
    attention the decoder knows the source only by its first state.

    Args:
        vocab_size: tokens V, the same for source and target.
        num_layers: LSTM layers L, in encoder and decoder.
        hidden_size: width H of the decoder's states and of the encoder's, half for each direction.
        embedding_size: columns of E; None: H.
        attention: None or the name of a score, see `tfnlp/layers/attention_scores.py`.
        input_feeding: as above.
        bidirectional: every layer of the encoder reads in both directions.
        reverse_source: the encoder reads the source from its end (Sutskever et al., section 3.3);
            only if not `bidirectional`. The outputs are in the order of the source.
        shared_embeddings: one table E for source and target, or one each.
        tied: E' is the target's E (Press & Wolf 2017), or a table of its own.
        dropout: rate on embeddings, between layers, and on o_t.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.

    Inputs: dict of int32 `input_word_ids` and `input_mask` `[B, S]` (1 for real tokens; padding may
    stand anywhere), and `target_word_ids` `[B, T]`, the decoder's input: the start token, then
    the target without its last token. Padding on its right changes nothing before it.

    Outputs: dict of `lm_logits` float32 `[B, T, V]`, `sequence_output` (o) `[B, T, H]`,
    `encoder_output` `[B, S, H]` (zero at padding), `encoder_state` float32 `[B, L, 2H]` (c and h
    of each layer), and with attention `attention` float32 `[B, T, S]`, its weights.

    Raises:
        ValueError: for sizes below 1, an unknown score, `input_feeding` without attention, `tied`
            tables of other widths than H, or with `bidirectional` an odd H or `reverse_source`.
    """
    embedding_size = hidden_size if embedding_size is None else embedding_size
    check_positive(num_layers=num_layers, hidden_size=hidden_size, embedding_size=embedding_size)
    if attention not in (None, *ATTENTIONS):
        raise ValueError(f"attention={attention!r} must be None or one of {', '.join(ATTENTIONS)}")
    if tied and embedding_size != hidden_size:
        raise ValueError(
            f"tied=True needs embedding_size={embedding_size} equal to hidden_size={hidden_size}"
        )
    names = ("input_word_ids", "input_mask", "target_word_ids")
    inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in names}
    real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, S]

    def drop(x: Tensor, place: str) -> Tensor:
        return Dropout(dropout, dtype=dtype, name=f"{place}_dropout")(x)

    def embedding(name: str, size: int = embedding_size) -> TokenEmbedding:
        initializer = keras.initializers.RandomUniform(-0.1, 0.1)  # Luong et al., section 4.1
        return TokenEmbedding(vocab_size, size, initializer, dtype=dtype, name=name)

    if shared_embeddings:
        source_table = target_table = embedding("token_embedding")
    else:
        source_table, target_table = embedding("source_embedding"), embedding("target_embedding")
    directions = _directions(hidden_size, bidirectional, reverse_source)
    x = drop(source_table(inputs["input_word_ids"]), "source")
    states = []
    for index in range(num_layers):
        x = drop(x, f"encoder_{index}") if index else x
        x, state = _encoder_layer(x, real, hidden_size, directions, dtype, f"encoder_{index}")
        states.append(state)
    outputs = {"encoder_output": x, "encoder_state": ops.stack(states, axis=1)}  # [B, L, 2H]

    y = drop(target_table(inputs["target_word_ids"]), "target")
    if input_feeding or attention == "additive":
        y, outputs["attention"], _ = AttentionLSTM(
            hidden_size, num_layers, attention, input_feeding, dropout, dtype=dtype, name="decoder"
        )(y, x, mask=real, initial_state=outputs["encoder_state"])
    else:
        for index, state in enumerate(states):
            y = drop(y, f"decoder_{index}") if index else y
            y, _ = _lstm(hidden_size, dtype, f"decoder_{index}")(y, initial_state=state)
        if attention:
            y, outputs["attention"] = _attentional(y, x, real, attention, hidden_size, dtype)
    outputs["sequence_output"] = y
    table = target_table if tied else embedding("softmax", hidden_size)
    logits = table(drop(y, "output"), reverse=True)
    outputs["lm_logits"] = LogitBias(name="logit_bias")(logits)
    return keras.Model(inputs, outputs, name=name)


def _encoder_layer(
    x: Tensor,
    real: Tensor,
    hidden_size: int,
    directions: Sequence[str],
    dtype: DType,
    name: str,
) -> tuple[Tensor, Tensor]:
    """Return the output `[B, S, H]` of one layer and its last state `[c; h]`, float32 `[B, 2H]`."""
    units = hidden_size // len(directions)
    outputs, cells, states = [], [], []
    for direction in directions:
        backward = direction == "backward"
        # Padding leaves the state unchanged; it stands first when a row is read from its end.
        inputs, mask = (ops.flip(v, axis=1) if backward else v for v in (x, real))
        y, state = _lstm(units, dtype, f"{name}_{direction}")(inputs, mask=mask)
        outputs.append(ops.flip(y, axis=1) if backward else y)
        cells.append(state[:, :units])
        states.append(state[:, units:])
    return ops.concatenate(outputs, -1), ops.concatenate([*cells, *states], -1)


def _lstm(units: int, dtype: DType, name: str) -> ProjectedLSTM:
    return ProjectedLSTM(units, None, None, None, dtype=dtype, name=name)


def _attentional(
    y: Tensor, memory: Tensor, real: Tensor, score: str, hidden_size: int, dtype: DType
) -> tuple[Tensor, Tensor]:
    """Return `tanh(W [c_t; h_t])` `[B, T, H]` and the attention weights `[B, T, S]`.

    The recurrence does not need them, so they are computed for all times at once.
    """
    attend = ATTENTIONS[score](dtype=dtype, name="attention")
    context, weights = attend(y, memory, mask=real)
    vector = keras.layers.Dense(
        hidden_size, "tanh", use_bias=False, dtype=dtype, name="attentional_vector"
    )
    return vector(ops.concatenate([context, y], -1)), weights


def _directions(hidden_size: int, bidirectional: bool, reverse_source: bool) -> Sequence[str]:
    """Return the directions in which the encoder reads."""
    if bidirectional and hidden_size % 2:
        raise ValueError(f"hidden_size={hidden_size} must be even for a bidirectional encoder")
    if bidirectional and reverse_source:
        raise ValueError("reverse_source=True needs bidirectional=False")
    if bidirectional:
        return "forward", "backward"
    return ("backward",) if reverse_source else ("forward",)


class Seq2SeqDecoder:
    """The logits of the next target token, for a source and then token by token.

    As a `Decoder` it works with `generate` and `beam_search`: their prompt is the source, and they
    return translations without the start token.

    Args:
        model: from `seq2seq`.
        start_id: the first token of the decoder's input.
        vocab_size: as of `GPTDecoder`.
    """

    def __init__(self, model: keras.Model, start_id: int, vocab_size: int | None = None) -> None:
        layers = {layer.name: layer for layer in model.layers}
        self._model = model
        sources = {name: model.input[name] for name in ("input_word_ids", "input_mask")}
        wanted = ("encoder_output", "encoder_state")
        self._encoder = keras.Model(sources, {name: model.output[name] for name in wanted})
        self._embedding = layers.get("target_embedding", layers.get("token_embedding"))
        self._softmax = layers.get("softmax", self._embedding)
        self._bias = layers["logit_bias"]
        self._attentive = layers.get("decoder")  # an AttentionLSTM; None: LSTMs, then attention
        count = model.output["encoder_state"].shape[1]
        if self._attentive is None:
            self._lstms = [layers[f"decoder_{index}"] for index in range(count)]
        self._attention = layers.get("attention")
        self._vector = layers.get("attentional_vector")
        self.start_id = start_id
        self.vocab_size = self._embedding.vocab_size if vocab_size is None else vocab_size

    def prefill(self, ids: Tensor, mask: Tensor, size: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read sources `[B, S]`, padded anywhere, and the start token, see `Decoder`.

        `size` is not used: the state of an LSTM does not grow.
        """
        inputs = {"input_word_ids": ids, "input_mask": ops.cast(mask, "int32")}
        encoded = self._encoder(inputs)
        memory, state = encoded["encoder_output"], encoded["encoder_state"]
        cache = (state,)
        if self._attentive is not None:
            cache = (state, memory, self._attentive.attention.project_keys(memory))
            if self._attentive.input_feeding:
                cache += (ops.zeros_like(state[:, 0, : state.shape[-1] // 2]),)
        elif self._attention is not None:
            cache = (state, memory, self._attention.project_keys(memory))
        start = ops.full((ops.shape(ids)[0],), self.start_id, "int32")
        return self.step(start, None, mask, cache)

    def step(
        self, tokens: Tensor, index: Tensor | None, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read one more target token, see `Decoder`; `index` is not used."""
        x = self._embedding(tokens[:, None])  # [B, 1, E]
        if self._attentive is not None:
            state, memory, keys, *previous = cache
            fed = {"previous_output": previous[0]} if previous else {}
            x, _, state = self._attentive(
                x, memory, mask=mask, initial_state=state, projected_keys=keys, **fed
            )
            last = (ops.cast(x[:, 0], "float32"),) if previous else ()
            cache = (state, memory, keys, *last)
        else:
            state, *source = cache
            states = []
            for layer, lstm in enumerate(self._lstms):
                x, new = lstm(x, initial_state=state[:, layer])
                states.append(new)
            if source:
                memory, keys = source
                context, _ = self._attention(x, memory, mask=mask, projected_keys=keys)
                x = self._vector(ops.concatenate([context, x], -1))
            cache = (ops.stack(states, axis=1), *source)
        logits = self._bias(self._softmax(x[:, 0], reverse=True))
        return logits[:, : self.vocab_size], cache

    def attention(self, ids: Tensor, mask: Tensor, target_ids: Tensor) -> Tensor:
        """Return the attention weights of each token of a translation.

        Args:
            ids, mask: the source, as in `prefill`.
            target_ids: int32 `[B, T]`, the translation, without the start token.

        Returns:
            float32 `[B, T, S]`: row t holds the weights for `target_ids[:, t]`.

        Raises:
            ValueError: for a model without attention.
        """
        if "attention" not in self._model.output:
            raise ValueError(f"the model {self._model.name!r} was built with attention=None")
        start = ops.full_like(target_ids[:, :1], self.start_id)
        inputs = {"input_word_ids": ids, "input_mask": ops.cast(mask, "int32")}
        inputs["target_word_ids"] = ops.concatenate([start, target_ids[:, :-1]], axis=1)
        return self._model(inputs)["attention"]
