"""The log view against a plain list, under any sequence of appends, overwrites and evictions; and its edges, one by one."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.log_view import LogView
from raft.model import ENTRY_OVERHEAD_BYTES, Batch, Entry, EntryKind, LogIndex, LogStart, Offset, Position, Term
from tests.raft.conversation import view_of


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
        cached = view.cached_entries(entry.index, 10**9)
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
    piece = view.cached_entries(LogIndex(first), bytes_max)
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


def restore_view(entries: list[Entry], cache_bytes_max: int) -> LogView:
    """Returns the view that a restart makes of a log of term 1 when it has all of it at hand."""
    return LogView.restore(
        runs=[(LogIndex(1), Term(1))],
        last_index=entries[-1].index,
        end_offset=entries[-1].end_offset,
        cache_bytes_max=cache_bytes_max,
        entries=entries,
    )


def grow_view(entries: list[Entry], cache_bytes_max: int, durable_before_the_last: int) -> LogView:
    """Returns the view of the same log appended entry by entry, with so much of it durable when the last one came."""
    view = LogView(cache_bytes_max)
    for entry in entries[:-1]:
        view.append([entry])
    view.durable_index = LogIndex(durable_before_the_last)
    view.append(entries[-1:])
    return view


def first_cached(view: LogView) -> int | None:
    """Returns the first index that is at hand, at which the cache begins."""
    return next((at for at in range(1, view.last_index + 1) if view.cached_entries(LogIndex(at), 1) is not None), None)


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
    view = grow_view(entries_of_sizes(*sizes), cache_bytes_max, durable_before_the_last=len(sizes) - 1)
    assert first_cached(view) == first


@pytest.mark.parametrize(("sizes", "cache_bytes_max", "first"), DROPS)
def test_a_restored_cache_is_bounded_as_one_that_grew(sizes: list[int], cache_bytes_max: int, first: int) -> None:
    assert first_cached(restore_view(entries_of_sizes(*sizes), cache_bytes_max)) == first


def test_a_cache_without_room_holds_nothing_that_is_durable() -> None:
    view = restore_view(entries_of_sizes(64, 100), cache_bytes_max=0)
    assert first_cached(view) is None
    assert view.cached_entries(LogIndex(2), 1000) is None


@pytest.mark.parametrize(("durable", "first"), [(0, 1), (3, 4), (4, 5)])
def test_what_is_not_durable_is_not_dropped_and_all_that_is_may_be(durable: int, first: int) -> None:
    view = grow_view(entries_of_sizes(100, 100, 100, 100, 100), cache_bytes_max=1, durable_before_the_last=durable)
    assert first_cached(view) == first
    assert view.cached_entries(LogIndex(first), 1000) == tuple(entries_of_sizes(100, 100, 100, 100, 100)[first - 1 :])


def test_bytes_that_were_dropped_no_longer_count() -> None:
    entries = entries_of_sizes(*[100] * 15)
    view = grow_view(entries[:11], 1000, durable_before_the_last=10)  # 700 bytes stay, from 5 on
    view.durable_index = LogIndex(11)
    for entry in entries[11:14]:
        view.append([entry])
    assert first_cached(view) == 5
    view.append(entries[14:])  # 1100 bytes
    assert first_cached(view) == 9


def test_bytes_that_were_cut_off_no_longer_count() -> None:
    entries = entries_of_sizes(*[100] * 10)
    view = restore_view(entries, 1000)
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
    assert restore_view(entries, 1000).cached_entries(LogIndex(2), bytes_max) == tuple(entries[1 : 1 + count])


def test_nothing_is_missing_of_what_is_held() -> None:
    entries = entries_of_sizes(100, 100, 100)
    view = restore_view(entries, 1000)
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
    assert view.cached_entries(LogIndex(1), 1000) is None


def of_terms(*terms: int, before: int = 0) -> list[Entry]:
    """Entries of these terms behind index `before`, one record each; so many records are before them, too."""
    return [
        Entry(LogIndex(at), Term(term), Offset(at - 1), batch(1)) for at, term in enumerate(terms, start=before + 1)
    ]


def place(index: int, term: int) -> LogStart:
    """A log begins behind this index."""
    position = Position(LogIndex(index), Term(term))
    return LogStart(position, Offset(index), position, b"")


def terms_of(view: LogView) -> list[int]:
    """From the last index that is gone on."""
    return [view.term_at(LogIndex(at)) for at in range(view.start.index, view.last_index + 1)]


TRIMS = [
    pytest.param((1, 1, 2, 2, 5), 1, id="within the first term"),
    pytest.param((1, 1, 2, 2, 5), 2, id="just behind a term"),
    pytest.param((1, 1, 2, 2, 5), 3, id="just behind the first entry of a term"),
    pytest.param((1, 1, 2, 2, 5), 5, id="all there is"),
    pytest.param((1, 2, 3, 4, 5), 4, id="many terms at once"),
]


@pytest.mark.parametrize(("terms", "index"), TRIMS)
def test_of_what_has_left_only_the_last_term_is_known(terms: tuple[int, ...], index: int) -> None:
    entries = of_terms(*terms)
    view = LogView.of(entries, cache_bytes_max=10_000)
    view.trim(place(index, terms[index - 1]))
    assert terms_of(view) == list(terms[index - 1 :])
    assert (view.last_index, view.end_offset, view.durable_index, view.last_term) == (5, 5, 5, terms[-1])
    assert first_cached(view) == (index + 1 if index < len(terms) else None)
    with pytest.raises(AssertionError, match="no entry"):
        view.term_at(LogIndex(index - 1) if index > 1 else LogIndex(6))


@pytest.mark.parametrize(("terms", "index"), TRIMS)
def test_a_log_that_was_trimmed_goes_on_as_one_that_was_restored(terms: tuple[int, ...], index: int) -> None:
    entries = of_terms(*terms)
    start = place(index, terms[index - 1])
    view = LogView.of(entries, cache_bytes_max=10_000)
    view.trim(start)
    assert view == view_of(entries[index:], start, 10_000)
    more = of_terms(5, 6, before=5)
    restarted = view_of(entries[index:], start, 10_000)
    view.append(more)
    restarted.append(more)
    assert view == restarted
    assert terms_of(view) == [*terms[index - 1 :], 5, 6]


def test_bytes_that_have_left_the_log_no_longer_count() -> None:
    entries = entries_of_sizes(*[100] * 10)
    view = restore_view(entries[:9], 1000)
    view.trim(place(1, 1))
    view.append(entries[9:])
    more = Entry(LogIndex(11), Term(1), Offset(10), entries[0].batch)
    view.append([more])
    assert first_cached(view) == 2


def test_trimming_what_the_cache_has_dropped_leaves_it_alone() -> None:
    view = grow_view(entries_of_sizes(*[100] * 11), 1000, durable_before_the_last=10)
    assert first_cached(view) == 5
    view.trim(place(3, 1))
    assert first_cached(view) == 5
    view.trim(place(5, 1))
    assert first_cached(view) == 6


def test_a_log_can_be_trimmed_again_and_again() -> None:
    view = LogView.of(of_terms(1, 2, 3, 4, 4), cache_bytes_max=10_000)
    for index, term in ((1, 1), (3, 3), (4, 4), (4, 4), (5, 4)):
        view.trim(place(index, term))
        assert view.start == place(index, term)
        assert terms_of(view) == [1, 2, 3, 4, 4][index - 1 :]


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        pytest.param(place(4, 2), "only what is durable", id="more than is durable"),
        pytest.param(place(1, 1), "only what is durable", id="less than has left"),
        pytest.param(place(3, 1), "an entry of its own", id="another term"),
    ],
)
def test_what_may_not_leave_stays(start: LogStart, reason: str) -> None:
    view = view_of(of_terms(2, before=2), place(2, 1), 10_000)
    view.append(of_terms(2, before=3))
    with pytest.raises(AssertionError, match=reason):
        view.trim(start)


def test_a_new_beginning_is_all_that_is_left() -> None:
    view = LogView.of(of_terms(1, 2, 3), cache_bytes_max=10_000)
    view.reset(place(2, 1))
    assert view.position == Position(LogIndex(2), Term(1))
    assert (view.start, view.end_offset, view.durable_index) == (place(2, 1), 2, 0)
    assert first_cached(view) is None
    assert view.term_at(LogIndex(2)) == 1
    assert not view.matches(LogIndex(3), Term(3))
    view.append(of_terms(1, 4, before=2))
    assert terms_of(view) == [1, 1, 4]
    assert first_cached(view) == 3
    assert view.end_offset == 4


@pytest.mark.parametrize(("size", "first"), [(100, 5), (101, 7)], ids=["exactly full", "a byte too many"])
def test_nothing_of_the_old_log_counts_in_the_cache_of_the_new_one(size: int, first: int) -> None:
    entries = entries_of_sizes(*[100] * 7, size)
    view = restore_view(entries[:4], 400)
    view.reset(place(4, 1))
    view.append(entries[4:7])
    view.durable_index = LogIndex(7)
    view.append(entries[7:])
    assert first_cached(view) == first


@pytest.mark.parametrize("index", [1, 2])
def test_a_log_never_gets_back_what_has_left_it(index: int) -> None:
    view = view_of(of_terms(2, before=2), place(2, 1), 10_000)
    with pytest.raises(AssertionError, match="never gets back"):
        view.reset(place(index, 1))


def test_an_append_reaches_neither_what_has_left_nor_beyond_the_end() -> None:
    view = view_of(of_terms(2, 2, before=2), place(2, 1), 10_000)
    for before in (1, 4 + 1):
        with pytest.raises(AssertionError, match="neither leave a gap nor reach"):
            view.append(of_terms(3, before=before))
    view.append(of_terms(3, before=2))
    assert terms_of(view) == [1, 3]


def test_an_append_to_an_empty_log_takes_up_its_offsets() -> None:
    view = view_of([], place(2, 1), 10_000)
    with pytest.raises(AssertionError, match="dense"):
        view.append([Entry(LogIndex(3), Term(1), Offset(0), batch(1))])
    with pytest.raises(AssertionError, match="terms never fall"):
        view_of([], place(2, 2), 10_000).append(of_terms(1, before=2))


@pytest.mark.parametrize(
    ("index", "term", "matches"),
    [
        pytest.param(0, 0, True, id="the place where all logs begin"),
        pytest.param(3, 2, True, id="what has left, in an older term"),
        pytest.param(3, 3, True, id="what has left, in the last term that has"),
        pytest.param(3, 4, False, id="what has left, in a term that only what is there has"),
        pytest.param(4, 3, True, id="the last that has left"),
        pytest.param(4, 2, False, id="the last that has left, in another term"),
        pytest.param(5, 5, True, id="an entry"),
        pytest.param(5, 3, False, id="an entry of another term"),
        pytest.param(6, 5, False, id="behind the end"),
    ],
)
def test_what_has_left_matches_what_any_leader_can_say_of_it(index: int, term: int, matches: bool) -> None:
    view = view_of(of_terms(5, before=4), place(4, 3), 10_000)
    assert view.matches(LogIndex(index), Term(term)) is matches


@pytest.mark.parametrize(
    ("index", "term", "found"),
    [
        pytest.param(3, 9, (0, 0), id="before the log begins"),
        pytest.param(9, 2, (0, 0), id="older than what is known"),
        pytest.param(4, 3, (4, 3), id="where the log begins"),
        pytest.param(9, 3, (5, 3), id="the end of the first term"),
        pytest.param(9, 4, (5, 3), id="a term that nobody led here"),
        pytest.param(9, 5, (6, 5), id="the end of the log"),
        pytest.param(4, 5, (4, 3), id="where the log begins, in any later term"),
    ],
)
def test_no_hint_names_what_has_left(index: int, term: int, found: tuple[int, int]) -> None:
    view = view_of(of_terms(3, 5, before=4), place(4, 3), 10_000)
    assert view.last_position_within(LogIndex(index), Term(term)) == Position(LogIndex(found[0]), Term(found[1]))


def test_of_a_message_that_begins_with_what_has_left_only_the_rest_is_missing() -> None:
    view = view_of(of_terms(3, before=4), place(4, 3), 10_000)
    message = of_terms(1, 3, 3, 3, 4, before=2)
    assert list(view.missing_from(message[:3])) == []
    assert list(view.missing_from(message)) == message[3:]


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([], id="none is known"),
        pytest.param([(5, 4)], id="only those behind it"),
        pytest.param([(4, 3), (5, 4)], id="its own first"),
        pytest.param([(2, 3), (5, 4)], id="its own from where it began"),
    ],
)
def test_a_restored_log_knows_the_term_of_the_last_that_has_left(runs: list[tuple[int, int]]) -> None:
    last = 5 if runs else 4
    view = LogView.restore(
        runs=[(LogIndex(index), Term(term)) for index, term in runs],
        last_index=LogIndex(last),
        end_offset=Offset(last),
        cache_bytes_max=0,
        start=place(4, 3),
    )
    assert terms_of(view) == ([3, 4] if runs else [3])
    assert view.last_position_within(LogIndex(9), Term(3)) == Position(LogIndex(4), Term(3))
    assert view.durable_index == last


def test_terms_that_fall_along_a_restored_log_are_refused() -> None:
    with pytest.raises(AssertionError, match="must ascend"):
        view_of(of_terms(2, before=4), place(4, 3), 10_000)
