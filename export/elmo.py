"""Checkpoint in, SavedModel out: an ELMo that reads strings.

    python export/elmo.py --model DIR --output DIR [--trainable mix|all] [--cache FILE] [--l2 0.0]
        [--overwrite]

`--model` is a folder written by `tfnlp pretrain elmo`, or one with the options and weights of
bilm-tf (AllenNLP). `tfnlp export` does the same.
"""

from absl import app, flags

import tfnlp

_MODEL = flags.DEFINE_string("model", None, "Run or bilm-tf checkpoint.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the module.", required=True)
_TRAINABLE = flags.DEFINE_enum("trainable", "mix", ["mix", "all"], "What its users train.")
_CACHE = flags.DEFINE_string("cache", None, "Words, one a line, to compute the vectors of now.")
_L2 = flags.DEFINE_float("l2", 0.0, "Penalty of the squared mixing scalars.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")


def _export(_: list[str]) -> None:
    written = tfnlp.export(
        _MODEL.value,
        _OUTPUT.value,
        trainable=_TRAINABLE.value,
        cache=_CACHE.value,
        l2=_L2.value,
        overwrite=_OVERWRITE.value,
    )
    for name, path in written.items():
        print(f"{name}: {path}")


if __name__ == "__main__":
    app.run(_export)
