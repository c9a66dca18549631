"""Encoder-decoders that translate: recurrent ones (Sutskever et al. 2014) and the Transformer."""

from __future__ import annotations

import abc
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from keras import Model

from tfnlp import hub, models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.data import ParallelText, read_parallel, translation_batches
from tfnlp.data.corpus.corpora import tokenize_sentences
from tfnlp.data.corpus.parallel_text import parallel_rows
from tfnlp.families.family import Family, Measured
from tfnlp.families.preparation import Preparation, tokens_of
from tfnlp.families.sentences import Embedding, of_tokens
from tfnlp.families.sizes import transformer_sizes
from tfnlp.families.vocabularies import BYTE_PAIRS
from tfnlp.files import write_lines
from tfnlp.objectives import Translation
from tfnlp.objectives.translation import bleu_by_length, corpus_bleu, sacrebleu
from tfnlp.pictures import can_draw, plot_lengths
from tfnlp.settings.translation import (
    NO_ATTENTION,
    Seq2SeqSettings,
    TransformerSettings,
    TranslationEvaluation,
    TranslationPrediction,
)
from tfnlp.text.task_readers import SourceReader
from tfnlp.training import average_checkpoints
from tfnlp.training.run import restore_weights

_PART = 8192  # sentences that are translated at once


