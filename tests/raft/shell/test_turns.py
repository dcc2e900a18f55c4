"""The length of a loop's turns: measured without waiting, named by what took longest, and warned of now and then."""

from pathlib import Path

import trio

from raft.effects import RoleChanged, RoleName
from raft.group import RaftGroup
from raft.net.turns import LONG_S, WARN_EVERY_S, Turn, TurnMeter
from raft.notices import LongTurn, Notice, warn_of_long_turns
from tests.ports import free_ports


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _turn(meter: TurnMeter, clock: _Clock, *laps: tuple[object, float]) -> None:
    meter.begin()
    for cause, seconds in laps:
        clock.now += seconds
        meter.lap(cause)
    meter.end()


def test_the_longest_turn_is_known_with_what_took_longest_in_it() -> None:
    clock = _Clock()
    meter = TurnMeter(clock, _Clock())
    _turn(meter, clock, ("reading", 0.25), ("writing", 0.5))
    _turn(meter, clock, ("reading", 0.5), ("writing", 0.125))
    assert meter.longest == Turn(0.75, "writing", 0.5, 0.0)
    assert meter.figures() == {"longest_turn_ms": 750, "longest_turn_cause": "writing", "longest_turn_processor_ms": 0}


def test_the_time_between_turns_belongs_to_none() -> None:
    clock = _Clock()
    meter = TurnMeter(clock, _Clock())
    _turn(meter, clock, ("reading", 0.25))
    clock.now += 100
    _turn(meter, clock, ("reading", 0.125))
    assert meter.longest.seconds == 0.25


def test_a_cause_is_named_by_its_text_or_its_type() -> None:
    class Named:
        def __str__(self) -> str:
            return "by its text"

    class Plain:
        pass

    for cause, name in ((Named(), "by its text"), (Plain(), "Plain")):
        clock = _Clock()
        meter = TurnMeter(clock, _Clock())
        _turn(meter, clock, (cause, 1.0))
        assert meter.longest.cause == name


def test_the_processor_time_of_a_turn_is_no_more_than_the_turn() -> None:
    clock, processor = _Clock(), _Clock()
    meter = TurnMeter(clock, processor)
    meter.begin()
    clock.now, processor.now = 0.5, 0.25
    meter.lap("waiting")
    meter.end()
    assert meter.longest.processor_seconds == 0.25


def test_long_turns_are_warned_of_now_and_then_and_short_ones_never() -> None:
    clock = _Clock()
    meter = TurnMeter(clock, _Clock())
    told: list[tuple[str, object]] = []
    warn_of_long_turns(meter, lambda event, **fields: told.append((event, fields["cause"])))
    for name, seconds in (("short", LONG_S / 2), ("first", 2 * LONG_S), ("second", 3 * LONG_S)):
        _turn(meter, clock, (name, seconds))
    assert told == [("long_turn", "first")]
    clock.now += WARN_EVERY_S
    _turn(meter, clock, ("third", 2 * LONG_S))
    assert told == [("long_turn", "first"), ("long_turn", "third")]
    assert meter.longest.cause == "second"


class _Slow:
    """A state machine that one command keeps busy for longer than a turn should take, by the clock that it is given."""

    def __init__(self) -> None:
        self.clock = _Clock()

    def check(self, command: bytes, *, read_only: bool) -> None:
        pass

    def apply(self, index: int, command: bytes) -> bytes:
        self.clock.now += 1.0
        return b""

    def query(self, command: bytes) -> bytes:
        return b""


async def test_a_node_names_the_state_machine_that_held_it_up(tmp_path: Path) -> None:
    machine, told, leads = _Slow(), list[Notice](), trio.Event()

    def tell(notice: Notice) -> None:
        told.append(notice)
        if isinstance(notice, RoleChanged) and notice.role is RoleName.LEADER:
            leads.set()

    (port,) = free_ports(1)
    async with RaftGroup.open(
        node_id=1, members={1: ("127.0.0.1", port)}, directory=f"{tmp_path}/1", state_machine=machine, notify=tell
    ) as group:
        group._reactor.turns._clock = machine.clock
        group.campaign()
        with trio.fail_after(30):
            await leads.wait()
            await group.apply(b"slow")
            await group.apply(b"slow")  # the turn of the first one has ended
        status = group.status()
    assert status["longest_turn_ms"] == 1000
    assert status["longest_turn_cause"] == "raft: applying commands"
    assert [each.cause for each in told if isinstance(each, LongTurn)] == ["raft: applying commands"]
