"""All claims as data, from `catalogue.toml`: what each states, what it should be worth, and what an experiment should show."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.claims.judgement import Worth

FILE: Final = Path(__file__).with_name("catalogue.toml")


@attrs.frozen(kw_only=True)
class Differs:
    """The reason why a verdict other than the expected one is accepted."""

    verdict: Worth
    because: str


@attrs.frozen(kw_only=True)
class Claim:
    """One claim, or one question."""

    id: str
    articles: tuple[str, ...]
    """The articles that state it, by number."""
    says: str
    """The claim in one sentence of ours."""
    expected: tuple[Worth, ...]
    outcome: str
    """The outcome that an experiment should show."""
    not_an_experiment: str = ""
    """Why nothing is run for it; empty where something is."""
    source: str = ""
    """Of a claim that is no experiment: where it can be looked up."""
    differs: Differs | None = None

    @property
    def is_question(self) -> bool:
        """True for a question, whose answer is a page of its own."""
        return self.id.startswith("Q")

    def accepts(self, verdict: Worth) -> bool:
        """Returns True for an expected verdict, and for one whose reason is written down."""
        return verdict in self.expected or (self.differs is not None and verdict is self.differs.verdict)

    @classmethod
    def of(cls, name: str, row: Mapping[str, Any]) -> "Claim":
        """Returns the claim of one table of the file. Raises `KeyError`, `TypeError` or `ValueError` for a wrong one."""
        differs = row.get("differs")
        return cls(
            id=name,
            articles=tuple(row["articles"]),
            says=row["says"],
            expected=tuple(map(Worth, row["expected"])),
            outcome=row["outcome"],
            not_an_experiment=row.get("not_an_experiment", ""),
            source=row.get("source", ""),
            differs=Differs(verdict=Worth(differs["verdict"]), because=differs["because"]) if differs else None,
        )


@cache
def catalogue() -> Mapping[str, Claim]:
    """Returns every claim by its id, in order."""
    return {name: Claim.of(name, row) for name, row in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}
