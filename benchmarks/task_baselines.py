"""What a task gives without any pretraining: the commonest answer, and linear models of words.

Every function takes examples of `tfnlp.data.read_task`, learns from the first ones and says of the
second ones what `tfnlp.hub.TaskModel.predict` would, so that both are measured by the same code.
Strengths of regularisation are scikit-learn's own (C = 1, alpha = 1): nothing is chosen on the
held-out part.
"""

import re
from collections import Counter, defaultdict

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from tfnlp.tasks.scoring import score
from tfnlp.tasks.task_spec import TaskSpec

_TOKEN = re.compile(r"\w+|[^\w\s]")


def measure(task, train, dev):
    """The baselines of a task.

    Args:
        task: "classify", "similarity", "choose", "answer" or "tag".
        train, dev: labelled examples.

    Returns:
        dict of a baseline's name to its measures (`tfnlp.tasks.scoring.score`), percentages as
        they are there. "majority" and "bag of words", but for "answer", which has no majority;
        "similarity" has "tf-idf cosine" too and "tag" "commonest tag of the word".
    """
    baselines = {
        "classify": {"majority": _commonest_class, "bag of words": _linear_class},
        "similarity": {
            "majority": _mean_score,
            "bag of words": _linear_score,
            "tf-idf cosine": _cosine_score,
        },
        "choose": {"majority": _commonest_choice, "bag of words": _linear_choice},
        "answer": {"bag of words": _overlapping_answer},
        "tag": {
            "majority": _commonest_tag,
            "bag of words": _linear_tag,
            "commonest tag of the word": _word_tag,
        },
    }[task]
    spec = _spec(task, [*train, *dev])
    return {name: score(spec, dev, predict(train, dev)) for name, predict in baselines.items()}


def tokens(text):
    """Lower-cased words and marks of punctuation."""
    return _TOKEN.findall(text.lower())


def _spec(task, examples):
    if task == "classify":
        return TaskSpec(task, sorted({e.label for e in examples}))
    if task == "tag":
        return TaskSpec(task, sorted({tag for e in examples for tag in e.tags}))
    if task == "choose":
        return TaskSpec(task, choices=len(examples[0].choices))
    return TaskSpec(task)


def _commonest(values):
    """The commonest; of several the one that sorts first."""
    return min(Counter(values).items(), key=lambda item: (-item[1], item[0]))[0]


def _commonest_class(train, dev):
    return [{"label": _commonest(e.label for e in train)}] * len(dev)


def _mean_score(train, dev):
    return [{"score": float(np.mean([e.label for e in train]))}] * len(dev)


def _commonest_choice(train, dev):
    return [{"choice": _commonest(e.label for e in train)}] * len(dev)


def _commonest_tag(train, dev):
    tag = _commonest(tag for e in train for tag in e.tags)
    return [{"tags": [tag] * len(e.words)} for e in dev]


def _word_tag(train, dev):
    """Each word's commonest tag in the training data; of unknown words the commonest of all."""
    seen = defaultdict(list)
    for example in train:
        for word, tag in zip(example.words, example.tags, strict=True):
            seen[word].append(tag)
    tags = {word: _commonest(found) for word, found in seen.items()}
    other = _commonest(tag for found in seen.values() for tag in found)
    return [{"tags": [tags.get(word, other) for word in e.words]} for e in dev]


def _linear_class(train, dev):
    """Logistic regression: on tf-idf of uni- and bigrams of a text, on `_Pairs` of two."""
    if len(train[0].segments) == 2:
        features = _Pairs(train)
    else:
        words = TfidfVectorizer(analyzer=_unigrams_and_bigrams).fit(e.segments[0] for e in train)
        features = lambda examples: words.transform(e.segments[0] for e in examples)  # noqa: E731
    model = _logistic().fit(features(train), [e.label for e in train])
    return [{"label": str(label)} for label in model.predict(features(dev))]


def _linear_score(train, dev):
    """Ridge regression on `_Pairs` and the cosine of the texts' tf-idf."""
    pairs = _Pairs(train)

    def features(examples):
        return sparse.hstack([pairs(examples), pairs.cosine(examples)[:, None]]).tocsr()

    model = Ridge().fit(features(train), [e.label for e in train])
    return [{"score": float(value)} for value in model.predict(features(dev))]


def _cosine_score(train, dev):
    return [{"score": float(value)} for value in _Pairs(train).cosine(dev)]


def _linear_choice(train, dev):
    """Logistic regression on differences of tf-idf between the right choice and each wrong one."""
    words = TfidfVectorizer(analyzer=tokens).fit(
        f"{e.segments[0]} {choice}" for e in train for choice in e.choices
    )

    def features(example):
        return words.transform(f"{example.segments[0]} {choice}" for choice in example.choices)

    rows = []
    for example in train:
        choices = features(example)
        wrong = [i for i in range(len(example.choices)) if i != example.label]
        # A row minus each of the others: [C - 1, words]
        rows.append(choices[[example.label] * len(wrong)] - choices[wrong])
    better = sparse.vstack(rows)
    model = _logistic(fit_intercept=False).fit(
        sparse.vstack([better, -better]), [1] * better.shape[0] + [0] * better.shape[0]
    )
    return [{"choice": int(np.argmax(features(e) @ model.coef_[0]))} for e in dev]


