"""Calls that break the rules of losses over words: entries of `promises_table.LAYERS`."""

import numpy as np

from tfnlp.layers import (
    CBOWLoss,
    GloVeLoss,
    HierarchicalCBOWLoss,
    HierarchicalSkipGramLoss,
    HierarchicalSoftmax,
    NCECBOWLoss,
    NCESkipGramLoss,
    NoiseContrastiveSoftmax,
    SampledSoftmax,
    SkipGramLoss,
)

I = "int32"  # noqa: E741
NAN = float("nan")
H = (2, 5, 8)  # shapes of inputs


def skip_gram(x, words, layer=None):
    layer = layer or SkipGramLoss(9, window=2)
    around = max(words - 4, 0)
    inputs = dict(word_ids=x((2, words), I), negative_ids=x((2, 3), I))
    layer(x((2, words, 3)), **inputs, left=x((2, around), I), right=x((2, around), I))
    return layer


def tree_of(*counts):
    layer = HierarchicalSoftmax(9)
    layer.build((None, 3))
    layer.set_counts(np.array(counts))


def tree_windows(x, words):
    around = max(words - 4, 0)
    sides = dict.fromkeys(("left", "right"), x((2, around), I))
    HierarchicalSkipGramLoss(9, window=2)(x((2, words, 3)), word_ids=x((2, words), I), **sides)


NEGATIVES = {
    "sizes below 1": [
        ("vocab_size=0", lambda: SkipGramLoss(0)),
        ("window=0", lambda: SkipGramLoss(3, window=0)),
    ],
    "negatives not above 0": [("negatives=0", lambda: SkipGramLoss(3, negatives=0))],
    "blocks without centres": [
        ("window, 4", lambda x: skip_gram(x, 4)),
        ("window, 4", lambda x: skip_gram(x, 4, skip_gram(x, 6))),
    ],
}
WORD_LOSSES = {
    "SkipGramLoss": NEGATIVES,
    "CBOWLoss": {"as `SkipGramLoss`": [("vocab_size=0", lambda: CBOWLoss(0))]},
    "GloVeLoss": {
        "a vocab_size below 1": [("vocab_size=0", lambda: GloVeLoss(0))],
        "an x_max not above 0": [
            ("x_max=0", lambda: GloVeLoss(3, x_max=0)),
            ("x_max=nan", lambda: GloVeLoss(3, x_max=NAN)),
        ],
        "a negative alpha": [("alpha=-1", lambda: GloVeLoss(3, alpha=-1))],
    },
    "HierarchicalSoftmax": {
        "a vocab_size below 2": [("vocab_size=1", lambda: HierarchicalSoftmax(1))],
        "a depth below that of a balanced tree": [
            ("depth=3 must be at least 4", lambda: HierarchicalSoftmax(9, 3)),
        ],
    },
    "HierarchicalSoftmax.set_counts": {
        "another number of words": [("3 words, expected 9", lambda: tree_of(1, 1, 1))],
        "a tree with longer paths than `depth`": [
            ("depth=4", lambda: tree_of(*(2**n for n in range(9)))),
        ],
    },
    "HierarchicalSkipGramLoss": {
        "sizes below 1": [("window=0", lambda: HierarchicalSkipGramLoss(9, window=0))],
        "blocks without centres": [("window, 4", lambda x: tree_windows(x, 4))],
        "what `HierarchicalSoftmax` refuses": [
            ("vocab_size=1", lambda: HierarchicalSkipGramLoss(1)),
            ("depth=3", lambda: HierarchicalSkipGramLoss(9, depth=3)),
        ],
    },
    "HierarchicalCBOWLoss": {
        "as `HierarchicalSkipGramLoss`": [
            ("window=0", lambda: HierarchicalCBOWLoss(9, window=0)),
        ],
    },
    "NoiseContrastiveSoftmax": {
        "as `SampledSoftmax`": [("num_samples=0", lambda: NoiseContrastiveSoftmax(5, 0))],
    },
    "NCESkipGramLoss": {
        "as `SkipGramLoss`": [("negatives=0", lambda: NCESkipGramLoss(3, negatives=0))],
    },
    "NCECBOWLoss": {"as `CBOWLoss`": [("vocab_size=0", lambda: NCECBOWLoss(0))]},
    "SampledSoftmax": {
        "sizes below 1": [
            ("vocab_size=0", lambda: SampledSoftmax(0)),
            ("num_samples=0", lambda: SampledSoftmax(5, 0)),
        ],
    },
}
