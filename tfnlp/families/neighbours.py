"""Vectors of words in context: nearest neighbours (Peters et al. 2018, table 4), HDF5 files."""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm


def neighbours(encoder: Any, config: Any) -> list[list[tuple[float, list[str], int]]]:
    """Return the nearest neighbours that a `PredictElmo` asks for.

    Returns:
        a list for each sentence of `(cosine, words of the found sentence, place in it)`.

    Raises:
        ValueError: for a layer that the model does not have.
    """
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.families.preparation import tokenized

    names = ["word_emb", *(n for n in encoder.output if n.startswith("lstm_outputs"))]
    if config.layer not in names:
        raise ValueError(f"`layer` {config.layer} is unknown; choose one of {', '.join(names)}")
    documents = tokenized(documents_of(config.corpus, config.layout), config.tokenize)
    corpus = [sentence.split() for document in documents for sentence in document]
    found = nearest(
        encoder,
        [sentence.split() for sentence in config.text],
        config.word,
        corpus,
        layer=names.index(config.layer),
        top=config.top,
        same=config.same,
    )
    return [[(cosine, corpus[number], place) for cosine, number, place in row] for row in found]


def nearest(
    encoder: Any,
    sentences: Sequence[list[str]],
    word: str,
    corpus: Sequence[list[str]],
    layer: int,
    top: int = 5,
    same: bool = False,
) -> list[list[tuple[float, int, int]]]:
    """Return for each sentence the words of `corpus` whose vectors are nearest to its `word`'s.

    Args:
        encoder: From `tfnlp.models.elmo`.
        sentences: Lists of words; the first `word` in each is meant.
        word: The word.
        corpus: Lists of words.
        layer: The layer whose vectors are compared, 0 for the words without context.
        top: Number of neighbours.
        same: Look at occurrences of `word` alone.

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
    best: list[list] = [[] for _ in sentences]
    layers = sentence_layers(module, (corpus[n] for n in numbers))
    for number, values in zip(tqdm(numbers, unit="sentence"), layers, strict=True):
        places = [p for p, w in enumerate(corpus[number]) if w == word or not same]
        scores = queries @ _unit(values[layer, places]).T  # [Q, places]
        for heap, row in zip(best, scores, strict=True):
            # Two words of one sentence say little more than one: only the better one is kept.
            place = int(row.argmax())
            heapq.heappush(heap, (float(row[place]), number, places[place]))
            if len(heap) > top:
                heapq.heappop(heap)
    return [sorted(heap, reverse=True) for heap in best]


def marked(words: list[str], place: int, around: int = 9) -> str:
    """Return `words` near `place`, with the word there in brackets."""
    first, last = max(0, place - around), min(len(words), place + around + 1)
    shown = [f"[{w}]" if i == place else w for i, w in enumerate(words)][first:last]
    return f"{'... ' if first else ''}{' '.join(shown)}{' ...' if last < len(words) else ''}"


def write_layers(encoder: Any, source: str, path: str, carry_state: bool) -> str:
    """Write all layers of the sentences of a file as an HDF5 file, as bilm-tf does.

    Args:
        encoder: From `tfnlp.models.elmo`.
        source: A file, a sentence a line.
        path: The file to write: a data set `[layers, T, 2P]` for each sentence.
        carry_state: Carry the LSTM state from sentence to sentence.

    Returns:
        a line that says what was written.

    Raises:
        ValueError: for an empty file.
    """
    import h5py

    from tfnlp.files import written_whole
    from tfnlp.hub import ElmoModule, running_layers, sentence_layers

    with open(source, encoding="utf-8") as file:
        sentences = [line.split() for line in file]
    if not sentences:
        raise ValueError(f"{source} is empty; give a file with a sentence a line")
    if carry_state:
        layers = running_layers(encoder, sentences)
    else:
        layers = sentence_layers(ElmoModule(encoder), sentences)
    with written_whole(path) as partial, h5py.File(partial, "w") as file:
        for number, values in enumerate(tqdm(layers, total=len(sentences), unit="sentence")):
            file.create_dataset(str(number), data=values)
    return f"{path}: {len(sentences)} sentences, {values.shape[0]} layers of {values.shape[2]}"


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
