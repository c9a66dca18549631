"""The examples of a task's files, and what runs ask of them."""

import sys
import zlib


def read_examples(task, paths, text, label, skip, labelled=True):
    """The examples of files; says on stderr how many rows were left out."""
    from tfnlp.data import read_task

    data = read_task(task, paths, text=text, label=label, skip=skip, labelled=labelled)
    bad = [why for why in data.skipped if "no class" not in why]
    if bad:
        print(f"{len(bad)} rows left out, the first of them: {bad[0]}", file=sys.stderr)
    return data.examples


def crc32_of(examples):
    return zlib.crc32("\n".join(map(repr, examples)).encode("utf-8", "surrogatepass"))


def perfect_prediction(spec, example):
    """A prediction that says what is right, to learn which measures there are."""
    if spec.task == "answer":
        text = example.answers[0][0] if example.answers else ""
        return {"answer": text, "answers": [text], "null_score": 0.0}
    if spec.task == "tag":
        return {"tags": list(example.tags)}
    if spec.task == "classify":
        return {"label": spec.labels[0] if example.label not in spec.labels else example.label}
    return {"score": example.label, "choice": example.label}


def sentences_of(task, examples, split):
    """The words of all texts of examples, a list a text."""
    for example in examples:
        if task == "tag":
            yield example.words
        elif task == "answer":
            yield split(example.question).split()
            yield split(example.context).split()
        else:
            for text in (*example.segments, *example.choices):
                yield split(text).split()
