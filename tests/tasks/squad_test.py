"""Scores of answers against known values and a naive recomputation; thresholds by search."""

import random

import pytest

from tfnlp.tasks import squad


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The  Denver Broncos!", "denver broncos"),
        ("U.S.A.", "usa"),
        ("state-of-the-art", "stateoftheart"),  # punctuation goes first, so "the" is no word
        ("theatre anagram", "theatre anagram"),
        ("“Gold” – Élan\n", "“gold” – élan"),  # only ASCII punctuation goes
        ("the a an", ""),
    ],
)
def test_normalize(text, expected):
    assert squad.normalize(text) == expected


@pytest.mark.parametrize(
    "golds, predicted, second, expected",
    [
        (["Denver Broncos"], "the Denver Broncos.", False, (1, 1)),
        (["Denver Broncos"], "Broncos", False, (0, 2 / 3)),
        (["Denver Broncos", "Broncos"], "Broncos", False, (1, 1)),
        (["Levi's Stadium"], "in Levi's Stadium, Santa Clara", False, (0, 4 / 7)),
        (["no no yes"], "no yes yes", False, (0, 2 / 3)),  # words count as often as they occur
        (["gold"], "silver", False, (0, 0)),
        (["the"], "a", False, (1, 0)),  # 1.1 has no F1 for an empty answer
        (["the"], "a", True, (1, 1)),  # 2.0: nothing is left, so there is no answer
        (["the", "gold"], "", True, (0, 0)),
        ([], "", True, (1, 1)),
        ([], "gold", True, (0, 0)),
        (["gold"], "", True, (0, 0)),
    ],
)
def test_question_scores(golds, predicted, second, expected):
    assert squad.question_scores(golds, predicted, second) == pytest.approx(expected)


