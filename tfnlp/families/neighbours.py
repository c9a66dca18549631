"""Vectors of words in context: what `tfnlp predict elmo` does.

Nearest neighbours (Peters et al. 2018, table 4), and all layers of a text as an HDF5 file.
"""

import heapq
import os
from collections.abc import Iterator
from typing import Any

from tfnlp.families.family import Prediction
from tfnlp.families.preparation import tokenized
from tfnlp.settings.elmo import PredictElmo


def check_prediction(config: PredictElmo) -> None:
    """Check arguments before the model is loaded."""
    if not (config.word or config.hdf5):
        raise ValueError("nothing to do: give `word` and `corpus`, or `input` and `hdf5`")
    if config.word and not (config.corpus and config.text):
        raise ValueError("`word` needs sentences that hold it, and `corpus`")
    if config.hdf5 and not config.input:
        raise ValueError("`hdf5` needs `input`, a file of sentences")
    for sentence in config.text if config.word else ():
        if config.word not in sentence.split():
            raise ValueError(f"{config.word!r} is not a word of {sentence!r} (split at spaces)")
    if config.hdf5 and os.path.exists(config.hdf5):
        raise FileExistsError(f"{config.hdf5} exists; delete it or choose another `hdf5`")


def predict(loaded: Any, config: PredictElmo) -> list[list[tuple[float, list[str], int]]]:
    """Return for each sentence the words of the corpus whose vectors are nearest to its word's.

    Each is `(cosine, words of the found sentence, place in it)`; the best is first.
    """
    import numpy as np

    from tfnlp.bars import ProgressBar
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.hub import ElmoModule, sentence_layers

    outputs = loaded.encoder.output
    names = ["word_emb", *(name for name in outputs if name.startswith("lstm_outputs"))]
    if config.layer not in names:
        raise ValueError(f"`layer` {config.layer} is unknown; choose one of {', '.join(names)}")
    layer, word = names.index(config.layer), config.word
    documents = tokenized(documents_of(config.corpus, config.layout), config.tokenize)
    corpus = [sentence.split() for document in documents for sentence in document]
    sentences = [sentence.split() for sentence in config.text]
    asked = {tuple(words) for words in sentences}
    numbers = [
        n
        for n, words in enumerate(corpus)
        if (word in words or not config.same) and tuple(words) not in asked
    ]
    if not numbers:
        raise ValueError(f"the corpus does not hold the word {word!r}; give another text or word")

    module = ElmoModule(loaded.encoder)
    queries = [
        _unit(layers[layer, words.index(word)])
        for words, layers in zip(sentences, sentence_layers(module, sentences), strict=True)
    ]
    queries = np.stack(queries)  # [Q, D]
    best: list[list] = [[] for _ in sentences]
    layers = sentence_layers(module, (corpus[n] for n in numbers))
    for number, values in zip(ProgressBar(numbers, unit="sentences"), layers, strict=True):
        places = [p for p, w in enumerate(corpus[number]) if w == word or not config.same]
        scores = queries @ _unit(values[layer, places]).T  # [Q, places]
        for heap, row in zip(best, scores, strict=True):
            # Two words of one sentence say little more than one: only the better one is kept.
            place = int(row.argmax())
            heapq.heappush(heap, (float(row[place]), number, places[place]))
            if len(heap) > config.top:
                heapq.heappop(heap)
    return [
        [(cosine, corpus[number], place) for cosine, number, place in sorted(heap, reverse=True)]
        for heap in best
    ]


def lines(loaded: Any, config: PredictElmo) -> Iterator[str]:
    """Yield the neighbours of the word, and write the HDF5 file."""
    if config.word:
        for sentence, found in zip(config.text, predict(loaded, config), strict=True):
            words = sentence.split()
            yield f"{marked(words, words.index(config.word))}\n"
            for cosine, sentence_words, place in found:
                yield f"  {cosine:.3f}  {marked(sentence_words, place)}\n"
    if config.hdf5:
        yield write_layers(loaded.encoder, config.input, config.hdf5, config.carry_state) + "\n"


def marked(words: list[str], place: int, around: int = 9) -> str:
    """Return `words` near `place`, with the word there in brackets."""
    first, last = max(0, place - around), min(len(words), place + around + 1)
    shown = [f"[{w}]" if i == place else w for i, w in enumerate(words)][first:last]
    return f"{'... ' if first else ''}{' '.join(shown)}{' ...' if last < len(words) else ''}"


def write_layers(encoder: Any, source: str, path: str, carry_state: bool) -> str:
    """Write all layers of the sentences of a file as an HDF5 file, as bilm-tf does.

    It has a data set `[layers, T, 2P]` for each sentence. Return a line that says what was written.
    """
    from tfnlp.bars import ProgressBar
    from tfnlp.checkpoints.formats.hdf5_files import written_hdf5
    from tfnlp.hub import ElmoModule, running_layers, sentence_layers

    with open(source, encoding="utf-8") as lines:
        count = sum(1 for _ in lines)  # and checks that all of it is UTF-8
        if not count:
            raise ValueError(f"{source} is empty; give a file with a sentence a line")
        lines.seek(0)
        sentences = (line.split() for line in lines)
        if carry_state:
            layers = running_layers(encoder, sentences)
        else:
            layers = sentence_layers(ElmoModule(encoder), sentences)
        with written_hdf5(path) as file:
            for number, values in enumerate(ProgressBar(layers, total=count, unit="sentences")):
                file.create_dataset(str(number), data=values)
    return f"{path}: {count} sentences, {values.shape[0]} layers of {values.shape[2]}"


def _unit(x: Any) -> Any:
    import numpy as np

    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


ELMO_PREDICTION = Prediction(
    name="elmo",
    summary="Find words used in the same sense, or write all layers of a text, with an ELMo.",
    config=PredictElmo,
    predict=predict,
    lines=lines,
    check=check_prediction,
    reads_stdin=False,
)
