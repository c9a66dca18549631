"""Word vectors in, SavedModel out: texts to vectors.

    python export/word_vectors.py --model PATH --output DIR [--combiner sqrtn|mean|sum]
        [--oov_buckets 1] [--lowercase] [--strip_punctuation] [--overwrite]

`--model` is a folder written by `tfnlp pretrain word2vec` or `nnlm`, or a file of word2vec,
fastText or GloVe. `tfnlp export` does the same.
"""

from absl import app, flags

import tfnlp
from tfnlp.hub.modules.word_vectors import COMBINERS

_MODEL = flags.DEFINE_string("model", None, "Run or file of vectors.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the module.", required=True)
_COMBINER = flags.DEFINE_enum("combiner", "sqrtn", COMBINERS, "What becomes of a text's vectors.")
_BUCKETS = flags.DEFINE_integer("oov_buckets", 1, "Rows for unseen words.")
_LOWERCASE = flags.DEFINE_bool("lowercase", False, "Lower-case the texts.")
_STRIP = flags.DEFINE_bool("strip_punctuation", False, "Leave punctuation out.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")


def _export(_: list[str]) -> None:
    written = tfnlp.export(
        _MODEL.value,
        _OUTPUT.value,
        combiner=_COMBINER.value,
        oov_buckets=_BUCKETS.value,
        lowercase=_LOWERCASE.value,
        strip_punctuation=_STRIP.value,
        overwrite=_OVERWRITE.value,
    )
    for name, path in written.items():
        print(f"{name}: {path}")


if __name__ == "__main__":
    app.run(_export)
