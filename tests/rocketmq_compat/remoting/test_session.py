"""One connection of a server: calls are answered in any order, memory is bounded, and errors end at most this
connection.
"""

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from raft.net.decoder import Buffer
from raft.net.errors import WireError
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import IS_ONEWAY, IS_RESPONSE, Command, Serialization, decode, encode
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader, QueueRequestHeader
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession

WORK, HOLD, READ = 10, 11, 30


@attrs.define(eq=False)
class Loop:
    """Stands for the reactor: what is to be flushed is flushed by `end_round`."""

    asked: int = 0
    """The number of rounds that were asked for."""
    later: list[Any] = attrs.field(factory=list)

    def flush_later(self, flushable: Any, *, urgent: bool) -> None:
        self.later.append(flushable)

    def ask_another_round(self) -> None:
        self.asked += 1

    def end_round(self) -> None:
        later, self.later = self.later, []
        for session in later:
            session.flush()


@attrs.define(eq=False)
class Connection:
    """Stands for a client's connection."""

    reactor: Loop = attrs.field(factory=Loop)
    name: str = "127.0.0.1:5"
    is_closed: bool = False
    is_full: bool = False
    is_paused: bool = False
    refused: WireError | None = None
    sent: list[Command] = attrs.field(factory=list)

    def write_pieces(self, pieces: list[Buffer]) -> bool:
        self.sent.append(decode(b"".join(pieces)[4:]))
        return True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def refuse(self, error: WireError) -> None:
        self.refused = error


class World:
    """A session whose calls wait until the test answers them."""

    def __init__(self, **bounds: int) -> None:
        self.calls: list[RemotingCall] = []
        self.greeted: list[Any] = []
        self.ended: list[str] = []
        handlers: dict[int, Callable[[RemotingCall], None]] = {
            WORK: self.calls.append,
            HOLD: self.hold,
            READ: self.read,
        }
        self.session = RemotingSession(
            handlers,
            lambda connection, _: self.greeted.append(connection),
            lambda _, why: self.ended.append(why),
            **bounds,
        )
        self.connection = Connection()
        self.session.connection = self.connection  # type: ignore[assignment]

    def hold(self, call: RemotingCall) -> None:
        self.calls.append(call)
        if not call.hold():
            call.answer(ResponseCode.PULL_NOT_FOUND)

    def read(self, call: RemotingCall) -> None:
        header = QueueRequestHeader.read(call.request.ext)
        call.answer(header=OffsetResponseHeader(offset=header.queue_id))

    def arrive(self, *commands: Command) -> None:
        self.session.on_frames([b"".join(encode(each))[4:] for each in commands])

    def request(self, code: int, *opaques: int, **more: Any) -> None:
        self.arrive(*(Command(code, opaque, **more) for opaque in opaques))

    @property
    def taken(self) -> list[int]:
        return [call.request.opaque for call in self.calls]

    @property
    def answered(self) -> list[int]:
        return [each.opaque for each in self.connection.sent]


def test_calls_are_answered_in_any_order() -> None:
    world = World()
    world.request(WORK, 1, 2, 3)
    for call in reversed(world.calls):
        call.answer()
    assert world.answered == [3, 2, 1]
    assert all(each.is_response for each in world.connection.sent)


def test_an_answer_has_the_fields_of_its_header() -> None:
    world = World()
    world.request(READ, 1, ext={"topic": "t", "queueId": "7"}, serialization=Serialization.ROCKETMQ)
    (answer,) = world.connection.sent
    assert (answer.code, answer.ext, answer.serialization) == (0, {"offset": "7"}, Serialization.ROCKETMQ)


def test_a_one_way_request_is_served_and_not_answered() -> None:
    world = World(calls_max=1)
    for opaque in range(3):
        world.request(WORK, opaque, flag=IS_ONEWAY)
        world.calls[-1].answer()
    assert world.taken == [0, 1, 2]
    assert world.connection.sent == []


