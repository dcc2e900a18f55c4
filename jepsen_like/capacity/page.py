"""The page about a measurement of capacity: the load of each broker before and after the loss, and the table of all trials."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from jepsen_like.report.canvas import Scale, element
from jepsen_like.report.experiment import ExperimentPage, FigureTable

WIDTH, ROW = 1100.0, 92.0
LEFT, RIGHT, TOP = 150.0, 20.0, 26.0
BAR, GAP, APART, TALL = 28.0, 14.0, 34.0, 54.0
SHARE_MAX: Final = 2.2
"""The greatest load that is drawn, as a share of a broker's capacity."""
STORY: Final = (
    "A load needs M brokers. In N zones it takes M·N/(N−1) of them, so that the loss of a zone overloads none of the others. "
    "With one fewer, or with the same number in uneven zones, it does."
)
CAPTION: Final = (
    "A pair of bars for each broker: its load before the loss (grey) and after it, as a share of its stated capacity, which is the line. "
    "Green: everything was answered. Red: the broker left messages unanswered. Dashed: it was lost."
)
NOTE: Final = (
    "Sizes: brokers in each zone; the first zone is lost. Load: in capacities of one broker, sent at 95 %. Left: brokers by the rule, and what the "
    "remaining ones served under more than they can, in the same unit. Answered: the least of any broker, after the loss. Arbiters hold no records: they "
    "keep a majority for Kafka's controllers."
)
HEAD: Final = (
    *("sizes", "zones", "load", "M·N/(N−1)", "brokers", "arbiters"),
    *("left", "left, measured", "off", "answered", "p99 after", "overloaded"),
)


def table_of(rows: Sequence[Mapping[str, Any]]) -> FigureTable:
    """All trials as a table."""
    return FigureTable(title="The trials", head=HEAD, rows=[_cells(row) for row in rows], note=NOTE)


def _cells(row: Mapping[str, Any]) -> list[str]:
    least = min((load["answered"] for load in row["after"]["brokers"].values()), default=1.0)
    p99 = row["after"]["p99_ms"]
    return [
        row["name"],
        str(row["zones"]),
        str(row["load"]),
        f"{row['demanded']:g}",
        str(row["brokers"]),
        str(row["arbiters"]),
        str(row["left"]),
        f"{row['left_measured']:.2f}",
        f"{row['off']:+.1%}",
        f"{least:.1%}",
        "-" if p99 is None else f"{p99:.0f} ms",
        f"{len(row['overloaded'])} of {row['left']}" if row["overloaded"] else "none",
    ]


def page_of(told: Mapping[str, Any]) -> ExperimentPage:
    """Returns the page of capacity.json."""
    rows = told["trials"]
    missing = [f"{row['name']}: {row['missing']}" for row in rows if row["missing"]]
    return ExperimentPage(
        name="capacity",
        headline="The rule was not confirmed"
        if missing
        else "M·N/(N−1) brokers survive the loss of a zone, one fewer does not",
        story=STORY,
        command=told["command"],
        tables=[table_of(rows)],
        missing=missing,
        picture=draw_loads(rows),
        caption=CAPTION,
    )


def draw_loads(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """A row of bars for each trial."""
    height = TOP + ROW * len(rows)
    drawn: list[Markup] = []
    for number, row in enumerate(rows):
        floor = TOP + ROW * number + TALL + 12
        upwards = Scale(0.0, SHARE_MAX, floor, floor - TALL)
        drawn.append(element("text", row["name"], class_="lane-name", x=8.0, y=floor - 22))
        told = f"load {row['load']}, {row['brokers']} brokers"
        drawn.append(element("text", told, class_="tick", x=8.0, y=floor - 6))
        end = _draw_brokers(drawn, row, upwards, floor)
        full = upwards(1.0)
        drawn.append(element("line", class_="full", x1=LEFT - 6, x2=end, y1=full, y2=full))
        drawn.append(element("text", "100 %", class_="tick", x=LEFT - 12, y=full + 4, text_anchor="end"))
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_label="load of each broker before and after",
    )


def _draw_brokers(drawn: list[Markup], row: Mapping[str, Any], upwards: Scale, floor: float) -> float:
    """Draw the bars of all brokers, zone by zone. Returns where they end."""
    x, zone_of = LEFT, row["zone_of"]
    by_zone: dict[str, list[str]] = {}
    for broker, zone in sorted(zone_of.items(), key=lambda each: (each[1], int(each[0]))):
        by_zone.setdefault(zone, []).append(broker)
    for zone, brokers in by_zone.items():
        drawn.append(element("text", f"zone {zone}", class_="tick", x=x, y=floor + 14))
        for broker in brokers:
            before = row["before"]["brokers"][broker]["offered_s"] / row["limit_s"]
            drawn.append(_bar("load was", x, before, upwards, floor, f"n{broker} before: {before:.0%}"))
            after = row["after"]["brokers"].get(broker)
            if after is None:
                drawn.append(
                    element(
                        "rect", class_="lost-broker", x=x + BAR, y=upwards(1.0), width=BAR, height=floor - upwards(1.0)
                    )
                )
            else:
                share = after["offered_s"] / row["limit_s"]
                tone = "over" if int(broker) in row["overloaded"] else "fits"
                said = f"n{broker} after: {share:.0%}, {after['answered']:.0%} answered"
                drawn.append(_bar(f"load {tone}", x + BAR, share, upwards, floor, said))
            x += 2 * BAR + GAP
        x += APART
    return x - APART


def _bar(class_: str, x: float, share: float, upwards: Scale, floor: float, said: str) -> Markup:
    top = upwards(share)
    return element("rect", element("title", said), class_=class_, x=x, y=top, width=BAR - 1, height=floor - top)
