"""The simplest guesses: what they reach, and that a model which learnt no more is found out."""

import numpy as np
import pytest

from tfnlp.data.labelled.coreference import CorefDocument
from tfnlp.data.labelled.examples import TaskExample
from tfnlp.data.labelled.questions import Question
from tfnlp.data.labelled.tag_rows import RoleSentence
from tfnlp.data.labelled.tag_schemes import TaggedSentence
from tfnlp.tasks import (
    TASKS,
    Answer,
    Choose,
    Classify,
    Coref,
    HeadTask,
    Labels,
    Roles,
    Scores,
    Similarity,
    Tag,
)
from tfnlp.tasks.baselines import Baseline, plateau_of, shown_baseline
from tfnlp.tasks.classify import classification
from tfnlp.tasks.labels import label_sets


def texts(*labels, choices=()):
    return [TaskExample(("s", "t")[: 1 if choices else 2], label, choices) for label in labels]


def questions(golds):
    return [
        Question(str(n), "q", "x y z", ((gold, "xyz".index(gold)),) if gold != "-" else ())
        for n, gold in enumerate(golds)
    ]


def answers(texts, null_scores=None):
    return [
        {"answer": text, "answers": [text], "null_score": null}
        for text, null in zip(texts, null_scores or [0.0] * len(texts), strict=True)
    ]


def rows(name, values):
    return [{name: value} for value in values]


def tags(*sentences):
    return [sentence.split() for sentence in sentences]


WORDS = tuple("xyz")
ANN = ((0, 3), (8, 11))

# Of each task: examples; one answer for all; answers that are no better than a guess, and what is
# said of them; and answers that are a little better.
TABLE = [
    (
        Classify(labels=("a", "b")),
        texts(*"abbaab"),
        rows("label", "bbbbbb"),
        (rows("label", "abbbba"), "accuracy 0.5000 is not better than 0.5000"),
        rows("label", "abbaba"),  # 4 of 6
    ),
    (
        Labels(labels=("a", "b")),
        texts(("a",), ("b",), ("a", "b"), ()),
        rows("labels", [["a"]] * 4),
        # 1 right of 3, and of 4 golds: 2 / 7; "a" for all: 2 right of 4, 4 / 8.
        (rows("labels", [["b"], ["a"], ["b"], []]), "micro_f1 0.2857 is not better than 0.5000"),
        rows("labels", [["a"], ["a"], ["b"], []]),  # 4 / 7
    ),
    (
        Similarity(mean=2.0, deviation=1.5),
        texts(0.0, 1.0, 3.0, 4.5),
        rows("score", [2.0, 2.05, 1.95, 2.02]),
        (rows("score", [4.0, 1.0, 2.0, 1.0]), "pearson -0."),
        rows("score", [2.0, 1.4, 2.6, 2.1]),
    ),
    (
        Scores(labels=("x", "y"), means=(2.0, 1.0)),
        texts(*((("x", x), ("y", 5 - x)) for x in (0.0, 1.0, 3.0, 4.0))),
        rows("scores", [{"x": 2.0, "y": y} for y in (1.0, 1.04, 0.98, 1.0)]),
        (rows("scores", [{"x": x, "y": x} for x in (4.0, 1.0, 3.0, 1.0)]), "pearson 0.0000 is not"),
        rows("scores", [{"x": x, "y": 3 - x} for x in (0.0, 1.0, 2.0, 2.0)]),
    ),
    (
        Choose(choices=2),
        texts(0, 1, 1, 1, choices=("c", "d")),
        rows("choice", [0] * 4),
        (rows("choice", [1, 1, 1, 0]), "accuracy 0.5000 is not better than 0.7500"),
        rows("choice", [0, 1, 1, 1]),
    ),
    (
        Answer(),
        questions("xyz"),
        answers("uuu"),
        (answers("uvw"), "f1 0.0000 is not better than 0.0000"),
        answers("xuu"),
    ),
    (
        Answer(unanswerable=True),
        questions("xy--"),
        answers("uuuu"),
        # No threshold is better than never an answer.
        (answers("uvxy", [0, 1, 2, 3]), "best_f1 50.0000 is not better than 50.0000"),
        answers("xuvw", [0, 1, 2, 3]),
    ),
    (
        Tag(labels=("B-LOC", "B-PER", "I-LOC", "O")),
        [TaggedSentence(WORDS, tuple(t)) for t in tags("O B-PER O", "B-LOC I-LOC O", "O O O")],
        rows("tags", tags("O O O", "O O O", "O O O")),
        (rows("tags", tags("O O B-PER", "O O O", "O O O")), "f1 0.0000 is not better than 0.0000"),
        rows("tags", tags("O B-PER O", "O O O", "B-LOC O O")),
    ),
    (
        Tag(labels=("DET", "NOUN", "VERB")),
        [TaggedSentence(WORDS, tuple(t)) for t in tags("DET NOUN VERB", "DET NOUN VERB")],
        rows("tags", tags("NOUN NOUN NOUN", "NOUN NOUN NOUN")),
        (rows("tags", tags("DET DET DET", "VERB VERB NOUN")), "accuracy 0.1667 is not better than"),
        rows("tags", tags("DET NOUN NOUN", "DET DET DET")),
    ),
    (
        Roles(labels=("ARG0", "ARG1", "O", "V")),
        [RoleSentence(WORDS, tuple(t), 1) for t in tags("ARG0 V O", "O V ARG1")],
        rows("tags", tags("O O O", "O O O")),
        # The predicate itself is no role.
        (rows("tags", tags("O V O", "O V O")), "f1 0.0000 is not better than 0.0000"),
        rows("tags", tags("ARG0 V O", "ARG0 V O")),
    ),
    (
        Coref(),
        [CorefDocument("Ann saw her", (ANN,)), CorefDocument("It is", (((0, 2),),))],
        [{"clusters": [], "mentions": []}] * 2,
        (rows("clusters", [[], [[[3, 5]]]]), "conll_f1 0.0000 is not better than 0.0000"),
        rows("clusters", [[list(map(list, ANN))], []]),
    ),
]


