"""Documents as a GPT reads them: one stream of tokens."""

import os
import shutil
from dataclasses import dataclass

VOCABULARY = "vocab"  # the folder in a run


@dataclass(frozen=True, eq=False)
class Text:
    """A stream of tokens, see `tfnlp.data.pretraining.token_stream`, and what it was made of.

    Attributes:
        stream: int32 array `[N]`.
        documents, lines, words: how many; words are what stands between spaces.
    """

    stream: object
    documents: int
    lines: int
    words: int

    @property
    def tokens(self):
        """Tokens to predict: all but the first."""
        return len(self.stream) - 1

    @property
    def tokens_per_word(self):
        """The end of a line is a token, and counts as a word: so do the ends of sentences in the
        perplexity of an n-gram model."""
        return self.tokens / (self.words + self.lines)


def read(documents, tokenizer):
    """The `Text` of an iterable of documents, lists of lines."""
    from tfnlp.data import TokenizedCorpus, token_stream

    counts = {"lines": 0, "words": 0}

    def counted():
        for document in documents:
            counts["lines"] += len(document)
            counts["words"] += sum(len(line.split()) for line in document)
            yield document

    corpus = TokenizedCorpus.build(counted(), tokenizer)
    stream = token_stream(corpus, newline_id(tokenizer), tokenizer.end_id)
    return Text(stream, corpus.num_documents, **counts)


def newline_id(tokenizer):
    """The token of a line's end."""
    return int(tokenizer.tokenize(["a\na"]).flat_values[1])


def write_vocabulary(path, pair):
    """Writes tokens and merges as the folder `path`, whole or not at all."""
    from tfnlp.text import write_bpe

    partial = f"{path}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    write_bpe(partial, *pair)
    os.rename(partial, path)
