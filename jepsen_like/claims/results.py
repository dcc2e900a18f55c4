"""Makes `claims.json` of experiments that were carried out: a row for each claim, with its verdict, its figures and their runs.

The file is made of plain values alone, so that pages, documents and a later list are drawn from it.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.claims.catalogue import Claim, catalogue
from jepsen_like.claims.experiment import Experiment
from jepsen_like.claims.judgement import NEVER, Comparison, Expect, Figure, Judgement, Worth, judge
from jepsen_like.report.claims import CLAIMS
from jepsen_like.report.findings import read_told

NEVER_WORD: Final = "never"
COMMITTED: Final = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / CLAIMS


@attrs.frozen(kw_only=True)
class ExperimentOutcome:
    """One experiment that was carried out. `reason`: why some of its figures are missing; empty if none is."""

    experiment: Experiment
    figures: Mapping[str, Figure] = {}
    tables: Sequence[Mapping[str, Any]] = ()
    seconds: float = 0.0
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """As claims.json has it."""
        return {
            "name": self.experiment.name,
            "story": self.experiment.story,
            "question": self.experiment.question,
            "claims": list(self.experiment.claims),
            "seconds": round(self.seconds, 1),
            "reason": self.reason,
            "figures": {
                name: {"value": _value(figure), "unit": figure.unit, "runs": list(figure.runs)}
                for name, figure in self.figures.items()
            },
            "tables": list(self.tables),
        }

    @classmethod
    def of_json(cls, experiment: Experiment, row: Mapping[str, Any], runs_in: str = "") -> "ExperimentOutcome":
        """Returns what claims.json has of an experiment; `runs_in` leads to its directory from where the runs are asked for."""

        def place(run: str) -> str:
            return str(Path(runs_in, run)) if run else ""

        figures = {
            name: Figure(
                name=name,
                value=NEVER if each["value"] == NEVER_WORD else each["value"],
                unit=each["unit"],
                runs=tuple(map(place, each["runs"])),
            )
            for name, each in row["figures"].items()
        }
        tables = [
            table
            if "rows" not in table
            else {**table, "rows": [[{**cell, "run": place(cell["run"])} for cell in row] for row in table["rows"]]}
            for table in row["tables"]
        ]
        return cls(experiment=experiment, figures=figures, tables=tables, seconds=row["seconds"], reason=row["reason"])


def _value(figure: Figure) -> float | str:
    return figure.words if isinstance(figure.value, str) or math.isinf(figure.value) else figure.value


def judge_claims(claims: Iterable[str], outcomes: Sequence[ExperimentOutcome]) -> list[dict[str, Any]]:
    """Returns a row for each of these claims; one that was not tried has no verdict, and its reason."""
    return [row_of(catalogue()[claim], outcomes) for claim in claims]


def row_of(claim: Claim, outcomes: Sequence[ExperimentOutcome]) -> dict[str, Any]:
    """The row of one claim."""
    own = [outcome for outcome in outcomes if claim.id in outcome.experiment.claims]
    expectations, figures = _gather(claim.id, own)
    if claim.not_an_experiment:
        judgement, reason = Judgement(verdict=Worth.NO_EXPERIMENT), f"{claim.not_an_experiment} {claim.source}."
    else:
        judgement = judge(expectations, figures)
        reason = _why_none(own, judgement) if judgement.verdict is Worth.NONE else ""
    return {
        "id": claim.id,
        "articles": list(claim.articles),
        "says": claim.says,
        "outcome": claim.outcome,
        "expected": list(map(str, claim.expected)),
        "verdict": str(judgement.verdict),
        "agrees": judgement.verdict is Worth.NO_EXPERIMENT or claim.accepts(judgement.verdict),
        "because": claim.differs.because if claim.differs and judgement.verdict is claim.differs.verdict else "",
        "reason": reason,
        "condition": judgement.condition,
        "price": judgement.price,
        "figures": [_figure_row(one) for one in judgement.judged],
        "experiments": [outcome.experiment.name for outcome in own],
        "seconds": round(sum(outcome.seconds for outcome in own), 1),
    }


def _gather(claim: str, own: Sequence[ExperimentOutcome]) -> tuple[list[Expect], dict[str, Figure]]:
    """The claim's expectations of all experiments, and their figures; each under its experiment's name, which keeps them apart."""
    expectations: list[Expect] = []
    figures: dict[str, Figure] = {}
    for outcome in own:
        name = outcome.experiment.name
        its = (one for one in outcome.experiment.expects if claim in one.claims)
        expectations += [attrs.evolve(one, figure=f"{name}/{one.figure}") for one in its]
        figures |= {f"{name}/{each}": figure for each, figure in outcome.figures.items()}
    return expectations, figures


def _why_none(own: Sequence[ExperimentOutcome], judgement: Judgement) -> str:
    if not own:
        return "none of these experiments decides it"
    reasons = list(dict.fromkeys(outcome.reason for outcome in own if outcome.reason))
    if reasons:
        return "; ".join(reasons)
    if judgement.missing:
        return f"not measured: {', '.join(judgement.missing)}"
    return "neither the claim nor its opposite was seen"


def _figure_row(one: Comparison) -> dict[str, Any]:
    return {
        "name": one.figure.name,
        "words": one.figure.words,
        "expected": one.expect.bound.words,
        "part": str(one.expect.part),
        "met": one.is_met,
        "runs": list(one.figure.runs),
    }


# -------------------------------------------------------------------- what is known from before


def join_outcomes(
    directories: Iterable[Path], seen_from: Path, experiments: Sequence[Experiment]
) -> tuple[list[ExperimentOutcome], list[dict[str, Any]]]:
    """Returns the last whole outcome of each of these experiments in the results of directories, and the documents themselves.

    Runs are named as they are found from `seen_from`. Raises `UnreadableRun` for a directory without results.
    """
    documents = [(directory, read_told(directory / CLAIMS)) for directory in directories]
    last: dict[str, ExperimentOutcome] = {}
    for directory, told in documents:
        rows = {row["name"]: row for row in told["experiments"]}
        for experiment in experiments:
            if experiment.name not in rows:
                continue
            runs_in = os.path.relpath(directory.resolve(), seen_from.resolve())
            found = ExperimentOutcome.of_json(experiment, rows[experiment.name], runs_in)
            earlier = last.get(experiment.name)
            if earlier is None or not found.reason or earlier.reason:
                last[experiment.name] = found
    absent = {
        each.name: ExperimentOutcome(experiment=each, reason=f"{each.name} was not carried out") for each in experiments
    }
    return list((absent | last).values()), [told for _, told in documents]


def last_rows(out: Path) -> dict[str, dict[str, Any]]:
    """Returns the newest row of each claim: of the results in `out`, else of the committed ones."""
    rows: dict[str, dict[str, Any]] = {}
    own = sorted(out.glob(f"*/{CLAIMS}")) if out.is_dir() else []
    for path in (COMMITTED, *own):
        if path.parent.is_symlink() or not path.is_file():
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            rows |= {row["id"]: row for row in document["claims"]}
        except (ValueError, KeyError, TypeError):
            continue  # of another version, or cut off while it was written
    return rows
