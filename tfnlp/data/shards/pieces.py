"""Pieces of a tokenized corpus, one file each, and the table of all documents.

Piece (r, c) is chunk c of the documents of input file r. The documents of the pieces, in this
order, are those of the whole corpus, with the numbers that `TokenizedCorpus` gives them.
"""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfnlp.data.corpus.corpora import TokenizedCorpus, tokenize_sentences
from tfnlp.data.corpus.documents import held_out_documents
from tfnlp.data.shards.folder import WORK, Folder

_BATCH = 2000  # sentences per call of the tokenizer
TABLE = f"{WORK}/table.npz"


def piece_name(reader: int, chunk: int) -> str:
    """Return the name of the file of a piece."""
    return f"{WORK}/piece-{reader:05d}-{chunk:05d}.npz"


def text_name(reader: int, chunk: int) -> str:
    """Return the name of the file with the text of a piece."""
    return f"{WORK}/text-{reader:05d}-{chunk:05d}.jsonl"


def read_name(reader: int) -> str:
    """Return the name whose note says that an input file is completely divided into chunks."""
    return f"{WORK}/read-{reader:05d}"


def chunks(documents: Iterable[list[str]], characters: int) -> Iterator[list[list[str]]]:
    """Yield lists of documents with at least `characters` characters each, but for the last."""
    chunk, size = [], 0
    for document in documents:
        chunk.append(document)
        size += sum(map(len, document))
        if size >= characters:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def write_piece(folder: Folder, name: str, documents: list[list[str]], tokenizer: Any) -> None:
    """Tokenize documents; sentences without tokens are kept, because the split counts them."""
    sentences = [sentence for document in documents for sentence in document]
    batches = [
        tokenize_sentences(sentences[start : start + _BATCH], tokenizer)
        for start in range(0, len(sentences), _BATCH)
    ]
    tokens, lengths = (np.concatenate(part) for part in zip(*batches, strict=True))
    small = tokens.astype(np.uint16)
    sizes = np.array([len(document) for document in documents])
    owner = np.repeat(np.arange(len(documents)), sizes)
    words = np.array([len(sentence.split()) for sentence in sentences])
    content = io.BytesIO()
    np.savez(
        content,
        tokens=small if (small == tokens).all() else tokens,
        lengths=lengths.astype(np.int32),
        words=words.astype(np.int32),
        sizes=sizes.astype(np.int32),
    )

    counts = {"kept": lengths > 0, "tokens": lengths, "words": words}
    facts = {
        count: np.bincount(owner, weights, minlength=len(documents)).astype(int).tolist()
        for count, weights in counts.items()
    }
    folder.write_noted(name, content.getvalue(), sizes=sizes.tolist(), **facts)


@dataclass(frozen=True, eq=False)
class Table:
    """What every worker knows about the whole training corpus, in K pieces."""

    pieces: list[str]  # their names
    held: np.ndarray  # bool [R], for each document that was read, whether it is held out
    cut: int  # for a corpus of a single document its first held-out sentence, else -1
    first_read: np.ndarray  # int64 [K + 1], the first document of each piece among all documents
    first_document: np.ndarray  # int64 [K + 1], the same among the training documents
    documents: np.ndarray  # int64 [D + 1], starts of these documents among their sentences
    first_token: np.ndarray  # int64 [K + 1], the starts of the pieces among the training tokens

    def write(self, folder: Folder, **facts: Any) -> None:
        """Write the table, with `facts` in its note."""
        content = io.BytesIO()
        np.savez(content, **{**vars(self), "pieces": np.array(self.pieces)})
        folder.write_noted(TABLE, content.getvalue(), **facts)

    @classmethod
    def read(cls, folder: Folder) -> "Table":
        """Read the table that `write` wrote."""
        with np.load(io.BytesIO(folder.read(TABLE))) as file:
            values = {name: file[name] for name in file}
        values["pieces"] = values["pieces"].tolist()
        return cls(**{**values, "cut": int(values["cut"])})

    def corpus(self, folder: Folder, piece: int, held_out: bool = False) -> TokenizedCorpus | None:
        """Return the training documents of a piece, or its held-out ones; None if it has none."""
        with np.load(io.BytesIO(folder.read(self.pieces[piece]))) as file:
            tokens, lengths, sizes = file["tokens"], file["lengths"].astype(np.int64), file["sizes"]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        held = self.held[self.first_read[piece] : self.first_read[piece + 1]][owner]
        if self.cut >= 0:
            held = np.arange(len(owner)) >= self.cut
        wanted = (held == held_out) & (lengths > 0)
        if not wanted.any():
            return None
        counts = np.unique(owner[wanted], return_counts=True)[1]
        return TokenizedCorpus(
            tokens=tokens[np.repeat(wanted, lengths)].astype(np.int32),
            sentence_starts=np.concatenate([[0], np.cumsum(lengths[wanted])]),
            document_starts=np.concatenate([[0], np.cumsum(counts)]),
        )

    def corpora(self, folder: Folder) -> Iterator[TokenizedCorpus | None]:
        """Yield the training documents of each piece, None of one that has none."""
        return (self.corpus(folder, piece) for piece in range(len(self.pieces)))


