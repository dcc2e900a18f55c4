"""One page about a scenario: what its trials had to show, side by side in a table, and then the pictures of each.

A directory of a scenario holds `scenario.json` and a run directory for each trial, whose own page tells the rest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from jepsen_like.record.results import count
from jepsen_like.report.canvas import seconds
from jepsen_like.report.findings import read_findings, read_told
from jepsen_like.report.overview import overview
from jepsen_like.report.page import describe_loss, face_of, fill, verdict
from jepsen_like.report.partitions import group_picture
from jepsen_like.report.queue_states import read_queue_states

SCENARIO: Final = "scenario.json"
LOSSES_MAX: Final = 3
VIOLATED: Final = {"kind": "violated", "word": "Violated", "sign": "✗", "headline": "A promise was broken"}
UNDECIDED: Final = {"kind": "unknown", "word": "Unknown", "sign": "?", "headline": "The scenario did not come about"}
CAME_ABOUT: Final = {"kind": "valid", "word": "Valid", "sign": "✓", "headline": "Every promise was kept"}
WITH_LOSS: Final = {
    "kind": "allowed",
    "word": "Valid, with losses",
    "sign": "!",
    "headline": "Every promise was kept, and what a mode allows was lost",
}


def render_comparison(directory: Path) -> Path:
    """Write a scenario's `report.html` and return its path. Raises `UnreadableRun` if one of its files is missing."""
    told = read_told(directory / SCENARIO)
    text = fill(
        "comparison.html.jinja",
        name=told["name"],
        system=told["system"],
        story=told["story"],
        command=told["command"],
        directory=directory.resolve().name,
        verdict=sum_up(told["trials"]),
        with_groups=any(row["stalls"] for row in told["trials"]),
        with_scopes=any(row["silences"] for row in told["trials"]),
        trials=[_trial(directory, number, row) for number, row in enumerate(told["trials"], 1)],
    )
    path = directory / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def sum_up(trials: list[Mapping[str, Any]]) -> Mapping[str, str]:
    """The banner: the worst of all trials."""
    if any(trial["valid"] is False for trial in trials):
        return VIOLATED
    if any(trial["valid"] is None or trial["missing"] for trial in trials):
        return UNDECIDED
    return WITH_LOSS if any(trial["lost_allowed"] for trial in trials) else CAME_ABOUT


def _trial(directory: Path, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    place = directory / row["directory"]
    found = read_findings(place)
    states = read_queue_states(place, found.test)
    face = face_of(found)
    banner = verdict(found, face)
    stalls = row["stalls"] or {"groups_s": {}, "reads_s": None}
    silences = row["silences"] or {"scopes_s": {}}
    lines = [describe_loss(loss) for loss in found.results.lost_allowed[:LOSSES_MAX]]
    return {
        "number": number,
        "name": row["name"],
        "kind": banner.kind,
        "word": banner.word,
        "headline": banner.headline,
        "found": banner.found,
        "report": f"{row['directory']}/report.html",
        "acked": f"{row['acked']:,}",
        "lost": f"{count(row['lost']):,}",
        "groups_stalled": _put_into_words(stalls["groups_s"]),
        "scopes_silent": _put_into_words(silences["scopes_s"]),
        "reads_stalled": _format_stall(stalls["reads_s"]),
        "shown": f"did not come about: {row['missing']}" if row["missing"] else row["shows"],
        "lines": [*lines, *(violation.sentence for violation in found.violations[:LOSSES_MAX])],
        "overview": _apart(overview(found), number),
        "groups": [
            {"name": group.name, "picture": group_picture(found, group)}
            for group in (states.groups if states is not None else ())
        ],
    }


def _put_into_words(stalls: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_format_stall(value)}" for name, value in stalls.items())


def _format_stall(value: float | None) -> str:
    return "always" if value is None else seconds(value)


def _apart(picture: Markup, number: int) -> Markup:
    """The picture with ids that no other one on the page has."""
    text = str(picture)
    for id_ in ("hatch-", "overview", "cursor"):
        text = text.replace(f'id="{id_}', f'id="{id_}{number}-').replace(f"url(#{id_}", f"url(#{id_}{number}-")
    return Markup(text)
