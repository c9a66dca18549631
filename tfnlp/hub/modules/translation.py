"""Translation from strings to strings, in Python and as a SavedModel."""

import os
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.hub.modules.text_generation import until_stop
from tfnlp.hub.saving.keras_module import KerasModule
from tfnlp.hub.saving.save import save_module
from tfnlp.hub.traced import Untracked, named, other_vocabulary
from tfnlp.models import Seq2SeqDecoder, TransformerDecoder
from tfnlp.models.beam_search import beam_search
from tfnlp.text import GPT2Tokenizer, GPTTokenizer

BEAMS, LENGTH_PENALTY = 4, 0.6  # Vaswani et al. 2017, section 6.1
LONGER = 50  # tokens that a translation may be longer than its source, ibid.
_SENTENCES = tf.TensorSpec([None], "string", name="sentences")


class Translator:
    """Translator that searches with beams over an encoder-decoder.

    `translator(sentences)` returns a list of strings. A translation has at most 50 tokens more
    than the longest source of its batch.

    Args:
        decoder: a `tfnlp.models.TransformerDecoder` or `Seq2SeqDecoder`.
        tokenizer: the `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer` of both languages; its `end_id`
            ends sentences and starts the decoder.
        beams: number of hypotheses that are kept.
        length_penalty: alpha, see `tfnlp.models.beam_search`.
    """

    def __init__(
        self,
        decoder: TransformerDecoder | Seq2SeqDecoder,
        tokenizer: GPT2Tokenizer | GPTTokenizer,
        beams: int = BEAMS,
        length_penalty: float = LENGTH_PENALTY,
    ) -> None:
        if tokenizer.vocab_size != decoder.vocab_size:
            raise other_vocabulary(tokenizer.vocab_size, decoder.vocab_size)
        if tokenizer.end_id is None:
            raise ValueError("the vocabulary has no <|endoftext|>, which ends sentences")
        self.tokenizer, self.beams, self.length_penalty = tokenizer, beams, length_penalty
        self._decoder = decoder
        self._run = tf.function(self.translate, input_signature=[_SENTENCES], autograph=False)

    def translate(self, sentences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return translations, strings `[B]`, and scores, float32 `[B]`, of strings `[B]`.

        The score of a translation of n tokens is `log p / ((5 + n) / 6)^alpha`.
        """
        _, _, tokens, scores = self._search(sentences)
        return self._texts(sentences, tokens), scores

    def align(self, model: keras.Model, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return translations of strings `[B]` with the attention of each of their tokens.

        `model` is that of the decoder, with the output `attention`.

        Returns:
            `translation` and `score` `[B]`; `source_tokens` `[B, S]` and `target_tokens` `[B, T]`,
            as text, "" at padding and "(end)" for the token that ends a sentence; `attention`
            float32 `[B, T, S]`, the mean of the heads, zeros at padding.
        """
        end = self.tokenizer.end_id
        ids, mask, tokens, scores = self._search(sentences)
        ends = tf.fill([tf.shape(ids)[0], 1], end)
        target = tf.concat([tokens, ends], 1)  # [B, (T)]
        read = tf.concat([ends, tokens], 1).to_tensor(end)  # [B, T]
        real = tf.sequence_mask(target.row_lengths(), tf.shape(read)[1])
        found = model(
            {
                "input_word_ids": ids,
                "input_mask": tf.cast(mask, "int32"),
                "target_word_ids": read,
            },
            training=False,
        )["attention"]
        found = tf.cast(found, "float32")
        if found.shape.rank == 4:  # [B, N, T, S]
            found = tf.reduce_mean(found, 1)
        return {
            "translation": self._texts(sentences, tokens),
            "score": scores,
            "source_tokens": self._shown(ids, mask),
            "target_tokens": self._shown(target.to_tensor(end), real),
            "attention": tf.where(real[:, :, None] & mask[:, None], found, 0.0),
        }

    def _search(
        self, sentences: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.RaggedTensor, tf.Tensor]:
        """Return source ids and mask `[B, S]`, the best translations `[B, (T)]`, their scores."""
        end = self.tokenizer.end_id
        tokens = self.tokenizer.tokenize(tf.strings.strip(sentences))
        tokens = tf.concat([tokens, tf.fill([tf.shape(sentences)[0], 1], end)], 1)
        ids = tokens.to_tensor(0)  # [B, S]
        mask = tf.sequence_mask(tokens.row_lengths(), tf.shape(ids)[1])
        found, scores = beam_search(
            self._decoder,
            ids,
            mask,
            tf.shape(ids)[1] + LONGER,
            self.beams,
            length_penalty=self.length_penalty,
            stop_ids=(end,),
            pad_id=end,
        )
        return ids, mask, until_stop(found[:, 0], (end,)), scores[:, 0]

    def _texts(self, sentences: tf.Tensor, tokens: tf.RaggedTensor) -> tf.Tensor:
        texts = tf.strings.strip(self.tokenizer.detokenize(tokens))
        # An empty sentence has an empty translation.
        return tf.where(tf.strings.strip(sentences) == "", "", texts)

    def _shown(self, ids: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Return the text of each token of ids `[B, T]`, "" where it is not `real`."""
        texts = tf.strings.strip(self.tokenizer.detokenize(tf.reshape(ids, [-1, 1])))
        texts = tf.where(ids == self.tokenizer.end_id, "(end)", tf.reshape(texts, tf.shape(ids)))
        return tf.where(real, texts, "")

    def __call__(
        self, sentences: Sequence[str], batch_size: int = 32, progress: bool = False
    ) -> list[str]:
        """Return the translations, in the order of the sentences; of an empty one an empty one.

        Sentences of similar length share a batch. With `progress` a bar is shown.
        """
        if isinstance(sentences, str | bytes):
            raise ValueError("sentences is a single string; give a list of strings")
        translations = [""] * len(sentences)
        order = [i for i in np.argsort([len(s) for s in sentences]) if sentences[i].strip()]
        with ProgressBar(total=len(order), disable=not progress, unit="sentences") as bar:
            for first in range(0, len(order), batch_size):
                rows = order[first : first + batch_size]
                texts, _ = self._run(tf.constant([sentences[i] for i in rows]))
                for row, text in zip(rows, texts.numpy(), strict=True):
                    translations[row] = text.decode("utf-8", "replace")
                bar.update(len(rows))
        return translations


class TranslationModule(KerasModule):
    """Encoder-decoder module: from text to text, and fine-tunable on ids.

    `module(dict of input_word_ids, input_mask int32 [B, S], target_word_ids int32 [B, T],
    training=False)` returns the model's outputs, `lm_logits` float32 `[B, T, V]` among them.

    `module.translate(sentences)`, strings `[B]`, is also the signature "serving_default". It
    returns `translation`, strings `[B]`, and `score`, float32 `[B]`, see `Translator.translate`.

    `module.align(sentences)`, of a model with attention, is also the signature "attention". It
    returns the same with the attention of each token, see `Translator.align`.

    Args:
        model: from `tfnlp.models.transformer` or `seq2seq`.
        translator: a `Translator` of that model.
    """

    kind = "translation"  # what the module states of itself

    def __init__(self, model: keras.Model, translator: Translator) -> None:
        self._tokenizer = translator.tokenizer
        self._translator = Untracked(translator)
        super().__init__(model, "sequence_output")
        self.translate.get_concrete_function()
        self._attends = "attention" in model.output
        if self._attends:
            self.align.get_concrete_function()

    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def translate(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        translations, scores = self._translator.value.translate(sentences)
        return {"translation": translations, "score": scores}

    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def align(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._translator.value.align(self._model.value, sentences)

    def signatures(self) -> dict[str, Callable]:
        """Return text to text, and ids to logits, for `tfnlp.hub.save`."""
        translate = named(lambda sentences: self.translate(sentences), sentences=_SENTENCES)
        served = {"serving_default": translate, "logits": self.signature(("lm_logits",))}
        if self._attends:
            align = named(lambda sentences: self.align(sentences), sentences=_SENTENCES)
            served["attention"] = align
        return served


def export_translator(
    directory: str | os.PathLike,
    model: keras.Model,
    translator: Translator,
    overwrite: bool = False,
) -> str:
    """Write `TranslationModule(model, translator)` as a SavedModel; return its path."""
    return save_module(lambda _: TranslationModule(model, translator), directory, overwrite)
