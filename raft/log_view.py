"""The core's view of its log: the term of every index, the newest entries, and the durable index.

Terms are kept as runs (first index, term), a handful for millions of entries. Entries are cached from the newest
backwards; older ones are the shell's to load.

A log may have lost its oldest entries: all of them are committed, so any leader's log had the same. Of the last of them
the term is still known, because AppendEntries names the entry before its first one: it is the place of the first run.

Invariants: runs ascend in index and in term; `start.index <= last_index`; `durable_index <= last_index`; the cache is a
suffix of the log.
"""

from bisect import bisect_right
from collections.abc import Sequence

import attrs

from raft.model import (
    FIRST_OFFSET,
    NO_INDEX,
    NO_POSITION,
    NO_TERM,
    ORIGIN,
    Entry,
    LogIndex,
    LogStart,
    Offset,
    Position,
    Term,
    entry_bytes,
)


@attrs.define
class LogView:
    """The core's view of its log; made by `restore` from what a restart found."""

    cache_bytes_max: int
    last_index: LogIndex = NO_INDEX
    end_offset: Offset = FIRST_OFFSET
    durable_index: LogIndex = NO_INDEX
    start: LogStart = ORIGIN
    last_term: Term = NO_TERM
    """The term of the last entry, even if that has left the log; 0 for a log that never had one."""
    start_index: LogIndex = NO_INDEX
    """The index of `start`, which each step of a core asks for several times."""
    _run_starts: list[LogIndex] = attrs.field(factory=list)
    _run_terms: list[Term] = attrs.field(factory=list)
    _cache: list[Entry] = attrs.field(factory=list)
    _cache_bytes: int = 0

    @classmethod
    def restore(
        cls,
        *,
        runs: Sequence[tuple[LogIndex, Term]],
        last_index: LogIndex,
        end_offset: Offset,
        cache_bytes_max: int,
        entries: Sequence[Entry] = (),
        start: LogStart = ORIGIN,
    ) -> "LogView":
        """Returns a view of a durable log read back from disk; `entries` is any suffix of it, to fill the cache."""
        view = cls(cache_bytes_max, last_index, end_offset, last_index, start)
        if start.index and not (runs and runs[0][1] == start.position.term):
            runs = [(start.index, start.position.term), *runs]
        view._run_starts = [first for first, _ in runs]
        view._run_terms = [term for _, term in runs]
        view.last_term, view.start_index = runs[-1][1] if runs else NO_TERM, start.index
        if start.index:
            view._run_starts[0] = start.index
        assert view._run_terms == sorted(set(view._run_terms)), "terms must ascend along the log"
        assert not entries or entries[-1].index == last_index, "the cache must be a suffix of the log"
        view._cache = list(entries)
        view._cache_bytes = sum(entry_bytes(entry.batch) for entry in entries)
        view.evict()
        return view

    @classmethod
    def of(cls, entries: Sequence[Entry], *, cache_bytes_max: int) -> "LogView":
        """Returns a view of a log of which all entries are in memory."""
        runs: list[tuple[LogIndex, Term]] = []
        for entry in entries:
            if not runs or runs[-1][1] != entry.term:
                runs.append((entry.index, entry.term))
        return cls.restore(
            runs=runs,
            last_index=entries[-1].index if entries else NO_INDEX,
            end_offset=entries[-1].end_offset if entries else FIRST_OFFSET,
            cache_bytes_max=cache_bytes_max,
            entries=entries,
        )

    @property
    def position(self) -> Position:
        """The position of the last entry."""
        return Position(self.last_index, self.last_term)

    def term_at(self, index: LogIndex) -> Term:
        """Returns the term of the entry at `index`, which may be the last one that has left the log; 0 for index 0."""
        if index == NO_INDEX:
            return NO_TERM
        assert self.start_index <= index <= self.last_index, (
            f"no entry {index} in {self.start_index}..{self.last_index}"
        )
        return self._run_terms[bisect_right(self._run_starts, index) - 1]

    def matches(self, index: LogIndex, term: Term) -> bool:
        """Returns True if this log holds (`index`, `term`) and so, by log matching, all before it as well.

        Where entries have left the log, any term not newer than theirs matches, because only committed entries leave,
        and every leader has the same ones.
        """
        if index < self.start_index:
            return term <= self.start.position.term
        return index <= self.last_index and self.term_at(index) == term

    def holds(self, index: LogIndex, term: Term) -> bool:
        """Returns True if this entry is in the log now; of what has left it that is not known."""
        return index > self.start.index and self.matches(index, term)

    def offset_before(self, index: LogIndex) -> Offset | None:
        """Returns the end of the records before the entry at `index`; None if that is not in memory."""
        if index > self.last_index:
            return self.end_offset
        return next((entry.base_offset for entry in self.cached_entries(index, 0) or ()), None)

    def last_position_within(self, index: LogIndex, term: Term) -> Position:
        """Returns the last position not above `index` whose term is not above `term`; (0, 0) if there is none.

        Both sides of a rejected AppendEntries use it: what lies above cannot match; each round trip skips a term.
        """
        run = bisect_right(self._run_terms, term) - 1
        if run < 0 or index < self.start.index:
            return NO_POSITION
        run_end = self._run_starts[run + 1] - 1 if run + 1 < len(self._run_starts) else self.last_index
        found = LogIndex(min(index, run_end, self.last_index))
        return Position(found, self.term_at(found))

    def missing_from(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Returns the part of `entries` from the first that this log does not hold with the same term."""
        for at, entry in enumerate(entries):
            if not self.matches(entry.index, entry.term):
                return entries[at:]
        return ()

    def append(self, entries: Sequence[Entry]) -> None:
        """Put `entries` at their indexes, replacing all entries from the first of these indexes on."""
        first = entries[0]
        assert self.start_index < first.index <= self.last_index + 1, (
            "an append may neither leave a gap nor reach what left"
        )
        if first.index <= self.last_index:
            self._cut(LogIndex(first.index - 1))
        else:
            assert first.base_offset == self.end_offset, "offsets must be dense"
        for entry in entries:
            assert entry.term >= self.last_term, "terms never fall along a log"
            if entry.term != self.last_term:
                self._run_starts.append(entry.index)
                self._run_terms.append(entry.term)
                self.last_term = entry.term
            self._cache.append(entry)
            self._cache_bytes += entry_bytes(entry.batch)
            self.last_index = entry.index
            self.end_offset = entry.end_offset
        if self._cache_bytes > self.cache_bytes_max:
            self.evict()

    def _cut(self, last_index: LogIndex) -> None:
        """Forget everything above `last_index`; `end_offset` is for the append that follows to set."""
        while self._run_starts and self._run_starts[-1] > last_index:
            self._run_starts.pop()
            self._run_terms.pop()
        while self._cache and self._cache[-1].index > last_index:
            self._cache_bytes -= entry_bytes(self._cache.pop().batch)
        self.last_index = last_index
        self.last_term = self._run_terms[-1] if self._run_terms else NO_TERM
        self.durable_index = min(self.durable_index, last_index)

    def trim(self, start: LogStart) -> None:
        """Drop everything up to `start`, which is durable; the last position dropped stays known."""
        assert self.start.index <= start.index <= self.durable_index, "only what is durable may leave"
        assert self.term_at(start.index) == start.position.term, "a log begins behind an entry of its own"
        first = bisect_right(self._run_starts, start.index) - 1
        del self._run_starts[:first], self._run_terms[:first]
        self._run_starts[0] = start.index
        count = 0
        while count < len(self._cache) and self._cache[count].index <= start.index:
            self._cache_bytes -= entry_bytes(self._cache[count].batch)
            count += 1
        del self._cache[:count]
        self.start, self.start_index = start, start.index

    def reset(self, start: LogStart) -> None:
        """Reset to an empty log that begins after `start`, which is not durable yet."""
        assert start.index > self.start.index, "a log never gets back what has left it"
        self.start, self.start_index = start, start.index
        self.last_index, self.last_term, self.end_offset = start.index, start.position.term, start.offset
        self.durable_index = NO_INDEX
        self._run_starts, self._run_terms = [start.index], [start.position.term]
        self._cache, self._cache_bytes = [], 0

    def evict(self) -> None:
        """Drop the oldest durable entries, a quarter of the bound at a time, so that a drop is seldom."""
        excess = self._cache_bytes - self.cache_bytes_max
        if excess <= 0:
            return
        excess += self.cache_bytes_max // 4
        count = 0
        while count < len(self._cache) and excess > 0 and self._cache[count].index <= self.durable_index:
            excess -= entry_bytes(self._cache[count].batch)
            self._cache_bytes -= entry_bytes(self._cache[count].batch)
            count += 1
        del self._cache[:count]

    def cached_entries(self, first_index: LogIndex, bytes_max: int) -> tuple[Entry, ...] | None:
        """Returns entries from `first_index` on: at least one, and about `bytes_max` bytes at most.

        Returns None if they are not in memory.
        """
        if not self._cache or first_index < self._cache[0].index:
            return None
        start = first_index - self._cache[0].index
        stop = start
        size = 0
        while stop < len(self._cache):
            size += entry_bytes(self._cache[stop].batch)
            if size > bytes_max and stop > start:
                break
            stop += 1
        return tuple(self._cache[start:stop])
