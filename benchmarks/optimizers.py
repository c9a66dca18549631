"""Fine-tunes one model with AdamW and with BERT's form of it, on a few sets, as a table.

    python -m benchmarks.optimizers DATA --model DIR [--sets cola sst2] [--seeds 1 2 3]
        [--limit 1000] [--learning-rate 1e-4] [--bf16] [--output DIR]

DATA and the sets are those of `benchmarks.tasks`. Only `optimizer` differs between the columns. The
measures are on the dev rows and times 100: mean and standard deviation of the seeds. The same
command again goes on where the last one stopped.
"""

import argparse
import os
import pathlib
import statistics
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import tfnlp
from benchmarks import tasks

OPTIMIZERS = ("adamw", "bert_adamw")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="optimizers", description=__doc__.split("\n")[0])
    parser.add_argument("data", metavar="DATA", help="folder of the sets")
    parser.add_argument("--model", required=True, metavar="DIR", help="a pretrained model")
    parser.add_argument("--sets", nargs="+", choices=tasks.SETS, default=["cola", "sst2"],
                        metavar="SET", help="some of " + " ".join(tasks.SETS))  # fmt: skip
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="a run for each")
    parser.add_argument("--limit", type=int, default=1000, help="training rows, the first")
    parser.add_argument("--learning-rate", type=float, help="peak (default: that of finetune)")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--output", default="runs/optimizers", metavar="DIR", help="of all runs")
    args = parser.parse_args(argv)
    lines = [f"| {' | '.join(['dev set, measure', *OPTIMIZERS])} |", "|---|---:|---:|"]
    for name in args.sets:
        cells = [cell(name, optimizer, args) for optimizer in OPTIMIZERS]
        lines.append(f"| {name}, {tasks.SETS[name].measures[0]} | {' | '.join(cells)} |")
    print("\n".join(lines))
    return 0


def cell(name, optimizer, args):
    """Mean and standard deviation of one set's first measure, times 100."""
    one, output = tasks.SETS[name], pathlib.Path(args.output)
    train, dev = tasks.find_files(name, args.data, output)
    values = []
    for seed in args.seeds:
        task = tfnlp.finetune(
            one.task, args.model, train=train, dev=dev,
            output=output / name / optimizer / str(seed), seeds=[seed], limit=args.limit,
            optimizer=optimizer, learning_rate=args.learning_rate, bf16=args.bf16,
            metric=one.measures[0], text_columns=list(one.text) or None, label=one.label,
        )  # fmt: skip
        scale = 1 if one.task == "answer" else 100  # SQuAD's scripts give percent
        values.append(scale * task.results["metrics"][one.measures[0]])
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    sys.exit(main())
