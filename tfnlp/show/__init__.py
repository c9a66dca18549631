"""What is in a model, as pictures to look into: `tfnlp show`, and in a notebook.

    show.attention(model, "the cat sat on the mat")     each head of each layer
    show.mixture(task)                                  how much of each layer a task reads
    show.neighbours(model, "bank", texts, among)        the words that are used alike, by layer
    show.probe(model, "tag", rows)                      what a linear classifier finds, by layer
    show.words(vectors)                                 a map of word vectors

Each returns a `Picture`, which a notebook draws: its plotly `figure`, the numbers behind it, and
`save(path)`, one file of HTML.
"""

from tfnlp.show.heads import attention
from tfnlp.show.layers import mixture, neighbours
from tfnlp.show.picture import Picture
from tfnlp.show.probing import probe
from tfnlp.show.word_map import words

__all__ = ["Picture", "attention", "mixture", "neighbours", "probe", "words"]
