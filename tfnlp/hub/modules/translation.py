"""Sentences to their translations: strings in, strings out, in Python and as a SavedModel."""

import os

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfnlp.hub.saving.module import Hidden, KerasModule
from tfnlp.hub.saving.save import as_saved, check_free, save
from tfnlp.models.beam_search import beam_search

BEAMS, LENGTH_PENALTY = 4, 0.6  # Vaswani et al. 2017, section 6.1
LONGER = 50  # tokens that a translation may have more than its source, from there too


class Translator:
    """Translates with a beam search over an encoder-decoder.

    `translator(sentences)` is a list of strings. A translation has at most 50 tokens more than the
    longest source of its batch.

    Args:
        decoder: a `tfnlp.models.TransformerDecoder` or `Seq2SeqDecoder`.
        tokenizer: the `tfnlp.text.GPT2Tokenizer` or `GPTTokenizer` of both languages; its `end_id`
            ends sentences and starts the decoder.
        beams: hypotheses that are kept at a time.
        length_penalty: alpha, see `tfnlp.models.beam_search`.

    Raises:
        ValueError: for a vocabulary that is not the model's or has no token that ends sentences;
            beams below 1.
    """

    def __init__(self, decoder, tokenizer, beams=BEAMS, length_penalty=LENGTH_PENALTY):
        if tokenizer.vocab_size != decoder.vocab_size:
            raise ValueError(
                f"vocabulary of {tokenizer.vocab_size} tokens, but the model has "
                f"{decoder.vocab_size}; give the vocabulary that the model was trained with"
            )
        if tokenizer.end_id is None:
            raise ValueError("the vocabulary has no <|endoftext|>, which ends sentences")
        if beams < 1:
            raise ValueError(f"beams={beams} must be at least 1")
        self.tokenizer, self.beams, self.length_penalty = tokenizer, beams, length_penalty
        self._decoder = decoder
        self._run = tf.function(
            self.translate,
            input_signature=[tf.TensorSpec([None], "string", name="sentences")],
            autograph=False,
        )

    def translate(self, sentences):
        """Strings `[B]` to `(translations, scores)`: strings `[B]` and float32 `[B]`.

        A score is `log p / ((5 + n) / 6)^alpha` of the n tokens that the translation has.
        """
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
        best = found[:, 0]  # [B, G]
        kept = tf.cumsum(tf.cast(best == end, "int32"), axis=1) == 0
        texts = self.tokenizer.detokenize(tf.ragged.boolean_mask(best, kept))
        # Nothing is said of nothing.
        texts = tf.where(tf.strings.strip(sentences) == "", "", tf.strings.strip(texts))
        return texts, scores[:, 0]

    def __call__(self, sentences, batch_size=32, progress=False):
        """Translations, in the order of the sentences.

        Args:
            sentences: list of strings; an empty one gives an empty one.
            batch_size: sentences at a time; those of like length share a batch.
            progress: show a progress bar.

        Raises:
            ValueError: for something else than a list of strings.
        """
        if isinstance(sentences, str | bytes):
            raise ValueError("sentences is a single string; give a list of strings")
        for sentence in sentences:
            if not isinstance(sentence, str):
                raise ValueError(f"sentences must hold strings, but one is {sentence!r}")
        translations = [""] * len(sentences)
        order = [i for i in np.argsort([len(s) for s in sentences]) if sentences[i].strip()]
        with tqdm(total=len(order), disable=not progress, unit="sentence") as bar:
            for first in range(0, len(order), batch_size):
                rows = order[first : first + batch_size]
                texts, _ = self._run(tf.constant([sentences[i] for i in rows]))
                for row, text in zip(rows, texts.numpy(), strict=True):
                    translations[row] = text.decode("utf-8", "replace")
                bar.update(len(rows))
        return translations


class TranslationModule(KerasModule):
    """An encoder-decoder: from text to text, and fine-tunable on ids.

    `module(dict of input_word_ids, input_mask int32 [B, S], target_word_ids int32 [B, T],
    training=False)` returns the model's outputs, `lm_logits` float32 `[B, T, V]` among them.

    `module.translate(sentences)`, strings `[B]`, is also the signature "serving_default". It
    returns `translation`, strings `[B]`, and `score`, float32 `[B]`, see `Translator.translate`.

    Args:
        model: from `tfnlp.models.transformer` or `seq2seq`.
        translator: a `Translator` of that model.
    """

    def __init__(self, model, translator):
        self._tokenizer = translator.tokenizer
        self._translator = Hidden(translator)
        super().__init__(model, "sequence_output")
        self.translate.get_concrete_function()

    @tf.function(
        input_signature=[tf.TensorSpec([None], "string", name="sentences")], autograph=False
    )
    def translate(self, sentences):
        translations, scores = self._translator.value.translate(sentences)
        return {"translation": translations, "score": scores}

    def signatures(self):
        """Text to text, and ids to logits, for `tfnlp.hub.saving.save`."""
        serve = tf.function(lambda sentences: self.translate(sentences), autograph=False)
        spec = tf.TensorSpec([None], "string", name="sentences")
        return {
            "serving_default": serve.get_concrete_function(sentences=spec),
            "logits": self.signature(("lm_logits",)),
        }


def export_translator(directory, model, translator, overwrite=False):
    """Writes `TranslationModule(model, translator)` as a SavedModel; returns its path.

    Raises:
        OSError: see `tfnlp.hub.saving.save`.
    """
    check_free(directory, overwrite)
    with as_saved():
        module = TranslationModule(model, translator)
        signatures = module.signatures()
    save(module, directory, signatures, overwrite)
    return os.fspath(directory)
