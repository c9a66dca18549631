"""Training of sentence vectors: texts that belong together and a model to a run's folder.

RUN/config.json          the encoder's arguments, the pooling, training settings
RUN/vocab.txt, RUN/vocab the vocabulary
RUN/checkpoints          the weights
RUN/results.json         measures on the dev set, before the training and after it
RUN/page.html            curves, measures, and the dev set's vectors, before and after
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp import __version__, tasks
from tfnlp.cards import Card, base_of, card_of_run
from tfnlp.checkpoints.sentence_transformers import sentence_layers
from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths
from tfnlp.families import sentence_runs
from tfnlp.families.fitting import SECTION, check_adaptation
from tfnlp.families.sentences import (
    prompt_tokens,
    sentence_settings,
    text_reader,
    vectors_of_texts,
)
from tfnlp.families.sizes import width
from tfnlp.runs.checking import say_read
from tfnlp.runs.devices import check_batch_memory, shown_weights
from tfnlp.runs.finetune_examples import say, shown_source
from tfnlp.runs.finetune_recipe import max_length_of, settings_of
from tfnlp.runs.page import EXAMPLES, RunPage, measures, shown
from tfnlp.runs.projector import write_projector
from tfnlp.runs.tuning import Run, TuningRuns, shown_measures
from tfnlp.settings.tasks import EmbedTaskSettings
from tfnlp.tasks import report
from tfnlp.tasks.embed import (
    Embed,
    check_alike,
    encode_texts,
    lesson_of,
    main_sentence_metric,
    score_sentences,
    unit_rows,
)
from tfnlp.training import is_compiled
from tfnlp.training.run import read_config

_EPOCHS = {"cosine": 4.0}  # of other objectives 1


class SentenceRuns(TuningRuns):
    """The runs that train vectors of sentences."""

    title = "sentence vectors"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        config = self.config
        self.lesson = lesson_of(
            self.train, config.objective, f"`train` {shown_source(config.train)}"
        )
        self._check_dev()
        self._check_ranking()
        self.load_backbone()
        check_adaptation(self.adaptation, self.backbone, self.features)
        settings = sentence_settings(self.backbone, config.pooling, normalize=True)
        self.sentences = sentence_runs.SentenceRun(
            **{
                **vars(settings),
                "max_length": max_length_of(config, self.backbone, settings.max_length),
                "refused": "",
            },
            texts=len(self.lesson.rows[0]),
            classes=len(self.lesson.classes),
        )
        reader = self.backbone.family.sentence_reader(self.backbone)
        self.reader = text_reader(reader, settings)
        self.skip = prompt_tokens(reader, settings, self.sentences.max_length)
        sizes = {
            "texts": self.sentences.texts,
            "max_length": self.sentences.max_length,
            "hidden_size": width(self.backbone) or 1,
        }
        check_batch_memory(config, sizes)
        self.metric = config.metric or main_sentence_metric(self.dev)
        self._scores({text: np.zeros(1) for e in self.dev for text in e.segments})  # may refuse

    def _check_dev(self) -> None:
        config = self.config
        source = config.train if config.dev is None else config.dev
        name = f"`{'train' if config.dev is None else 'dev'}` {shown_source(source)}"
        check_alike(self.dev, name)
        if len(self.dev[0].segments) < 2:
            raise ValueError(
                f"{name} has single texts, on which nothing can be measured; give `dev`, pairs "
                "that people rated, or texts and those that belong to them"
            )

    def _check_ranking(self) -> None:
        """Refuse what no loss but that of ranking takes notice of."""
        defaults = {"temperature": EmbedTaskSettings.temperature, "one_way": False}
        for name, default in defaults.items():
            if self.lesson.loss != "ranking" and getattr(self.config, name) != default:
                raise ValueError(
                    f"`{name}` is of ranking; the `objective` here is {self.lesson.objective}"
                )

    def defaults(self, features: str | None) -> dict[str, Any]:
        settings = settings_of(self.config, self.backbone, features, len(self.train))
        del settings["lm_weight"]
        if self.config.epochs is None:
            settings["epochs"] = _EPOCHS.get(self.lesson.objective, 1.0)
        return settings

    def build(self, run: Run) -> None:
        config = self.config
        keras.utils.set_random_seed(run.seed)
        with self.strategy.scope():
            encoder, arguments = sentence_runs.trainable_encoder(
                self.backbone, run.settings["dropout"], config.dtype_policy()
            )
            self.adaptation.apply(encoder)
            layers = sentence_layers(self.sentences, width(self.backbone))
            for layer, before in zip(layers, self.backbone.sentence_layers, strict=True):
                layer.set_weights(before.get_weights())
            network = sentence_runs.siamese_of(encoder, self.sentences, layers, self.skip)
            run.objective = tasks.SentenceTraining(
                network, self.lesson.loss, config.temperature, not config.one_way, config.sizes
            )
        run.model = self._pretrained(encoder, arguments, layers)
        run.config = self._run_config(run, arguments)

    def _run_config(self, run: Run, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return `config.json`: everything that decides which numbers a run ends with."""
        config, lowercase = self.config, self.backbone.lowercase
        if lowercase is None:
            lowercase = getattr(self.backbone.tokenizer, "lowercase", None)
        more = {
            "objective": self.lesson.objective,
            "temperature": config.temperature,
            "one_way": config.one_way,
            "sizes": config.sizes,
        }
        found = {
            "tfnlp": __version__,
            "model": self.backbone.family.name,
            "arguments": arguments,
            "text": None if lowercase is None else {"lowercase": lowercase},
            sentence_runs.SECTION: self.sentences.section(),
            SECTION: self.adaptation.config() if self.adaptation else None,
            "columns": {"text": config.text_columns, "label": config.label},
            **self.training_sections(run, **more),
        }
        return {name: part for name, part in found.items() if part is not None}

    def _pretrained(self, encoder: Any, arguments: dict[str, Any], layers: Sequence[Any]) -> Any:
        return dataclasses.replace(
            self.backbone,
            encoder=encoder,
            pretrainer=None,
            config=arguments,
            sentences=self.sentences.settings,
            sentence_layers=layers,
            sentence_functions={},
        )

    def say_read(self) -> None:
        say_read(Embed, shown_source(self.config.train), self.train, self.dev)

    def keep(self, run: Run) -> None:
        self.backbone.family.keep_vocabulary(self.backbone.tokenizer, run.folder)

    def batches(self, run: Run) -> Any:
        lesson = self.lesson
        columns, text_ids, cut = encode_texts(self.reader, lesson.rows, self.sentences.max_length)
        if cut:
            limit = f"max_length {self.sentences.max_length}"
            say(shown_source(self.config.train), f"{cut:,} texts are longer than {limit}: cut")
        names = set(self.backbone.encoder.input)
        columns = {name: column for name, column in columns.items() if name in names}
        fixed = {"text_ids": text_ids}
        if lesson.labels is not None:
            kind = "float32" if lesson.loss == "cosine" else "int32"
            fixed["labels"] = np.array(lesson.labels, kind)
        sizes = [x.shape[-1] for x in columns["input_mask"]]
        compiled = is_compiled(self.strategy, self.config.jit)
        lengths = bucket_lengths(sizes, 6 if compiled else len(sizes))
        pad = self.config.no_buckets or isinstance(self.strategy, tf.distribute.TPUStrategy)
        return TaskBatches(
            columns,
            fixed,
            batch_size=run.settings["batch_size"],
            lengths=lengths,
            pad_all=pad,
            seed=run.seed,
            mixed=True,
        )

    def described(self, run: Run, batches: Any, steps: int) -> str:
        return (
            f"embed, {self.lesson.objective}: {len(self.lesson.rows):,} rows of "
            f"{self.sentences.texts} texts to learn from, {len(self.dev):,} to measure on\n"
            f"{steps} steps of {run.settings['batch_size']}, {shown_weights(run.objective.model)}\n"
            + shown_measures("dev before: ", self._before[1])
        )

    @functools.cached_property
    def _before(self) -> tuple[Mapping[str, np.ndarray], dict[str, float]]:
        """The vectors of the dev set before the training, and their measures."""
        backbone = self.backbone
        model = self._pretrained(backbone.encoder, backbone.config, backbone.sentence_layers)
        vectors = self._vectors(model)
        return vectors, self._scores(vectors)

    def facts(self) -> dict[str, Any]:
        return {"before": self._before[1]}

    def card(self, run: Run, results: dict[str, Any]) -> Card:
        title, (base, licence) = self.backbone.family.title, base_of(self.backbone)
        card = card_of_run(title, read_config(run.folder))
        summary = f"Sentence vectors of {title}, trained by {self.lesson.objective}."
        return dataclasses.replace(card, summary=summary, base=base, licence=licence)

    def measured(self, run: Run) -> tuple[dict[str, float], str]:
        found = self._scores(self._vectors(run.model))
        return found, self._plateau(found)

    def _vectors(self, model: Any) -> Mapping[str, np.ndarray]:
        texts = [text for example in self.dev for text in example.segments[:2]]
        return vectors_of_texts(model, texts)

    def _scores(self, vectors: Mapping[str, np.ndarray]) -> dict[str, float]:
        found = score_sentences(self.dev, vectors)
        if self.metric not in found:
            raise ValueError(f"`metric` {self.metric} is not among {', '.join(sorted(found))}")
        return found

    def _plateau(self, found: dict[str, float]) -> str:
        """Return in words that the main measure has not risen; "" if it has, or if it can't."""
        old, value = self._before[1][self.metric], found[self.metric]
        if value > old or old >= 1:
            return ""
        return f"{self.metric} {value:.4f} is not better than {old:.4f}, that before the training"

    def ordinary(self, run: Run) -> Any:
        encoder, arguments = sentence_runs.trainable_encoder(self.backbone, 0.0, None)
        self.adaptation.apply(encoder)
        encoder.set_weights(run.model.encoder.get_weights())
        self.adaptation.finish(encoder)
        return self._pretrained(encoder, arguments, run.model.sentence_layers)

    def finish(self, run: Run, results: dict[str, Any], page: RunPage) -> str:
        """Measure the best checkpoint as `tfnlp evaluate` does; write the page."""
        vectors, before = self._vectors(run.model), self._before
        results.update(metrics=self._scores(vectors), metric=self.metric)
        old = {name: shown(value) for name, value in before[1].items()}
        page.write(
            self.card(run, results),
            measures=[measures(results["metrics"], old, "before the training", self.metric)],
            charts=[*space_charts(self.dev, {"before": before[0], "after": vectors})],
        )
        some = [(text, e.label) for e in self.dev[:EXAMPLES] for text in e.segments[:2]]
        columns = {"text": [text for text, _ in some], "label": [label for _, label in some]}
        if some[0][1] is None:
            del columns["label"]
        write_projector(run.folder, "texts", np.array([vectors[text] for text, _ in some]), columns)
        return self._plateau(results["metrics"])


