"""One training of `benchmarks.published_finetuning` by `transformers.Trainer`, in turns.

Needs torch, transformers and accelerate, and no tfnlp. Texts are encoded as in the examples of
transformers (run_glue, run_ner, run_qa); the windows of long texts begin where those of tfnlp do.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

from benchmarks.turns import Turns

HEADS = {
    "classify": transformers.AutoModelForSequenceClassification,
    "similarity": transformers.AutoModelForSequenceClassification,
    "tag": transformers.AutoModelForTokenClassification,
    "answer": transformers.AutoModelForQuestionAnswering,
}
NEVER = -1e9


def main():
    with open(json.loads(sys.argv[1])["path"], encoding="utf-8") as file:
        settings = json.load(file)
    torch.set_num_threads(settings["threads"])
    rows, dev = settings["train"], settings["dev"]
    task = TASKS[settings["task"]](settings, rows)
    train, turns = task.encode(rows), Turns(settings["turn"])
    trainer = make_trainer(settings, task, train)
    trainer.add_callback(Clock(turns, len(train), settings["batch_size"]))
    trainer.train()
    features = task.encode(dev, labelled=False)
    predictions = task.decode(dev, features, predict(trainer.model, task, features))
    with open(os.path.join(settings["folder"], "peer.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(p, ensure_ascii=False) + "\n" for p in predictions)
    turns.report(done=True)


def make_trainer(settings, task, train):
    """The `Trainer`, with evaluation, saving and logging off."""
    transformers.set_seed(settings["seed"])
    rate = settings["dropout"]
    model = HEADS[settings["task"]].from_pretrained(
        settings["model"], dtype=torch.float32, hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate, **task.head,
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
    return transformers.Trainer(
        model, arguments, train_dataset=train, data_collator=task.collator(task.tokenizer)
    )


class Clock(transformers.TrainerCallback):
    """Counts the examples of each step."""

    def __init__(self, turns, examples, batch_size):
        self.turns, self.examples, self.batch_size = turns, examples, batch_size

    def on_step_end(self, args, state, control, **kwargs):
        before = (state.global_step - 1) * self.batch_size
        before %= -(-self.examples // self.batch_size) * self.batch_size
        self.turns.stepped(1, min(self.batch_size, self.examples - before))


def predict(model, task, features, batch_size=32):
    """Outputs of the model for each feature, without padding: a list of lists of arrays."""
    collate, names = DataCollatorWithPadding(task.tokenizer), task.tokenizer.model_input_names
    found = []
    model.eval()
    for first in range(0, len(features), batch_size):
        some = [{k: f[k] for k in names} for f in features[first : first + batch_size]]
        with torch.no_grad():
            outputs = model(**collate(some)).to_tuple()
        for row, feature in enumerate(some):
            count = len(feature["input_ids"]) if task.by_token else None
            found.append([output[row].numpy()[:count] for output in outputs])
    return found


class Texts:
    """A class or a number for a text or a pair."""

    by_token, collator = False, DataCollatorWithPadding

    def __init__(self, settings, rows):
        self.settings = settings
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(settings["model"])
        self.limit = {"truncation": True, "max_length": settings["max_length"]}
        labels = [row["label"] for row in rows]
        if settings["task"] == "similarity":  # tfnlp learns standardised scores, too
            self.mean, self.deviation = float(np.mean(labels)), float(np.std(labels))
            self.head = {"num_labels": 1, "problem_type": "regression"}
        else:
            self.labels = sorted(set(labels))
            self.head = {"num_labels": len(self.labels)}

    def encode(self, rows, labelled=True):
        names = [name for name in rows[0] if name != "label"]
        encoded = self.tokenizer(*([row[name] for row in rows] for name in names), **self.limit)
        features = _features(encoded)
        for feature, row in zip(features, rows if labelled else (), strict=labelled):
            scores = self.settings["task"] == "similarity"
            feature["label"] = (
                (row["label"] - self.mean) / self.deviation
                if scores
                else self.labels.index(row["label"])
            )
        return features

    def decode(self, rows, features, outputs):
        if self.settings["task"] == "similarity":
            return [{"score": float(x[0]) * self.deviation + self.mean} for (x,) in outputs]
        return [{"label": self.labels[int(x.argmax())]} for (x,) in outputs]


class Tags(Texts):
    """A tag for each word, at its first piece."""

    by_token, collator = True, DataCollatorForTokenClassification

    def __init__(self, settings, rows):
        super().__init__(settings, [{"label": tag} for row in rows for tag in row["tags"]])

    def encode(self, rows, labelled=True):
        overlap = self.settings["max_length"] - 2 - self.settings["stride"]
        encoded = self.tokenizer(
            [row["words"] for row in rows], is_split_into_words=True, stride=overlap,
            return_overflowing_tokens=True, **self.limit,
        )  # fmt: skip
        features = _features(encoded)
        for n, feature in enumerate(features):
            feature["row"], words = encoded["overflow_to_sample_mapping"][n], encoded.word_ids(n)
            first = [i for i, w in enumerate(words) if w is not None and w not in words[:i]]
            feature["words"] = [(i, words[i]) for i in first]
        if not labelled:
            return features
        for feature in features:
            labels, tags = [-100] * len(feature["input_ids"]), rows[feature["row"]]["tags"]
            for place, word in feature.pop("words"):
                labels[place] = self.labels.index(tags[word])
            feature["labels"] = labels
            feature.pop("row")
        return features

    def decode(self, rows, features, outputs):
        found = [[None] * len(row["words"]) for row in rows]
        for feature, (logits,) in zip(features, outputs, strict=True):
            for place, word in feature["words"]:
                tags = found[feature["row"]]
                tags[word] = tags[word] or self.labels[int(logits[place].argmax())]
        common = "O" if "O" in self.labels else self.labels[0]  # of words without pieces
        return [{"tags": [tag or common for tag in tags]} for tags in found]


class Answers(Texts):
    """The part of a document that answers a question."""

    by_token, best, longest = True, 20, 30  # spans that are compared, pieces of an answer

    def __init__(self, settings, rows):
        self.settings, self.head = settings, {}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(settings["model"])

    def encode(self, rows, labelled=True):
        features, size = [], self.settings["max_length"]
        for number, row in enumerate(rows):
            # The windows of a document begin `stride` pieces apart, whatever its question.
            question = len(self.tokenizer(row["question"], add_special_tokens=False)["input_ids"])
            overlap = size - 3 - min(question, 64) - self.settings["stride"]
            encoded = self.tokenizer(
                row["question"], row["context"], truncation="only_second", max_length=size,
                stride=overlap, return_overflowing_tokens=True, return_offsets_mapping=True,
            )  # fmt: skip
            for n, feature in enumerate(_features(encoded)):
                of_context = [i == 1 for i in encoded.sequence_ids(n)]
                offsets = encoded["offset_mapping"][n]
                if labelled:
                    places = _places(row["answers"][0], offsets, of_context)
                    feature["start_positions"], feature["end_positions"] = places
                else:
                    feature |= {"row": number, "offsets": offsets, "of_context": of_context}
                features.append(feature)
        return features

    def decode(self, rows, features, outputs):
        found = [(-np.inf, "") for _ in rows]
        for feature, (starts, ends) in zip(features, outputs, strict=True):
            inside = np.array(feature["of_context"])
            starts, ends = (np.where(inside, x, NEVER) for x in (starts, ends))
            for i in np.argsort(-starts)[: self.best]:
                for j in np.argsort(-ends)[: self.best]:
                    score = starts[i] + ends[j]
                    if i <= j < i + self.longest and score > found[feature["row"]][0]:
                        first, last = feature["offsets"][i][0], feature["offsets"][j][1]
                        text = rows[feature["row"]]["context"][first:last]
                        found[feature["row"]] = score, text
        return [{"answer": text} for _, text in found]


def _places(answer, offsets, of_context):
    """The tokens where an answer begins and ends; (0, 0) if it is not all in a window."""
    start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    inside = [i for i, here in enumerate(of_context) if here]
    if offsets[inside[0]][0] > start or offsets[inside[-1]][1] < end:
        return 0, 0
    first = max(i for i in inside if offsets[i][0] <= start)
    last = min(i for i in inside if offsets[i][1] >= end)
    return first, last


def _features(encoded):
    names = ("input_ids", "attention_mask", "token_type_ids")
    rows = zip(*(encoded[name] for name in names), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


TASKS = {"classify": Texts, "similarity": Texts, "tag": Tags, "answer": Answers}

if __name__ == "__main__":
    main()
