"""The little of SVG that the report draws with: elements, scales and ticks. Everything that is text is escaped here."""

import math
from collections.abc import Iterable, Sequence

import attrs
from markupsafe import Markup, escape


def element(name: str, *content: str | Markup, **attributes: str | float | None) -> Markup:
    """One SVG element. `class_` means class, `stroke_width` stroke-width; numbers are rounded; None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(content)
    return Markup(f"<{name}{written}>{inside}</{name}>") if inside else Markup(f"<{name}{written}/>")


def short(value: str | float) -> str:
    """A coordinate with at most one decimal; text as it is."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


LETTER_WIDTH = 6.1
"""Of a label, in pixels."""


@attrs.frozen
class Scale:
    """A map from values to pixels, linear or by decades."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel for a value; values outside end at the border."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(high: float, about: int) -> list[float]:
    """Round values from 0 up to `high`, roughly `about` of them: steps of 1, 2 or 5 times a power of ten."""
    if high <= 0:
        return [0.0]
    raw = high / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [step * count for count in range(int(high / step * 1.0001) + 1)]


def area(points: Sequence[tuple[float, float]], base: float) -> str:
    """A filled step shape between the points and a base line."""
    if not points:
        return ""
    return (
        f"M{short(points[0][0])} {short(base)}"
        + "".join(f"L{short(x)} {short(y)}" for x, y in points)
        + (f"L{short(points[-1][0])} {short(base)}Z")
    )


def line(points: Iterable[tuple[float, float] | None]) -> str:
    """A line through the points; a gap where there is None, a dot where a point stands alone."""
    path: list[str] = []
    drawing = False
    for point in points:
        if point is None:
            drawing = False
            continue
        x, y = short(point[0]), short(point[1])
        path.append(f"L{x} {y}" if drawing else f"M{x} {y}h.1")
        drawing = True
    return "".join(path)


def fit(texts: Iterable[str], room: float) -> str:
    """Returns the first of these labels that fits into so many pixels; empty if none does."""
    return next((text for text in texts if len(text) * LETTER_WIDTH <= room), "")


def seconds(value: float) -> str:
    """A duration as people say it: `830 µs`, `12.4 ms`, `0.63 s`, `2 min 05 s`."""
    if value >= 120:
        return f"{int(value // 60)} min {int(value % 60):02d} s"
    if value >= 10:
        return f"{value:.1f} s"
    if value >= 0.1:
        return f"{value:.2f} s"
    if value >= 0.0009995:
        return f"{value * 1e3:.1f} ms"
    return f"{value * 1e6:.0f} µs"


def round_off(value: float) -> str:
    """A count or rate with as much precision as the eye needs: `1,820`, `12.5k`, `3.1M`."""
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e6 if unit == "M" else 1e3)
            return f"{scaled:.1f}".removesuffix(".0") + unit
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:g}"
