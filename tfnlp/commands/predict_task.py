"""Labels, scores, tags or answers of a fine-tuned model."""

import json
import os
import sys

from tfnlp.commands.arguments import add_model
from tfnlp.commands.finetune import add_columns

_TAKES = {
    "classify": "a text (of pairs two texts)",
    "similarity": "two texts",
    "choose": "a text and {choices} choices",
    "answer": "a question and a document",
    "tag": "a sentence, its words between spaces",
}


def add_arguments(parser):
    """Arguments of `tfnlp predict task`."""
    add_model(parser)
    parser.add_argument(
        "text",
        nargs="*",
        help="a text; of pairs two texts, a question and a document, or a text and its choices. "
        "None: an example a line from stdin, its texts between tabs",
    )
    parser.add_argument(
        "--input", nargs="+", metavar="FILE", help="files as for training; labels may be missing"
    )
    parser.add_argument("--output", metavar="FILE", help="write them here, as JSON lines")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    add_columns(parser)
    parser.add_argument("--batch-size", type=int, default=32, help="examples at a time")


def run(args):
    """Prints (or writes) a line for each example."""
    from tfnlp.commands.task_models import load_task_run

    if args.text and args.input:
        raise ValueError("give texts or --input, not both")
    if args.batch_size < 1:
        raise ValueError(f"--batch-size {args.batch_size} must be at least 1")
    loaded = load_task_run(args.model)
    spec = loaded.task_model.spec
    examples = _examples(args, loaded)
    predictions = loaded.task_model.predict(examples, args.batch_size)
    lines = [json.dumps(p, ensure_ascii=False) for p in predictions]
    if args.output:
        partial = f"{args.output}.partial"
        with open(partial, "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.replace(partial, args.output)
        print(f"{len(lines):,} predictions: {args.output}")
        return
    if not (args.json or args.input):
        lines = [shown(spec, e, p) for e, p in zip(examples, predictions, strict=True)]
    print("\n".join(lines))


def _examples(args, loaded):
    from tfnlp.commands.task_examples import read_examples

    spec = loaded.task_model.spec
    if args.input:
        text, label = columns(args, loaded.config)
        return read_examples(spec.task, args.input, text, label, args.skip_bad_rows, labelled=False)
    if args.text:
        count = _count(spec)
        if len(args.text) % count:
            raise ValueError(
                f"got {len(args.text)} texts; {spec.task} takes "
                f"{_TAKES[spec.task].format(choices=spec.choices)}, {count} for each example"
            )
        rows = [args.text[i : i + count] for i in range(0, len(args.text), count)]
    else:
        lines = [line.rstrip("\n") for line in sys.stdin]
        rows = [line.split("\t") for line in lines if line.strip()]
        if not rows:
            raise ValueError("no text: give texts as arguments, --input or lines on standard input")
    return [_example(spec, row, number) for number, row in enumerate(rows, 1)]


def columns(args, config):
    """`--text` and `--label`, else what the run was trained with."""
    kept = config["columns"]
    return args.text_columns or kept["text"], args.label or kept["label"]


def _count(spec):
    """Texts of an example."""
    if spec.task in ("classify", "similarity"):
        return spec.texts
    return {"choose": 1 + spec.choices, "answer": 2, "tag": 1}[spec.task]


def _example(spec, row, number):
    from tfnlp.data import Question, TaggedSentence, TaskExample

    if len(row) != _count(spec):
        raise ValueError(
            f"example {number} has {len(row)} texts; {spec.task} takes "
            f"{_TAKES[spec.task].format(choices=spec.choices)}"
        )
    if spec.task == "answer":
        return Question(str(number), row[0], row[1], ())
    if spec.task == "tag":
        return TaggedSentence(tuple(row[0].split()), None)
    if spec.task == "choose":
        return TaskExample((row[0],), None, tuple(row[1:]))
    return TaskExample(tuple(row), None)


def shown(spec, example, prediction):
    """A prediction for people to read."""
    if spec.task == "classify":
        chosen = prediction["label"]
        text = " | ".join(example.segments)
        return f"{chosen} {prediction['probabilities'][chosen]:.3f}  {text}"
    if spec.task == "similarity":
        return f"{prediction['score']:.3f}  {' | '.join(example.segments)}"
    if spec.task == "choose":
        chosen = prediction["choice"]
        shares = prediction["probabilities"][chosen]
        return f"{chosen} {shares:.3f}  {example.segments[0]} {example.choices[chosen]}"
    if spec.task == "tag":
        pairs = zip(example.words, prediction["tags"], strict=True)
        return " ".join(f"{word}/{tag}" for word, tag in pairs)
    answer = prediction["answer"] or "(no answer)"
    return f"{answer}  ({prediction['score']:.3f})"
