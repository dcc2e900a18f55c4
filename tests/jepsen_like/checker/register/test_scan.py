"""The scan of registers reports each flaw with its register and its block, place or chain."""

from collections.abc import Sequence

import attrs
import pytest

from jepsen_like.checker.register.scan import Flaw, FlawFound, RegisterScan, scan
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome
from tests.jepsen_like.checker.register.test_explain import read, swap, write

LAST = 100
"""A moment after everything else."""


def unknown(op: Op) -> Op:
    return attrs.evolve(op, type=Outcome.INFO, t_ret=NEVER)


def refuse(op: Op) -> Op:
    return attrs.evolve(op, type=Outcome.FAIL)


def of_register(name: int, ops: Sequence[Op]) -> list[Op]:
    return [attrs.evolve(op, object=name) for op in ops]


def scan_ops(*ops: Op) -> RegisterScan:
    return scan(Columns.of_ops(ops))


def block(outcome: RegisterScan, value: int, register: int = 0) -> int:
    """The number of the block of this value."""
    (found,) = [
        number
        for number, one in enumerate(zip(outcome.blocks.object.tolist(), outcome.blocks.value.tolist(), strict=True))
        if one == (register, value)
    ]
    return found


def flaws(outcome: RegisterScan) -> list[tuple[Flaw, int]]:
    """Each flaw with the value that it is about, or the place in its chain."""
    return [(one.flaw, _subject(outcome, one)) for one in outcome.found]


def _subject(outcome: RegisterScan, one: FlawFound) -> int:
    numbers = outcome.place if one.flaw is Flaw.INSIDE_CHAIN else outcome.blocks.value
    return int(numbers[one.where])


def collisions(outcome: RegisterScan) -> list[tuple[int, int]]:
    """The first values of the chains that overlap."""
    assert all(one.flaw is Flaw.CHAINS_OVERLAP for one in outcome.found)
    value = outcome.blocks.value
    return [(int(value[one.where]), int(value[one.other])) for one in outcome.found]


def rows_of(outcome: RegisterScan, entries: Ints) -> set[int]:
    return set(outcome.entries.row[entries].tolist())


# What counts.


def test_nothing_is_no_register() -> None:
    outcome = scan_ops()
    assert outcome.objects.tolist() == []
    assert (outcome.found, outcome.ambiguous.tolist()) == ((), [])
    assert (outcome.place_chain.tolist(), outcome.place.tolist()) == ([], [])


def test_registers_without_a_known_effect_are_registers() -> None:
    outcome = scan_ops(*of_register(9, [refuse(write(1, 1, 2))]), *of_register(5, [unknown(write(1, 1, 2))]))
    assert outcome.objects.tolist() == [5, 9]
    assert (outcome.found, outcome.ambiguous.tolist()) == ((), [])
    assert (outcome.place_chain.tolist(), outcome.place.tolist()) == ([], [])


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([write(1, 1, 2), write(1, 3, 4)], id="written twice"),
        pytest.param([write(1, 1, 2), swap(2, 1, 3, 4), write(2, 1, 2)], id="written and swapped in"),
        pytest.param([write(NONE, 1, 2)], id="the initial value is written"),
        pytest.param([write(1, 1, 2), swap(1, NONE, 3, 4)], id="the initial value is swapped in"),
        pytest.param([unknown(write(1, 1, 2)), unknown(write(1, 3, 4)), read(1, 5, 6)], id="perhaps twice, and seen"),
        pytest.param([write(1, 1, 2), unknown(write(1, 3, 4)), read(1, 5, 6)], id="once and perhaps again, and seen"),
    ],
)
def test_a_register_with_two_writers_of_a_value_is_ambiguous_and_accused_of_nothing(ops: list[Op]) -> None:
    unwritten = read(9, 7, 8)
    outcome = scan_ops(
        *of_register(4, [write(1, 1, 2)]), *of_register(6, [*ops, unwritten]), *of_register(8, [unwritten])
    )
    assert outcome.ambiguous.tolist() == [1]
    assert [(one.flaw, one.object) for one in outcome.found] == [(Flaw.UNWRITTEN, 2)]


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([write(1, 1, 2), refuse(write(1, 3, 4)), read(1, 5, 6)], id="refused the second time"),
        pytest.param([write(1, 1, 2), unknown(write(1, 3, 4))], id="perhaps twice, and never seen"),
        pytest.param([write(1, 1, 2), swap(1, 1, 3, 4)], id="swapped for itself"),
        pytest.param(
            [write(1, 1, 2), write(3, 1, 9), swap(2, 3, 3, 4, seen=1), read(3, 5, 6)], id="a swap that saw another"
        ),
        pytest.param([write(1, 1, 2), read(NONE, 0, 1)], id="the initial value is read"),
    ],
)
def test_what_did_not_write_is_no_second_writer(ops: list[Op]) -> None:
    outcome = scan_ops(*ops)
    assert (outcome.found, outcome.ambiguous.tolist()) == ((), [])


