"""Fine-tune a pretrained model on a task, or train a network on its frozen features."""

import json
import os
import sys

from tfnlp.commands import devices
from tfnlp.commands.arguments import HelpFormatter, add_model
from tfnlp.commands.devices import add_devices

SUMMARIES = {
    "classify": "A class for a text or a pair of texts",
    "similarity": "A number for a pair of texts",
    "choose": "Which of several texts goes on from a text",
    "answer": "The part of a document that answers a question (SQuAD)",
    "tag": "A tag for each word: parts of speech, entities",
}
FEATURES = (
    "embeddings",
    "second-to-last",
    "last",
    "sum-last-four",
    "concat-last-four",
    "sum-all",
)  # rows of table 7 of the BERT paper; a test compares them with those of tfnlp.models


def add_arguments(parser):
    """`tfnlp finetune TASK`, each with arguments of its own."""
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, summary in SUMMARIES.items():
        task = tasks.add_parser(
            name, help=summary, description=summary, formatter_class=HelpFormatter
        )
        _add_task(task, name)
    from tfnlp.commands import finetune_fill

    summary = finetune_fill.__doc__.strip().split("\n")[0]
    fill = tasks.add_parser(
        "fill", help=summary, description=summary, formatter_class=HelpFormatter
    )
    finetune_fill.add_arguments(fill)


def _add_task(parser, name):
    add_model(parser)
    parser.add_argument(
        "--train",
        nargs="+",
        required=True,
        metavar="FILE",
        help="examples to learn from, or tfds:NAME[/CONFIG][:SPLIT]",
    )
    parser.add_argument(
        "--dev", nargs="+", required=True, metavar="FILE", help="examples to measure on"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--restart", action="store_true", help="delete an earlier run there first")
    add_columns(parser, name)
    parser.add_argument("--limit", type=int, metavar="N", help="train on the first N examples")

    parser.add_argument(
        "--features",
        choices=[*FEATURES, "all"],
        help="train a biLSTM on frozen layers in place of the whole model; all: each choice in "
        "turn, as a table (an ELMo is always frozen; default there: sum-all)",
    )
    parser.add_argument("--units", type=int, default=200, help="features: width of the biLSTM")
    parser.add_argument("--lstm-layers", type=int, default=1, help="features: biLSTMs")
    parser.add_argument(
        "--word-embeddings",
        type=int,
        default=100,
        help="ELMo: size of embeddings that the task learns for its own words; 0: none",
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="features: keep them here, for the next runs too"
    )

    length = 384 if name == "answer" else 128
    parser.add_argument(
        "--max-length", type=int, default=length, help="longest sequence, in pieces"
    )
    if name in ("answer", "tag"):
        parser.add_argument(
            "--stride",
            type=int,
            default=length // 3 if name == "answer" else length // 2,
            help="pieces from one window of a longer text to the next",
        )
    if name == "answer":
        parser.add_argument("--max-question", type=int, default=64, help="pieces of a question")
        parser.add_argument("--max-answer", type=int, default=30, help="pieces of an answer")

    parser.add_argument(
        "--epochs", type=float, help="times through the data (default: 3; features 6)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="examples an update")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches an update")
    parser.add_argument(
        "--learning-rate",
        type=float,
        help="peak (default: BERT 3e-5, GPT 6.25e-5, narrower than 768 3e-4 and 5e-4; features "
        "2e-3)",
    )
    parser.add_argument(
        "--warmup", type=float, help="share of the steps (default: GPT 0.002, others 0.1)"
    )
    parser.add_argument("--weight-decay", type=float, help="strength (default: 0.01; features 0)")
    parser.add_argument("--clip-norm", type=float, default=1.0, help="0 for no clipping")
    parser.add_argument("--dropout", type=float, help="rate (default: 0.1; features 0.5)")
    parser.add_argument(
        "--lm-weight", type=float, default=0.5, help="GPT: of the language model beside the task"
    )
    parser.add_argument(
        "--layer-decay",
        type=float,
        default=1.0,
        help="factor of the learning rate from each layer to the one below",
    )
    parser.add_argument(
        "--freeze", type=int, default=0, metavar="N", help="keep the embeddings and N-1 layers"
    )
    parser.add_argument(
        "--unfreeze-every",
        type=float,
        metavar="EPOCHS",
        help="train the head alone, then a layer more every so often",
    )
    parser.add_argument(
        "--metric", help="dev measure that picks the checkpoint (default: the task's)"
    )
    parser.add_argument("--patience", type=int, help="evaluations without progress before stopping")
    parser.add_argument(
        "--evaluations", type=int, default=1, help="on the dev set in every epoch"
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1], help="one run each; several give a mean"
    )
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--jit", action="store_true", help="compile the step with XLA")
    parser.add_argument(
        "--no-buckets", action="store_true", help="pad all batches to the longest example"
    )
    add_devices(parser, workers=False)


