"""Documents as a GPT reads them: one stream of tokens."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class TokenText:
    """A stream of tokens, see `tfnlp.data.token_stream`, and counts of its text.

    Attributes:
        stream: int32 array `[N]`.
        documents, lines, words: Counts; words are what stands between spaces.
    """

    stream: Any
    documents: int
    lines: int
    words: int

    @property
    def tokens(self) -> int:
        """Tokens to predict: all but the first."""
        return len(self.stream) - 1

    @property
    def tokens_per_word(self) -> float:
        """Tokens for each word and line end: the perplexity of n-gram models counts both."""
        return self.tokens / (self.words + self.lines)


def read_token_text(documents: Iterable[list[str]], tokenizer: Any) -> TokenText:
    """Return the `TokenText` of documents, lists of lines."""
    from tfnlp.data import TokenizedCorpus, token_stream

    counts = {"lines": 0, "words": 0}

    def counted() -> Iterator[list[str]]:
        for document in documents:
            counts["lines"] += len(document)
            counts["words"] += sum(len(line.split()) for line in document)
            yield document

    corpus = TokenizedCorpus.build(counted(), tokenizer)
    stream = token_stream(corpus, newline_id(tokenizer), tokenizer.end_id)
    return TokenText(stream, corpus.num_documents, **counts)


def newline_id(tokenizer: Any) -> int:
    """Return the token of a line's end."""
    return int(tokenizer.tokenize(["a\na"]).flat_values[1])
