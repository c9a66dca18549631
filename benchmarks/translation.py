"""BLEU by the length of the source, of several models on the same sentences.

    python -m benchmarks.translation --source val.en --target val.de NAME=RUN NAME=RUN ... \\
        [--groups N] [--write]

RUN is a folder of `tfnlp pretrain seq2seq` or `transformer`. Printed is a table with a row for each
range of words of the source; with `--write` it goes into docs/translation.md, and the plot into
docs/translation_lengths.png.
"""

import argparse
import pathlib
import sys
import time

from benchmarks.marks import fill

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def main(argv=None):
    parser = argparse.ArgumentParser(prog="translation", description=__doc__.split("\n")[0])
    parser.add_argument("--source", required=True, metavar="FILE")
    parser.add_argument("--target", required=True, metavar="FILE")
    parser.add_argument("models", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--length-penalty", type=float, default=0.6)
    parser.add_argument("--groups", type=int, default=6, help="ranges of lengths")
    parser.add_argument("--write", action="store_true", help="into docs/")
    arguments = parser.parse_args(argv)
    models = dict(name.partition("=")[::2] for name in arguments.models)
    table, lengths = measure(models, arguments)
    print(table)
    if arguments.write:
        from tfnlp.pictures import plot_lengths

        page = DOCS / "translation.md"
        page.write_text(fill(page.read_text(encoding="utf-8"), {"lengths": table}, page.name))
        plot_lengths(lengths, DOCS / "translation_lengths.png")


def measure(models, arguments):
    """The table, and the rows of `bleu_by_length` of each model by name."""
    import tfnlp
    from tfnlp.data import read_parallel
    from tfnlp.hub import Translator
    from tfnlp.tasks.bleu import bleu_by_length, corpus_bleu

    text = read_parallel([arguments.source], [arguments.target])
    totals, lengths = {}, {}
    for name, run in models.items():
        loaded = tfnlp.load(run)
        translator = Translator(
            loaded.decoder, loaded.tokenizer, arguments.beams, arguments.length_penalty
        )
        start = time.perf_counter()
        translations = translator(text.sources)
        seconds = time.perf_counter() - start
        totals[name], signature = corpus_bleu(translations, text.targets)
        lengths[name] = bleu_by_length(text.sources, translations, text.targets, arguments.groups)
        print(f"{name}: BLEU {totals[name]:.2f} ({signature}), {seconds:.0f} s", file=sys.stderr)
    lines = [
        f"| words of the source | sentences | {' | '.join(models)} |",
        f"|---|---:|{'---:|' * len(models)}",
    ]
    for rows in zip(*lengths.values(), strict=True):
        words = f"{rows[0].shortest} to {rows[0].longest}"
        cells = " | ".join(f"{row.bleu:.1f}" for row in rows)
        lines.append(f"| {words} | {rows[0].count} | {cells} |")
    cells = " | ".join(f"{total:.1f}" for total in totals.values())
    lines.append(f"| all | {len(text.sources):,} | {cells} |")
    return "\n".join(lines), lengths


if __name__ == "__main__":
    main()
