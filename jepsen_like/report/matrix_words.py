"""Puts into words what the table, the page and the README have in common of a matrix: its cells, and which mode is ahead in what. Pure.

A matrix is `matrix.json` as `quorumlog matrix` writes it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jepsen_like.report.canvas import seconds

KEPT, LOST, BROKEN, UNDECIDED, NOT_DONE = "valid", "allowed", "violated", "unknown", "absent"
CALM: Final = "none"
Row = Mapping[str, Any]


def kind_of(row: Row) -> str:
    """Returns how a cell looks: nothing that lost a record looks kept."""
    if row["reason"] is not None:
        return NOT_DONE
    if row["valid"] is None:
        return UNDECIDED
    if row["valid"] is False:
        return BROKEN
    return LOST if row["lost"] else KEPT


def cell_words(row: Row) -> str:
    """A cell in a few words."""
    if row["reason"] is not None:
        return "not done"
    if row["column"] == CALM:
        speed = f"{row['rate_s']:,.0f}/s"
        return speed if kind_of(row) == KEPT else f"{speed} {verdict(row)}"
    return f"{verdict(row)}, {away(row)}"


def verdict(row: Row) -> str:
    """Returns what was kept."""
    return {
        KEPT: "kept all",
        LOST: f"lost {row['lost']:,}",
        BROKEN: f"BROKEN, lost {row['lost']:,}",
        UNDECIDED: "undecided",
    }[kind_of(row)]


def away(row: Row) -> str:
    """For how long nothing was acknowledged."""
    return "never back" if row["unrecovered"] else "-" if row["rto_s"] is None else seconds(row["rto_s"])


def cell_line(row: Row) -> str:
    """A cell in one line, with why it is not as the others."""
    why = row["reason"] or row["why"]
    return f"{cell_words(row)}   {why}" if why else cell_words(row)


def reasons(told: Row) -> list[str]:
    """Why cells were not done, a line for each reason."""
    found: dict[str, list[str]] = {}
    for row in told["cells"]:
        if row["reason"] is not None:
            found.setdefault(row["reason"], []).append(f"{row['way']} · {row['column']}")
    return [f"not done: {'; '.join(where)}: {reason}" for reason, where in found.items()]


def cells_that_ran(told: Row, way: str) -> dict[str, Row]:
    """The cells of a row that ran, by column."""
    return {row["column"]: row for row in told["cells"] if row["way"] == way and row["reason"] is None}


def ways_of(told: Row) -> list[str]:
    """The rows that there are."""
    return list(dict.fromkeys(row["way"] for row in told["cells"]))


def common(told: Row) -> list[str]:
    """The faults that every mode was given."""
    of_ways = [cells_that_ran(told, way) for way in ways_of(told)]
    names = dict.fromkeys(row["column"] for row in told["cells"] if row["column"] != CALM)
    return [name for name in names if of_ways and all(name in of_way for of_way in of_ways)]


def away_s(told: Row, way: str, columns: Sequence[str]) -> float | None:
    """Returns how long a mode acknowledged nothing in all these cells together; None if it did not come back in one, or there are none."""
    rows = [cells_that_ran(told, way)[name] for name in columns]
    return None if not rows or any(row["unrecovered"] for row in rows) else sum(float(row["down_s"]) for row in rows)


def lost_of(told: Row, way: str) -> int:
    """The records that a mode lost in all its cells."""
    return sum(int(row["lost"]) for row in cells_that_ran(told, way).values())


def answers(told: Row) -> list[str]:
    """Which mode is ahead in what, and whether one is ahead in all."""
    ways = ways_of(told)
    rates = {way: float(cells_that_ran(told, way)[CALM]["rate_s"]) for way in ways if CALM in cells_that_ran(told, way)}
    faults = common(told)
    outages = {way: spent for way in ways if (spent := away_s(told, way, faults)) is not None}
    struck = [way for way in ways if set(cells_that_ran(told, way)) - {CALM}]
    keepers = [way for way in struck if all(kind_of(row) == KEPT for row in cells_that_ran(told, way).values())]
    if not rates or not outages:
        return ["Which mode is ahead cannot be told without the column none and a fault that every mode was given."]
    fastest, shortest = max(rates, key=lambda way: rates[way]), min(outages, key=lambda way: outages[way])
    ahead = [fastest] if fastest == shortest and fastest in keepers else []
    return [
        f"Fastest: {fastest}, {rates[fastest]:,.0f} acknowledged records per second without a fault.",
        f"Shortest without service: {shortest}, {seconds(outages[shortest])} in all under {', '.join(faults)}.",
        f"Kept all in every cell that ran: {'; '.join(keepers) or 'none'}.",
        f"Ahead in all three at once: {ahead[0]}." if ahead else "No mode is ahead in all three at once.",
    ]