def test_unknown_writes_and_swaps_count_when_their_value_was_seen() -> None:
    steps = [unknown(write(1, 1, 2)), *[unknown(swap(value, value + 1, 3, 4)) for value in range(1, 5)]]
    unseen = [unknown(swap(60, 61, 3, 4)), unknown(swap(70, 71, 3, 4)), unknown(write(80, 3, 4))]
    outcome = scan_ops(*unseen, *steps, read(5, 5, 6))
    assert outcome.found == ()
    assert {int(outcome.rows.a[row]) for row in outcome.entries.row} == {1, 2, 3, 4, 5}
    assert len(outcome.entries.row) == 6
    assert [int(outcome.blocks.writers[block(outcome, value)]) for value in (1, 2, 5, 61, 80)] == [1, 1, 1, 0, 0]
    assert [bool(outcome.blocks.seen[block(outcome, value)]) for value in (1, 2, 5, 60, 61)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_what_an_unknown_swap_replaced_was_there_if_its_own_value_was_seen() -> None:
    swapped = unknown(swap(8, 9, 1, 2))
    assert flaws(scan_ops(swapped, read(9, 3, 4))) == [(Flaw.UNWRITTEN, 8)]
    assert flaws(scan_ops(swapped)) == []
    assert flaws(scan_ops(swap(8, 9, 1, 2))) == [(Flaw.UNWRITTEN, 8)]


def test_unknown_reads_see_nothing() -> None:
    assert scan_ops(unknown(read(9, 1, 2)), refuse(read(8, 1, 2)), write(1, 1, 2)).found == ()


def test_a_swap_of_unknown_outcome_that_names_no_new_value_is_nothing() -> None:
    assert scan_ops(unknown(swap(9, 9, 1, 2)), refuse(swap(8, 7, 1, 2))).found == ()


# Blocks, chains and places.


def test_a_swap_puts_its_block_behind_the_one_it_replaced() -> None:
    chain = [write(1, 1, 2), *[swap(value, value + 1, 3, LAST) for value in range(1, 10)]]
    outcome = scan_ops(*chain, write(50, 1, LAST), read(NONE, 0, 1))
    blocks = outcome.blocks
    numbers = [block(outcome, value) for value in range(1, 11)]
    assert blocks.depth[numbers].tolist() == list(range(10))
    assert set(blocks.root[numbers].tolist()) == {numbers[0]}
    assert blocks.parent[numbers].tolist() == [numbers[0], *numbers[:-1]]
    assert blocks.writer[numbers].tolist() == list(range(10))
    for value, writer in ((50, 10), (NONE, NONE)):
        alone = block(outcome, value)
        assert (blocks.root[alone], blocks.depth[alone], blocks.writer[alone]) == (alone, 0, writer)
    assert not blocks.cyclic.any()
    assert outcome.found == ()


def test_writes_and_swaps_are_at_twice_their_depth_and_reads_just_behind() -> None:
    outcome = scan_ops(write(1, 1, 2), read(1, 3, 4), swap(1, 2, 5, 6), read(2, 7, 8), swap(8, 9, 9, 10, seen=2))
    at = dict(zip(outcome.entries.row.tolist(), outcome.entries.place.tolist(), strict=True))
    assert at == {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}
    assert outcome.place.tolist() == [0, 1, 2, 3]
    assert set(outcome.place_chain.tolist()) == {block(outcome, 1)}


def test_the_entries_of_a_block_are_its_write_and_its_reads_and_those_of_a_chain_all_of_its_blocks() -> None:
    outcome = scan_ops(
        write(3, 1, LAST),
        write(1, 1, 2),
        read(1, 3, 4),
        swap(1, 2, 5, 6),
        read(2, 7, 8),
        read(3, 9, LAST),
        read(2, 9, 10),
    )
    assert rows_of(outcome, outcome.entries_of_block(block(outcome, 1))) == {1, 2}
    assert rows_of(outcome, outcome.entries_of_block(block(outcome, 2))) == {3, 4, 6}
    assert rows_of(outcome, outcome.entries_of_chain(block(outcome, 1))) == {1, 2, 3, 4, 6}
    assert rows_of(outcome, outcome.entries_of_chain(block(outcome, 3))) == {0, 5}
    assert rows_of(outcome, outcome.entries_of_block(block(outcome, NONE))) == set()


# Condition 1: every value seen was written.


def test_a_value_that_was_seen_and_not_written_is_named() -> None:
    outcome = scan_ops(write(1, 1, 2), refuse(write(8, 1, 2)), read(9, 3, 4), read(8, 3, 4), read(9, 5, 6))
    assert flaws(outcome) == [(Flaw.UNWRITTEN, 8), (Flaw.UNWRITTEN, 9)]


def test_what_a_swap_that_did_not_swap_saw_must_be_written_and_what_it_wanted_need_not() -> None:
    assert flaws(scan_ops(swap(8, 9, 1, 2, seen=7))) == [(Flaw.UNWRITTEN, 7)]


def test_refused_writers_are_the_writes_and_swaps_that_would_have_put_the_value_there() -> None:
    outcome = scan_ops(
        *of_register(3, [read(9, 3, 4), read(8, 3, 4)]),
        *of_register(3, [refuse(write(9, 1, 2)), refuse(swap(1, 9, 1, 2)), refuse(swap(9, 2, 1, 2))]),
        *of_register(3, [unknown(swap(1, 9, 1, 2)), refuse(read(9, 1, 2)), write(5, 1, 2)]),
        *of_register(4, [refuse(write(9, 1, 2)), refuse(write(8, 1, 2))]),
        attrs.evolve(refuse(write(9, 5, 6)), object=3),
        Op(f=Action.TAIL, type=Outcome.FAIL, a=9, object=3, t_inv=1, t_ret=2),
    )
    assert outcome.refused_writers(block(outcome, 9)) == [2, 3, 10]
    assert outcome.refused_writers(block(outcome, 8)) == []
    assert outcome.refused_writers(block(outcome, 5)) == []


# Condition 2: no value is replaced twice, and chains have no cycle.


def test_a_value_that_two_swaps_replaced_is_named_once() -> None:
    outcome = scan_ops(write(1, 1, 2), *[swap(1, value, 3, LAST) for value in (2, 3, 4)], swap(4, 5, 3, LAST))
    assert flaws(outcome) == [(Flaw.REPLACED_TWICE, 1)]
    assert flaws(scan_ops(swap(NONE, 1, 1, LAST), swap(NONE, 2, 1, LAST))) == [(Flaw.REPLACED_TWICE, NONE)]


def test_a_swap_that_nobody_saw_and_that_perhaps_did_not_happen_replaced_nothing() -> None:
    assert scan_ops(write(1, 1, 2), swap(1, 2, 3, LAST), unknown(swap(1, 3, 3, 4))).found == ()


def test_each_register_with_a_cycle_is_named_once() -> None:
    two_circles = [swap(old, new, 1, LAST) for old, new in ((1, 2), (2, 3), (3, 1), (5, 6), (6, 5))]
    outcome = scan_ops(
        *of_register(2, [write(1, 1, 2)]), *of_register(5, two_circles), *of_register(7, two_circles[3:])
    )
    assert [(one.flaw, one.object) for one in outcome.found] == [(Flaw.CYCLE, 1), (Flaw.CYCLE, 2)]
    assert all(outcome.blocks.cyclic[one.where] for one in outcome.found)


def test_blocks_that_lead_into_a_cycle_are_chains_of_their_own() -> None:
    outcome = scan_ops(swap(1, 2, 1, LAST), swap(2, 1, 1, LAST), swap(2, 3, 1, LAST), write(4, 1, LAST))
    assert {flaw for flaw, _ in flaws(outcome)} == {Flaw.REPLACED_TWICE, Flaw.CYCLE}
    blocks = outcome.blocks
    numbers = [block(outcome, value) for value in (1, 2, 3)]
    assert blocks.cyclic[numbers].all()
    assert not blocks.cyclic[block(outcome, 4)]
    assert blocks.root[numbers].tolist() == numbers
    assert blocks.depth[numbers].tolist() == [0, 0, 0]


# Condition 3: inside a chain nothing ends before something put earlier has begun.


@pytest.mark.parametrize(
    ("ops", "places"),
    [
        pytest.param([write(1, 3, 4), read(1, 1, 2)], [1], id="a read before its write"),
        pytest.param([write(1, 3, 4), read(1, 1, 3)], [], id="a read that ended as its write began"),
        pytest.param([write(1, 1, 2), swap(1, 2, 3, 4), read(1, 5, 6)], [2], id="a read after the swap"),
        pytest.param([write(1, 1, 2), swap(1, 2, 3, 5), read(1, 5, 6)], [], id="a read as the swap ended"),
        pytest.param([write(1, 9, 10), swap(1, 2, 3, 4), read(2, 5, 6)], [2], id="a swap before its write"),
        pytest.param([write(1, 10, 11), read(1, 1, 2), swap(1, 2, 3, 4)], [1], id="all before one write: told once"),
        pytest.param(
            [write(1, 10, 11), read(1, 4, 5), swap(1, 2, 20, 21), read(2, 6, 7)],
            [1, 3],
            id="before two that began late",
        ),
        pytest.param([write(1, 1, 2), read(1, 8, 9), read(1, 3, 4)], [], id="reads in any order"),
    ],
)
def test_the_first_place_that_ended_before_an_earlier_one_began_is_named(ops: list[Op], places: list[int]) -> None:
    outcome = scan_ops(*of_register(3, [write(1, 50, LAST)]), *of_register(4, ops))
    assert flaws(outcome) == [(Flaw.INSIDE_CHAIN, place) for place in places]
    assert {one.object for one in outcome.found} <= {1}
    assert {int(outcome.place_chain[one.where]) for one in outcome.found} <= {block(outcome, 1, register=1)}


@pytest.mark.parametrize(
    ("chain", "flaw"),
    [
        pytest.param([write(1, 3, 4), read(1, 1, 2), read(1, 20, 21)], (Flaw.INSIDE_CHAIN, 1), id="inside"),
        pytest.param([read(9, 1, 2), read(9, 20, 21)], (Flaw.UNWRITTEN, 9), id="unwritten"),
    ],
)
def test_a_chain_that_is_wrong_in_itself_is_not_held_against_others(chain: list[Op], flaw: tuple[Flaw, int]) -> None:
    assert flaws(scan_ops(*chain, write(2, 5, 6))) == [flaw]


# Condition 4: of two chains one can come first.

FORWARD = (write(1, 1, 2), read(1, 6, 7))
"""The zone from 2 to 6."""


@pytest.mark.parametrize(
    ("other", "collides"),
    [
        pytest.param([write(2, 3, 5)], True, id="inside"),
        pytest.param([write(2, 3, 3)], True, id="one moment inside"),
        pytest.param([write(2, 2, 5)], False, id="begun as the zone begins"),
        pytest.param([write(2, 2, 2)], False, id="one moment as the zone begins"),
        pytest.param([write(2, 3, 6)], False, id="ended as the zone ends"),
        pytest.param([write(2, 6, 6)], False, id="one moment as the zone ends"),
        pytest.param([write(2, 1, 7)], False, id="around"),
        pytest.param([write(2, 3, 5), read(2, 8, 9)], True, id="a zone that begins inside"),
        pytest.param([write(2, 3, 6), read(2, 8, 9)], False, id="a zone that begins as this one ends"),
        pytest.param([write(2, 0, 1), read(2, 3, 4)], True, id="a zone that ends inside"),
        pytest.param([write(2, 0, 1), read(2, 2, 4)], False, id="a zone that ends as this one begins"),
        pytest.param([write(2, 0, 2), read(2, 6, 8)], True, id="the same zone"),
        pytest.param([read(NONE, 3, 4)], True, id="the initial value"),
        pytest.param([read(NONE, 2, 4)], False, id="the initial value as the zone begins"),
    ],
)
def test_chains_collide_where_their_zones_do(other: list[Op], collides: bool) -> None:
    found = collisions(scan_ops(*FORWARD, *other))
    assert len(found) == collides
    assert all({1, other[0].a} == set(pair) for pair in found)


def test_the_initial_value_is_older_than_the_very_first_write() -> None:
    assert collisions(scan_ops(write(2, 1, 2), read(NONE, 5, 6))) == [(NONE, 2)]
    assert collisions(scan_ops(write(2, 1, 5), read(NONE, 5, 6))) == []


def test_all_that_collides_with_one_zone_is_one_flaw_under_the_zone() -> None:
    wide = [write(1, 1, 2), read(1, 50, 51)]
    inside = [write(value, 5 * value, 5 * value + 1) for value in range(2, 9)]
    assert collisions(scan_ops(*inside, *wide)) == [(1, 2)]


def test_each_zone_that_others_collide_with_is_a_flaw() -> None:
    first = [write(1, 1, 2), write(2, 3, 4), read(1, 5, 6), write(3, 7, 8)]
    later = [write(4, 11, 12), write(5, 13, 14), write(6, 15, 16), read(4, 17, 18), write(7, 19, 20)]
    assert collisions(scan_ops(*first, *later)) == [(1, 2), (4, 5)]


def test_zones_of_different_registers_do_not_collide() -> None:
    apart = [*of_register(5, FORWARD), *of_register(9, [write(2, 3, 5)]), *of_register(2, [write(3, 3, 5)])]
    assert scan_ops(*apart).found == ()


def test_a_collision_names_its_register_though_others_have_no_sound_chain() -> None:
    outcome = scan_ops(*of_register(5, [read(9, 1, 2)]), *of_register(9, [*FORWARD, write(2, 3, 5)]))
    assert [(one.flaw, one.object) for one in outcome.found] == [(Flaw.UNWRITTEN, 0), (Flaw.CHAINS_OVERLAP, 1)]
    assert outcome.objects.tolist() == [5, 9]
