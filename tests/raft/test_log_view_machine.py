"""The log view under any sequence of calls, against a plain list."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from raft.log_view import LogView
from raft.model import Batch, Entry, EntryKind, LogIndex, Offset, Position, Term, entry_bytes

BOUNDS = st.sampled_from([0, 150, 1_000, 100_000])


class LogViewMachine(RuleBasedStateMachine):
    """`model` is the log; `durable` how much of it the disk has."""

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Entry] = []
        self.durable = 0
        self.view = LogView(0)

    @initialize(cache_bytes_max=BOUNDS)
    def begin(self, cache_bytes_max: int) -> None:
        self.view = LogView(cache_bytes_max)

    def made(self, first: int, terms: list[int], span: int) -> list[Entry]:
        offset = self.model[first - 2].end_offset if first > 1 else Offset(0)
        entries: list[Entry] = []
        for at, term in enumerate(terms):
            batch = Batch(EntryKind.RECORDS, span, 0, b"x" * span * 20, 0)
            entries.append(Entry(LogIndex(first + at), Term(term), offset, batch))
            offset = entries[-1].end_offset
        return entries

    def term_before(self, first: int) -> int:
        return self.model[first - 2].term if first > 1 else 1

    @rule(
        back=st.sampled_from([0, 0, 0, 1, 2, 9]),
        rises=st.lists(st.integers(0, 2), min_size=1, max_size=6),
        span=st.integers(0, 4),
    )
    def append(self, back: int, rises: list[int], span: int) -> None:
        """As a leader appends, or as a follower that drops what did not match."""
        first = max(1, len(self.model) + 1 - back)
        term, terms = self.term_before(first), []
        if first <= len(self.model):
            term = max(term, self.model[-1].term)
            rises = [max(1, rises[0]), *rises[1:]]
        for rise in rises:
            term += rise
            terms.append(term)
        entries = self.made(first, terms, span)
        self.view.append(entries)
        self.model[first - 1 :] = entries
        self.durable = min(self.durable, first - 1)

    @rule(data=st.data())
    def become_durable(self, data: st.DataObject) -> None:
        self.durable = data.draw(st.integers(self.durable, len(self.model)))
        self.view.durable_index = LogIndex(self.durable)

    @rule(cache_bytes_max=BOUNDS, warm=st.integers(0, 5))
    def restart(self, cache_bytes_max: int, warm: int) -> None:
        runs: list[tuple[LogIndex, Term]] = []
        for entry in self.model:
            if not runs or runs[-1][1] != entry.term:
                runs.append((entry.index, entry.term))
        self.durable = len(self.model)
        self.view = LogView.restore(
            runs=runs,
            last_index=LogIndex(len(self.model)),
            end_offset=self.model[-1].end_offset if self.model else Offset(0),
            cache_bytes_max=cache_bytes_max,
            entries=self.model[len(self.model) - min(warm, len(self.model)) :],
        )

    @rule(data=st.data(), bytes_max=st.integers(1, 500))
    def read_the_cache(self, data: st.DataObject, bytes_max: int) -> None:
        first = data.draw(st.integers(1, len(self.model) + 1))
        piece = self.view.cached(LogIndex(first), bytes_max)
        if piece is None:
            assert first <= self.durable or first > len(self.model), "only durable entries may leave the cache"
        else:
            assert list(piece) == self.model[first - 1 : first - 1 + len(piece)]
            assert piece or first > len(self.model)
            assert len(piece) <= 1 or sum(entry_bytes(entry.batch) for entry in piece) <= bytes_max

    @rule(data=st.data())
    def compare_with_a_leader(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.model) + 3))
        term = data.draw(st.integers(0, (self.model[-1].term if self.model else 1) + 1))
        could = [
            Position(entry.index, entry.term) for entry in self.model if entry.index <= index and entry.term <= term
        ]
        hint = self.view.last_position_within(LogIndex(index), Term(term))
        assert hint == (could[-1] if could else Position(LogIndex(0), Term(0)))
        held = (index, term) == (0, 0) or (1 <= index <= len(self.model) and self.model[index - 1].term == term)
        assert self.view.matches(LogIndex(index), Term(term)) == held

    @rule(data=st.data(), other=st.integers(0, 6))
    def ask_what_is_missing(self, data: st.DataObject, other: int) -> None:
        """Of a message that agrees up to some entry and then has others."""
        first = data.draw(st.integers(1, len(self.model) + 1))
        same = self.model[first - 1 : data.draw(st.integers(first - 1, len(self.model)))]
        newer = (self.model[-1].term if self.model else 1) + 1
        others = self.made(first + len(same), [newer] * other, 1)
        assert list(self.view.missing_from([*same, *others])) == others

    @invariant()
    def says_where_the_log_ends(self) -> None:
        last = self.model[-1] if self.model else None
        assert self.view.position == (Position(last.index, last.term) if last else Position(LogIndex(0), Term(0)))
        assert self.view.end_offset == (last.end_offset if last else 0)
        assert self.view.durable_index == self.durable

    @invariant()
    def holds_no_more_than_it_may(self) -> None:
        """One entry beyond the bound at most, apart from those that are not durable."""
        view, undurable = self.view, self.model[self.durable :]
        view.evict()
        free = sum(entry_bytes(entry.batch) for entry in view._cache) - sum(entry_bytes(e.batch) for e in undurable)
        assert view._cache_bytes == sum(entry_bytes(entry.batch) for entry in view._cache)
        assert free <= view.cache_bytes_max

    def teardown(self) -> None:
        assert [self.view.term_at(entry.index) for entry in self.model] == [entry.term for entry in self.model]


TestLogViewMachine = LogViewMachine.TestCase
TestLogViewMachine.settings = settings(max_examples=150, stateful_step_count=30)
