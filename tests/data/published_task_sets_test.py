"""Published task sets, as they were published."""

from collections import Counter

import pytest

from tests.support import shared_data
from tfnlp.tasks import TASKS, Tag


@pytest.mark.slow
def test_english_web_treebank():
    dev = Tag.read(shared_data("tag/ud_ewt/en_ewt-ud-dev.conllu")).examples
    train = Tag.read(shared_data("tag/ud_ewt/en_ewt-ud-train.conllu.gz")).examples
    assert (len(train), len(dev)) == (12544, 2001)  # as the treebank's stats.xml has it
    assert sum(len(s.words) for s in train) == 204577
    assert len({tag for s in train for tag in s.tags}) == 17  # universal tags
    assert dev[0].words == ("From", "the", "AP", "comes", "this", "story", ":")
    assert dev[0].tags == ("ADP", "DET", "PROPN", "VERB", "DET", "NOUN", "PUNCT")


# Rows and labels counted with `cut`, `sort` and `uniq -c`.
@pytest.mark.parametrize(
    "task, name, rows, labels",
    [
        ("classify", "cls/sst2/train.txt", 6920, {"1": 3610, "0": 3310}),
        ("classify", "cls/sst2_glue/dev.tsv", 6735, {"1": 3741, "0": 2994}),
        ("classify", "pair/rte/train.tsv", 2490, {"entailment": 1249, "not_entailment": 1241}),
        ("classify", "pair/snli/dev_raw.jsonl", 9842,
         {"entailment": 3329, "contradiction": 3278, "neutral": 3235}),
        ("choose", "mc/copa/copa-dev.xml", 500, {0: 250, 1: 250}),
        ("choose", "mc/codah/fold_0_train.tsv", 1665, {3: 433, 0: 426, 2: 404, 1: 402}),
    ],
)  # fmt: skip
def test_published_files_are_read_whole(task, name, rows, labels):
    examples = TASKS[task].read(shared_data(name)).examples
    assert len(examples) == rows and Counter(e.label for e in examples) == labels
