"""The grammar of docstrings and names: a docstring is a sentence with a verb, and the name of a function is a verb.

- No docstring begins with one of `CLAUSE_WORDS`: "What is wrong" names a thing where a sentence states a fact.
- No function is named by a bare participle (`carried_out`, `told`): the call would not say that something is done.
  Properties may be, since they describe (`log.sealed`).

`python -m tests.house.voice` prints every place that breaks a rule.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house import tidy

ROOT = Path(__file__).resolve().parents[2]
CLAUSE_WORDS = frozenset({"What", "Whether", "How", "Where", "Who", "When"})
FIRST_WORD = re.compile(r"\W*(\w+)")
IRREGULAR = re.compile(
    r"begun|bound|broken|brought|built|caught|chosen|done|drawn|driven|fallen|felt|forgotten|found|frozen|"
    r"given|gone|got|grown|heard|held|hidden|kept|known|laid|left|lent|lost|made|meant|met|overridden|paid|"
    r"rewritten|said|seen|sent|shown|sold|spent|spoken|stood|sworn|taken|taught|thought|thrown|told|torn|"
    r"understood|undone|withdrawn|won|worn|written"
)
PARTICLES = frozenset({"away", "back", "down", "in", "off", "on", "out", "over", "up"})
NO_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"})
"""Verbs and nouns that end in "ed"."""


def complaints(root: Path) -> list[str]:
    """Returns every place that breaks a rule."""
    return [complaint for source in tidy.sources(root) for complaint in (*clauses(source), *participles(source))]


def clauses(source: tidy.Source) -> Iterator[str]:
    """Yields a complaint for each docstring that begins with a word that makes it a clause."""
    for node, text in docstrings(source):
        if (word := first_word(text)) in CLAUSE_WORDS:
            yield source.at(node, f"a docstring begins with {word}; write a sentence with a verb")


def docstrings(source: tidy.Source) -> Iterator[tuple[ast.Expr, str]]:
    """Yields every docstring of a source, also those behind attributes and constants."""
    for node in source.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node, node.value.value


def first_word(text: str) -> str:
    """Returns the first word of a docstring; empty if it has none."""
    match = FIRST_WORD.match(text)
    return match[1] if match else ""


def participles(source: tidy.Source) -> Iterator[str]:
    """Yields a complaint for each function that is named by a bare participle."""
    for node in source.nodes:
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and is_participle(node.name)
            and not is_property(node)
        ):
            yield source.at(node, f"function {node.name} is named by a participle; name it by a verb")


def is_participle(name: str) -> bool:
    """Returns True for a participle, with or without a particle: `told`, `_carried_out`."""
    first, *others = name.strip("_").split("_")
    ends = IRREGULAR.fullmatch(first) is not None or (first.endswith("ed") and first not in NO_PARTICIPLES)
    return ends and (not others or (len(others) == 1 and others[0] in PARTICLES))


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns True if the function is read as an attribute."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def main() -> None:
    """Print every place that breaks a rule."""
    for complaint in complaints(ROOT):
        sys.stdout.write(f"{complaint}\n")


if __name__ == "__main__":
    main()
