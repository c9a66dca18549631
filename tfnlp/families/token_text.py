"""Documents as a GPT reads them: one stream of tokens."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class TokenText:
    """A stream of tokens, see `tfnlp.data.token_stream`, and counts of its text."""

    stream: Any  # int32 or uint16 array `[N]`
    documents: int
    lines: int
    words: int  # what stands between spaces

    @property
    def tokens(self) -> int:
        """Tokens to predict: all but the first."""
        return len(self.stream) - 1

    @property
    def tokens_per_word(self) -> float:
        """Tokens for each word and line end: the perplexity of n-gram models counts both."""
        return self.tokens / (self.words + self.lines)


def read_token_text(
    documents: Iterable[list[str]], tokenizer: Any, folder: str | None = None
) -> TokenText:
    """Return the `TokenText` of documents, lists of lines, which are read once.

    The stream is written to a file in `folder`, which is then mapped; None: it is in memory.
    """
    import numpy as np

    from tfnlp.data.corpus.arrays import ArrayFolder
    from tfnlp.data.corpus.tokenized_corpus import tokenize_documents
    from tfnlp.data.pretraining.token_stream import stream_part

    counts = {"documents": 0, "lines": 0, "words": 0}

    def counted() -> Iterator[list[str]]:
        for document in documents:
            counts["lines"] += len(document)
            counts["words"] += sum(len(line.split()) for line in document)
            yield document

    arrays, ids = ArrayFolder(folder), (newline_id(tokenizer), int(tokenizer.end_id))
    dtype = np.int32 if folder is None or tokenizer.vocab_size > 1 << 16 else np.uint16
    for tokens, lengths, first in tokenize_documents(counted(), tokenizer):
        arrays.append("stream", stream_part(tokens, lengths, first, *ids), dtype)
        counts["documents"] += int(first.sum())
    arrays.append("stream", [ids[1]], dtype)
    return TokenText(**arrays.finish(**counts))


def open_token_text(folder: str) -> TokenText:
    """Return the `TokenText` that `read_token_text` wrote to a folder."""
    from tfnlp.data.corpus.arrays import read_arrays

    return TokenText(**read_arrays(folder))


def newline_id(tokenizer: Any) -> int:
    """Return the token of a line's end."""
    from tfnlp.data.corpus.tokenized_corpus import tokenize_sentences

    return int(tokenize_sentences(["a\na"], tokenizer)[0][1])
