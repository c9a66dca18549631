"""GPT as a pair of modules: a preprocessor, and a model that also generates text."""

import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.modules.text_generation import check_vocabulary, pad_prompts
from tfnlp.hub.saving.compact import CompactWeights
from tfnlp.hub.saving.keras_module import KerasModule
from tfnlp.hub.saving.save import about_module, as_saved, check_parts, save, together
from tfnlp.hub.traced import Traced, Untracked, named
from tfnlp.models import GPTDecoder
from tfnlp.models.generation import advance, generate, start
from tfnlp.text import GPT2Tokenizer, GPTTokenizer

SERVED = ("sequence_output", "lm_logits", "default")  # outputs of the model's signature
_PAIR = ("model", "preprocessor")
_SENTENCES = tf.TensorSpec([None], "string", name="sentences")
_GENERATE = {
    "prompt": tf.TensorSpec([None], "string", name="prompt"),
    "max_new_tokens": tf.TensorSpec([], "int32", name="max_new_tokens"),
    "temperature": tf.TensorSpec([], "float32", name="temperature"),
    "top_k": tf.TensorSpec([], "int32", name="top_k"),
    "top_p": tf.TensorSpec([], "float32", name="top_p"),
    "seed": tf.TensorSpec([], "int32", name="seed"),
}


