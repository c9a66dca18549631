"""ELMo (Peters et al. 2018) as a family."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import Model

from tfnlp import hub, models
from tfnlp.bars import ProgressBar
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.formats.weight_files import written_hdf5
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
from tfnlp.data.rows import is_path
from tfnlp.data.texts import documents_of
from tfnlp.families.checked import stated
from tfnlp.families.family import Loader, Planned
from tfnlp.families.fitting import Features, Tunable
from tfnlp.families.language_model import (
    LanguageModel,
    RunningText,
    TextToMeasure,
    corpus_to_measure,
    words_to_measure,
)
from tfnlp.families.preparation import Preparation, tokenized
from tfnlp.families.sentences import Embedding, of_words
from tfnlp.families.vocabularies import WORDS
from tfnlp.hub import ElmoModule, running_layers, sentence_layers
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.hub.modules.elmo import ElmoInJax
from tfnlp.hub.modules.frozen_features import ElmoFeatures
from tfnlp.models.elmo import MAX_CHARACTERS
from tfnlp.objectives import ElmoPretraining
from tfnlp.settings.elmo import CHANGED_SIZES, RESETS, ElmoEvaluation, ElmoPrediction, ElmoSettings
from tfnlp.tasks.embed import unit_rows
from tfnlp.text import WordReader
from tfnlp.training import is_compiled

Neighbour = tuple[float, list[str], int]  # cosine, words of the found sentence, place in it


class Elmo(LanguageModel, Tunable, Planned):
    """A bidirectional language model over characters."""

    name, title = "elmo", "an ELMo"
    sizes = {
        "mini": models.ELMO_MINI,
        "small": models.ELMO_SMALL,
        "medium": models.ELMO_MEDIUM,
        "original": models.ELMO_ORIGINAL,
    }
    row = ("window", "num_layers", "units")
    encoder, pretrainer = staticmethod(models.elmo), staticmethod(models.elmo_pretrainer)
    unrecorded_heads = frozenset({"dropout", "resets"})
    evaluation = ElmoEvaluation
    prediction = ElmoPrediction
    trains = False
    word_embeddings = True

    plan_lengths = dict.fromkeys(sizes, 20)
    plan_vocab_size = 793471
    plan_options = ("samples",)
    plan_flags = {"length": "--window", "samples": "--samples"}
    plan_in_encoder = False

    # Pretraining.

    def start(self, settings: ElmoSettings, load: Loader) -> Pretrained | None:
        before = self.loaded_start(settings, load, ("size", *CHANGED_SIZES))
        if before is not None and before.words is not None:
            why = f"can't be given with `start` {settings.start}, which has a vocabulary"
            settings.refuse(("vocab", "max_vocab", "min_count"), why)
        return before

    def prepare(self, settings: Any, before: Pretrained | None, strategy: Any) -> Preparation:
        return _Windows(self, settings, before, strategy)

    def perplexities(self, results: dict[str, float]) -> str:
        return (
            f"perplexity {results['perplexity']:.2f} (forward "
            f"{results['forward_perplexity']:.2f}, backward {results['backward_perplexity']:.2f})"
        )

    # Loading.

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        reset = stated(path, run, "training.reset", RESETS)
        heads = {**run["heads"], "resets": reset != "never"}
        encoder, pretrainer = self.build(run["arguments"], heads, dtype)
        words = WORDS.read(os.path.join(path, WORDS.name))
        return Pretrained(encoder, pretrainer, run["arguments"], words=words)

    # Use.

    def text_to_measure(self, loaded: Pretrained, settings: ElmoEvaluation) -> TextToMeasure:
        if loaded.run is None:
            raise ValueError(
                f"{loaded.path} does not say which words it predicts; give a run of "
                "`tfnlp pretrain elmo`"
            )
        corpus, trained = corpus_to_measure(loaded, settings), loaded.run["training"]
        rows = settings.batch_size or trained["batch_size"]
        windows = _held_out_windows(corpus, rows, trained["window"], trained["reset"], 1)
        objective = ElmoPretraining(loaded.pretrainer, corpus.characters(), windows.batch_size)
        return words_to_measure(corpus, objective, windows.evaluation_batches())

    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], Any]:
        encoder = loaded.encoder
        module = load_module(loaded.path) if encoder is None else ElmoModule(encoder)
        return lambda texts: module(tf.constant(texts))

    def sentences(self, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
        """Return the function of strings to one vector each.

        The last layer is the mix of all, as in the `default` of the module; 0 are the word vectors.
        """
        module = self.vectors(loaded)
        first = module(["a"])
        names = ["word_emb", *(f"lstm_outputs{i}" for i in range(1, len(first))), "elmo"]
        names = [name for name in names if name in first]
        if not -len(names) <= settings.layer < len(names):
            raise ValueError(
                f"`layer` {settings.layer} must be from {-len(names)} to {len(names) - 1}: "
                f"{', '.join(names)}"
            )
        name = names[settings.layer]

        def states(words: tf.RaggedTensor) -> tf.Tensor:
            return module(tf.strings.reduce_join(words, -1, separator=" "))[name]

        return of_words(states, first[name].shape[-1], settings, self.title)

    def predict(self, loaded: Pretrained, settings: ElmoPrediction) -> list[list[Neighbour]]:
        """Return for each sentence the words of the corpus that are nearest to its word.

        The best is first (Peters et al. 2018, table 4).
        """
        encoder = loaded.encoder
        names = ["word_emb", *(name for name in encoder.output if name.startswith("lstm_outputs"))]
        if settings.layer not in names:
            raise ValueError(
                f"`layer` {settings.layer} is unknown; choose one of {', '.join(names)}"
            )
        layer, word = names.index(settings.layer), settings.word
        documents = tokenized(documents_of(settings.corpus, settings.layout), settings.tokenize)
        corpus = [sentence.split() for document in documents for sentence in document]
        sentences = [sentence.split() for sentence in settings.text]
        asked = {tuple(words) for words in sentences}
        numbers = [
            n
            for n, words in enumerate(corpus)
            if (word in words or not settings.same) and tuple(words) not in asked
        ]
        if not numbers:
            raise ValueError(
                f"the corpus does not hold the word {word!r}; give another text or word"
            )

        module = ElmoModule(encoder)
        queries = [
            unit_rows(layers[layer, words.index(word)])
            for words, layers in zip(sentences, sentence_layers(module, sentences), strict=True)
        ]
        queries = np.stack(queries)  # [Q, D]
        best: list[list] = [[] for _ in sentences]
        layers = sentence_layers(module, (corpus[n] for n in numbers))
        for number, values in zip(ProgressBar(numbers, unit="sentences"), layers, strict=True):
            places = [p for p, w in enumerate(corpus[number]) if w == word or not settings.same]
            scores = queries @ unit_rows(values[layer, places]).T  # [Q, places]
            for heap, row in zip(best, scores, strict=True):
                # Two words of one sentence say little more than one: only the better one is kept.
                place = int(row.argmax())
                heapq.heappush(heap, (float(row[place]), number, places[place]))
                if len(heap) > settings.top:
                    heapq.heappop(heap)
        return [
            [
                (cosine, corpus[number], place)
                for cosine, number, place in sorted(heap, reverse=True)
            ]
            for heap in best
        ]

    def lines(self, loaded: Pretrained, settings: ElmoPrediction) -> Iterator[str]:
        if settings.word:
            for sentence, found in zip(settings.text, self.predict(loaded, settings), strict=True):
                words = sentence.split()
                yield f"{marked(words, words.index(settings.word))}\n"
                for cosine, sentence_words, place in found:
                    yield f"  {cosine:.3f}  {marked(sentence_words, place)}\n"
        if settings.hdf5:
            source, path = settings.input, settings.hdf5
            yield write_layers(loaded.encoder, source, path, settings.carry_state) + "\n"

    # Features of tasks.

    def reader(self, loaded: Pretrained) -> WordReader:
        return WordReader()

    def features(self, loaded: Pretrained, choice: str) -> Features:
        encoder, whole = loaded.encoder, None
        if encoder is None:
            module = hub.saved_elmo(loaded.path)
            whole = module.module  # a part of what is exported
            found = module({"tokens": [["a"]], "sequence_len": [1]})
            count = sum(name.startswith("lstm_outputs") for name in found)
            size = found["lstm_outputs1"].shape[-1]
        else:
            module, bilm = _module(encoder), encoder.get_layer("bilm")
            count, size = bilm.num_layers, 2 * bilm.projection_size
        layers, mix = models.select_layers(choice, count, embeddings=True)
        return ElmoFeatures(module, layers, size, encoder, whole), len(layers), size, mix

    # Planning.

    def planned(self, sizes: dict[str, Any], preset: Any) -> ElmoPretraining:
        """Return both language models.

        Words that come twice go through the character network twice: a step that looks at distinct
        words only is for devices whose shapes may depend on the data, see `ElmoPretraining`.
        """
        encoder = self.encoder(**sizes, dropout=preset.dropout, dtype=preset.dtype)
        samples = ElmoSettings.samples if preset.samples is None else preset.samples
        pretrainer = self.pretrainer(
            encoder, preset.vocab_size, samples or None, dropout=preset.dropout
        )
        characters = np.zeros((preset.vocab_size, MAX_CHARACTERS), "int16")
        return ElmoPretraining(pretrainer, characters, preset.rows, distinct=False)

    def planned_batch(self, preset: Any) -> dict[str, tuple]:
        window = (preset.rows, preset.length)
        words = ("forward_ids", "backward_ids", "forward_targets", "backward_targets")
        return {**{name: (window, "int32") for name in words}, "weights": (window, "float32")}

    def planned_loss_scale(self, preset: Any) -> float:
        return preset.length / 2


class _Windows(RunningText):
    """Windows of running text, read in both directions, and the losses of both LMs."""

    def __init__(
        self, family: Elmo, settings: ElmoSettings, before: Pretrained | None, strategy: Any
    ) -> None:
        known = None if before is None else before.words
        super().__init__(family, settings, known, together=True)
        self.before = before
        self.batches = LanguageModelWindows(
            self.train,
            batch_size=settings.batch_size,
            window=settings.window,
            seed=settings.seed,
            reset=settings.reset,
        )
        replicas = strategy.num_replicas_in_sync
        self.measured = _held_out_windows(
            self.valid, settings.batch_size, settings.window, settings.reset, replicas
        )
        self.held_out = self.measured.evaluation_batches(settings.evaluate_batches)
        # The number of distinct words would be another shape in each batch.
        self._distinct = not is_compiled(strategy, settings.jit)
        self.arguments = self._sizes()
        self.heads = {"vocab_size": self.train.vocab_size, "num_samples": settings.samples or None}
        self.unrecorded_heads = {"dropout": settings.dropout, "resets": settings.reset != "never"}
        self.first = before is not None
        self.loss_scale = settings.window / 2

    def _sizes(self) -> dict[str, Any]:
        settings = self.settings
        if self.before is not None:
            return {**self.before.config, "dropout": settings.dropout}
        changed = {name: getattr(settings, name) for name in CHANGED_SIZES}
        changed = {name: value for name, value in changed.items() if value is not None}
        return {**self.family.sizes[settings.size], **changed, "dropout": settings.dropout}

    def objective(self, model: Model) -> ElmoPretraining:
        # All words that will be read have their characters here, those held out too.
        characters = self.valid.characters()
        rows = self.settings.batch_size
        return ElmoPretraining(model, characters, rows, distinct=self._distinct)

    def fill(self, encoder: Model, trained: Model) -> None:
        before = self.before
        if before is None:
            return
        encoder.set_weights(before.encoder.get_weights())
        if before.pretrainer is not None and before.words is not None:
            softmax, kept = (m.get_layer("softmax") for m in (trained, before.pretrainer))
            softmax.kernel.assign(kept.kernel)
            softmax.bias.assign(kept.bias)

    def describe(self, encoder: Model, trained: Model, steps: int) -> str:
        width, words = encoder.get_layer("bilm").projection_size, self.train.vocab_size
        return (
            f"ELMo with {encoder.count_params() / 1e6:.2f} M parameters and a softmax over "
            f"{words:,} words ({words * (width + 1) / 1e6:.2f} M); "
            f"{self.counted(f'{self.batches.steps_per_epoch:,}')}"
        )


def _module(encoder: Model) -> Any:
    """Return the function of words to all layers, on the backend that Keras has."""
    return (ElmoInJax if keras.backend.backend() == "jax" else ElmoModule)(encoder)


def _held_out_windows(
    corpus: LanguageModelCorpus, batch_size: int, window: int, reset: str, replicas: int
) -> LanguageModelWindows:
    """Return windows to evaluate on, in fewer rows than in training where the text is short."""
    # A row starts without context; let that be one window in ten.
    rows = min(batch_size, corpus.num_tokens // (10 * window)) // replicas * replicas
    rows = max(rows, replicas)
    window = min(window, max(1, corpus.num_tokens // rows))
    return LanguageModelWindows(corpus, batch_size=rows, window=window, reset=reset)


def marked(words: list[str], place: int, around: int = 9) -> str:
    """Return `words` near `place`, with the word there in brackets."""
    first, last = max(0, place - around), min(len(words), place + around + 1)
    shown = [f"[{w}]" if i == place else w for i, w in enumerate(words)][first:last]
    return f"{'... ' if first else ''}{' '.join(shown)}{' ...' if last < len(words) else ''}"


def write_layers(encoder: Model, source: Any, path: str, carry_state: bool) -> str:
    """Write all layers of the sentences of files as an HDF5 file, as bilm-tf does.

    It has a data set `[layers, T, 2P]` for each sentence. Return a line that says what was written.
    """
    paths = [source] if is_path(source) else source

    def sentences() -> Iterator[list[str]]:
        for name in paths:
            with open(name, encoding="utf-8") as lines:
                yield from map(str.split, lines)

    count = sum(1 for _ in sentences())  # and checks that all of it is UTF-8
    if not count:
        raise ValueError(f"{', '.join(paths)} is empty; give a file with a sentence a line")
    if carry_state:
        layers = running_layers(encoder, sentences())
    else:
        layers = sentence_layers(ElmoModule(encoder), sentences())
    with written_hdf5(path) as file:
        for number, values in enumerate(ProgressBar(layers, total=count, unit="sentences")):
            file.create_dataset(str(number), data=values)
    return f"{path}: {count} sentences, {values.shape[0]} layers of {values.shape[2]}"
