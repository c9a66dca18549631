"""Checks of the input of corpora: a string in place of a list would be read letter by letter."""

from collections.abc import Iterable, Iterator


def checked_documents(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the documents; each must be a list of sentences.

    Raises:
        ValueError: a string in place of a document, or in place of all documents.
    """
    if isinstance(documents, (str, bytes)):
        raise ValueError(_STRING.format("documents is"))
    for number, document in enumerate(documents):
        if isinstance(document, (str, bytes)):
            raise ValueError(_STRING.format(f"documents[{number}] is"))
        yield document


def checked_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the sentences; each must be a string.

    Raises:
        ValueError: a single string in place of sentences, or a sentence that is no string.
    """
    if isinstance(sentences, str):
        raise ValueError(
            "sentences is a string; expected a list of strings: pass [sentence], or what "
            "tfnlp.data.split_sentences makes of a text"
        )
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(
                f"sentences[{number}] must be a string, of words with spaces between; got "
                f"{sentence!r:.60}"
            )
        yield sentence


_STRING = (
    "{} a string, but a document is a list of sentences: pass [[sentence, ...], ...], or "
    "tfnlp.data.documents_of(texts), which splits texts into sentences"
)
