"""Test sets for word vectors: analogies, and pairs of words with ratings of their similarity.

analogies (`questions-words.txt` of word2vec)    `: name` begins a section; a line of four words
                                                 is the question a : b = c : d
similarity (WordSim-353, MEN, RG-65, ...)        a line of two words and a number
"""

import math
import os

from tfnlp.text.lines import read_lines, shown


def read_analogies(path: str | os.PathLike) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read the questions (a, b, c, d) of each section, in the file's order.

    The section of questions before the first `: name` is "questions".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line that is not of this format.
    """
    sections, questions = {}, None
    for number, line in enumerate(read_lines(path, "file of analogies"), start=1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(":"):
            name = line.strip()[1:].strip()
            if not name or name in sections:
                raise ValueError(
                    f"file of analogies {path}, line {number} has {shown(line)}; expected `: NAME` "
                    "with a name of its own for each section"
                )
            questions = sections[name] = []
        elif len(fields) == 4:
            if questions is None:
                questions = sections["questions"] = []
            questions.append(tuple(fields))
        else:
            raise ValueError(
                f"file of analogies {path}, line {number} has {len(fields)} words; expected four, "
                "or `: NAME` of a section"
            )
    if not any(sections.values()):
        raise ValueError(f"file of analogies {path} holds no questions; expected four words a line")
    return sections


def read_similarities(path: str | os.PathLike) -> list[tuple[str, str, float]]:
    """Read pairs of words and their similarity as rated by people, higher for more similar ones.

    Fields are split at tabs; without tabs at whitespace or, failing that, at commas. Lines that
    begin with `#` are comments; a first line whose third field is not a number is a heading.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line that is not of this format; fewer than 2 pairs.
    """
    pairs = []
    for number, line in enumerate(read_lines(path, "file of pairs"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) < 3:
            fields = line.split(",")
        fields = [field.strip() for field in fields]
        score = _number(fields[2]) if len(fields) >= 3 else math.nan
        if math.isnan(score) or not (fields[0] and fields[1]):
            if number == 1 and len(fields) >= 3:
                continue
            raise ValueError(
                f"file of pairs {path}, line {number} has {shown(line)}; expected two words and a "
                "number"
            )
        pairs.append((fields[0], fields[1], score))
    if len(pairs) < 2:
        raise ValueError(f"file of pairs {path} holds {len(pairs)} pairs; expected 2 or more")
    return pairs


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan
