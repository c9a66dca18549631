"""Books in the public domain that ship with tfnlp, to try things out without a download.

* `the_secret_garden`: Frances Hodgson Burnett, "The Secret Garden" (1911), the whole novel, 27
  chapters. First published in 1911 by an author who died in 1924, it is in the public domain in the
  United States and in countries where copyright ends 70 years after the author's death. UTF-8 text;
  blank lines between paragraphs, several between chapters.
"""

import pathlib


def path(name: str = "the_secret_garden") -> pathlib.Path:
    """Return the file of a book, for `tfnlp.data.read_documents`.

    Raises:
        ValueError: an unknown book.
    """
    books = {file.stem: file for file in pathlib.Path(__file__).parent.glob("*.txt")}
    if name not in books:
        raise ValueError(f"no book {name!r}; choose from {', '.join(sorted(books))}")
    return books[name]
