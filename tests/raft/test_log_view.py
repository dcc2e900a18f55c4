"""The log view against a plain list, under any sequence of appends, overwrites and evictions."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from raft.log_view import LogView
from raft.model import Batch, Entry, EntryKind, LogIndex, Offset, Position, Term


def batch(span: int) -> Batch:
    return Batch(EntryKind.RECORDS, span, 0, b"x" * span, 0)


# Each step: how far back from the end the append begins, by how much the term rises, the spans of the new entries, and whether
# all that was written so far becomes durable.
STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.booleans()),
    max_size=20,
)


def replay(steps: list[tuple[int, int, list[int], bool]], cache_bytes_max: int) -> tuple[LogView, list[Entry]]:
    view, model = LogView(cache_bytes_max), list[Entry]()
    term = 1
    for back, rise, spans, durable in steps:
        term += rise if not back else max(rise, 1)
        del model[max(0, len(model) - back) :]
        entries: list[Entry] = []
        offset = model[-1].end_offset if model else Offset(0)
        for at, span in enumerate(spans):
            entries.append(Entry(LogIndex(len(model) + 1 + at), Term(term), offset, batch(span)))
            offset = entries[-1].end_offset
        view.append(entries)
        model += entries
        if durable:
            view.durable_index = view.last_index
    return view, model


@given(STEPS, st.sampled_from([0, 200, 10_000]))
def test_the_view_says_of_every_index_what_the_list_says(
    steps: list[tuple[int, int, list[int], bool]], cache_bytes_max: int
) -> None:
    view, model = replay(steps, cache_bytes_max)
    assert view.last_index == len(model)
    assert view.end_offset == (model[-1].end_offset if model else 0)
    assert [view.term_at(entry.index) for entry in model] == [entry.term for entry in model]
    assert not view.matches(LogIndex(len(model) + 1), Term(99))
    for entry in model:
        cached = view.cached(entry.index, 10**9)
        assert cached is None or list(cached) == model[entry.index - 1 :]
        assert cached is not None or entry.index <= view.durable_index, "only durable entries may leave the cache"


@given(STEPS, st.integers(0, 60), st.integers(0, 40))
def test_the_hint_is_the_last_position_that_could_match(
    steps: list[tuple[int, int, list[int], bool]], index: int, term: int
) -> None:
    view, model = replay(steps, 10_000)
    candidates = [Position(entry.index, entry.term) for entry in model if entry.index <= index and entry.term <= term]
    expected = candidates[-1] if candidates else Position(LogIndex(0), Term(0))
    assert view.last_position_within(LogIndex(index), Term(term)) == expected


@given(STEPS, st.integers(1, 60), st.integers(1, 500))
def test_what_is_cached_comes_in_bounded_pieces(
    steps: list[tuple[int, int, list[int], bool]], first: int, bytes_max: int
) -> None:
    view, model = replay(steps, 10_000)
    if first > len(model):
        return
    piece = view.cached(LogIndex(first), bytes_max)
    assert piece
    assert list(piece) == model[first - 1 : first - 1 + len(piece)]
    assert len(piece) == 1 or sum(len(entry.batch.data) + 64 for entry in piece) <= bytes_max


def test_the_memory_of_the_core_does_not_grow_with_the_log() -> None:
    view = LogView(cache_bytes_max=100_000)

    def append(count: int) -> int:
        for index in range(view.last_index + 1, view.last_index + 1 + count):
            batch = Batch(EntryKind.RECORDS, 1, 0, b"%0100d" % index, 0)
            view.append([Entry(LogIndex(index), Term(1 + index // 50_000), Offset(index - 1), batch)])
            view.durable_index = LogIndex(index)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = append(5_000)
        grown = append(50_000) - before
    finally:
        tracemalloc.stop()
    assert grown < 50_000