def test_the_table_has_every_task():
    assert {task.name for task, *_ in TABLE} == {
        name for name, task in TASKS.items() if issubclass(task, HeadTask)
    }


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0].name)
def test_a_plateau_is_said(row):
    task, examples, same, (poor, words), better = row

    def said(predictions, number=None):
        found, some = task.measures(examples[:number], predictions), examples[:number]
        return plateau_of(task, some, predictions, found, task.main_measure)

    right = [task.perfect(example) for example in examples]
    assert said(right) == said(better) == ""
    assert said(same).startswith("every prediction is '")
    assert words in said(poor)
    # One example has one answer.
    assert said(right[:1], 1) == ""
    assert plateau_of(task, examples, same, {}, task.main_measure) == ""  # what was not measured


def test_a_set_of_one_class_shows_nothing():
    task, examples = Classify(labels=("a", "b")), texts(*"aaa")
    predictions = rows("label", "aab")
    measures = task.measures(examples, predictions)
    assert plateau_of(task, examples, predictions, measures, "accuracy") == ""
    # Another measure, of which less is better.
    task, examples = Similarity(), texts(0.0, 1.0, 2.0)  # the mean's error is 2 / 3
    for scores, poor in (([0.0, 1.0, 1.5], False), ([2.0, 1.0, 0.0], True)):
        predictions = rows("score", scores)
        measures = task.measures(examples, predictions)
        assert ("mse" in plateau_of(task, examples, predictions, measures, "mse")) is poor


RNG = np.random.default_rng(5)


def values(task, golds):
    return {name: found.value for name, found in task.baselines(golds).items()}


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
def test_classes(names):
    shares = [0.7, 0.3] if len(names) == 2 else [0.5, 0.3, 0.2]
    golds = RNG.choice(names, 50, p=shares).tolist()
    found = values(Classify(labels=names), golds)
    every = [classification(golds, [name] * 50, names) for name in names]
    assert set(found) == set(every[0]) - {"matthews"}
    for name, value in found.items():
        assert value == pytest.approx(max(scores[name] for scores in every))


def test_sets_of_labels():
    golds = [["x", "y"], ["x"], [], ["y", "x"], ["z"], ["x"], ["x", "y"]]
    found = Labels(labels=("x",)).baselines(golds)
    always = {name: label_sets(golds, [[name]] * 7, "xyz")["micro_f1"] for name in "xyz"}
    assert found["micro_f1"] == Baseline(pytest.approx(max(always.values())), "always 'x'")
    both = label_sets(golds, [["x", "y"]] * 7, "xyz")["subset_accuracy"]
    assert found["subset_accuracy"] == Baseline(pytest.approx(both), "always 'x', 'y'")
    assert values(Labels(labels=("x",)), [[], []]) == {"subset_accuracy": 1.0}


def test_scores_choices_tags_and_answers():
    scores = [1.0, 2.0, 4.5]
    assert values(Similarity(), scores) == {"mse": pytest.approx(np.var(scores))}
    assert Choose(choices=2).baselines([1, 0, 1])["accuracy"] == Baseline(2 / 3, "always choice 2")
    tags = [["O", "B-PER"], ["O"]]
    for task in (Tag, Roles):
        assert task(labels=("O", "B-PER")).baselines(tags) == {
            "accuracy": Baseline(2 / 3, "always 'O'")
        }
    assert values(Answer(), [["x"], [], ["y"], []]) == {"exact_match": 50.0, "f1": 50.0}
    assert Answer().baselines([["x"]]) == {}


def test_a_line_of_80_columns():
    found = Classify(labels=("a", "b")).baselines(["a_label_that_has_no_space" * 3, "b", "b"])
    assert shown_baseline(found, "accuracy") == "baseline: always 'b'  accuracy 0.6667"
    long = Tag(labels=("O", "X")).baselines([["a_label_that_has_no_space" * 3]])
    line = shown_baseline(long, "f1")  # no answer for all has an F1 of entities
    assert len(line) <= 80 and line.endswith("…as_no_space'  accuracy 1.0000")
    assert shown_baseline({}, "f1") == ""
