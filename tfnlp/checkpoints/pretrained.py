"""The class of everything that is loaded: a pretrained model and its parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.sentence_transformers import SentenceSettings, similarities
from tfnlp.data.rows import is_text
from tfnlp.data.texts import texts_of
from tfnlp.in_tensorflow import in_tensorflow, is_elsewhere, models_of


@dataclass(eq=False, repr=False)
class Pretrained:
    """A pretrained model with what belongs to it.

    Attributes:
        encoder: the Keras model with the pretrained weights.
        pretrainer: the model with the pretraining heads on `encoder`, sharing its weights; None if
            the checkpoint holds no pretraining head.
        config: the arguments that make the same encoder again, such as `bert(**config)`.
        make_tokenizer: function without arguments that returns the tokenizer, or raises ValueError
            if the checkpoint has no valid vocabulary; None for a model that has no tokenizer.
        words: the words in the order of their ids, for models with one output a word.
        vocabulary: path of the vocabulary file or folder; None if there is none.
        lowercase: whether text is lower-cased before it is tokenized; None if that is unknown.
        decoder: of encoder-decoders, what a beam search needs.
        family: the family of the model; set by the packages that know families.
        run: contents of `config.json`, if the model was loaded from a run's folder.
        history: losses and metrics of the run's training, if it was loaded from a run's folder.
        path: folder, file or name that the model was loaded from, as given.
        folder: where its files are on this machine.
        revision: the commit or version of a model that was loaded by its published name.
        saved: whether the encoder is an exported module.
        word_vectors: the `tfnlp.text.WordVectors` of models that have a vector for each word.
        sentences: of a folder of sentence-transformers, how it makes a vector of a text.
        sentence_layers: its layers after the pooling.
        results: the measures of the training that has just ended.
        left_out: of a fine-tuned checkpoint, the class whose head was left out.
        sentence_functions: what `embed` has traced, by its settings.
    """

    encoder: keras.Model | None
    pretrainer: keras.Model | None
    config: dict[str, Any]
    make_tokenizer: Callable[[], Any] | None = None
    words: list[str] | None = None
    vocabulary: str | None = None
    lowercase: bool | None = None
    decoder: Any = None
    family: Any = None
    run: dict[str, Any] | None = None
    history: Any = None
    path: str | None = None
    folder: str | None = None
    revision: str | None = None
    saved: bool = False
    word_vectors: Any = None
    sentences: SentenceSettings | None = None
    sentence_layers: Sequence[keras.layers.Layer] = ()
    results: dict[str, Any] | None = None
    left_out: str | None = None
    sentence_functions: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Pretrained({self.path!r}, {self.title})"

    @property
    def title(self) -> str:
        """What it is, in sentences."""
        return "a model" if self.family is None else self.family.title

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, made when it is first asked for.

        Raises:
            ValueError: if the model has no tokenizer, or its checkpoint no valid vocabulary.
        """
        if self.make_tokenizer is None:
            raise ValueError(f"model {self.encoder.name!r} has no tokenizer")
        return self.make_tokenizer()

    def __call__(self, texts: Any) -> Any:
        """Return the vectors of strings, as the exported module would.

        BERT and GPT compute strings of similar length together.

        Args:
            texts: A string, or B strings in anything that `tfnlp.pretrain` takes texts in; a
                `pathlib.Path` is a file of texts.

        Returns:
            what the family's module returns: of BERT, GPT and ELMo a dict of outputs (of BERT and
            GPT those at padding are zeros), of word vectors an array `[B, D]`.

        Raises:
            ValueError: if the model has no vectors of strings, or for a row that is no text.
        """
        texts = texts_of(texts, "texts")
        if is_elsewhere():
            return self._in_tensorflow("__call__", texts)
        return self._vectors(texts)

    @functools.cached_property
    def _vectors(self) -> Callable[[list[str]], Any]:
        return self.family.vectors(self)  # traced once, not for each call

    def embed(
        self,
        texts: Any,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        layer: int = -1,
        max_length: int | None = None,
        progress: bool = False,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Return one vector for each text.

        Texts of similar length are computed together. An ELMo and word vectors read words, which
        spaces separate.

        Args:
            texts: N strings, or one, as in `__call__`.
            pooling: "mean", "cls", "max", "last", "mean_sqrt_len" or "weightedmean" of the vectors
                of tokens, or several, see `tfnlp.layers.SentencePooling`; None: that of a folder of
                sentence-transformers, else the mean.
            normalize: Divide each vector by its norm; None: as that folder does, else True.
            layer: 0 the embeddings, -1 the last layer; of an ELMo that is the mix of all.
            max_length: Tokens that are read of a text, special ones included; None: as that folder
                says, else 512 or the model's positions, if those are fewer.
            progress: Show a bar with texts a second.
            prompt: What precedes each text: the name of one of the folder's prompts, such as
                "query", or a text, which has a space or a colon; "": nothing; None: what the folder
                says.

        Returns:
            float32 `[N, D]`; of one string `[D]`.

        Raises:
            ValueError: for settings that the model does not have, or a family without vectors of
                texts.
        """
        settings = dict(
            pooling=pooling, normalize=normalize, layer=layer, max_length=max_length,
            progress=progress, prompt=prompt,
        )  # fmt: skip
        if is_text(texts):
            return self.embed([texts], **settings)[0]
        texts = texts_of(texts, "texts")
        if is_elsewhere():
            return self._in_tensorflow("embed", texts, **settings)
        return self.family.embedded(self, texts, settings)

    encode = embed  # as sentence-transformers calls it

    def similarity(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return how near vectors are to each other, as `embed` returns them.

        Args:
            first, second: `[N, D]` and `[M, D]`; one vector may be `[D]`.

        Returns:
            float32 `[N, M]`: cosines; of a folder of sentence-transformers what it states: cosines,
            products ("dot"), or Euclidean or Manhattan distances with the sign reversed.
        """
        stated = self.sentences or SentenceSettings()
        return similarities(first, second, stated.similarity)

    def export(self, directory: str, **settings: Any) -> dict[str, str]:
        """Write SavedModels that need no tfnlp.

        Args:
            directory: The folder to write.
            settings: Those of `tfnlp export` that the family takes, such as `seq_length`.

        Returns:
            a dict of what was written to its path, such as "encoder" and "preprocessor".

        Raises:
            ValueError: for a setting that the family does not have.
            OSError: if something can't be written, or is there already without `overwrite`.
        """
        return self.family.exported(self, directory, settings)

    def save(self, directory: str, format: str = "huggingface", **settings: Any) -> dict[str, str]:
        """Write the files of another library; see `export`.

        Args:
            directory: The folder (of word vectors the file) to write.
            format: "huggingface" of a BERT or GPT, "sentence-transformers" of a BERT, "bilm" of an
                ELMo, "word2vec", "word2vec-binary", "fasttext", "fasttext-binary" or "glove" of
                word vectors.
            settings: As of `export`.
        """
        return self.export(directory, **{**settings, "format": format})

    def push_to_hub(self, name: str, private: bool = False, **settings: Any) -> str:
        """Upload the files of Hugging Face to `hf://org/name`; needs huggingface_hub and a token.

        Args:
            name: `org/name`, with or without `hf://`, and `@branch`.
            private: Of a new repository: whether others may read it.
            settings: As of `save`, such as `format="sentence-transformers"`.

        Returns:
            the name, which `tfnlp.load` takes.

        Raises:
            ValueError: for another name, or a model that has no such files.
            OSError: if it can't be uploaded.
        """
        return self.family.pushed(self, name, private, settings)

    def predict(self, texts: Any = None, **settings: Any) -> Any:
        """Return what `tfnlp predict` prints, as Python values: a list of one for each text.

        Of one text, a string, it is its own alone; of several words in a string the list.

        Args:
            texts: Strings, or one, as in `__call__`; None where the settings say all.
            settings: Those of `tfnlp predict` for the family, such as `top` or `max_new_tokens`.
        """
        given = None if texts is None else texts_of(texts, "texts")
        if is_elsewhere():
            found = self._in_tensorflow("predict", given, **settings)
        else:
            found = self.family.predicted(self, given, settings)
        return found[0] if is_text(texts) and len(found) == 1 else found

    @property
    def prediction(self) -> Any:
        """The class of what `tfnlp predict` takes."""
        return self.family.prediction

    def lines(self, settings: Any) -> Iterator[str]:
        """Yield what `tfnlp predict` prints, in pieces."""
        self.family.check_weights(self)
        self.family.check_prediction(settings)
        yield from self.family.lines(self, settings)

    def evaluate(self, text: Any = None, **settings: Any) -> dict[str, Any]:
        """Return what `tfnlp evaluate` measures on a text.

        Args:
            text: As in `tfnlp.pretrain`; not for models that translate, which take `source` and
                `target`.
            settings: Those of `tfnlp evaluate` that the family takes.
        """
        if is_elsewhere():
            return self._in_tensorflow("evaluate", text, **settings)
        return self.family.measured(self, text, settings).results

    def _in_tensorflow(self, method: str, *arguments: Any, **settings: Any) -> Any:
        return in_tensorflow(self.path, models_of(self), method, *arguments, **settings)