def _linear_tag(train, dev):
    """Logistic regression on a word, its shape and endings, and the words beside it."""
    vectors = CountVectorizer(analyzer=lambda found: found, binary=True)
    x = vectors.fit_transform(f for e in train for f in window_features(e.words))
    model = _logistic().fit(x, [tag for e in train for tag in e.tags])
    found = model.predict(vectors.transform(f for e in dev for f in window_features(e.words)))
    ends = np.cumsum([len(e.words) for e in dev])[:-1]
    return [{"tags": part.tolist()} for part in np.split(found, ends)]


def window_features(words):
    """For each word a list of strings that describe it and its neighbours."""
    lower = ["<s>", *(word.lower() for word in words), "</s>"]
    return [
        [
            "bias",
            f"word={word}",
            f"lower={lower[i + 1]}",
            f"suffix2={lower[i + 1][-2:]}",
            f"suffix3={lower[i + 1][-3:]}",
            f"shape={shape(word)}",
            f"before={lower[i]}",
            f"after={lower[i + 2]}",
        ]
        for i, word in enumerate(words)
    ]


def shape(word):
    """Letters as "X" or "x", digits as "d", and no kind more than twice in a row."""

    def kind(c):
        return "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c

    return re.sub(r"(.)\1{2,}", r"\1\1", "".join(map(kind, word)))


def _overlapping_answer(train, dev):
    """Of the sentence that shares most with the question, the longest run of other words.

    Shared words count by their idf over the training data, all that is learnt. Runs of words that
    begin with a capital or a digit come first: most answers are names and numbers. This stands in
    for the sliding window of Rajpurkar et al. 2016, which needs no training either.
    """
    documents = {e.context: set(tokens(e.context)) for e in train}
    counts = Counter(token for found in documents.values() for token in found)
    idf = {t: np.log((1 + len(documents)) / (1 + count)) for t, count in counts.items()}
    unknown = np.log(1 + len(documents))
    return [{"answer": _answer(e.question, e.context, idf, unknown)} for e in dev]


def _answer(question, context, idf, unknown):
    asked = set(tokens(question))
    sentences = re.split(r"(?<=[.!?])\s+", context)
    shared = [sum(idf.get(t, unknown) for t in asked & set(tokens(s))) for s in sentences]
    sentence = sentences[int(np.argmax(shared))]
    # Words and marks as they stand in the sentence, so that a run is a slice of it.
    words = [m for m in re.finditer(r"\w+(?:[-'.,]\w+)*|[^\w\s]", sentence)]
    other = [w[0][0].isalnum() and not asked & set(tokens(w[0])) for w in words]
    named = [free and not w[0][0].islower() for free, w in zip(other, words, strict=True)]
    start, end = _longest_run(named) or _longest_run(other) or (0, len(words))
    return sentence[words[start].start() : words[end - 1].end()]


def _longest_run(flags):
    """(start, end) of the first of the longest runs of True, None if there is none."""
    best, start = None, None
    for i, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = i
        elif not flag and start is not None:
            if best is None or i - start > best[1] - best[0]:
                best = (start, i)
            start = None
    return best


class _Pairs:
    """Features of two texts: tf-idf of each one's words apart, and how much they share.

    Called with examples it gives [N, words of the first + words of the second + 2]; the last two
    are the shares of each text's different words that the other has too.
    """

    def __init__(self, train):
        self._words = [TfidfVectorizer(analyzer=tokens).fit(_texts(train, i)) for i in (0, 1)]
        both = [*_texts(train, 0), *_texts(train, 1)]
        self._together = TfidfVectorizer(analyzer=tokens).fit(both)

    def __call__(self, examples):
        a, b = (words.transform(_texts(examples, i)) for i, words in enumerate(self._words))
        return sparse.hstack([a, b, [_shares(*e.segments) for e in examples]]).tocsr()

    def cosine(self, examples):
        """Cosines of the texts' tf-idf over a vocabulary of both, [N]; rows have length 1."""
        a, b = (self._together.transform(_texts(examples, i)) for i in (0, 1))
        return np.asarray(a.multiply(b).sum(axis=1)).ravel()


def _texts(examples, i):
    return [e.segments[i] for e in examples]


def _shares(a, b):
    a, b = set(tokens(a)), set(tokens(b))
    return [len(a & b) / max(1, len(a)), len(a & b) / max(1, len(b))]


def _unigrams_and_bigrams(text):
    words = tokens(text)
    return words + [f"{a} {b}" for a, b in zip(words, words[1:], strict=False)]


def _logistic(**arguments):
    return LogisticRegression(C=1.0, max_iter=1000, **arguments)
