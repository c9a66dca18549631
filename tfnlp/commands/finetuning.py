"""Runs of `tfnlp finetune`: data, model, training, and what is left in the folder."""

import collections
import dataclasses
import json
import math
import os
import sys
import time

from tfnlp.commands import devices, task_models
from tfnlp.commands.finetuning_numbers import check_numbers, settings_of
from tfnlp.commands.task_examples import (
    crc32_of,
    perfect_prediction,
    read_examples,
    sentences_of,
)


class Finetuning:
    """What the runs of one command share: data that was read once, and the command line.

    Args:
        args: of `tfnlp finetune TASK`.
        strategy: the devices to train on.

    Raises:
        ValueError, OSError: for what can't be: before anything is written.
    """

    def __init__(self, args, strategy):
        self.args, self.strategy = args, strategy
        check_numbers(args)
        self._check_batch()
        self.train = self._read(args.train)[: args.limit]
        self.dev = self._read(args.dev)
        self.backbone = task_models.load_backbone(args.model)
        elmo = self.backbone.kind == "elmo"
        self.features = args.features or ("sum-all" if elmo else None)
        self.spec = self._spec()
        self._check_examples()
        self.metric = self._metric()
        self._prepared = {}

    def _read(self, paths):
        args = self.args
        return read_examples(
            args.task, paths, getattr(args, "text_columns", None), getattr(args, "label", None),
            args.skip_bad_rows,
        )  # fmt: skip

    def _spec(self):
        """The `TaskSpec` of the training examples."""
        from tfnlp.tasks.task_spec import TaskSpec

        args, train = self.args, self.train
        arguments = {"max_length": self._max_length()}
        for name in ("stride", "max_question", "max_answer"):
            if hasattr(args, name):
                arguments[name] = getattr(args, name)
        if args.task == "classify":
            arguments["labels"] = sorted({e.label for e in train})
        if args.task == "tag":
            arguments["labels"] = sorted({tag for e in train for tag in e.tags})
        if args.task in ("classify", "similarity"):
            arguments["texts"] = len(train[0].segments)
        if args.task == "choose":
            arguments["choices"] = len(train[0].choices)
        if args.task == "answer":
            arguments["unanswerable"] = not all(e.answers for e in train)
        if args.task == "similarity":
            scores = [e.label for e in train]
            mean = sum(scores) / len(scores)
            deviation = math.sqrt(sum((s - mean) ** 2 for s in scores) / len(scores))
            arguments.update(mean=mean, deviation=deviation or 1.0)
            # Which text comes first means nothing (Radford et al. 2018, section 3.3).
            whole = self.backbone.kind == "gpt" and self.features is None
            arguments["both_orders"] = whole and arguments["texts"] == 2
        return TaskSpec(args.task, **arguments)

    def _check_examples(self):
        """All examples must be of the form of the first one to learn from."""
        spec, args = self.spec, self.args
        for part, examples in (("--train", self.train), ("--dev", self.dev)):
            for number, example in enumerate(examples, 1):
                where = f"{part} {' '.join(getattr(args, part[2:]))}, example {number}"
                if spec.task == "classify" and example.label not in spec.labels:
                    raise ValueError(
                        f"{where} has the label {example.label!r}, which no example to learn from "
                        f"has: {', '.join(spec.labels[:10])}"
                    )
                if spec.task == "choose" and len(example.choices) != spec.choices:
                    raise ValueError(
                        f"{where} has {len(example.choices)} choices, the first one "
                        f"{spec.choices}; expected as many in all"
                    )
                if spec.task in ("classify", "similarity"):
                    if len(example.segments) != spec.texts:
                        raise ValueError(
                            f"{where} has {len(example.segments)} texts, the first one {spec.texts}"
                        )

    def _max_length(self):
        positions = self.backbone.max_positions
        length = self.args.max_length
        if positions and length > positions:
            # A default should not be in the way of a small model.
            if length not in (128, 384):
                raise ValueError(
                    f"--max-length {length} is longer than the {positions} positions of "
                    f"{self.args.model}"
                )
            return positions
        return length

    def _metric(self):
        """The measure that picks the best checkpoint."""
        from tfnlp.tasks.scoring import main_metric, score

        some = self.dev[:1]
        known = set(score(self.spec, some, [perfect_prediction(self.spec, e) for e in some]))
        metric = self.args.metric
        if metric is None:
            return "best_f1" if self.spec.unanswerable else main_metric(self.spec)
        if metric not in known:
            raise ValueError(f"--metric {metric} is not among {', '.join(sorted(known))}")
        return metric

    def _check_batch(self):
        replicas, args = self.strategy.num_replicas_in_sync, self.args
        if args.batch_size % (replicas * args.accumulation):
            raise ValueError(
                f"batch of {args.batch_size} does not divide by {replicas} devices x "
                f"--accumulation {args.accumulation}; let --batch-size be a multiple of "
                f"{replicas * args.accumulation}"
            )

    def run(self, folder, features, seed):
        """One run; the same again resumes one that was stopped.

        Args:
            folder: where it goes.
            features: a name of `tfnlp.models.FEATURES`, or None to fine-tune the whole model.
            seed: of new weights, dropout and the order of examples.

        Returns:
            the dict in RUN/results.json.
        """
        import keras

        from tfnlp.commands.pictures import plot_history
        from tfnlp.training.run import delete_run, write_config

        settings = settings_of(self.args, self.backbone, features)
        words = self._words(features)
        config = self._config(settings, features, seed, words)
        if self.args.restart:
            delete_run(folder)
            _delete(folder)
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            dtype = "mixed_bfloat16" if self.args.bf16 else None
            model = task_models.make_task_model(self.backbone, config, words, dtype)
        write_config(folder, config)
        results = task_models.read_json(os.path.join(folder, task_models.RESULTS))
        if results is not None:
            print(f"{folder} has ended before; its dev measures: {_shown(results)}")
            return results
        task_models.keep_backbone(self.backbone, folder, model.features)
        if words is not None:
            _write_lines(os.path.join(folder, task_models.WORDS), words)

        started = time.monotonic()
        train, dev = self._prepare(model, features, len(words or ()))
        one_length = self.args.no_buckets or devices.is_tpu(self.strategy)
        batches = model.batches(
            train, settings["batch_size"], self.train, seed=seed, pad_all=one_length
        )
        # Each step is traced for two lengths or more, so a set of one length pads less than that.
        replicas = self.strategy.num_replicas_in_sync
        dev_batches = model.batches(dev, _even(settings["batch_size"], replicas))
        steps = max(1, math.ceil(settings["epochs"] * batches.steps_per_epoch))
        trainer = self.trainer(model, settings, steps, batches.steps_per_epoch, folder, seed)
        print(
            f"{self.args.task}: {len(self.train):,} examples to learn from, {len(self.dev):,} to "
            f"measure on; {model.model.count_params() / 1e6:.2f} M weights"
            + (f" on {features} features" if features else "")
            + f"; {steps} steps of {settings['batch_size']}"
        )

        def measure():
            from tfnlp.tasks.scoring import score

            predictions = model.predict(self.dev, prepared=dev, batches=dev_batches)
            return score(self.spec, self.dev, predictions)

        every = max(1, math.ceil(batches.steps_per_epoch / self.args.evaluations))
        history = trainer.fit(
            batches,
            steps,
            validation=measure,
            monitor=self.metric,
            evaluate_every=every,
            patience=self.args.patience,
        )
        trainer.restore(best=True)
        results = self._finish(folder, model, dev, dev_batches, history, steps)
        plot_history(history, os.path.join(folder, "curve.png"), ["loss", self.metric])
        print(f"dev, best of {len(history.validation)} checkpoints: {_shown(results)}")
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
        return results

    def _prepare(self, model, features, words):
        """Training and dev examples as the model reads them; features are computed once."""
        key = (features, words)
        if key not in self._prepared:
            self._prepared.clear()  # tables are large
            self._prepared[key] = model.prepare([self.train, self.dev], self.args.cache)
        return self._prepared[key]

    def _words(self, features):
        """Words that the task has embeddings for: the training data's that come twice or more."""
        if self.backbone.kind != "elmo" or not self.args.word_embeddings:
            return None
        from tfnlp.text import split_words

        sentences = sentences_of(self.spec.task, self.train, split_words)
        counts = collections.Counter(word.lower() for words in sentences for word in words)
        found = sorted((w for w, n in counts.items() if n > 1), key=lambda w: (-counts[w], w))
        return [word for word in found if word.strip() == word and word]

    def _config(self, settings, features, seed, words):
        from tfnlp import __version__

        args = self.args
        head = {"dropout": settings["dropout"]}
        if features is not None:
            head.update(units=args.units, lstm_layers=args.lstm_layers)
            if words is not None:
                head["embedding_size"] = args.word_embeddings
        return {
            "tfnlp": __version__,
            "model": "task",
            "spec": self.spec.config(),
            "backbone": task_models.backbone_config(self.backbone),
            "features": features,
            "head": head,
            "columns": {
                "text": getattr(args, "text_columns", None), "label": getattr(args, "label", None)
            },
            "training": {
                **settings,
                "metric": self.metric,
                "bf16": args.bf16,
                "seed": seed,
            },
            "data": {
                "examples": len(self.train),
                "crc32": crc32_of(self.train),
                "dev": crc32_of(self.dev),
            },
        }  # fmt: skip

    def trainer(self, model, settings, steps, steps_per_epoch, folder, seed):
        from tfnlp import tasks, training

        args, features = self.args, model.features is not None
        if model.reader.kind == "gpt" and not features and settings["lm_weight"]:
            task = tasks.GPTFineTuning(model.model, settings["lm_weight"])
        else:
            task = tasks.FineTuning(model.model)
        rates = None
        if settings["layer_decay"] != 1 or settings["freeze"] or settings["unfreeze_every"]:
            every = settings["unfreeze_every"]
            every = every and max(1, round(every * steps_per_epoch))
            rates = training.LayerRates(settings["layer_decay"], settings["freeze"], every)
        optimizer = training.AdamW(weight_decay=settings["weight_decay"], bias_correction=True)
        schedule = training.schedule(
            "linear", settings["learning_rate"], steps, int(settings["warmup"] * steps)
        )
        more = {} if rates is None else {"layer_rates": rates}
        return training.Trainer(
            task,
            optimizer,
            schedule,
            strategy=self.strategy,
            clip_norm=settings["clip_norm"] or None,
            accumulation=settings["accumulation"],
            steps_per_call=10,
            jit_compile=args.jit,
            seed=seed,
            directory=folder,
            keep=1,
            **more,
        )

    def _finish(self, folder, model, dev, dev_batches, history, steps):
        """Measures the best checkpoint and writes results and predictions."""
        from tfnlp.tasks.scoring import score
        from tfnlp.tasks.squad import off_the_edge

        predictions = model.predict(self.dev, prepared=dev, batches=dev_batches)
        metrics = score(self.spec, self.dev, predictions)
        results = {"metrics": metrics, "metric": self.metric, "steps": steps}
        if self.spec.unanswerable:
            odds = [p["null_score"] for p in predictions]
            results["threshold"] = off_the_edge(metrics["best_f1_thresh"], odds)
            model.spec = dataclasses.replace(self.spec, threshold=results["threshold"])
            predictions = model.predict(self.dev, prepared=dev, batches=dev_batches)
            results["metrics"] = score(model.spec, self.dev, predictions)
        lines = [json.dumps(p, ensure_ascii=False) for p in predictions]
        _write_lines(os.path.join(folder, "dev_predictions.jsonl"), lines)
        _write_lines(os.path.join(folder, task_models.RESULTS), [json.dumps(results, indent=2)])
        return results


def _shown(results):
    """Measures as text."""
    return "  ".join(f"{name} {value:.4f}" for name, value in results["metrics"].items())


def _even(size, replicas):
    return -(-size // replicas) * replicas


def _write_lines(path, lines):
    """Whole or not at all."""
    with open(f"{path}.partial", "w", encoding="utf-8", newline="") as file:
        file.write("".join(f"{line}\n" for line in lines))
    os.replace(f"{path}.partial", path)


def _delete(folder):
    """What a run of a task leaves beside what all runs leave."""
    import shutil

    for name in (task_models.WEIGHTS, task_models.WORDS, task_models.RESULTS,
                 "dev_predictions.jsonl"):  # fmt: skip
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    shutil.rmtree(os.path.join(folder, task_models.SAVED), ignore_errors=True)
