"""The ban list: words of this project's past that have a plain name, looked for in comments, docstrings, error texts and documents.

Python sources, documents and the golden scripts hold none of them; in documents, code spans and parts that are printed from
the source are left out. `python -m tests.house.words` prints every place where one stands.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tests.house import tidy

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = "tests/raft/scripts"
OWN = {Path("tests/house/words.py"), Path("tests/house/test_words.py")}
"""They have to name what they forbid."""

INSTEAD: Mapping[str, str] = {
    r"nobody": "no one, no client, no node, or the passive",
    r"somebody": "a client, a node, a caller",
    r"whoever": "the caller, the client, any node that",
    r"told of": "informed about, reported, knows",
    r"hears": "receives, reads, learns",
    r"heard": "received, read, learned; kept only where a message is received from the network",
    r"reigns?": "leadership, term",
    r"farewell": "shutdown, close",
    r"anew": "again; of a log: is reset to a snapshot",
    r"beside": "next to, in addition to, compared with, outside of",
    r"says": "returns, raises, reports, states, contains",
    r"for ever": "forever, without end, until it is restarted",
}
"""A pattern of whole words, and what to write in its place."""
BANNED = re.compile(r"(?<![\w-])(?:" + "|".join(INSTEAD) + r")(?![\w-])", re.IGNORECASE)
SPAN = re.compile(r"`[^`\n]*`")
PRINTED = re.compile(r"<!-- printed: \w+ -->.*?<!-- end -->", re.DOTALL)
ERROR_NAME = re.compile(r"(?:Error|Exception|Missing|Unknown|Failed|Unreachable)$")


@attrs.frozen
class Place:
    """A banned word in a file of the project."""

    path: Path
    line: int
    word: str

    def __str__(self) -> str:
        instead = next(text for pattern, text in INSTEAD.items() if re.fullmatch(pattern, self.word.lower()))
        return f"{self.path}:{self.line}: {self.word!r}; write: {instead}"


def complaints(root: Path) -> list[str]:
    """Returns every banned word in a document, a golden script or a Python source, with its place and what to write instead."""
    return [str(place) for place in (*in_documents(root), *in_sources(root))]


def in_documents(root: Path) -> Iterator[Place]:
    """Every banned word in a Markdown file, or in a comment of a golden script."""
    for path, text in tidy.documents(root):
        prose = PRINTED.sub(blank, text)
        for number, line in enumerate(prose.splitlines(), start=1):
            yield from in_text(path, number, SPAN.sub(blank, line))
    for path in sorted((root / SCRIPTS).glob("*.txt")):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if line.startswith("#"):
                yield from in_text(path.relative_to(root), number, line)


def in_sources(root: Path) -> Iterator[Place]:
    """Every banned word in a comment, docstring or error text of a Python file, in the order of lines."""
    for source in tidy.sources(root):
        if source.path not in OWN:
            places = {*in_comments(source), *in_strings(source)}
            yield from sorted(places, key=lambda place: (place.line, place.word))


def in_comments(source: tidy.Source) -> Iterator[Place]:
    """Yields every banned word in a comment; a file without one behind any `#` need not be taken apart."""
    if not any(BANNED.search(line.partition("#")[2]) for line in source.text.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield from in_text(source.path, token.start[0], token.string)


def in_strings(source: tidy.Source) -> Iterator[Place]:
    """Docstrings, also those of attributes, and the strings in what is raised, asserted, or returned by `__str__`."""
    for node in source.nodes:
        texts: list[ast.AST] = []
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as docstring):
                texts = [docstring]
            case ast.Raise() | ast.FunctionDef(name="__str__"):
                texts = [node]
            case ast.Assert(msg=ast.expr() as message):
                texts = [message]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if ERROR_NAME.search(name):
                texts = [node]
            case _:
                pass
        for each in (part for text in texts for part in ast.walk(text)):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield from in_lines(source.path, each)


def in_lines(path: Path, text: ast.Constant) -> Iterator[Place]:
    """The words of a string, at the lines where its parts stand."""
    for number, line in enumerate(str(text.value).splitlines(), start=text.lineno):
        yield from in_text(path, number, line)


def in_text(path: Path, number: int, text: str) -> Iterator[Place]:
    """The words of one line."""
    for match in BANNED.finditer(text):
        yield Place(path, number, match[0])


def blank(match: re.Match[str]) -> str:
    """The same lines without text, so that line numbers stay."""
    return "\n" * match[0].count("\n")


def main() -> None:
    """Print every banned word in the project."""
    for complaint in complaints(ROOT):
        sys.stdout.write(f"{complaint}\n")


if __name__ == "__main__":
    main()
