"""A fine-tuned model in, one SavedModel out: from strings to labels, scores, tags or answers.

    python export/task.py --model RUN --output DIR [--overwrite]

`--model` is a folder written by `tfnlp finetune`; of several runs in it the best is taken.
`tfnlp export` does the same.
"""

from absl import app, flags

import tfnlp

_MODEL = flags.DEFINE_string("model", None, "Folder of the run.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the module.", required=True)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")


def _export(_: list[str]) -> None:
    written = tfnlp.export(
        _MODEL.value,
        _OUTPUT.value,
        overwrite=_OVERWRITE.value,
    )
    for name, path in written.items():
        print(f"{name}: {path}")


if __name__ == "__main__":
    app.run(_export)
