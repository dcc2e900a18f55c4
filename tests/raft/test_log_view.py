"""The log view against a plain list, under any sequence of appends, overwrites and evictions; and its edges, one by one."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.log_view import LogView
from raft.model import ENTRY_OVERHEAD_BYTES, Batch, Entry, EntryKind, LogIndex, Offset, Position, Term


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


def entries_of_sizes(*sizes: int) -> list[Entry]:
    """Entries 1, 2, ... of term 1 that count as so many bytes each."""
    data = [b"x" * (size - ENTRY_OVERHEAD_BYTES) for size in sizes]
    return [
        Entry(LogIndex(at), Term(1), Offset(at - 1), Batch(EntryKind.RECORDS, 1, 0, each, 0))
        for at, each in enumerate(data, start=1)
    ]


def restored(entries: list[Entry], cache_bytes_max: int) -> LogView:
    """What a restart makes of a log of term 1 when it has all of it at hand."""
    return LogView.restore(
        runs=[(LogIndex(1), Term(1))],
        last_index=entries[-1].index,
        end_offset=entries[-1].end_offset,
        cache_bytes_max=cache_bytes_max,
        entries=entries,
    )


def grown(entries: list[Entry], cache_bytes_max: int, durable_before_the_last: int) -> LogView:
    """The same log appended entry by entry, with so much of it durable when the last one came."""
    view = LogView(cache_bytes_max)
    for entry in entries[:-1]:
        view.append([entry])
    view.durable_index = LogIndex(durable_before_the_last)
    view.append(entries[-1:])
    return view


def first_cached(view: LogView) -> int | None:
    """Where the cache begins: the first index that is at hand."""
    return next((at for at in range(1, view.last_index + 1) if view.cached(LogIndex(at), 1) is not None), None)


# How many bytes the entries count, the bound, and where the cache then begins. A drop leaves three quarters of the bound.
DROPS = [
    pytest.param([100] * 10, 1000, 1, id="exactly full: nothing is dropped"),
    pytest.param([100] * 9, 1000, 1, id="less than full: nothing is dropped"),
    pytest.param([100] * 9 + [101], 1000, 4, id="a byte too many: down to three quarters, whole entries"),
    pytest.param([100] * 11, 1000, 5, id="an entry too many: 700 of 750 bytes stay"),
    pytest.param([100] * 9, 800, 4, id="what is left is three quarters to the byte"),
    pytest.param([100] * 8 + [101], 800, 5, id="what would be left is a byte more than three quarters"),
]


@pytest.mark.parametrize(("sizes", "cache_bytes_max", "first"), DROPS)
def test_a_cache_beyond_its_bound_drops_the_oldest_down_to_three_quarters(
    sizes: list[int], cache_bytes_max: int, first: int
) -> None:
    view = grown(entries_of_sizes(*sizes), cache_bytes_max, durable_before_the_last=len(sizes) - 1)
    assert first_cached(view) == first


@pytest.mark.parametrize(("sizes", "cache_bytes_max", "first"), DROPS)
def test_a_restored_cache_is_bounded_as_one_that_grew(sizes: list[int], cache_bytes_max: int, first: int) -> None:
    assert first_cached(restored(entries_of_sizes(*sizes), cache_bytes_max)) == first


def test_a_cache_without_room_holds_nothing_that_is_durable() -> None:
    view = restored(entries_of_sizes(64, 100), cache_bytes_max=0)
    assert first_cached(view) is None
    assert view.cached(LogIndex(2), 1000) is None


@pytest.mark.parametrize(("durable", "first"), [(0, 1), (3, 4), (4, 5)])
def test_what_is_not_durable_is_not_dropped_and_all_that_is_may_be(durable: int, first: int) -> None:
    view = grown(entries_of_sizes(100, 100, 100, 100, 100), cache_bytes_max=1, durable_before_the_last=durable)
    assert first_cached(view) == first
    assert view.cached(LogIndex(first), 1000) == tuple(entries_of_sizes(100, 100, 100, 100, 100)[first - 1 :])


def test_bytes_that_were_dropped_no_longer_count() -> None:
    entries = entries_of_sizes(*[100] * 15)
    view = grown(entries[:11], 1000, durable_before_the_last=10)  # 700 bytes stay, from 5 on
    view.durable_index = LogIndex(11)
    for entry in entries[11:14]:
        view.append([entry])
    assert first_cached(view) == 5
    view.append(entries[14:])  # 1100 bytes
    assert first_cached(view) == 9


def test_bytes_that_were_cut_off_no_longer_count() -> None:
    entries = entries_of_sizes(*[100] * 10)
    view = restored(entries, 1000)
    view.append(entries[4:])  # the same again, from 5 on
    assert first_cached(view) == 1


@pytest.mark.parametrize(
    ("bytes_max", "count"),
    [
        pytest.param(1, 1, id="one entry at least"),
        pytest.param(199, 1, id="a second one does not fit"),
        pytest.param(200, 2, id="two fit exactly"),
        pytest.param(299, 2, id="a third one does not fit"),
        pytest.param(300, 3, id="all fit exactly"),
        pytest.param(1000, 3, id="more room than there is"),
    ],
)
def test_a_piece_is_as_large_as_fits(bytes_max: int, count: int) -> None:
    entries = entries_of_sizes(100, 100, 100, 100)
    assert restored(entries, 1000).cached(LogIndex(2), bytes_max) == tuple(entries[1 : 1 + count])


def test_nothing_is_missing_of_what_is_held() -> None:
    entries = entries_of_sizes(100, 100, 100)
    view = restored(entries, 1000)
    assert list(view.missing_from([])) == []
    assert list(view.missing_from(entries)) == []
    assert list(view.missing_from(entries[1:2])) == []


def test_from_the_first_entry_that_differs_all_is_missing() -> None:
    def entry(index: int, term: int) -> Entry:
        return Entry(LogIndex(index), Term(term), Offset(index - 1), batch(1))

    view = LogView.of([entry(1, 1), entry(2, 1), entry(3, 2)], cache_bytes_max=10_000)
    assert list(view.missing_from([entry(2, 1), entry(3, 3), entry(4, 3)])) == [entry(3, 3), entry(4, 3)]
    assert list(view.missing_from([entry(3, 2), entry(4, 3)])) == [entry(4, 3)]
    assert list(view.missing_from([entry(4, 3)])) == [entry(4, 3)]


@pytest.mark.parametrize(
    ("index", "term", "found"),
    [
        pytest.param(4, 1, (0, 0), id="older than the first entry"),
        pytest.param(0, 9, (0, 0), id="before the first entry"),
        pytest.param(9, 2, (2, 2), id="the end of a term in the middle"),
        pytest.param(9, 4, (2, 2), id="the end of a term below one that nobody led here"),
        pytest.param(1, 4, (1, 2), id="within a term"),
        pytest.param(3, 5, (3, 5), id="the first of the last term"),
        pytest.param(9, 9, (4, 5), id="the end of the log"),
    ],
)
def test_the_hint_reaches_above_neither_the_index_nor_the_term_that_was_asked(
    index: int, term: int, found: tuple[int, int]
) -> None:
    terms = [2, 2, 5, 5]
    entries = [Entry(LogIndex(at), Term(each), Offset(at), batch(1)) for at, each in enumerate(terms, start=1)]
    view = LogView.of(entries, cache_bytes_max=10_000)
    assert view.last_position_within(LogIndex(index), Term(term)) == Position(LogIndex(found[0]), Term(found[1]))


def test_an_empty_log_matches_its_beginning_alone() -> None:
    view = LogView.of([], cache_bytes_max=10_000)
    assert view.position == Position(LogIndex(0), Term(0))
    assert view.matches(LogIndex(0), Term(0))
    assert not view.matches(LogIndex(1), Term(0))
    assert not view.matches(LogIndex(0), Term(1))
    assert view.last_position_within(LogIndex(3), Term(3)) == Position(LogIndex(0), Term(0))
    assert view.cached(LogIndex(1), 1000) is None
