"""One training of `benchmarks.published_finetuning` by `transformers.Trainer`, in turns.

Needs torch, transformers and accelerate, and no tfnlp. The rows are encoded already; the outputs of
the model for the rows to measure on go into a file.
"""

import json
import os

import numpy as np
import torch
import transformers

from benchmarks.turns import Turns, run

# Of each task the head, and what its outputs are called.
HEADS = {
    "classify": (transformers.AutoModelForSequenceClassification, ["class_logits"]),
    "similarity": (transformers.AutoModelForSequenceClassification, ["score"]),
    "tag": (transformers.AutoModelForTokenClassification, ["tag_logits"]),
    "answer": (transformers.AutoModelForQuestionAnswering, ["start_logits", "end_logits"]),
}


def work(told):
    with open(told["path"], encoding="utf-8") as file:
        settings = json.load(file)
    torch.set_num_threads(settings["threads"])
    train, turns = settings["encoded"], Turns(settings["turn"])
    trainer = make_trainer(settings, train)
    trainer.add_callback(Clock(turns, len(train), settings["batch_size"]))
    trainer.train()
    found = outputs(trainer.model, trainer.data_collator, settings)
    np.savez(os.path.join(settings["folder"], "peer.npz"), **found)
    turns.report(done=True)


def make_trainer(settings, train):
    """The `Trainer`, with evaluation, saving and logging off."""
    transformers.set_seed(settings["seed"])
    rate, task = settings["dropout"], settings["task"]
    head = {"num_labels": settings["labels"]} if settings["labels"] else {}
    if task == "similarity":
        head = {"num_labels": 1, "problem_type": "regression"}
    model = HEADS[task][0].from_pretrained(
        settings["model"], dtype=torch.float32, hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate, **head,
    )  # fmt: skip
    steps = -(-len(train) // settings["batch_size"]) * settings["epochs"]
    arguments = transformers.TrainingArguments(
        output_dir=settings["folder"], seed=settings["seed"], use_cpu=True, disable_tqdm=True,
        per_device_train_batch_size=settings["batch_size"], num_train_epochs=settings["epochs"],
        learning_rate=settings["learning_rate"], lr_scheduler_type="linear",
        warmup_steps=int(settings["warmup"] * steps), weight_decay=settings["weight_decay"],
        max_grad_norm=settings["clip_norm"], train_sampling_strategy="random",
        eval_strategy="no", save_strategy="no", logging_strategy="no", report_to="none",
    )  # fmt: skip
    collator = transformers.DataCollatorWithPadding
    if task == "tag":
        collator = transformers.DataCollatorForTokenClassification
    tokenizer = transformers.AutoTokenizer.from_pretrained(settings["model"])
    return transformers.Trainer(
        model, arguments, train_dataset=train, data_collator=collator(tokenizer)
    )


class Clock(transformers.TrainerCallback):
    """Counts the examples of each step."""

    def __init__(self, turns, examples, batch_size):
        self.turns, self.examples, self.batch_size = turns, examples, batch_size

    def on_step_end(self, args, state, control, **kwargs):
        before = (state.global_step - 1) * self.batch_size
        before %= -(-self.examples // self.batch_size) * self.batch_size
        self.turns.stepped(1, min(self.batch_size, self.examples - before))


def outputs(model, collate, settings, batch_size=32):
    """The outputs for each row to measure on, padded to the longest row, by tfnlp's names."""
    rows, (_, names) = settings["asked"], HEADS[settings["task"]]
    longest = max(len(row["input_ids"]) for row in rows)
    pad = transformers.DataCollatorWithPadding(
        collate.tokenizer, padding="max_length", max_length=longest
    )
    parts = []
    model.eval()
    for first in range(0, len(rows), batch_size):
        with torch.no_grad():
            found = model(**pad(rows[first : first + batch_size])).to_tuple()
        parts.append([x.numpy() for x in found])
    found = (np.concatenate(x) for x in zip(*parts, strict=True))
    found = dict(zip(names, found, strict=True))
    return {name: x[:, 0] if name == "score" else x for name, x in found.items()}


if __name__ == "__main__":
    run(work, None)
