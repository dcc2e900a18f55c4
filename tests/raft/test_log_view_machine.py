"""The log view under any sequence of calls, against a plain list."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raft.log_view import LogView
from raft.model import (
    NO_POSITION,
    ORIGIN,
    Batch,
    Entry,
    EntryKind,
    LogIndex,
    LogStart,
    Offset,
    Position,
    Term,
    entry_bytes,
)
from tests.examples import examples

BOUNDS = st.sampled_from([0, 150, 1_000, 100_000])


class LogViewMachine(RuleBasedStateMachine):
    """`model` is the log behind `start`; `durable` how much of it the disk has."""

    def __init__(self) -> None:
        super().__init__()
        self.start = ORIGIN
        self.model: list[Entry] = []
        self.durable = 0
        self.view = LogView(0)

    @initialize(cache_bytes_max=BOUNDS)
    def begin(self, cache_bytes_max: int) -> None:
        self.view = LogView(cache_bytes_max)

    @property
    def end(self) -> Position:
        return Position(self.model[-1].index, self.model[-1].term) if self.model else self.start.position

    @property
    def end_offset(self) -> Offset:
        return self.model[-1].end_offset if self.model else self.start.offset

    def select_entries(self, first: int, last: int | None = None) -> list[Entry]:
        """Returns the entries of the model from `first` up to `last`."""
        return [entry for entry in self.model if first <= entry.index and (last is None or entry.index <= last)]

    def make_entries(self, first: int, terms: list[int], span: int) -> list[Entry]:
        before = self.select_entries(first - 1, first - 1)
        offset = before[0].end_offset if before else self.start.offset
        entries: list[Entry] = []
        for at, term in enumerate(terms):
            batch = Batch(EntryKind.RECORDS, span, 0, b"x" * span * 20, 0)
            entries.append(Entry(LogIndex(first + at), Term(term), offset, batch))
            offset = entries[-1].end_offset
        return entries

    def term_before(self, first: int) -> int:
        before = self.select_entries(first - 1, first - 1)
        return before[0].term if before else max(1, self.start.position.term)

    @rule(
        back=st.sampled_from([0, 0, 0, 1, 2, 9]),
        rises=st.lists(st.integers(0, 2), min_size=1, max_size=6),
        span=st.integers(0, 4),
    )
    def append(self, back: int, rises: list[int], span: int) -> None:
        """As a leader appends, or as a follower that drops what did not match."""
        first = max(self.start.index + 1, self.end.index + 1 - back)
        term, terms = self.term_before(first), []
        if first <= self.end.index:
            term = max(term, self.end.term)
            rises = [max(1, rises[0]), *rises[1:]]
        for rise in rises:
            term += rise
            terms.append(term)
        entries = self.make_entries(first, terms, span)
        self.view.append(entries)
        self.model = [*self.select_entries(1, first - 1), *entries]
        self.durable = min(self.durable, first - 1)

    @rule(data=st.data())
    def become_durable(self, data: st.DataObject) -> None:
        """A beginning that is not durable yet comes first, and nothing lies between it and none."""
        low = max(self.durable, self.start.index)
        self.durable = data.draw(st.integers(low, self.end.index))
        self.view.durable_index = LogIndex(self.durable)

    @precondition(lambda self: self.start.index < self.durable)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        """Trims durable entries, at times all of them."""
        (last,) = self.select_entries(index := data.draw(st.integers(self.start.index + 1, self.durable)), index)
        position = Position(last.index, last.term)
        self.start = LogStart(position, last.end_offset, position, b"")
        self.view.trim(self.start)
        self.model = self.select_entries(last.index + 1)

    @rule(further=st.integers(1, 8), rise=st.integers(-3, 3), offset=st.integers(0, 1000))
    def reset(self, further: int, rise: int, offset: int) -> None:
        """A new beginning within the old log, behind its end or far from it, older or newer than that."""
        index = LogIndex(self.start.index + further)
        position = Position(index, Term(max(1, self.start.position.term, self.end.term + rise)))
        self.start = LogStart(position, Offset(offset), position, b"")
        self.view.reset(self.start)
        self.model, self.durable = [], 0

    @rule(cache_bytes_max=BOUNDS, warm=st.integers(0, 5), knows_start=st.booleans())
    def restart(self, cache_bytes_max: int, warm: int, knows_start: bool) -> None:
        """Restarts from a disk that still names the term of the beginning as the first, or only those behind it."""
        runs: list[tuple[LogIndex, Term]] = []
        if knows_start and self.start.index:
            runs.append((self.start.index, self.start.position.term))
        for entry in self.model:
            if not runs or runs[-1][1] != entry.term:
                runs.append((entry.index, entry.term))
        self.durable = self.end.index
        self.view = LogView.restore(
            runs=runs,
            last_index=self.end.index,
            end_offset=self.end_offset,
            cache_bytes_max=cache_bytes_max,
            entries=self.model[len(self.model) - min(warm, len(self.model)) :],
            start=self.start,
        )

    @rule(data=st.data(), bytes_max=st.integers(1, 500))
    def read_the_cache(self, data: st.DataObject, bytes_max: int) -> None:
        first = data.draw(st.integers(1, self.end.index + 1))
        piece = self.view.cached_entries(LogIndex(first), bytes_max)
        if piece is None:
            assert first <= self.durable or first > self.end.index or first <= self.start.index, (
                "only durable entries may leave the cache"
            )
        else:
            assert first > self.start.index, "what has left the log has left the cache"
            assert list(piece) == self.select_entries(first, first + len(piece) - 1)
            assert piece or first > self.end.index
            assert len(piece) <= 1 or sum(entry_bytes(entry.batch) for entry in piece) <= bytes_max

    @rule(data=st.data())
    def compare_with_a_leader(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, self.end.index + 3))
        term = data.draw(st.integers(0, max(1, self.end.term) + 1))
        known = [Position(entry.index, entry.term) for entry in self.model]
        if self.start.index:
            known.insert(0, self.start.position)
        could = [each for each in known if each.index <= index and each.term <= term]
        hint = self.view.last_position_within(LogIndex(index), Term(term))
        assert hint == (could[-1] if could else NO_POSITION)
        held = Position(LogIndex(index), Term(term)) in [*known, *([] if self.start.index else [NO_POSITION])]
        gone = index < self.start.index and term <= self.start.position.term
        assert self.view.matches(LogIndex(index), Term(term)) == (held or gone)

    @rule(data=st.data(), other=st.integers(0, 6))
    def ask_what_is_missing(self, data: st.DataObject, other: int) -> None:
        """Of a message that agrees up to some entry and then has others; it may begin with what has left here."""
        first = data.draw(st.integers(self.start.index + 1, self.end.index + 1))
        same = self.select_entries(first, data.draw(st.integers(first - 1, self.end.index)))
        newer = max(1, self.end.term) + 1
        others = self.make_entries(first + len(same), [newer] * other, 1)
        assert list(self.view.missing_from([*same, *others])) == others
        if first == self.start.index + 1 and self.start.index:
            term = self.start.position.term
            left = data.draw(st.integers(1, self.start.index))
            gone = [Entry(LogIndex(at), term, Offset(0), others[0].batch) for at in range(left, first) if others]
            assert list(self.view.missing_from([*gone, *same, *others])) == others

    @invariant()
    def says_where_the_log_begins_and_ends(self) -> None:
        assert self.view.start == self.start
        assert self.view.position == self.end
        assert self.view.end_offset == self.end_offset
        assert self.view.durable_index == self.durable
        assert self.view.term_at(self.start.index) == self.start.position.term

    @invariant()
    def holds_no_more_than_it_may(self) -> None:
        """One entry beyond the bound at most, apart from those that are not durable."""
        view, undurable = self.view, self.select_entries(self.durable + 1)
        view.evict()
        free = sum(entry_bytes(entry.batch) for entry in view._cache) - sum(entry_bytes(e.batch) for e in undurable)
        assert view._cache_bytes == sum(entry_bytes(entry.batch) for entry in view._cache)
        assert free <= view.cache_bytes_max

    @invariant()
    def knows_no_more_terms_than_there_are(self) -> None:
        assert len(self.view._run_terms) <= 1 + len({entry.term for entry in self.model})

    def teardown(self) -> None:
        assert [self.view.term_at(entry.index) for entry in self.model] == [entry.term for entry in self.model]


TestLogViewMachine = LogViewMachine.TestCase
TestLogViewMachine.settings = settings(max_examples=examples(45), stateful_step_count=30)