def add_columns(parser, task=None):
    """Which columns of a table the texts and the label are in, and what to do with bad rows."""
    if task != "answer":
        parser.add_argument(
            "--text",
            nargs="+",
            dest="text_columns",
            metavar="COLUMN",
            help="names of the columns, or numbers from 0 of files without header",
        )
        parser.add_argument("--label", metavar="COLUMN", help="name or number of the label's")
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="go on without rows that can't be read, and say how many there were",
    )


def run(args):
    """Trains each combination of features and seed that was asked for."""
    if args.task == "fill":
        from tfnlp.commands import finetune_fill

        finetune_fill.run(args)
        return
    from tfnlp.commands.finetuning import Finetuning

    with devices.strategy(args) as strategy:
        _run(args, Finetuning(args, strategy))


def _run(args, work):
    choices = FEATURES if args.features == "all" else [work.features]
    if len(choices) == 1 and len(args.seeds) == 1:
        work.run(args.output, choices[0], args.seeds[0])
        print(f"run: {args.output}")
        return
    _run_all(args, work, choices)


def _run_all(args, work, choices):
    """Several runs in folders of their own, a table of them, and which was best."""
    rows, best = {}, None
    for choice in choices:
        for seed in args.seeds:
            parts = [choice] * (len(choices) > 1) + [f"seed-{seed}"] * (len(args.seeds) > 1)
            name = os.path.join(*parts)
            try:
                results = work.run(os.path.join(args.output, name), choice, seed)
            except ValueError as error:
                if len(choices) == 1 or "layers, but the encoder has" not in str(error):
                    raise
                print(f"{choice}: left out; {error}", file=sys.stderr)
                break
            rows.setdefault(choice, []).append(results["metrics"])
            value = results["metrics"][work.metric]
            if best is None or value > best[0]:
                best = (value, name)
    partial = os.path.join(args.output, "runs.json.partial")
    found = {"best": best[1], "metric": work.metric, "runs": rows_as_json(rows)}
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)
    os.replace(partial, os.path.join(args.output, "runs.json"))
    print("\n" + table(rows, work.metric))
    print(f"best: {os.path.join(args.output, best[1])}")


def rows_as_json(rows):
    """`rows` with a name for what was fine-tuned as a whole."""
    return {choice or "fine-tuned": metrics for choice, metrics in rows.items()}


def table(rows, main):
    """Mean and standard deviation over seeds, as text.

    Args:
        rows: dict of name (None: fine-tuned) to a list of dicts of metrics, one a seed.
        main: the metric to put first.
    """
    names = sorted(next(iter(rows.values()))[0], key=lambda name: name != main)
    names = [name for name in names if not name.endswith("_thresh")]
    lines = [f"{'dev':18s}" + "".join(f"{name:>20s}" for name in names)]
    for choice, metrics in rows.items():
        cells = [mean_and_deviation([m[name] for m in metrics]) for name in names]
        lines.append(f"{choice or 'fine-tuned':18s}" + "".join(f"{cell:>20s}" for cell in cells))
    return "\n".join(lines)


def mean_and_deviation(values):
    """Of one value the value, of several mean and standard deviation (of a sample), as text."""
    import statistics

    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


