"""Training of sentence vectors: texts that belong together and a model to a run's folder.

RUN/config.json          the encoder's arguments, the pooling, training settings
RUN/vocab.txt, RUN/vocab the vocabulary
RUN/checkpoints          the weights
RUN/results.json         measures on the dev set, before the training and after it
RUN/page.html            curves, measures, and the dev set's vectors, before and after
"""

import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp import __version__, tasks
from tfnlp.cards import Card, base_of, card_of_run, shown_name
from tfnlp.checkpoints.sentence_transformers import sentence_layers
from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths
from tfnlp.families import sentence_runs
from tfnlp.families.fitting import SECTION, adaptation_asked, check_adaptation
from tfnlp.families.sentences import (
    prompt_tokens,
    sentence_settings,
    text_reader,
    vectors_of_texts,
)
from tfnlp.families.sizes import width
from tfnlp.families.vocabularies import MARKS, PIECES
from tfnlp.runs.backbone import load_backbone
from tfnlp.runs.checking import say_read
from tfnlp.runs.devices import check_batch, check_batch_memory, shown_weights
from tfnlp.runs.finetune_examples import read_parts, say, shown_source
from tfnlp.runs.finetune_recipe import (
    kept_numbers,
    make_trainer,
    max_length_of,
    remedies,
    settings_of,
)
from tfnlp.runs.finetune_record import (
    begin,
    ended_before,
    print_results,
    shown_measures,
    training_sections,
    write_results,
)
from tfnlp.runs.page.charts import plane
from tfnlp.runs.page.page import EXAMPLES, RunPage, measures, shown
from tfnlp.runs.projector import write_projector
from tfnlp.settings.tasks import EmbedTaskSettings
from tfnlp.tasks.embed import (
    Embed,
    check_alike,
    encode_texts,
    lesson_of,
    main_sentence_metric,
    score_sentences,
    unit_rows,
)
from tfnlp.tasks.report import Chart, Histogram, Map, Scatter
from tfnlp.training import is_compiled
from tfnlp.training.run import read_config, record_files, write_config

_EPOCHS = {"cosine": 4.0}  # of other objectives 1


