"""Operation maps as they lie in files: JSON lines, a JSON array, EDN, or Jepsen's `history.txt`; on disk, on stdin or compressed.

A file is read piece by piece, and no more of it is kept than the map that is being read. Each map comes with its place.
"""

import contextlib
import gzip
import io
import itertools
import json
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import attrs

from jepsen_like.check.edn import FORM_CHARS_MAX, EdnError, forms, top_level
from jepsen_like.checker.edn_values import name_of
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.kinds import GZIP, HEAD_BYTES, foreign

STDIN: Final = Path("-")
HEAD_CHARS: Final = 1 << 16
LATER_LINES_MAX: Final = 1000
"""So many lines behind one that cannot be read are looked at for what tells why."""
CUT_OFF: Final = "was the file cut off?"


@attrs.frozen
class Event:
    """An operation map and its place."""

    fields: Mapping[str, Any]
    line: int
    nth: int
    """Which of those that begin in this line it is, from 1."""

    @property
    def place(self) -> str:
        """Returns where it is, in words."""
        return f"line {self.line}" if self.nth == 1 else f"line {self.line}, map {self.nth}"


OF_OPERATIONS: Final = ("type", "f", "process")


def read_events(path: Path, needed: Sequence[str] = OF_OPERATIONS) -> Iterator[Event]:
    """Returns the maps in a file, or on stdin for `-`. Raises `UnreadableHistory` at the first thing that lacks what is `needed`."""
    line, nth = 0, 0
    try:
        with _open(path) as stream:
            for at, item in _items(path, stream):
                line, nth = at, nth + 1 if at == line else 1
                if not isinstance(item, dict) or not set(needed) <= set(item):
                    place = Event({}, line, nth).place
                    raise UnreadableHistory(
                        path,
                        f"{place}: no map with {' and '.join([*[', '.join(needed[:-1])][: len(needed) - 1], needed[-1]])}",
                    )
                yield Event(item, line, nth)
    except (EdnError, ValueError, RecursionError) as error:
        raise UnreadableHistory(path, f"neither JSON lines nor EDN of operation maps: {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableHistory(path, str(error)) from error


@contextlib.contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    with contextlib.ExitStack() as stack:
        source = sys.stdin.buffer if path == STDIN else stack.enter_context(path.open("rb"))
        head = _read_head(source)
        whole: Any = io.BufferedReader(_Rejoined(head, source), HEAD_CHARS)
        if head.startswith(GZIP):
            whole = io.BufferedReader(gzip.GzipFile(fileobj=whole), HEAD_CHARS)
            head = whole.peek(HEAD_BYTES)[:HEAD_BYTES]
            if head.startswith(GZIP):
                raise UnreadableHistory(path, "is compressed with gzip twice: decompress it once (gunzip)")
        if (reason := foreign(head)) is not None:
            raise UnreadableHistory(path, reason)
        yield io.TextIOWrapper(whole, encoding="utf-8-sig")


def _read_head(source: IO[bytes]) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES and (more := source.read(HEAD_BYTES - len(head))):
        head += more
    return head


class _Rejoined(io.RawIOBase):
    """A stream of which the first bytes have been looked at."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        found = self._head or self._rest.read(len(into))
        self._head = b""
        into[: len(found)] = found
        return len(found)


def _items(path: Path, stream: IO[str]) -> Iterator[tuple[int, Any]]:
    """Yields what stands in the file, each with the line where it begins."""
    head = stream.read(HEAD_CHARS)
    names = [suffix for suffix in path.suffixes if suffix != ".gz"]
    suffix = names[-1] if names else ""
    text = head.lstrip(" \t\r\n")
    if suffix == ".txt" and text.partition("\n")[0].count("\t") >= COLUMNS_MIN - 1:
        yield from _table(_lines(head, stream))
    elif suffix == ".edn" or (
        suffix not in (".json", ".jsonl") and text.lstrip("[ \t\r\n").startswith((";", "#", "{:"))
    ):
        yield from top_level(head, stream.read)
    elif text.startswith("["):
        yield from _array(head, stream)
    else:
        yield from _json_lines(_lines(head, stream))


def _lines(head: str, stream: IO[str]) -> Iterator[str]:
    *whole, rest = head.split("\n")
    yield from whole
    number = len(whole)
    while line := rest + stream.readline(FORM_CHARS_MAX + 1 - len(rest)):
        number, rest = number + 1, ""
        if len(line) > FORM_CHARS_MAX:
            raise ValueError(f"line {number}: has more than {FORM_CHARS_MAX:,} characters")
        yield line


def _json_lines(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                later = itertools.islice(lines, LATER_LINES_MAX)
                is_last = next((False for more in later if more.strip()), True)
                ends = f"; {CUT_OFF}" if is_last and number > 1 else ""
                raise ValueError(f"line {number}: {error.msg} at column {error.colno}{ends}") from error


def _array(text: str, stream: IO[str]) -> Iterator[tuple[int, Any]]:
    """The elements of one JSON array."""
    decoder, line, at = json.JSONDecoder(), 1, text.index("[") + 1
    line += text.count("\n", 0, at)
    while True:
        begin = len(text) - len(text[at:].lstrip(" \t\r\n,")) if at < len(text) else at
        line += text.count("\n", at, begin)
        if text.startswith("]", begin):
            if (text[begin + 1 :] + stream.read(HEAD_CHARS)).strip():
                raise ValueError(f"line {line}: something follows the array")
            return
        reason, at = "the file ends before ]", begin
        if begin < len(text):
            try:
                found, at = decoder.raw_decode(text, begin)
            except json.JSONDecodeError as error:
                reason = error.msg
            else:
                # A number at the end of a piece may go on in the next one; a map cannot.
                yield line, found
                line += text.count("\n", begin, at)
                if at > HEAD_CHARS:
                    text, at = text[at:], 0
                continue
        more = stream.read(max(HEAD_CHARS, len(text) - begin))
        text, at = text[begin:] + more, 0
        if not more or len(text) > FORM_CHARS_MAX:
            raise ValueError(
                f"line {line}: {reason}{f'; an element of more than {FORM_CHARS_MAX:,} characters' if more else f'; {CUT_OFF}'}"
            )


COLUMNS_MIN: Final = 4


def _table(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    """Jepsen's `history.txt`: process, type, f, value and error, if any, with tabs between them."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        columns = line.rstrip("\n").split("\t")
        if len(columns) < COLUMNS_MIN:
            raise ValueError(f"line {number}: process, type, f and value expected, with tabs between them; {CUT_OFF}")
        try:
            cells = [next(forms(cell), None) for cell in columns[:COLUMNS_MIN]]
        except EdnError as error:
            raise ValueError(f"line {number}: {error.reason}") from error
        for cell in columns[COLUMNS_MIN:]:
            try:
                cells.append(next(forms(cell), None))
            except EdnError:  # an error that is told in words
                cells.append(cell)
        fields = dict(zip(("process", "type", "f", "value", "error"), cells, strict=False))
        yield number, {**fields, "type": name_of(fields["type"]), "f": name_of(fields["f"])}
