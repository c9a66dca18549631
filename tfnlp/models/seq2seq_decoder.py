"""A `seq2seq` model one target token at a time."""

import keras
from keras import ops


class Seq2SeqDecoder:
    """The next target token's logits, for a source and then for token after token.

    It has the interface of `GPTDecoder`, the source standing where the prompt does, so that
    `generate` and `beam_search` give translations: tokens after the start token, which is not
    among them.

    Args:
        model: from `seq2seq`.
        start_id: the token that the decoder reads first.
        vocab_size: only so many of the first tokens are ever given; None: all of the model's.

    Attributes:
        vocab_size: V, as given.

    Raises:
        ValueError: for a start_id or a vocab_size that the model does not have.
    """

    def __init__(self, model, start_id, vocab_size=None):
        layers = {layer.name: layer for layer in model.layers}
        self._model = model
        sources = {name: model.input[name] for name in ("input_word_ids", "input_mask")}
        wanted = ("encoder_output", "encoder_state")
        self._encoder = keras.Model(sources, {name: model.output[name] for name in wanted})
        self._embedding = layers.get("target_embedding", layers.get("token_embedding"))
        self._softmax = layers.get("softmax", self._embedding)
        self._bias = layers["logit_bias"]
        self._attentive = layers.get("decoder")  # an AttentionLSTM, or LSTMs and what follows them
        count = model.output["encoder_state"].shape[1]
        if self._attentive is None:
            self._lstms = [layers[f"decoder_{index}"] for index in range(count)]
        self._attention = layers.get("attention")
        self._vector = layers.get("attentional_vector")
        size = self._embedding.vocab_size
        if not 0 <= start_id < size:
            raise ValueError(f"start_id={start_id} must be from 0 to {size - 1}, a token's id")
        self.start_id = start_id
        self.vocab_size = size if vocab_size is None else vocab_size
        if not 1 <= self.vocab_size <= size:
            raise ValueError(f"vocab_size={vocab_size} must be from 1 to the model's {size}")

    def prefill(self, ids, mask, size):
        """Reads sources and the start token.

        Args:
            ids: int32 `[B, S]`.
            mask: bool `[B, S]`, False for padding, anywhere.
            size: S and the number of target tokens; an LSTM's state needs no room for them.

        Returns:
            logits of the first target token, float32 `[B, V]`; the cache, a tuple of tensors
            `[B, ...]`.
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

    def step(self, tokens, index, mask, cache):
        """Reads one more target token.

        Args:
            tokens: int32 `[B]`.
            index: not read; an LSTM does not count.
            mask: bool `[B, S]`, of the source.
            cache: from the call before.

        Returns:
            as `prefill`.
        """
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

    def attention(self, ids, mask, target_ids):
        """What the model looked at while it wrote each token of a translation.

        Args:
            ids, mask: the source, as in `prefill`.
            target_ids: int32 `[B, T]`, the translation, without the start token.

        Returns:
            float32 `[B, T, S]`: row t says where it looked to write `target_ids[:, t]`.

        Raises:
            ValueError: for a model without attention.
        """
        if "attention" not in self._model.output:
            raise ValueError(f"the model {self._model.name!r} was built with attention=None")
        start = ops.full_like(target_ids[:, :1], self.start_id)
        inputs = {"input_word_ids": ids, "input_mask": ops.cast(mask, "int32")}
        inputs["target_word_ids"] = ops.concatenate([start, target_ids[:, :-1]], axis=1)
        return self._model(inputs)["attention"]
