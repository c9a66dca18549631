"""A fine-tuned model in, one SavedModel out: from strings to labels, scores, tags or answers.

    python export/task.py --model RUN --output DIR [--overwrite]

`--model` is a folder written by `tfnlp finetune`; of several runs in it the best is taken.
`tfnlp export` does the same.
"""

import argparse

from absl import app, flags

from tfnlp.cli import main

_MODEL = flags.DEFINE_string("model", None, "Folder of the run.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the module.", required=True)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")


def _export(_):
    return main(
        argparse.Namespace(
            command="export",
            model=_MODEL.value,
            output=_OUTPUT.value,
            overwrite=_OVERWRITE.value,
        )
    )


if __name__ == "__main__":
    app.run(_export)