def test_a_request_that_no_one_serves_is_answered_so() -> None:
    world = World()
    world.request(999, 1)
    (answer,) = world.connection.sent
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == "request type 999 is not supported"


def test_fields_that_make_no_sense_refuse_the_request_and_not_the_connection() -> None:
    world = World()
    world.request(READ, 1, ext={"topic": "t", "queueId": "x"})
    world.request(READ, 2, ext={"topic": "t", "queueId": "1"})
    first, second = world.connection.sent
    assert first.code == ResponseCode.SYSTEM_ERROR
    assert first.remark == "bad field queueId: 'x' is no whole number"
    assert second.code == ResponseCode.SUCCESS


def test_an_answer_that_cannot_be_encoded_is_replaced_by_its_reason() -> None:
    world = World()
    world.request(WORK, 1)
    world.calls[0].answer(remark="\ud800")
    (answer,) = world.connection.sent
    assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 1)
    assert "cannot encode" in (answer.remark or "")


def test_a_frame_that_is_no_command_is_an_error_of_the_wire_after_those_before_it() -> None:
    world = World()
    good = b"".join(encode(Command(WORK, 1)))[4:]
    with pytest.raises(WireError, match="malformed frame"):
        world.session.on_frames([good, b"\0\0\0\2{}"])
    assert world.taken == [1]


def test_a_connection_counts_once_its_first_request_is_understood() -> None:
    world = World()
    with pytest.raises(WireError):
        world.session.on_frames([b""])
    assert world.greeted == []
    world.request(999, 1)
    world.request(999, 2)
    assert world.greeted == [world.connection]


def test_no_more_calls_are_taken_than_may_be_worked_on_at_once() -> None:
    world = World(calls_max=2)
    world.request(WORK, 1, 2, 3, 4)
    assert world.taken == [1, 2]
    assert world.connection.is_paused
    world.calls[1].answer()
    assert world.taken == [1, 2], "who answers is in the middle of its work"
    world.connection.reactor.end_round()
    assert world.taken == [1, 2, 3]
    assert world.connection.is_paused
    for call in world.calls[:1] + world.calls[2:]:
        call.answer()
    world.connection.reactor.end_round()
    assert world.taken == [1, 2, 3, 4]
    assert not world.connection.is_paused


def test_calls_hold_a_bounded_number_of_bytes() -> None:
    world = World(taken_bytes_max=1000)
    world.request(WORK, 1, body=bytes(900))
    world.request(WORK, 2, body=bytes(900))
    world.request(WORK, 3)
    assert world.taken == [1]
    world.calls[0].answer()
    world.connection.reactor.end_round()
    assert world.taken == [1, 2]


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    world = World()
    world.connection.is_full = True
    world.request(WORK, 1)
    assert world.taken == []
    world.connection.is_full = False
    world.session.on_drained()
    world.connection.reactor.end_round()
    assert world.taken == [1]


def test_a_call_on_hold_keeps_no_other_waiting_and_is_answered_later() -> None:
    world = World(calls_max=1)
    world.request(HOLD, 1, 2, 3)
    world.request(WORK, 4)
    assert world.taken == [1, 2, 3, 4]
    world.calls[0].answer(ResponseCode.PULL_NOT_FOUND)
    assert world.answered == [1]


def test_a_call_that_is_put_on_hold_later_makes_room_for_the_next() -> None:
    world = World(calls_max=1)
    world.request(WORK, 1, 2)
    assert world.calls[0].hold()
    world.connection.reactor.end_round()
    assert world.taken == [1, 2]
    assert world.calls[0].connection is world.session.connection
    assert world.calls[0].session is world.session