def make_table(
    folder: Folder, pieces: list[str], own_valid: int | None, held_out: float, seed: int
) -> tuple[Table, dict]:
    """Return the table, and counts of the training part and the held-out part.

    `own_valid` is the first piece of separate held-out text; without one see `split_documents`.
    """
    notes = [folder.note(name) for name in pieces]
    reads = np.cumsum([0, *(len(note["sizes"]) for note in notes)])
    sizes, kept, tokens, words = (
        np.array([n for note in notes for n in note[name]], np.int64)
        for name in ("sizes", "kept", "tokens", "words")
    )
    held, cut = np.zeros(len(sizes), bool), -1
    if own_valid is not None:
        held[reads[own_valid] :] = True
    elif len(sizes):
        numbers, single = held_out_documents(sizes.tolist(), held_out, seed)
        held[list(numbers)] = True
        cut = -1 if single is None else single
    parts = {"train": ~held, "held_out": held}
    documents = {part: int((kept[chosen] > 0).sum()) for part, chosen in parts.items()}
    columns = {"lines": sizes, "sentences": kept, "words": words, "tokens": tokens}
    if cut >= 0:  # both parts are in the only document, of which the sentences are counted
        with np.load(io.BytesIO(folder.read(pieces[0]))) as file:
            lengths, words = file["lengths"], file["words"]
        columns = {"lines": np.ones_like(lengths), "sentences": lengths > 0}
        columns.update(words=words, tokens=lengths)
        parts = {"train": slice(cut), "held_out": slice(cut, None)}
        documents = dict.fromkeys(parts, 1)
    counts = {
        part: {
            "documents": documents[part],
            **{name: int(column[chosen].sum()) for name, column in columns.items()},
        }
        for part, chosen in parts.items()
    }
    if cut >= 0:
        kept, tokens = (np.array([counts["train"][name]]) for name in ("sentences", "tokens"))
    for part, what in (("train", "train on"), ("held_out", "hold out")):
        if not counts[part]["sentences"]:
            raise ValueError(f"the corpus holds no tokens to {what}; give more text")
    chosen = ~held & (kept > 0)
    first_document = np.concatenate([[0], np.cumsum(chosen)])[reads]
    first_token = np.concatenate([[0], np.cumsum(np.where(chosen, tokens, 0))])[reads]
    documents = np.concatenate([[0], np.cumsum(kept[chosen])])
    return Table(pieces, held, cut, reads, first_document, documents, first_token), counts


def read_text(folder: Folder, name: str) -> list[list[str]]:
    """Read the documents that `write_text` wrote."""
    return [json.loads(line) for line in folder.read(name).decode().splitlines()]


def write_text(folder: Folder, name: str, documents: list[list[str]]) -> None:
    """Write documents, one per line."""
    lines = (json.dumps(document) for document in documents)
    folder.write_noted(name, "\n".join(lines).encode())