class Translator(Family):
    """An encoder-decoder that translates.

    Attributes:
        decoder: What a beam search needs, made of the model and the token that ends sentences.
    """

    row = ("num_layers", "hidden_size")
    evaluation = TranslationEvaluation
    prediction = TranslationPrediction
    decoder: ClassVar[Callable[[Model, int], Any]]

    @abc.abstractmethod
    def model_sizes(self, settings: Any) -> dict[str, Any]:
        """Return the arguments of the model but for `vocab_size`, checked."""

    def prepare(self, settings: Any, before: Any, strategy: Any) -> Preparation:
        return _Pairs(settings, self.model_sizes(settings), strategy)

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        model, _ = self.build(run["arguments"], {}, dtype)
        tokenizer = BYTE_PAIRS.restore(path, None)
        return Pretrained(
            model,
            None,
            run["arguments"],
            make_tokenizer=lambda: tokenizer,
            vocabulary=os.path.join(path, BYTE_PAIRS.name),
            decoder=self.decoder(model, tokenizer.end_id),
        )

    def evaluate(self, loaded: Pretrained, settings: TranslationEvaluation) -> Measured:
        """Return BLEU, of the whole text and by the length of its sentences.

        With `report`, translations and a plot of BLEU by length are written to that folder.
        """
        sacrebleu()
        text = read_parallel(settings.source, settings.target)
        translate = _translator(loaded, settings)
        translations = translate(text.sources, settings.batch_size, progress=True)
        bleu, signature = corpus_bleu(translations, text.targets)
        lengths = bleu_by_length(text.sources, translations, text.targets)
        shown = [f"BLEU {bleu:.2f} of {len(translations):,} sentences ({signature})"]
        if text.left_out:
            shown.append(f"  {text.left_out:,} pairs with an empty side are left out")
        for row in lengths:
            words = f"{row.shortest} to {row.longest} words"
            shown.append(f"  {words:18s}{row.count:6,} sentences  {row.bleu:6.2f}")
        if settings.report:
            os.makedirs(settings.report, exist_ok=True)
            write_lines(os.path.join(settings.report, "translations.txt"), translations)
            if can_draw("lengths.png"):
                plot_lengths({"": lengths}, os.path.join(settings.report, "lengths.png"))
            shown.append(f"report: {settings.report}")
        rows = [row._asdict() for row in lengths]
        return Measured({"bleu": bleu, "signature": signature, "lengths": rows}, "\n".join(shown))

    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], list[str]]:
        return hub.Translator(loaded.decoder, loaded.tokenizer)

    def sentences(self, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
        """Return the function of sentences to one vector each, of the encoder's last layer."""
        inputs = {name: loaded.encoder.input[name] for name in ("input_word_ids", "input_mask")}
        model = Model(inputs, {"sequence_output": loaded.encoder.output["encoder_output"]})
        return of_tokens(model, SourceReader(loaded.tokenizer), loaded, settings)

    def predict(self, loaded: Pretrained, settings: TranslationPrediction) -> list[str]:
        return [text for part in _parts(loaded, settings) for text in part]

    def lines(self, loaded: Pretrained, settings: TranslationPrediction) -> Iterator[str]:
        """Yield a translation a line, those of a part of the sentences at a time."""
        for part in _parts(loaded, settings):
            yield "".join(f"{translation}\n" for translation in part)


class Seq2Seq(Translator):
    """The next token of a translation, with attention (Bahdanau et al. 2015) or without."""

    name, title = "seq2seq", "a seq2seq model"
    encoder, decoder = staticmethod(models.seq2seq), models.Seq2SeqDecoder

    def model_sizes(self, settings: Seq2SeqSettings) -> dict[str, Any]:
        attention = None if settings.attention == NO_ATTENTION else settings.attention
        if settings.input_feeding and attention is None:
            raise ValueError(
                "`input_feeding` needs `attention`; without it there is nothing to feed"
            )
        return {
            "num_layers": settings.num_layers,
            "hidden_size": settings.hidden_size,
            "embedding_size": settings.embedding_size or settings.hidden_size,
            "attention": attention,
            "input_feeding": settings.input_feeding,
            "dropout": settings.dropout,
        }


class Transformer(Translator):
    """The next token of a translation (Vaswani et al. 2017)."""

    name, title = "transformer", "a Transformer"
    sizes = {
        "mini": models.TRANSFORMER_MINI,
        "base": models.TRANSFORMER_BASE,
        "big": models.TRANSFORMER_BIG,
    }
    encoder, decoder = staticmethod(models.transformer), models.TransformerDecoder

    def model_sizes(self, settings: TransformerSettings) -> dict[str, Any]:
        sizes = transformer_sizes(settings, self.sizes[settings.size])
        return {**sizes, "dropout": settings.dropout, "norm_first": settings.norm_first}


class _Pairs(Preparation):
    """Batches of sentences and their translations, and the smoothed loss of the next token."""

    vocabulary = BYTE_PAIRS

    def __init__(self, settings: Any, sizes: dict[str, Any], strategy: Any) -> None:
        self.settings = settings
        self.texts, self.valid_texts = _texts(settings)
        sides = self.texts[:2]
        self.tokens = tokens_of(
            settings, BYTE_PAIRS, (), lambda: (text for side in sides for text in side)
        )
        tokenizer = BYTE_PAIRS.tokenizer(self.tokens)
        self.sources, targets = _short(
            *(_tokenize(tokenizer, side) for side in sides), settings.max_tokens
        )
        # A TPU's programs have fixed shapes.
        shapes = {"pad_all": isinstance(strategy, tf.distribute.TPUStrategy)}
        rows = {"batch_size": settings.batch_size, "seed": settings.seed}
        if settings.batch_tokens is not None:
            parts = strategy.num_replicas_in_sync * settings.accumulation
            rows.update(batch_size=parts, batch_tokens=settings.batch_tokens)
        end = tokenizer.end_id
        self.batches = translation_batches(self.sources, targets, end, **rows, **shapes)
        shapes["batch_size"] = settings.batch_size
        valid = (_tokenize(tokenizer, side) for side in self.valid_texts[:2])
        self.measured = translation_batches(*valid, end, **shapes)
        self.held_out = self.measured.evaluation_batches()
        if settings.evaluate_batches is not None:
            self.held_out = self.held_out.take(settings.evaluate_batches)
        self.arguments = {"vocab_size": tokenizer.vocab_size, **sizes}
        self.size = sum(map(len, self.sources)) + sum(map(len, targets))
        checksum = zlib.crc32("\n".join(self.texts.sources).encode())
        checksum = zlib.crc32("\n".join(self.texts.targets).encode(), checksum)
        self.corpus = {"pairs": len(self.sources), "tokens": self.size, "crc32": checksum}

    def objective(self, model: Model) -> Translation:
        return Translation(model, self.settings.label_smoothing)

    def checkpoints(self, steps: int) -> dict[str, int]:
        """Return how often to write checkpoints and how many to keep for their mean."""
        settings = self.settings
        if not settings.average:
            return {}
        # The mean is that of the last tenth of the run, if nothing else is said.
        every = settings.checkpoint_every or max(1, steps // (10 * settings.average))
        return {"keep": max(settings.keep, settings.average), "checkpoint_every": every}

    def describe(self, encoder: Model, trained: Model, steps: int) -> str:
        held_out = self.valid_texts
        left_out = len(self.texts.sources) - len(self.sources) + self.texts.left_out
        return (
            f"{encoder.count_params() / 1e6:.2f} M parameters; {len(self.sources):,} pairs of "
            f"{self.size:,} tokens"
            + (f", {left_out:,} empty or too long ones left out" if left_out else "")
            + f"; held out: {len(held_out.sources):,} pairs"
            + (f", {held_out.left_out:,} empty ones left out" if held_out.left_out else "")
            + f"; {steps:,} updates"
        )

    def line(self, when: str, results: dict[str, float], more: str = "") -> str:
        return (
            f"held out, {when}: perplexity {results['perplexity']:.2f} a token, "
            f"{results['token_accuracy']:.3f} of the tokens right{more}"
        )

    def finish(self, trainer: Any, settings: Any, results: dict[str, float]) -> dict[str, float]:
        """Leave the mean of the last checkpoints in the run if it is better than the best."""
        count = settings.average
        if not count or settings.steps // settings.checkpoint_every < count:
            return results
        chief = trainer.workers.chief
        if chief:
            path = average_checkpoints(settings.output, count)
        trainer.workers.gather(trainer.step)  # nobody reads it before it is there
        restore_weights(settings.output, trainer.objective.model, average=True)
        averaged = self.measure(trainer)
        better = averaged["nll"] < results["nll"]
        when, more = f"mean of the last {count} checkpoints", "" if better else ", not used"
        print(self.line(when, averaged, more), flush=True)
        if chief and not better:
            tf.io.gfile.rmtree(path)
        return averaged if better else results


def _short(sources: list[Any], targets: list[Any], max_tokens: int) -> tuple[list, list]:
    """Return the pairs of which both sides have fewer than `max_tokens` tokens."""
    pairs = zip(sources, targets, strict=True)
    kept = [pair for pair in pairs if max(map(len, pair)) < max_tokens]
    if not kept:
        raise ValueError(f"no pair is shorter than `max_tokens` {max_tokens}")
    sources, targets = zip(*kept, strict=True)
    return list(sources), list(targets)


def _tokenize(tokenizer: Any, sentences: list[str]) -> list[np.ndarray]:
    """Return the ids of each sentence, int32 arrays."""
    tokens = []
    for first in range(0, len(sentences), 10_000):
        values, lengths = tokenize_sentences(sentences[first : first + 10_000], tokenizer)
        tokens += np.split(values, np.cumsum(lengths)[:-1])
    return tokens


def _texts(settings: Any) -> tuple[ParallelText, ParallelText]:
    """Return pairs to train on and pairs held out."""
    if (settings.valid_source is None) != (settings.valid_target is None):
        raise ValueError("give both `valid_source` and `valid_target`, or neither")
    if settings.text is not None:
        settings.refuse(["source", "target"], "can't be given with `text`, pairs in their place")
        text = parallel_rows(settings.text, "text")
    elif settings.source is not None and settings.target is not None:
        text = read_parallel(settings.source, settings.target)
    else:
        raise ValueError("give `source` and `target`, the two files of a translation")
    if settings.valid_source is not None:
        settings.refuse(["held_out"], "is for a run without `valid_source`; leave it out")
        return text, read_parallel(settings.valid_source, settings.valid_target)
    count = round(settings.held_out * len(text.sources))
    if not 0 < count < len(text.sources):
        raise ValueError(
            f"`held_out` {settings.held_out} of {len(text.sources)} pairs are {count}; one or more "
            "must be held out, and one or more left"
        )
    order = np.random.Generator(np.random.Philox(key=settings.seed)).permutation(len(text.sources))
    chosen = set(order[:count].tolist())
    train, held = (
        [[s for i, s in enumerate(side) if (i in chosen) == is_held] for side in text[:2]]
        for is_held in (False, True)
    )
    return ParallelText(*train, text.left_out), ParallelText(*held, 0)


def _translator(loaded: Pretrained, settings: Any) -> hub.Translator:
    tokenizer, penalty = loaded.tokenizer, settings.length_penalty
    return hub.Translator(loaded.decoder, tokenizer, settings.beams, penalty)


def _parts(loaded: Pretrained, settings: TranslationPrediction) -> Iterator[list[str]]:
    """Yield the translations of consecutive sentences; those of similar length share a batch."""
    translate = _translator(loaded, settings)
    for first in range(0, len(settings.text), _PART):
        yield translate(settings.text[first : first + _PART])
