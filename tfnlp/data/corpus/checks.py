"""Checks of the input of corpora: a string in place of a list would be read letter by letter."""

from collections.abc import Iterable, Iterator


def checked_documents(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the documents; each must be a list of sentences."""
    if isinstance(documents, (str, bytes)):
        raise ValueError(_STRING.format("documents is"))
    for number, document in enumerate(documents):
        if isinstance(document, (str, bytes)):
            raise ValueError(_STRING.format(f"documents[{number}] is"))
        yield document


_STRING = (
    "{} a string, but a document is a list of sentences: pass [[sentence, ...], ...], or "
    "tfnlp.data.documents_of(texts), which splits texts into sentences"
)
