"""Large valid histories, and one wrong operation in them.

A base history is made by numpy from a correct execution: every operation takes effect at one moment of its interval, eight
or so overlap, one in fifty has an unknown outcome (half of these took effect), one in a hundred was refused. A plant then
changes as few rows and final records as the wrong behaviour would have changed, and marks the operation that has to be in
the witness: its process is `CULPRIT`.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.rows.final_logs import DUMP
from jepsen_like.checker.verdict import Check, Model
from jepsen_like.history.files import bucket_of, schema, write_part
from jepsen_like.history.ops import COLUMNS, DUMP_COLUMNS, NEVER, NONE, Action, ErrorCode, Outcome

Ints = npt.NDArray[np.int64]
Rows = dict[str, Any]

CULPRIT = 10**8
LANES = 16
FRESH = 10**12
"""Values that no base history has."""
PART_ROWS = 32768
BUCKETS = 8
NODES = (1, 2, 3)
FALL = 7
"""At so many eighths of a log its epochs begin to fall."""


@attrs.frozen(eq=False)
class Base:
    """A valid history: rows by the time they ended, and for a log what is in it in the end."""

    model: Model
    rows: Rows
    content: Ints
    altered: Callable[[int, Rows], Rows] = lambda node, log: log
    """Alters the final log of a node when it is dumped."""


@attrs.frozen
class Plant:
    """One wrong behaviour: `apply` changes a copy of the rows and of the content in place."""

    name: str
    model: Model
    check: Check
    apply: Callable[[np.random.Generator, Rows, Ints], Ints]
    altered: Callable[[int, Rows], Rows] = lambda node, log: log
    of_final_logs: bool = False
    """True if the final logs show it alone, and no client has seen it."""


def _intervals(rng: np.random.Generator, count: int) -> tuple[Ints, Ints]:
    moment = np.arange(count, dtype=np.int64) * 1000 + 1_000_000
    return moment - rng.integers(0, 4000, count), moment + rng.integers(0, 4000, count)


def _rows(rng: np.random.Generator, count: int) -> Rows:
    rows: Rows = {name: np.full(count, NONE, np.int64) for name, _ in COLUMNS}
    rows["t_inv"], rows["t_ret"] = _intervals(rng, count)
    rows["attempt"][:] = rows["err"][:] = rows["object"][:] = 0
    rows["count"][:] = 1
    rows["node"] = rng.integers(1, 4, count)
    draw = rng.random(count)
    rows["type"] = np.where(draw < 0.02, Outcome.INFO, np.where(draw < 0.03, Outcome.FAIL, Outcome.OK)).astype(np.int64)
    for lane in range(LANES):
        # One is done before the next begins, and after an unknown outcome a new process goes on.
        unknown = rows["type"][lane::LANES] == Outcome.INFO
        rows["process"][lane::LANES] = lane + LANES * (np.cumsum(unknown) - unknown)
    rows["err"] = np.where(rows["type"] == Outcome.FAIL, ErrorCode.BUSY, ErrorCode.NONE).astype(np.int64)
    return rows


def _by_end(rows: Rows) -> Rows:
    rows["t_ret"] = np.where(rows["type"] == Outcome.INFO, NEVER, rows["t_ret"])
    # An operation whose end was not observed was recorded when the client gave up.
    order = np.argsort(np.where(rows["t_ret"] == NEVER, rows["t_inv"] + 10_000, rows["t_ret"]), kind="stable")
    return {name: values[order] for name, values in rows.items()}


def log_base(count: int, seed: int) -> Base:
    """Appends, reads near the end, reads behind the end and tails of one log."""
    rng = np.random.default_rng(seed)
    rows = _rows(rng, count)
    draw = rng.random(count)
    rows["count"] = np.where((draw < 0.5) & (rng.random(count) < 0.15), rng.integers(2, 5, count), 1)
    append, tail, behind = draw < 0.5, draw >= 0.9, (draw >= 0.8) & (draw < 0.9)
    rows["f"] = np.where(append, Action.APPEND, np.where(tail, Action.TAIL, Action.READ)).astype(np.int64)
    landed = append & ((rows["type"] == Outcome.OK) | ((rows["type"] == Outcome.INFO) & (rng.random(count) < 0.5)))
    length = np.cumsum(landed * rows["count"]) - landed * rows["count"]
    ids = np.cumsum(rows["count"]) - rows["count"] + 1
    total = int((landed * rows["count"]).sum())
    place = np.where(append | tail | behind, length, np.maximum(length - 1 - rng.integers(0, 2000, count), 0))
    rows["offset"] = np.where(append & (rows["type"] != Outcome.OK), NONE, place)
    # A batch is one row for each of its records.
    size, landed = rows["count"], np.repeat(landed, rows["count"])
    position = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    rows = {name: np.repeat(values, size) for name, values in rows.items()}
    append, tail, length = (np.repeat(each, size) for each in (append, tail, length))
    ids = np.repeat(ids, size) + position
    content = ids[landed]
    assert len(content) == total
    place = rows["offset"]
    rows["offset"] = np.where(append & (place != NONE), place + position, place)
    there = np.where(place < length, np.append(content, 0)[np.minimum(place, len(content))], NONE)
    rows["a"] = np.where(append, ids, np.where(tail, NONE, there))
    named = (rows["type"] == Outcome.OK) & ~tail & (rows["a"] != NONE)
    rows["epoch"] = np.where(named, epoch_of(rows["offset"], total), NONE)
    return Base(Model.LOG, _by_end(rows), content)


def epoch_of(offset: Ints, length: int) -> Ints:
    """Up to eight epochs, one after the other, whose borders a record more at the end does not move."""
    epochs: Ints = 1 + offset * 4 // 2 ** (length.bit_length() - 1)
    return epochs


def register_base(count: int, seed: int, keys: int = 10_000) -> Base:
    """Writes, reads and compare-and-sets of many registers."""
    rng = np.random.default_rng(seed)
    rows = _rows(rng, count)
    rows["object"] = rng.integers(1, keys + 1, count)
    draw = rng.random(count)
    write, swap, miss = draw < 0.25, (draw >= 0.25) & (draw < 0.4), (draw >= 0.4) & (draw < 0.5)
    rows["f"] = np.where(write, Action.WRITE, np.where(swap | miss, Action.CAS, Action.READ)).astype(np.int64)
    ok, unknown = rows["type"] == Outcome.OK, rows["type"] == Outcome.INFO
    sets = (write | swap) & (ok | (unknown & (rng.random(count) < 0.5)))
    ids = np.arange(1, count + 1, dtype=np.int64)
    before = _last_set(rows["object"], sets, ids)
    rows["a"] = np.where(write, ids, np.where(miss, FRESH * 2 + ids, before))
    rows["b"] = np.where(swap | miss, ids, NONE)
    rows["seen"] = np.where((swap | miss) & ok, before, NONE)
    return Base(Model.REGISTER, _by_end(rows), np.zeros(0, np.int64))


def _last_set(key: Ints, sets: npt.NDArray[np.bool_], value: Ints) -> Ints:
    """For each row, the value of the latest earlier row with the same key that set one."""
    order = np.argsort(key, kind="stable")
    begins = np.concatenate([[True], key[order][1:] != key[order][:-1]])
    position = np.arange(len(order))
    setter = np.where(sets[order], position, -1)
    latest = np.concatenate([[-1], np.maximum.accumulate(setter)[:-1]])
    first = np.maximum.accumulate(np.where(begins, position, 0))
    found = np.where(latest >= first, value[order][np.maximum(latest, 0)], NONE)
    result = np.empty_like(value)
    result[order] = found
    return result


def _some(rng: np.random.Generator, mask: npt.NDArray[np.bool_]) -> int:
    """A row of the middle half for which the mask holds."""
    candidates = np.flatnonzero(mask)
    return int(candidates[rng.integers(len(candidates) // 4, 3 * len(candidates) // 4)])


def _unread(rows: Rows, content: Ints) -> npt.NDArray[np.bool_]:
    """Which places no read asked for: what stands there can change without a second trace."""
    unread = np.ones(len(content) + 1, np.bool_)
    unread[rows["offset"][(rows["f"] == Action.READ) & (rows["type"] == Outcome.OK)]] = False
    return unread[:-1]


def _is(rows: Rows, f: Action, outcome: Outcome) -> npt.NDArray[np.bool_]:
    alone = (rows["count"] == 1) | (f != Action.APPEND)
    return np.asarray((rows["f"] == f) & (rows["type"] == outcome) & alone)


def _quiet_append(rng: np.random.Generator, rows: Rows, content: Ints) -> int:
    acked = _is(rows, Action.APPEND, Outcome.OK)
    return _some(rng, acked & _unread(rows, content)[np.where(acked, rows["offset"], 0)])


def _quiet_unknown(rng: np.random.Generator, rows: Rows, content: Ints) -> tuple[int, int]:
    """An append of unknown outcome that landed at a place that was never read: (row, place)."""
    unread = _unread(rows, content)
    unknown = _is(rows, Action.APPEND, Outcome.INFO) & np.isin(rows["a"], content[unread])
    row = _some(rng, unknown)
    return row, int(np.searchsorted(content, rows["a"][row]))


def stale_tail(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _some(rng, _is(rows, Action.TAIL, Outcome.OK))
    between = np.sort(rows["offset"][_is(rows, Action.APPEND, Outcome.OK)])  # outside all batches
    rows["offset"][row] = between[np.searchsorted(between, rows["offset"][row] - 100)]
    rows["process"][row] = CULPRIT
    return content


def stale_read(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _some(rng, _is(rows, Action.READ, Outcome.OK) & (rows["a"] != NONE))
    rows["a"][row] = NONE
    rows["process"][row] = CULPRIT
    return content


def lose_append(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _quiet_append(rng, rows, content)
    absent = _is(rows, Action.APPEND, Outcome.INFO) & ~np.isin(rows["a"], content)
    earlier = np.flatnonzero(absent & (rows["t_inv"] < rows["t_inv"][row]))
    content[rows["offset"][row]] = rows["a"][earlier[-1]]
    rows["process"][row] = CULPRIT
    return content


def two_values(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _some(rng, _is(rows, Action.READ, Outcome.OK) & (rows["a"] != NONE) & (rows["offset"] > 10))
    rows["a"][row] = content[rows["offset"][row] - 1]
    rows["process"][row] = CULPRIT
    return content


def reorder_appends(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    acked = _is(rows, Action.APPEND, Outcome.OK)
    quiet = _unread(rows, content)
    by_offset = np.full(len(content), NONE, np.int64)
    by_offset[rows["offset"][acked]] = np.flatnonzero(acked)
    first, second = by_offset[:-8], by_offset[8:]
    # An append of unknown outcome between them would have been seen before it began, which is another flaw.
    usable = np.lib.stride_tricks.sliding_window_view(by_offset != NONE, 9).all(axis=1) & quiet[:-8] & quiet[8:]
    usable &= rows["t_ret"][first] < rows["t_inv"][second]
    at = _some(rng, usable)
    one, other = by_offset[at], by_offset[at + 8]
    rows["offset"][one], rows["offset"][other] = at + 8, at
    content[at], content[at + 8] = rows["a"][other], rows["a"][one]
    rows["process"][one] = rows["process"][other] = CULPRIT
    return content


def phantom(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = int(np.flatnonzero(_is(rows, Action.READ, Outcome.OK))[-1])
    rows["a"][row], rows["offset"][row], rows["t_ret"][row] = FRESH, len(content), rows["t_ret"].max() - 1
    rows["t_ret"][row] = 10**9 + int(rows["t_inv"].max())
    rows["epoch"][row] = NONE
    rows["process"][row] = CULPRIT
    return np.append(content, FRESH)


def abort_append(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row, _ = _quiet_unknown(rng, rows, content)
    rows["type"][row], rows["t_ret"][row] = Outcome.FAIL, rows["t_inv"][row] + 1
    rows["process"][row] = CULPRIT
    return content


def duplicate(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    _, place = _quiet_unknown(rng, rows, content)
    row = _quiet_append(rng, rows, content)
    content[place] = rows["a"][row]
    rows["process"][row] = CULPRIT
    return content


def ends_early(node: int, log: Rows) -> Rows:
    return {name: values[:-50] for name, values in log.items()} if node == NODES[1] else log


def later_epoch(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _some(rng, _is(rows, Action.APPEND, Outcome.OK))
    rows["epoch"][row] += 3
    rows["process"][row] = CULPRIT
    return content


def falling_epochs(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    """From some place on the epoch is the first again, and all agree on it."""
    at = FALL * len(content) // 8
    rows["epoch"][(rows["epoch"] != NONE) & (rows["offset"] >= at)] = 1
    there = np.flatnonzero((rows["offset"] == at) & (rows["epoch"] != NONE))
    first = there[np.argmin(rows["t_inv"][there])]
    same = (rows["process"] == rows["process"][first]) & (rows["t_inv"] == rows["t_inv"][first])
    rows["process"][same] = CULPRIT
    return content


def dumped_epochs_fall(node: int, log: Rows) -> Rows:
    at = FALL * len(log["offset"]) // 8
    return {**log, "epoch": np.where(log["offset"] >= at, 1, log["epoch"])}


def _quiet_batch(rng: np.random.Generator, rows: Rows, content: Ints) -> tuple[Ints, int]:
    """The rows of a batch that landed, made one of unknown outcome that no read has seen, and its first place."""
    batch = (rows["f"] == Action.APPEND) & (rows["type"] == Outcome.OK) & (rows["count"] > 1)
    row = _some(rng, batch & np.append(True, rows["t_inv"][1:] != rows["t_inv"][:-1]))
    own, place = row + np.arange(int(rows["count"][row])), int(rows["offset"][row])
    reads = (rows["f"] == Action.READ) & (rows["offset"] >= place) & (rows["offset"] < place + len(own))
    seen = np.flatnonzero(reads & (rows["a"] != NONE) & (rows["type"] == Outcome.OK))
    rows["type"][seen], rows["err"][seen] = Outcome.FAIL, ErrorCode.BUSY
    rows["type"][own], rows["t_ret"][own], rows["offset"][own], rows["epoch"][own] = Outcome.INFO, NEVER, NONE, NONE
    return own, place


def reversed_batch(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    batch, place = _quiet_batch(rng, rows, content)
    rows["process"][batch] = CULPRIT
    content[place : place + len(batch)] = content[place : place + len(batch)][::-1].copy()
    return content


def torn_batch(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    """Of its last record there is nothing: another append of unknown outcome stands there."""
    batch, place = _quiet_batch(rng, rows, content)
    rows["process"][batch] = CULPRIT
    absent = _is(rows, Action.APPEND, Outcome.INFO) & ~np.isin(rows["a"], content)
    content[place + len(batch) - 1] = rows["a"][np.flatnonzero(absent & (rows["t_inv"] < rows["t_inv"][batch[0]]))[-1]]
    return content


def half_seen_batch(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    """Asked while a batch is appended, a node answers that the log ends inside it."""
    acked = (rows["f"] == Action.APPEND) & (rows["type"] == Outcome.OK) & (rows["count"] > 1)
    first = acked & np.append(True, rows["t_inv"][1:] != rows["t_inv"][:-1])
    tails = np.flatnonzero(_is(rows, Action.TAIL, Outcome.OK))
    batches = np.flatnonzero(first)
    batch_at = dict(zip(rows["offset"][batches].tolist(), batches.tolist(), strict=True))
    denies = (rows["type"] == Outcome.OK) & ((rows["f"] == Action.TAIL) | (rows["a"] == NONE))
    for tail in tails[len(tails) // 4 :].tolist():
        row = batch_at.get(int(rows["offset"][tail]))
        if row is None or rows["t_inv"][row] > rows["t_ret"][tail]:
            continue
        # Else who denied the whole batch afterwards would be a stale reader.
        if (rows["t_inv"][denies & (rows["offset"] == rows["offset"][tail])] <= rows["t_ret"][tail]).all():
            rows["offset"][tail] += 1
            rows["process"][tail] = CULPRIT
            return content
    raise AssertionError("no end of this log was asked for while a batch was appended")


def _old_value(rows: Rows, row: int) -> int:
    """A value of the same register that was overwritten, seen overwritten and long gone when `row` began."""
    mine = np.flatnonzero((rows["object"] == rows["object"][row]) & (rows["f"] == Action.WRITE))
    known = mine[(rows["type"][mine] == Outcome.OK) & (rows["t_ret"][mine] < rows["t_inv"][row])]
    # One that a swap replaced would be replaced twice, which is another flaw.
    known = known[~np.isin(rows["a"][known], rows["seen"][rows["object"] == rows["object"][row]])]
    return int(rows["a"][known[0]]) if len(known) > 3 else NONE


def _with_old_value(rng: np.random.Generator, rows: Rows, mask: npt.NDArray[np.bool_]) -> tuple[int, int]:
    while True:
        row = _some(rng, mask)
        old = _old_value(rows, row)
        if old != NONE:
            return row, old


def old_read(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row, old = _with_old_value(rng, rows, _is(rows, Action.READ, Outcome.OK))
    rows["a"][row], rows["process"][row] = old, CULPRIT
    return content


def wrong_swap(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    swapped = _is(rows, Action.CAS, Outcome.OK) & (rows["seen"] == rows["a"])
    row, old = _with_old_value(rng, rows, swapped)
    rows["a"][row], rows["seen"][row], rows["process"][row] = old, old, CULPRIT
    return content


def lost_update(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    """A primary of its own takes a swap of a value that another swap had replaced, and nothing reads what it put there."""
    swaps = _is(rows, Action.CAS, Outcome.OK) & (rows["seen"] == rows["a"])
    row = _some(rng, swaps)
    mine = np.flatnonzero(_is(rows, Action.WRITE, Outcome.OK) & (rows["object"] == rows["object"][row]))
    used = np.concatenate([rows["a"][_is(rows, Action.READ, Outcome.OK)], rows["seen"]])
    later = mine[(rows["t_inv"][mine] > rows["t_ret"][row]) & ~np.isin(rows["a"][mine], used)]
    if not len(later):
        return lost_update(rng, rows, content)
    at = int(later[0])
    rows["f"][at], rows["a"][at], rows["b"][at] = Action.CAS, rows["a"][row], FRESH
    rows["seen"][at], rows["process"][at] = rows["a"][row], CULPRIT
    return content


def refused_swap(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    """A swap fails as if another value were there; the value it expected was written before and is read afterwards."""
    reads = _is(rows, Action.READ, Outcome.OK) & (rows["a"] != NONE)
    while True:
        row = _some(rng, reads)
        of_key = np.flatnonzero((rows["object"] == rows["object"][row]) & (rows["t_ret"] < rows["t_inv"][row]))
        between = of_key[_is(rows, Action.READ, Outcome.OK)[of_key] & (rows["a"][of_key] == rows["a"][row])]
        proof = of_key[(rows["f"][of_key] == Action.WRITE) & (rows["type"][of_key] == Outcome.OK)]
        proof = proof[rows["a"][proof] == rows["a"][row]]
        inside = between[rows["t_inv"][between] > rows["t_ret"][proof[0]]] if len(proof) else between[:0]
        if len(inside):
            at = int(inside[0])
            rows["f"][at], rows["b"][at], rows["type"][at] = Action.CAS, FRESH, Outcome.FAIL
            rows["err"][at], rows["process"][at] = ErrorCode.NONE, CULPRIT
            return content


def wrong_miss(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    missed = _is(rows, Action.CAS, Outcome.OK) & (rows["seen"] != rows["a"])
    row, old = _with_old_value(rng, rows, missed)
    rows["seen"][row], rows["process"][row] = old, CULPRIT
    return content


def phantom_read(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    row = _some(rng, _is(rows, Action.READ, Outcome.OK))
    rows["a"][row], rows["process"][row] = FRESH, CULPRIT
    return content


def aborted_read(rng: np.random.Generator, rows: Rows, content: Ints) -> Ints:
    seen = rows["a"][_is(rows, Action.READ, Outcome.OK)]
    swapped = _is(rows, Action.CAS, Outcome.OK) & (rows["seen"] == rows["a"])
    row = _some(
        rng, _is(rows, Action.WRITE, Outcome.OK) & np.isin(rows["a"], seen) & ~np.isin(rows["a"], rows["a"][swapped])
    )
    rows["type"][row], rows["process"][row] = Outcome.FAIL, CULPRIT
    return content


PLANTS = (
    Plant("stale read of the end", Model.LOG, Check.STALE, stale_tail),
    Plant("stale read of nothing", Model.LOG, Check.STALE, stale_read),
    Plant("lost append", Model.LOG, Check.LOST, lose_append),
    Plant("two values at one offset", Model.LOG, Check.DIVERGENT_OFFSET, two_values),
    Plant("reordered appends", Model.LOG, Check.ORDER, reorder_appends),
    Plant("phantom value", Model.LOG, Check.PHANTOM, phantom),
    Plant("aborted append seen", Model.LOG, Check.ABORTED_READ, abort_append),
    Plant("duplicate", Model.LOG, Check.DUPLICATED, duplicate),
    Plant("final log that ends early", Model.LOG, Check.LOST, lambda rng, rows, content: content, ends_early, True),
    Plant("acknowledged in another epoch", Model.LOG, Check.EPOCH, later_epoch),
    Plant("falling epochs", Model.LOG, Check.EPOCH, falling_epochs, dumped_epochs_fall),
    Plant("reversed batch", Model.LOG, Check.TORN, reversed_batch),
    Plant("torn batch", Model.LOG, Check.TORN, torn_batch),
    Plant("half of a batch seen", Model.LOG, Check.TORN, half_seen_batch),
    Plant("stale read", Model.REGISTER, Check.STALE, old_read),
    Plant("swap that saw a wrong value", Model.REGISTER, Check.STALE, wrong_swap),
    Plant("refused swap that saw a wrong value", Model.REGISTER, Check.STALE, wrong_miss),
    Plant("lost update", Model.REGISTER, Check.LOST_UPDATE, lost_update),
    Plant("refused swap of a value that was there", Model.REGISTER, Check.LINEARIZABLE, refused_swap),
    Plant("phantom read", Model.REGISTER, Check.PHANTOM, phantom_read),
    Plant("aborted write seen", Model.REGISTER, Check.ABORTED_READ, aborted_read),
)


def apply_plant(base: Base, plant: Plant, seed: int) -> Base:
    """Returns a copy of the base with one wrong behaviour in it."""
    rows = {name: values.copy() for name, values in base.rows.items()}
    content = plant.apply(np.random.default_rng(seed), rows, base.content.copy())
    return Base(base.model, rows, content, plant.altered)


def write_run(base: Base, directory: Path, like: tuple[Base, Path] | None = None) -> None:
    """Write a run directory. Parts that are the same as in `like` (a base and where it was written) become links."""
    for path, table in _parts(base, directory):
        path.parent.mkdir(parents=True, exist_ok=True)
        if like is not None:
            twin = like[1] / path.relative_to(directory)
            if twin.exists() and table.equals(like_table(like, path.relative_to(directory))):
                os.link(twin, path)
                continue
        write_part(table, path)


_tables: dict[Path, Mapping[Path, pa.Table]] = {}


def like_table(like: tuple[Base, Path], relative: Path) -> pa.Table | None:
    """The table that was written at a place of an earlier run directory."""
    if like[1] not in _tables:
        _tables[like[1]] = {path.relative_to(like[1]): table for path, table in _parts(*like)}
    return _tables[like[1]].get(relative)


def _parts(base: Base, directory: Path) -> list[tuple[Path, pa.Table]]:
    bucket = np.zeros(len(base.rows["f"]), np.int64)
    if base.model is Model.REGISTER:
        keys = np.unique(base.rows["object"])
        bucket = np.array([bucket_of(int(key), BUCKETS) for key in keys])[np.searchsorted(keys, base.rows["object"])]
    found = []
    for number in np.unique(bucket).tolist():
        chosen = np.flatnonzero(bucket == number)
        # The rows of an operation are written together.
        begins = np.append(np.flatnonzero(np.append(True, np.diff(base.rows["t_inv"][chosen]) != 0)), len(chosen))
        cuts = begins[np.searchsorted(begins, np.arange(0, len(chosen) + PART_ROWS, PART_ROWS).clip(max=len(chosen)))]
        for part_number, (at, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            part = {name: values[chosen[at:end]] for name, values in base.rows.items()}
            path = directory / HISTORY / f"bucket={number}" / f"part-0-{part_number:06d}.parquet"
            found.append((path, pa.table(part).select([name for name, _ in COLUMNS]).cast(schema())))
    if base.model is Model.LOG:
        for node in NODES:
            end = len(base.content)
            offsets = np.arange(end)
            values = {
                "object": np.zeros(end, np.int64),
                "node": np.full(end, node),
                "offset": offsets,
                "epoch": epoch_of(offsets, end),
                "a": base.content,
            }
            values = base.altered(node, values)
            path = directory / DUMP / f"part-{node:06d}.parquet"
            found.append((path, pa.table(values).cast(schema(DUMP_COLUMNS))))
    return found


def forget(directory: Path) -> None:
    """Remove a run directory."""
    shutil.rmtree(directory)