_PAIRS = 200  # that are drawn


def space_charts(
    examples: Sequence[Any], spaces: Mapping[str, Mapping[str, np.ndarray]]
) -> Iterator[report.Figure]:
    """Yield maps of pairs of texts, and their cosines.

    `spaces` have for each title the vector of each text.
    """
    for title, vectors in spaces.items():
        some = examples[:: -(-len(examples) // _PAIRS)]
        texts = [text for example in some for text in example.segments[:2]]
        units = unit_rows([vectors[text] for text in texts])
        labels = [example.label for example in some]
        yield report.text_map(f"{len(some)} pairs, {title}", units, texts, labels, pairs=True)
    for title, vectors in spaces.items():
        yield _cosines(f"Cosines, {title}", examples, vectors)


def _cosines(
    title: str, examples: Sequence[Any], vectors: Mapping[str, np.ndarray]
) -> report.Figure:
    """Draw the cosines of pairs; of pairs alone beside those with texts of other pairs."""
    u, v = (unit_rows([vectors[e.segments[n]] for e in examples]) for n in range(2))
    cosines, others = (np.sum(u * x, 1) for x in (v, np.roll(v, len(v) // 2, axis=0)))
    labels = [example.label for example in examples]
    if isinstance(labels[0], int | float):
        more = ("rating", "cosine", False)
        return report.scatter(labels, cosines.tolist(), title, *more)
    groups = {"pairs": cosines, "other texts": others}
    if labels[0] is not None:
        names = np.array(labels)
        groups = {name: cosines[names == name] for name in sorted(set(labels))}
    lists = {name: values.tolist() for name, values in groups.items()}
    return report.histogram(title, "cosine", lists, overlay=True)
