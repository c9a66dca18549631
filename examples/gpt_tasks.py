"""What pretraining and the auxiliary objective are worth to a GPT (Radford et al. 2018, table 5).

    python examples/gpt_tasks.py --model GPT --task rte --train train.tsv --dev dev.tsv --output OUT
    python examples/gpt_tasks.py --model GPT --task copa --train copa-dev.xml --output OUT

GPT is the folder of a tfnlp pretraining run or of a published checkpoint. The same network is
trained from random weights ("scratch"), from GPT's ("pretrained"), and from GPT's with language
modelling beside the task ("auxiliary"), with the same seeds, on the same batches, and scored on
the held-out file at the end: accuracy, for stsb Pearson's r. Without --dev the last part of the
training file is held out.

OUT/results.json is written after each training; started again, the script goes on from there.
"""

import argparse
import json
import os
import time

import keras
import numpy as np

from tfnlp import data, models, tasks, training
from tfnlp.commands import loading

# Readers of the files, and what is learnt from them.
TASKS = {
    "sst2": (data.read_classes, "class"),
    "rte": (data.read_pairs, "class"),
    "snli": (lambda path: data.read_pairs(path, ("premise", "hypothesis", "label")), "class"),
    "stsb": (lambda path: data.read_pairs(path, (5, 6, 4), score=True), "score"),
    "copa": (data.read_choices, "choice"),
    "codah": (data.read_choices, "choice"),
}
METRICS = {"class": "class_accuracy", "choice": "choice_accuracy", "score": "score_pearson"}
VARIANTS = ("scratch", "pretrained", "auxiliary")


def label_values(output, parts):
    """The labels of each part (training examples first) as numbers, and how many classes.

    Classes in alphabetical order; scores with the training scores' mean 0 and deviation 1, which
    Pearson's r does not see.
    """
    labels = [[example.label for example in part] for part in parts]
    if output == "class":
        index = data.index_labels(label for part in labels for label in part)
        return [[index[label] for label in part] for part in labels], len(index)
    if output == "score":
        mean, deviation = np.mean(labels[0]), np.std(labels[0]) or 1.0
        labels = [[float((label - mean) / deviation) for label in part] for part in labels]
    return labels, None


def train(loaded, output, num_classes, sequences, labels, variant, seed, options):
    """Trains one network; returns what it was held out for as a JSON-able dict.

    Args:
        loaded: of `load_gpt`.
        sequences, labels: pairs of training and held-out ones.
    """
    started = time.monotonic()
    keras.utils.set_random_seed(seed)
    encoder = models.gpt_with_extra_tokens(
        None if variant == "scratch" else loaded.encoder,
        loaded.config,
        dropout=options.dropout,
        attention_dropout=options.dropout,
        dtype="mixed_bfloat16" if options.bf16 else "float32",
    )
    model = models.gpt_task(
        encoder, output, num_classes, len(sequences[0][0]), options.classifier_dropout
    )
    batches = data.GPTTaskBatches(
        sequences[0],
        labels[0],
        batch_size=options.batch_size,
        lengths=data.bucket_lengths(sequences[0], 8),
        seed=seed,
    )
    # Each length of an evaluation is traced anew: a few serve best.
    held_out = data.GPTTaskBatches(
        sequences[1],
        labels[1],
        batch_size=options.batch_size,
        lengths=data.bucket_lengths(sequences[1], 2),
    )
    steps = max(1, round(options.epochs * batches.steps_per_epoch))
    trainer = training.Trainer(
        tasks.GPTFineTuning(model, options.lm_weight if variant == "auxiliary" else 0.0),
        training.AdamW(
            epsilon=1e-8, weight_decay=options.weight_decay, bias_correction=True
        ),
        training.linear(learning_rate(variant, options), steps, round(options.warmup * steps)),
        clip_norm=1.0,
        steps_per_call=20,
        seed=seed,
    )
    history = trainer.fit(batches, steps, progress=False)
    result = trainer.evaluate(held_out.evaluation_batches())
    return {
        "variant": variant,
        "seed": seed,
        "score": result[METRICS[output]],
        "held_out": result,
        "last_training_loss": history.train[-1]["loss"],
        "steps": steps,
        "seconds": round(time.monotonic() - started, 1),
    }


def learning_rate(variant, options):
    """The peak; networks that start from nothing mostly need a higher one."""
    scratch = options.scratch_learning_rate
    return scratch if variant == "scratch" and scratch else options.learning_rate


def read_results(path, settings):
    """The trainings that are done.

    Raises:
        ValueError: if they were done with other settings.
    """
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    changed = [name for name in settings if results["settings"].get(name) != settings[name]]
    if changed:
        raise ValueError(
            f"{path} holds results of other settings ({', '.join(changed)}); give the same ones "
            "to go on, or another --output"
        )
    return results["runs"]


def write_results(path, settings, runs):
    """Whole or not at all."""
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        json.dump({"settings": settings, "runs": runs}, file, indent=2)
        file.write("\n")
    os.replace(f"{path}.partial", path)


def table(runs, variants, name, options):
    """The scores as a table in Markdown, mean and deviation over seeds."""
    lines = [f"| {options.task} | learning rate | {name} | seeds | seconds |"]
    lines.append("|---|---|---|---|---|")
    for variant in variants:
        mine = [run for run in runs if run["variant"] == variant]
        scores = [run["score"] for run in mine]
        text = f"{np.mean(scores):.4f}"
        if len(scores) > 1:
            text += f" +- {np.std(scores, ddof=1):.4f}"
        seconds = np.mean([run["seconds"] for run in mine])
        rate = learning_rate(variant, options)
        lines.append(f"| {variant} | {rate:g} | {text} | {len(scores)} | {seconds:.0f} |")
    return "\n".join(lines)


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder of a GPT")
    parser.add_argument("--task", required=True, choices=sorted(TASKS))
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev", help="none: hold out the last part of the training file")
    parser.add_argument("--held-out", type=float, default=0.2, help="how much of it")
    parser.add_argument("--output", required=True, help="folder for results.json")
    parser.add_argument("--seeds", type=int, default=3, help="1 to N")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--examples", type=int, help="train on so many of the first ones")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=6.25e-5)
    parser.add_argument("--scratch-learning-rate", type=float, help="none: the same")
    parser.add_argument("--warmup", type=float, default=0.002, help="share of the steps")
    parser.add_argument("--weight-decay", type=float, default=0.01, help="of matrices")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--classifier-dropout", type=float, default=0.1)
    parser.add_argument("--lm-weight", type=float, default=0.5, help="of the auxiliary loss")
    parser.add_argument("--max-length", type=int, help="none: the model's positions")
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args(arguments)
    options.variants = options.variants.split(",")
    if unknown := [name for name in options.variants if name not in VARIANTS]:
        parser.error(f"--variants: {unknown[0]!r} is not one of {', '.join(VARIANTS)}")
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds} must be at least 1")
    return options


def main(arguments=None):
    options = parse(arguments)
    read, output = TASKS[options.task]
    examples = read(options.train)
    if options.dev is None:
        cut = round(len(examples) * (1.0 - options.held_out))
        parts = [examples[:cut], examples[cut:]]
    else:
        parts = [examples, read(options.dev)]
    parts[0] = parts[0][: options.examples]
    if not all(parts):
        raise ValueError(
            f"{len(parts[0])} examples to train on and {len(parts[1])} held out; there must be "
            "some of both: see --dev, --held-out and --examples"
        )

    os.makedirs(options.output, exist_ok=True)
    path = os.path.join(options.output, "results.json")
    # Seeds and variants may grow in number from one start to the next.
    settings = {k: v for k, v in vars(options).items() if k not in ("seeds", "variants", "output")}
    runs = read_results(path, settings)

    loaded = loading.load_gpt(options.model)
    vocab_size, positions = loaded.config["vocab_size"], loaded.config["max_positions"]
    sequences = [
        data.gpt_sequences(
            part,
            loaded.tokenizer,
            vocab_size,
            options.max_length or positions,
            both_orders=options.task == "stsb",
        )
        for part in parts
    ]
    labels, num_classes = label_values(output, parts)
    sizes = np.array([len(ids) for example in sequences[0] for ids in example])
    print(f"{len(parts[0])} examples to train on, {len(parts[1])} held out")
    print(f"{sizes.mean():.1f} tokens a sequence, the longest has {sizes.max()}", flush=True)
    for seed in range(1, options.seeds + 1):
        for variant in options.variants:
            if any(run["variant"] == variant and run["seed"] == seed for run in runs):
                continue
            run = train(loaded, output, num_classes, sequences, labels, variant, seed, options)
            runs.append(run)
            write_results(path, settings, runs)
            print(
                f"{variant}, seed {seed}: {run['score']:.4f}, loss {run['last_training_loss']:.4f} "
                f"after {run['steps']} steps, {run['seconds']:.0f} s",
                flush=True,
            )
    chosen = [r for r in runs if r["variant"] in options.variants and r["seed"] <= options.seeds]
    name = "Pearson" if output == "score" else "accuracy"
    print(f"\n{table(chosen, options.variants, name, options)}")
    return chosen


if __name__ == "__main__":
    main()
