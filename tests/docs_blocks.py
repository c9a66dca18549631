"""The pages of the documentation, their blocks of code, and the commands in these."""

import dataclasses
import re
import shlex
from collections.abc import Iterator

from tests.support import ROOT

PAGES = ["README.md", "CONTRIBUTING.md", "colab/README.md"]
PAGES += sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
FENCE = re.compile(
    r"^(?: *<!-- not run: (?P<reason>.*?) -->\n)?"
    r"(?P<indent> *)```(?P<language>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: what its fence names: python, bash, json or text.
        text: its lines, without indentation of all of them.
        place: page and line.
        reason: why docs_run_test.py does not run it; None if it does.
    """

    language: str
    text: str
    place: str
    reason: str | None


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    content = (ROOT / page).read_text("utf-8")
    for found in FENCE.finditer(content):
        text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        line = content[: found.start("language")].count("\n") + 1
        yield Block(found["language"], text, f"{page}:{line}", found["reason"])


def commands(text: str, language: str = "bash") -> list[list[str]]:
    """Return the commands of a block: variables filled in, no comments, no brackets of options."""
    text = text.replace("\\\n", " ")
    for name, value in re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE):
        text = re.sub(rf"^{name}=.*$", "", text, flags=re.MULTILINE).replace(f"${name}", value)
    lines = [line for line in text.split("\n") if language == "bash" or line.startswith("$ ")]
    found = []
    for line in lines:
        # Brackets mark optional arguments.
        line = re.sub(r"\[(-[^]]*)\]", r"\1", line.removeprefix("$ "))
        words = shlex.split(line.strip(), comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            found.append(words[:end])
            words = words[end + 1 :]
    return [command for command in found if command]