class SentenceTrainingRuns:
    """The data and the model that the runs of one config share."""

    def __init__(
        self,
        config: EmbedTaskSettings,
        strategy: Any,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        self.config, self.strategy, self.features = config, strategy, None
        self.callbacks = callbacks
        check_batch(config, strategy)
        self.train, self.dev, _ = read_parts(Embed, config)
        self.lesson = lesson_of(
            self.train, config.objective, f"`train` {shown_source(config.train)}"
        )
        self._check_dev()
        self._check_ranking()
        self._said = False  # what is learnt from
        output = None if config.restart else config.output
        self.backbone = load_backbone(config.model, output, config)
        self.adaptation = adaptation_asked(config)
        check_adaptation(self.adaptation, self.backbone, None)
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
        self._before: dict[str, Any] | None = None

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

    def run(self, folder: str, features: None, seed: int) -> dict[str, Any]:
        """Train one run, or finish one that was stopped; see `Finetuning.run`."""
        config = self.config
        begin(config, folder)
        settings = self._settings(folder)
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            encoder, arguments = sentence_runs.trainable_encoder(
                self.backbone, settings["dropout"], config.dtype_policy()
            )
            self.adaptation.apply(encoder)
            layers = sentence_layers(self.sentences, width(self.backbone))
            for layer, before in zip(layers, self.backbone.sentence_layers, strict=True):
                layer.set_weights(before.get_weights())
            network = sentence_runs.siamese_of(encoder, self.sentences, layers, self.skip)
            task = tasks.SentenceTraining(
                network, self.lesson.loss, config.temperature, not config.one_way, config.sizes
            )
        write_config(folder, self._run_config(settings, arguments, seed))
        results = ended_before(folder, [*PIECES, MARKS])
        if results is not None:
            return results
        if not self._said:
            self._said = True
            say_read(Embed, shown_source(config.train), self.train, self.dev)
        self.backbone.family.keep_vocabulary(self.backbone.tokenizer, folder)
        record_files(folder, [*PIECES, MARKS])
        trained = self._pretrained(encoder, arguments, layers)
        return self._fit(folder, task, trained, settings, seed)

    def _fit(
        self, folder: str, task: Any, trained: Any, settings: dict[str, Any], seed: int
    ) -> dict[str, Any]:
        """Train; return the dict in RUN/results.json."""
        config, started = self.config, time.monotonic()
        batches = self._batches(settings, seed)
        epoch = batches.steps_per_epoch
        steps = max(1, math.ceil(settings["epochs"] * epoch))
        trainer = make_trainer(config, self.strategy, task, settings, steps, folder, seed)
        print(
            f"embed, {self.lesson.objective}: {len(self.lesson.rows):,} rows of "
            f"{self.sentences.texts} texts to learn from, {len(self.dev):,} to measure on\n"
            f"{steps} steps of {settings['batch_size']}, " + shown_weights(task.model),
            flush=True,
        )
        before = self._scores_before()
        print(shown_measures("dev before: ", before), flush=True)
        advice = remedies(config, self.backbone, None, settings, steps)

        def measured() -> dict[str, float]:
            found = self._scores(self._vectors(trained))
            plateau = self._plateau(before, found)
            if plateau:
                say("dev", f"{plateau}; {advice}")
            return found

        page = RunPage(folder, f"{shown_name(folder)}: sentence vectors", trainer, self.metric)
        history = trainer.fit(
            batches,
            steps,
            validation=measured,
            monitor=self.metric,
            callbacks=[page.callback(self._card(folder)), *self.callbacks],
            evaluate_every=min(steps, max(1, math.ceil(epoch / config.evaluations))),
            patience=config.patience,
        )
        trainer.restore(best=True)
        if config.dtype_policy() or self.adaptation:  # what other commands load
            encoder, arguments = sentence_runs.trainable_encoder(self.backbone, 0.0, None)
            self.adaptation.apply(encoder)
            encoder.set_weights(trained.encoder.get_weights())
            self.adaptation.finish(encoder)
            trained = self._pretrained(encoder, arguments, trained.sentence_layers)
        results, vectors = self._results(trained, before, steps, advice)
        old = {name: shown(value) for name, value in before.items()}
        page.write(
            self._card(folder),
            measures=[measures(results["metrics"], old, "before the training", self.metric)],
            charts=[*space_charts(self.dev, {"before": self._before, "after": vectors})],
        )
        some = [(text, e.label) for e in self.dev[:EXAMPLES] for text in e.segments[:2]]
        columns = {"text": [text for text, _ in some], "label": [label for _, label in some]}
        if some[0][1] is None:
            del columns["label"]
        write_projector(folder, "texts", np.array([vectors[text] for text, _ in some]), columns)
        write_results(folder, results)  # the run has ended
        print_results(f"dev, best of {len(history.validation)} checkpoints: ", results)
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
        return results

    def _card(self, folder: str) -> Card:
        title, (base, licence) = self.backbone.family.title, base_of(self.backbone)
        card = card_of_run(title, read_config(folder))
        summary = f"Sentence vectors of {title}, trained by {self.lesson.objective}."
        return dataclasses.replace(card, summary=summary, base=base, licence=licence)

    def defaults(self) -> dict[str, Any]:
        """Return the numbers of a training that is started now."""
        settings = settings_of(self.config, self.backbone, None, len(self.train))
        if self.config.epochs is None:
            settings["epochs"] = _EPOCHS.get(self.lesson.objective, 1.0)
        return settings

    def _settings(self, folder: str) -> dict[str, Any]:
        kept = kept_numbers(self.config, self.strategy, None, folder)
        settings = {**self.defaults(), **kept}
        del settings["lm_weight"]
        return settings

    def _batches(self, settings: dict[str, Any], seed: int) -> Any:
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
            batch_size=settings["batch_size"],
            lengths=lengths,
            pad_all=pad,
            seed=seed,
            mixed=True,
        )

    def _run_config(self, settings: dict, arguments: dict, seed: int) -> dict[str, Any]:
        """Return `config.json`: everything that decides which numbers a run ends with."""
        config, lowercase = self.config, self.backbone.lowercase
        settings = {
            **settings,
            "objective": self.lesson.objective,
            "temperature": config.temperature,
            "one_way": config.one_way,
            "sizes": config.sizes,
        }
        if lowercase is None:
            lowercase = getattr(self.backbone.tokenizer, "lowercase", None)
        found = {
            "tfnlp": __version__,
            "model": self.backbone.family.name,
            "arguments": arguments,
            "text": None if lowercase is None else {"lowercase": lowercase},
            sentence_runs.SECTION: self.sentences.section(),
            SECTION: self.adaptation.config() if self.adaptation else None,
            "columns": {"text": config.text_columns, "label": config.label},
            **training_sections(self, settings, seed),
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

    def _vectors(self, model: Any) -> Mapping[str, np.ndarray]:
        texts = [text for example in self.dev for text in example.segments[:2]]
        return vectors_of_texts(model, texts)

    def _scores(self, vectors: Mapping[str, np.ndarray]) -> dict[str, float]:
        found = score_sentences(self.dev, vectors)
        if self.metric not in found:
            raise ValueError(f"`metric` {self.metric} is not among {', '.join(sorted(found))}")
        return found

    def _scores_before(self) -> dict[str, float]:
        """Return the measures of the model before the training; computed once."""
        if self._before is None:
            backbone = self.backbone
            model = self._pretrained(backbone.encoder, backbone.config, backbone.sentence_layers)
            self._before = self._vectors(model)
        return self._scores(self._before)

    def _plateau(self, before: dict[str, float], found: dict[str, float]) -> str:
        """Return in words that the main measure has not risen; "" if it has, or if it can't."""
        old, value = before[self.metric], found[self.metric]
        if value > old or old >= 1:
            return ""
        return f"{self.metric} {value:.4f} is not better than {old:.4f}, that before the training"

    def _results(
        self, trained: Any, before: dict[str, float], steps: int, advice: str
    ) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
        """Measure the best checkpoint as `tfnlp evaluate` does; return results and vectors."""
        vectors = self._vectors(trained)
        results = {
            "metrics": self._scores(vectors),
            "before": before,
            "metric": self.metric,
            "steps": steps,
        }
        plateau = self._plateau(before, results["metrics"])
        if plateau:
            results["plateau"] = f"{plateau}; {advice}"
        return results, vectors


_PAIRS = 200  # that are drawn


def space_charts(
    examples: Sequence[Any], spaces: Mapping[str, Mapping[str, np.ndarray]]
) -> Iterator[Chart]:
    """Yield maps of pairs of texts, in the plane of the two principal axes, and their cosines.

    `spaces` have for each title the vector of each text.
    """
    for title, vectors in spaces.items():
        some = examples[:: -(-len(examples) // _PAIRS)]
        texts = [text for example in some for text in example.segments[:2]]
        places = plane(unit_rows([vectors[text] for text in texts]))
        labels = [example.label for example in some]
        yield Map(f"{len(some)} pairs, {title}", places, texts, labels, pairs=True)
    for title, vectors in spaces.items():
        yield _cosines(f"Cosines, {title}", examples, vectors)


def _cosines(
    title: str, examples: Sequence[Any], vectors: Mapping[str, np.ndarray]
) -> Histogram | Scatter:
    """Return the cosines of pairs; of pairs alone beside those with texts of other pairs."""
    u, v = (unit_rows([vectors[e.segments[n]] for e in examples]) for n in range(2))
    cosines, others = (np.sum(u * x, 1) for x in (v, np.roll(v, len(v) // 2, axis=0)))
    labels = [example.label for example in examples]
    if isinstance(labels[0], int | float):
        return Scatter(labels, cosines.tolist(), title, "rating", "cosine", same_scale=False)
    groups = {"pairs": cosines, "other texts": others}
    if labels[0] is not None:
        names = np.array(labels)
        groups = {name: cosines[names == name] for name in sorted(set(labels))}
    lists = {name: values.tolist() for name, values in groups.items()}
    return Histogram(title, "cosine", lists, overlay=True)
