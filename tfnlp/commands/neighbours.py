"""Nearest neighbours of a word in context (Peters et al. 2018, table 4)."""

import heapq

import numpy as np
from tqdm import tqdm


def nearest(encoder, sentences, word, corpus, layer, top=5, same=False):
    """For each sentence the words of `corpus` whose vectors are nearest to its `word`'s.

    Args:
        encoder: from `tfnlp.models.elmo`.
        sentences: lists of words; the first `word` in each is meant.
        word: the word.
        corpus: lists of words.
        layer: whose vectors are compared, 0 for the words without context.
        top: how many neighbours.
        same: look at occurrences of `word` alone.

    Returns:
        a list for each sentence of `(cosine, number of the sentence in corpus, place in it)`,
        best first.

    Raises:
        ValueError: with `same`, if the corpus does not hold the word.
    """
    from tfnlp.hub import ElmoModule, sentence_layers

    module = ElmoModule(encoder)
    queries = [
        _unit(layers[layer, words.index(word)])
        for words, layers in zip(sentences, sentence_layers(module, sentences), strict=True)
    ]
    queries = np.stack(queries)  # [Q, D]
    asked = {tuple(words) for words in sentences}
    numbers = [
        n
        for n, words in enumerate(corpus)
        if (word in words or not same) and tuple(words) not in asked
    ]
    if not numbers:
        raise ValueError(f"the corpus does not hold the word {word!r}; give another text or word")
    best = [[] for _ in sentences]
    layers = sentence_layers(module, (corpus[n] for n in numbers))
    for number, values in zip(tqdm(numbers, unit="sentence"), layers, strict=True):
        places = [p for p, w in enumerate(corpus[number]) if w == word or not same]
        scores = queries @ _unit(values[layer, places]).T  # [Q, places]
        for heap, row in zip(best, scores, strict=True):
            # Two words of one sentence say little more than one: its best alone is kept.
            place = int(row.argmax())
            heapq.heappush(heap, (float(row[place]), number, places[place]))
            if len(heap) > top:
                heapq.heappop(heap)
    return [sorted(heap, reverse=True) for heap in best]


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
