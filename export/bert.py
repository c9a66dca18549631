"""Checkpoint in, SavedModels out: a BERT as a preprocessor/encoder pair.

    python export/bert.py --model DIR --output DIR [--seq_length 128] [--overwrite]

`--model` is a folder written by `tfnlp pretrain bert`, a Google BERT checkpoint, or a Hugging
Face BERT. `tfnlp export` does the same.
"""

from absl import app, flags

import tfnlp

_MODEL = flags.DEFINE_string("model", None, "Run, Google or Hugging Face BERT.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the pair.", required=True)
_SEQ_LENGTH = flags.DEFINE_integer("seq_length", 128, "Length that the preprocessor packs to.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")


def _export(_: list[str]) -> None:
    written = tfnlp.export(
        _MODEL.value,
        _OUTPUT.value,
        seq_length=_SEQ_LENGTH.value,
        overwrite=_OVERWRITE.value,
    )
    for name, path in written.items():
        print(f"{name}: {path}")


if __name__ == "__main__":
    app.run(_export)
