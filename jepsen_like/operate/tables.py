"""Rows as an operator reads them, one table with aligned columns, and as programs do, one JSON object a line. Pure.

A row is a mapping from names to values; all rows of a table have the same names, in the order of its columns.
"""

import base64
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
GAP = "  "
NOTHING = "-"


def table_lines(rows: Sequence[Row], columns: Sequence[str] | None = None, *, heading: bool = True) -> list[str]:
    """Returns the lines of a table: the names above, numbers to the right, texts to the left.

    `columns` names those to show, by default all of the first row.
    """
    names = list(columns if columns is not None else rows[0] if rows else ())
    cells = [[cell_of(row.get(name)) for name in names] for row in rows]
    lines = [[name.replace("_", " ") for name in names], *cells] if heading else cells
    widths = [max((len(line[at]) for line in lines), default=0) for at in range(len(names))]
    right = [all(is_number(row.get(name)) for row in rows) for name in names]
    return [GAP.join(map(_fit, line, widths, right)).rstrip() for line in lines]


def _fit(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def is_number(value: object) -> bool:
    """Returns True for what stands to the right of its column: a number, or nothing in its place."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def cell_of(value: object) -> str:
    """Returns a value as a cell: `-` for nothing, a list with commas; control characters are escaped."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case str():
            return printable(value)
        case Mapping():
            return ",".join(f"{name}={cell_of(each)}" for name, each in value.items()) or NOTHING
        case Iterable():
            return ",".join(cell_of(each) for each in value) or NOTHING
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """Returns a text that stays on its line and does nothing to a terminal: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(each if not unicodedata.category(each).startswith("C") else ascii(each)[1:-1] for each in text)


def json_line(row: Row) -> str:
    """Returns one object on one line, under the names of the row."""
    return json.dumps(row, ensure_ascii=False, default=list)


def record_fields(record: bytes, *, as_json: bool) -> dict[str, str]:
    """Returns a record as text; what is no UTF-8 is in base64 for JSON, and escaped in a table."""
    try:
        return {"record": record.decode()}
    except UnicodeDecodeError:
        if as_json:
            return {"base64": base64.b64encode(record).decode()}
        return {"record": record.decode(errors="backslashreplace")}
