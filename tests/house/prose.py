"""README and the pages of docs are easy to read: short sentences, most of them positive.

`python -m tests.house.prose` prints words a sentence and the share of sentences with a negation for every document. With names of documents it also
prints the sentences that are worth a look: the long ones, and those with a negation.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.house import tidy
from tests.house.sentences import count_words, is_negative, split_sentences

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS_MAX: Final = 18.0
NEGATIONS_MAX: Final = 0.2
LONG: Final = 25
"""Words of a sentence that is worth a look."""


@attrs.frozen
class Prose:
    """The sentences of a document."""

    path: Path
    sentences: Sequence[str]

    @property
    def words(self) -> float:
        """The mean length of a sentence, in words."""
        return sum(map(count_words, self.sentences)) / max(len(self.sentences), 1)

    @property
    def negations(self) -> float:
        """The share of sentences with a negation."""
        return sum(map(is_negative, self.sentences)) / max(len(self.sentences), 1)


def is_held(path: Path) -> bool:
    """Returns True for the documents that users read first: README and the pages of docs."""
    return str(path) == "README.md" or path.parts[0] == "docs"


def complaints(root: Path) -> list[str]:
    """Returns a line for each document that is held to the measures and misses one."""
    return [
        f"{prose.path}: {prose.words:.1f} words a sentence (at most {WORDS_MAX:.0f}), {prose.negations:.0%} of the"
        f" sentences with a negation (less than {NEGATIONS_MAX:.0%}); look with python -m tests.house.prose {prose.path}"
        for prose in (Prose(path, split_sentences(text)) for path, text in tidy.documents(root) if is_held(path))
        if prose.words > WORDS_MAX or prose.negations >= NEGATIONS_MAX
    ]


def main(names: Sequence[str]) -> None:
    """Print the measures of all documents, or of the named ones with the sentences to look at."""
    for path in [Path(name) for name in names] or [path for path, _ in tidy.documents(ROOT)]:
        prose = Prose(path, split_sentences((ROOT / path).read_text()))
        sys.stdout.write(f"{prose.words:5.1f} words  {prose.negations:4.0%} negative  {path}\n")
        for sentence in prose.sentences if names else ():
            if count_words(sentence) > LONG or is_negative(sentence):
                sys.stdout.write(f"    {count_words(sentence):3}  {sentence}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
