"""The decoder of `seq2seq` one target token at a time."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor


class Seq2SeqDecoder:
    """The logits of the next target token, for a source and then token by token.

    As a `Decoder` it works with `generate` and `beam_search`: their prompt is the source, and they
    return translations without the start token.

    Args:
        model: from `seq2seq`.
        start_id: the first token of the decoder's input.
        vocab_size: only the first so many tokens are generated; None: all of the model's.

    Attributes:
        vocab_size: V, as given.
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