def words(text):
    text = "".join(c for c in text.lower() if c not in r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~""")
    return [word for word in text.split() if word not in ("a", "an", "the")]


def naive(golds, guess):
    """(exact match, F1) of SQuAD 2.0, by taking words out of a list one by one."""
    golds = [words(g) for g in golds if words(g)] or [[]]
    guess = words(guess)
    best = []
    for gold in golds:
        left, common = list(gold), 0
        for word in guess:
            if word in left:
                left.remove(word)
                common += 1
        if not gold or not guess:
            best.append(float(gold == guess))
        elif not common:
            best.append(0.0)
        else:
            precision, recall = common / len(guess), common / len(gold)
            best.append(2 * precision * recall / (precision + recall))
    return float(guess in golds), max(best)


def drawn(seed):
    draw = random.Random(seed)
    words = ["the", "Gold", "gold,", "a", "red", "blue", "sea."]

    def text():
        return " ".join(draw.choice(words) for _ in range(draw.randint(1, 4)))

    golds = {
        f"q{i}": [text() for _ in range(draw.randint(1, 3))] if draw.random() < 0.6 else []
        for i in range(30)
    }
    golds = {key: [gold for gold in texts if squad.normalize(gold)] for key, texts in golds.items()}
    predicted = {
        key: (draw.choice(texts) if texts and draw.random() < 0.5 else text())
        for key, texts in golds.items()
    }
    odds = {key: draw.gauss(0.0, 2.0) + (0.0 if texts else 2.0) for key, texts in golds.items()}
    return golds, predicted, odds


def at(golds, predicted, odds, threshold):
    """Mean exact match and F1 over the questions that `keys` names, answers above are dropped."""
    scores = {
        key: naive(golds[key], "" if odds[key] > threshold else predicted[key]) for key in golds
    }

    def mean(column, keys):
        return 100 * sum(scores[key][column] for key in keys) / len(keys)

    return mean


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("threshold", [0.0, -1.5, 2.0])
def test_squad_2_equals_a_recomputation(seed, threshold):
    golds, predicted, odds = drawn(seed)
    values = squad.answers(golds, predicted, odds, threshold)
    mean = at(golds, predicted, odds, threshold)
    answered, empty = [k for k in golds if golds[k]], [k for k in golds if not golds[k]]
    assert answered and empty
    expected = {
        f"{prefix}{name}": mean(column, keys)
        for prefix, names, keys in [
            ("", ("exact_match", "f1"), golds),
            ("HasAns_", ("exact", "f1"), answered),
            ("NoAns_", ("exact", "f1"), empty),
        ]
        for column, name in enumerate(names)
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_threshold_is_that_of_a_full_search(seed):
    golds, predicted, odds = drawn(seed)
    # A text of articles alone is an answer for the threshold but not for the score.
    predicted = {k: text if squad.normalize(text) else "red" for k, text in predicted.items()}
    values = squad.answers(golds, predicted, odds)
    for column, name in enumerate(("best_exact", "best_f1")):
        thresholds = [min(odds.values()) - 1, *sorted(odds.values())]
        reached = [at(golds, predicted, odds, t)(column, golds) for t in thresholds]
        assert values[name] == pytest.approx(max(reached))
        assert values[name] >= values[("exact_match", "f1")[column]]
        chosen = at(golds, predicted, odds, values[f"{name}_thresh"])(column, golds)
        assert chosen == pytest.approx(max(reached))


@pytest.mark.parametrize(
    "threshold, wanted", [(-3.0, -2.5), (-1.0, -0.75), (-0.5, 0.0), (2.0, 2.5), (0.5, 1.0)]
)
def test_a_threshold_off_the_edge(threshold, wanted):
    odds = [2.0, -3.0, -0.5, 1.5, -1.0]
    found = squad.off_the_edge(threshold, odds)
    assert found == wanted
    nudged = [x + 1e-4 for x in odds]
    assert [x > found for x in nudged] == [x > threshold for x in odds]


def test_answers_without_odds():
    values = squad.answers({"a": ["x"], "b": [], "c": [""]}, {"a": "", "b": "", "c": "z"})
    assert values == pytest.approx(
        {
            "exact_match": 100 / 3,
            "f1": 100 / 3,
            "HasAns_exact": 0.0,  # of "a" and of "c", whose answer is ""
            "HasAns_f1": 0.0,
            "NoAns_exact": 100.0,
            "NoAns_f1": 100.0,
        }
    )


def test_a_question_without_a_prediction_scores_0():
    golds = {"a": ["x"], "b": ["x"], "c": ["y z"], "d": ["x"]}
    # By evaluate-v1.1.py, where d is an "unanswered question" that "will receive score 0": exact
    # match 1 + 0 + 0 + 0, F1 1 + 0 + 2/3 + 0, of 4.
    found = squad.answers(golds, {"a": "x", "b": "y", "c": "y"})
    assert found == pytest.approx({"exact_match": 25.0, "f1": 100 * (5 / 3) / 4})
    found = squad.answers({"a": ["x"], "b": [], "c": []}, {"a": "x", "b": ""})
    assert found["exact_match"] == pytest.approx(200 / 3) and found["NoAns_f1"] == 50.0


def test_an_empty_gold_answer_is_an_answer():
    """By hand from evaluate-v2.0.py, in which `bool(qa["answers"])` says that there is one."""
    golds, predicted = {"a": [""], "b": [], "c": ["x"]}, {"a": "", "b": "", "c": "x"}
    odds = {"a": 2.0, "b": 1.0, "c": -1.0}
    # Above the threshold 0 "no answer" is right only for b, though "" is a's own answer.
    values = squad.answers(golds, predicted, odds)
    assert values["exact_match"] == pytest.approx(200 / 3)
    assert (values["HasAns_exact"], values["NoAns_exact"]) == (50.0, 100.0)
    # Answering none scores 1 (b), answering c 2, b's "" costs nothing, and a's "" is right.
    assert (values["best_exact"], values["best_exact_thresh"]) == (100.0, 2.0)
    assert squad.answers({"a": [""]}, {"a": ""}) == {"exact_match": 100.0, "f1": 0.0}


def test_one_kind_of_question_alone():
    assert "HasAns_f1" not in squad.answers({"a": []}, {"a": "x"})
    assert "NoAns_f1" not in squad.answers({"a": ["x"]}, {"a": "x"}, {"a": 0.0})