class GPTModule(KerasModule):
    """Language model module: fine-tunable on ids, and generates text from text.

    `module(dict of input_word_ids, input_mask int32 [B, T], training=False)` returns
    `sequence_output` `[B, T, H]` (also as `default`), `encoder_outputs` (list of L),
    `embedding_output` and `lm_logits` float32 `[B, T, V]`.

    `module.generate(prompt, max_new_tokens, temperature, top_k, top_p, seed)` continues strings
    `[B]`; it is also the signature "generate". It returns strings `[B]`: `continuation`, and
    `text`, prompt and continuation. Temperature 0 takes the most probable token each time; `top_k`
    0 and `top_p` 1 draw from all tokens. Row b has the seed `seed + b`. A continuation ends before
    the token that ends texts. At most one token fewer is generated than the model has positions;
    of a prompt that is too long to fit with them, only the end is read.

    The same token by token: `state = module.start(prompt, max_new_tokens)`, then as often as
    `state["left"]` says and not all of `state["done"]` is true `state = module.advance(state,
    temperature, top_k, top_p, seed)`, which has `text` and `continuation` so far.

    Args:
        pretrainer: from `tfnlp.models.gpt_pretrainer`.
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
        weights: `tfnlp.hub.saving.compact.CompactWeights` of the pretrainer, for inference only, or
            None.
    """

    kind = "language model"  # what the module states of itself

    def __init__(
        self,
        pretrainer: keras.Model,
        tokenizer: GPT2Tokenizer | GPTTokenizer,
        weights: CompactWeights | None = None,
    ) -> None:
        self._decoder = Untracked(GPTDecoder(pretrainer, tokenizer.vocab_size))
        self._tokenizer = tokenizer
        super().__init__(pretrainer, "sequence_output", weights)
        self.generate.get_concrete_function()
        state = self.start.get_concrete_function().structured_outputs
        self.advance.get_concrete_function(state, *list(_GENERATE.values())[2:])

    @tf.function(input_signature=list(_GENERATE.values()), autograph=False)
    def generate(
        self,
        prompt: tf.Tensor,
        max_new_tokens: tf.Tensor,
        temperature: tf.Tensor,
        top_k: tf.Tensor,
        top_p: tf.Tensor,
        seed: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        ids, mask, count = self._read(prompt, max_new_tokens)
        how = self._choice(temperature, top_k, top_p, seed, ids)
        with self.stored_weights():
            tokens = generate(self._decoder.value, ids, mask, count, **how)
        return self._texts(prompt, tokens)

    @tf.function(input_signature=list(_GENERATE.values())[:2], autograph=False)
    def start(self, prompt: tf.Tensor, max_new_tokens: tf.Tensor) -> dict[str, Any]:
        ids, mask, count = self._read(prompt, max_new_tokens)
        with self.stored_weights():
            state = start(self._decoder.value, ids, mask, count)
        texts = self._texts(prompt, ids[:, :0])
        return {**state, "prompt": prompt, "tokens": ids[:, :0], "left": count, **texts}

    @tf.function(autograph=False)
    def advance(
        self,
        state: dict[str, Any],
        temperature: tf.Tensor,
        top_k: tf.Tensor,
        top_p: tf.Tensor,
        seed: tf.Tensor,
    ) -> dict[str, Any]:
        how = self._choice(temperature, top_k, top_p, seed, state["tokens"])
        with self.stored_weights():
            new, after = advance(self._decoder.value, state, 1, **how)
        tokens = tf.concat([state["tokens"], new], 1)
        texts = self._texts(state["prompt"], tokens)
        return {**after, "tokens": tokens, "left": state["left"] - 1, **texts}

    def _read(
        self, prompt: tf.Tensor, max_new_tokens: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return ids and mask of prompts, and how many tokens can follow."""
        positions = self._decoder.value.max_positions
        count = tf.clip_by_value(max_new_tokens, 1, positions - 1)
        longest = tf.cast(positions - count, "int64")
        return *pad_prompts(self._tokenizer, prompt, longest), count

    def _choice(
        self, temperature: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor, seed: tf.Tensor, ids: Any
    ) -> dict[str, Any]:
        """Return the arguments of `tfnlp.models.generation.Choice` for rows of ids."""
        end = self._tokenizer.end_id
        return {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seeds": seed + tf.range(tf.shape(ids)[0]),
            "stop_ids": () if end is None else (end,),
            "pad_id": 0 if end is None else end,
        }

    def _texts(self, prompt: tf.Tensor, tokens: tf.Tensor) -> dict[str, tf.Tensor]:
        continuation = self._tokenizer.detokenize(tokens)
        text = tf.strings.join([prompt, continuation])
        if not self._tokenizer.keeps_spaces:
            text = tf.strings.strip(tf.strings.join([prompt, continuation], separator=" "))
        return {"text": text, "continuation": continuation}

    def signatures(self) -> dict[str, Callable]:
        """Return ids to vectors and logits, and text to text, for `tfnlp.hub.save`."""
        generated = named(lambda **arguments: self.generate(**arguments), **_GENERATE)
        return {"serving_default": self.signature(SERVED), "generate": generated}


class GPTPreprocessorModule(Traced):
    """Module from strings `[B]` to `input_word_ids` and `input_mask`, int32 `[B, T]`.

    Padding is on the right. Sub-objects: `.tokenize` (strings `[B]` to int32 ragged
    `[B, (tokens)]`) and `.detokenize` (int32 ragged or dense to strings `[B]`).

    Args:
        tokenizer: a `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer`.
        seq_length: T; longer texts are cut.
    """

    def __init__(self, tokenizer: GPT2Tokenizer | GPTTokenizer, seq_length: int = 128) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self.tokenize, self.detokenize = tokenizer.tokenize, tokenizer.detokenize
        self._seq_length = seq_length
        self.__call__.get_concrete_function(_GENERATE["prompt"])

    @tf.function(autograph=False)
    def __call__(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = self._tokenizer.tokenize(sentences)
        shape = [None, self._seq_length]
        ids = tokens.to_tensor(0, shape=shape)
        mask = tf.sequence_mask(tokens.row_lengths(), self._seq_length, "int32")
        return {
            "input_word_ids": tf.ensure_shape(ids, shape),
            "input_mask": tf.ensure_shape(mask, shape),
        }


def export_gpt(
    directory: str | os.PathLike,
    pretrainer: keras.Model,
    tokenizer: GPT2Tokenizer | GPTTokenizer,
    seq_length: int = 128,
    overwrite: bool = False,
    weights: str | None = None,
    family: str | None = None,
) -> tuple[str, str]:
    """Write `directory/model` and `directory/preprocessor`, both or none; return both paths.

    With `weights`, "bfloat16" or "int8", the model is for inference; see `tfnlp.hub.export`.
    """
    check_vocabulary(pretrainer, tokenizer)
    positions = pretrainer.get_layer("position_embedding").max_positions
    if not 1 <= seq_length <= positions:
        raise ValueError(f"seq_length={seq_length} must be from 1 to the model's {positions}")
    model_path, preprocessor_path = (os.path.join(directory, name) for name in _PAIR)
    check_parts(directory, _PAIR, overwrite)
    stored = CompactWeights([pretrainer], weights) if weights else None
    with as_saved():
        module = GPTModule(pretrainer, tokenizer, stored)
        signatures = module.signatures()
        preprocessor = GPTPreprocessorModule(tokenizer, seq_length)
        packed = named(lambda sentences: preprocessor(sentences), sentences=_SENTENCES)
    with together(directory, _PAIR) as (first, second):
        save(module, first, signatures, about=about_module(module, family=family))
        save(preprocessor, second, {"serving_default": packed})
    if stored is not None:
        stored.report(model_path, pretrainer)
    return model_path, preprocessor_path