def test_room_is_made_once_a_round_and_the_loop_is_told_that_there_is_news() -> None:
    world = World(calls_max=2)
    world.request(WORK, 1, 2, 3, 4)
    for call in world.calls[:2]:
        call.answer()
    assert world.connection.reactor.later == [world.session]
    world.connection.reactor.end_round()
    assert world.connection.reactor.asked == 1
    assert world.taken == [1, 2, 3, 4]
    for call in world.calls[2:]:
        call.answer()
    assert world.connection.reactor.later == [], "nothing waits"


def test_a_connection_that_ends_takes_no_more_of_what_was_read() -> None:
    world = World(calls_max=1)
    world.request(WORK, 1, 2)
    world.calls[0].answer()
    world.connection.is_closed = True
    world.session.on_closed("gone")
    world.connection.reactor.end_round()
    assert world.taken == [1]
    assert world.connection.reactor.asked == 0


def test_calls_on_hold_are_bounded() -> None:
    world = World(held_max=2)
    world.request(HOLD, 1, 2, 3)
    assert world.answered == [3]
    world.calls[0].answer()
    world.request(HOLD, 4)
    assert world.answered == [3, 1]


def test_calls_on_hold_hold_a_bounded_number_of_bytes() -> None:
    world = World(taken_bytes_max=2000)
    for opaque in range(4):
        world.request(HOLD, opaque, body=bytes(800))
    assert world.answered == [2, 3], "two of them fit"
    world.calls[0].answer()
    world.request(HOLD, 4, body=bytes(800))
    assert world.answered == [2, 3, 0]


def test_a_broken_frame_behind_a_pause_still_closes_the_connection() -> None:
    world = World(calls_max=1)
    good = b"".join(encode(Command(WORK, 1)))[4:]
    world.session.on_frames([good, b"\0"])
    world.calls[0].answer()
    world.connection.reactor.end_round()
    assert world.connection.refused is not None


def test_answers_to_a_connection_that_has_closed_are_dropped() -> None:
    world = World()
    world.request(WORK, 1)
    world.connection.is_closed = True
    world.session.on_closed("gone")
    world.calls[0].answer()
    assert world.connection.sent == []
    assert world.ended == ["gone"]
    assert not world.session.notify(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))


def test_the_client_is_notified_and_asked_over_the_same_connection() -> None:
    world = World()
    answers: list[Command] = []
    assert world.session.notify(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={"consumerGroup": "g"}))
    assert world.session.ask(Command(RequestCode.GET_CONSUMER_RUNNING_INFO), answers.append) is not None
    forget = world.session.ask(Command(RequestCode.GET_CONSUMER_RUNNING_INFO), answers.append)
    notified, asked, forgotten = world.connection.sent
    assert notified.is_oneway
    assert not asked.is_oneway
    assert forget is not None
    forget()
    world.request(0, forgotten.opaque, asked.opaque, asked.opaque, 99, flag=IS_RESPONSE)
    assert [each.opaque for each in answers] == [asked.opaque]


def test_a_client_that_does_not_read_is_not_notified() -> None:
    world = World()
    world.connection.is_full = True
    assert not world.session.notify(Command(40))
    assert world.session.ask(Command(307), lambda answer: None) is None


def test_whatever_arrives_the_bounds_hold_and_every_call_is_answered_once() -> None:
    rng = random.Random(7)
    for _ in range(100):
        world = World(calls_max=3, held_max=2)
        asked = 0
        for _ in range(60):
            open_calls = [each for each in world.calls if each.state != each.ANSWERED]
            match rng.randrange(3):
                case 0:
                    world.request(rng.choice([WORK, HOLD]), asked)
                    asked += 1
                case 1 if open_calls:
                    rng.choice(open_calls).answer()
                case _:
                    world.connection.reactor.end_round()
            states = [each.state for each in world.calls]
            assert states.count(RemotingCall.WORKING) <= 3
            assert states.count(RemotingCall.HELD) <= 2
        for _ in range(asked):
            for call in world.calls:
                if call.state != call.ANSWERED:
                    call.answer()
            world.connection.reactor.end_round()
        assert sorted(world.answered) == list(range(asked))
