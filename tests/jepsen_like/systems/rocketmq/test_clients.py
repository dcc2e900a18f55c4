"""Each answer of a broker makes an operation committed, certainly not, or unknown."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.systems.rocketmq.clients import BrokerConnection, MessageStored, Pulled, RocketClients
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection
from jepsen_like.systems.rocketmq.log_workload import LAST_READS, QueueWorkload
from jepsen_like.workload.load import NotTheLeader, TryLater
from jepsen_like.workload.model import Nonsense
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command, decode, encode
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader
from rocketmq_compat.remoting.headers.sending import SendMessageResponseHeader
from tests.listening import listening

CLIENTS = RocketClients({1: ("127.0.0.1", 1)})
Answers = Callable[[Command], Command | None]


@asynccontextmanager
async def broker(answers: Answers, kind: type[BrokerConnection] = BrokerConnection) -> AsyncIterator[BrokerConnection]:
    """A connection with a broker that answers so; None closes it."""

    async def serve(stream: trio.SocketStream) -> None:
        while True:
            length = await stream.receive_some(4)
            if not length:
                return
            frame = b""
            while len(frame) < int.from_bytes(length):
                frame += await stream.receive_some(int.from_bytes(length) - len(frame))
            answer = answers(decode(frame))
            if answer is None:
                await stream.aclose()
                return
            await stream.send_all(b"".join(encode(answer)))

    async with listening(serve) as address:
        connection = await kind.connect(address, within_s=2)
        yield connection
        connection.close()


def answer_with(code: int) -> Answers:
    header = SendMessageResponseHeader(msg_id="x", queue_id=1, queue_offset=7)
    return lambda request: request.answer(code, ext=header.ext())


async def test_only_send_ok_acknowledges_a_message() -> None:
    async with broker(answer_with(0)) as connection:
        assert await connection.send(1, b"v") == MessageStored(1, 7)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_message_that_is_stored_with_less_than_was_promised_has_an_unknown_outcome(code: int) -> None:
    async with broker(answer_with(code)) as connection:
        with pytest.raises(BrokerRefused) as refused:
            await connection.send(1, b"v")
    assert CLIENTS.ending_of(refused.value, connection_lost=False).outcome is Outcome.INFO


@pytest.mark.parametrize(
    ("code", "outcome", "error", "hint"),
    [
        (ResponseCode.SERVICE_NOT_AVAILABLE, Outcome.FAIL, ErrorCode.NOT_LEADER, NotTheLeader(None)),
        (ResponseCode.SYSTEM_BUSY, Outcome.FAIL, ErrorCode.BUSY, TryLater()),
        (ResponseCode.MESSAGE_ILLEGAL, Outcome.FAIL, ErrorCode.INVALID_REQUEST, None),
        (ResponseCode.SYSTEM_ERROR, Outcome.INFO, ErrorCode.OTHER, None),
    ],
)
async def test_a_refusal_is_definite_only_where_nothing_can_have_been_stored(
    code: int, outcome: Outcome, error: ErrorCode, hint: object
) -> None:
    async with broker(answer_with(code)) as connection:
        with pytest.raises(BrokerRefused) as refused:
            await connection.send(1, b"v")
        ending = CLIENTS.ending_of(refused.value, connection_lost=False)
        assert (ending.outcome, ending.code, ending.hint) == (outcome, error, hint)
        assert connection.is_open


async def test_a_connection_that_ends_leaves_the_outcome_unknown() -> None:
    async with broker(lambda request: None) as connection:
        with pytest.raises(NoBrokerAnswer) as lost:
            await connection.send(1, b"v")
        assert not connection.is_open
    assert CLIENTS.ending_of(lost.value, connection_lost=True).outcome is Outcome.INFO


async def test_no_connection_is_certainly_no_message() -> None:
    with pytest.raises(NoConnection) as none:
        await CLIENTS.connect(1, within_s=1.0)
    assert CLIENTS.ending_of(none.value, connection_lost=False).outcome is Outcome.FAIL


async def test_an_answer_to_an_earlier_request_is_not_taken_for_that_of_a_later_one() -> None:
    def answers(request: Command) -> Command:
        header = OffsetResponseHeader(offset=request.opaque)
        return request.answer(0, ext=header.ext())

    async with broker(answers) as connection:
        with trio.move_on_after(0):
            await connection.end_of(0)
        assert not connection.is_open, "what was cancelled may be answered later"
    async with broker(answers) as connection:
        assert [await connection.end_of(0), await connection.end_of(0)] == [1, 2]


async def test_nothing_there_is_an_answer() -> None:
    async with broker(lambda request: request.answer(ResponseCode.PULL_NOT_FOUND)) as connection:
        assert await connection.pull(0, 5, 1) == Pulled(5, ())


def test_the_workload_reads_the_end_of_every_queue_of_every_group_at_last() -> None:
    workload, rng = QueueWorkload(pairs=2, queues=2), random.Random(1)
    requests = [workload.request(rng) for _ in range(100)]
    ends = [0, 0, 0, 0]
    for request in requests:
        assert request.group == request.object // 2
        seen = workload.interpret(request, MessageStored(request.object % 2, ends[request.object]))
        assert (request.f, seen.offset, tuple(seen.values)) == (Action.APPEND, ends[request.object], (request.a,))
        ends[request.object] += 1
    assert min(ends) > LAST_READS
    finals = workload.final_reads()
    asked = {(each.object, each.offset) for each in finals if each.f is Action.READ}
    assert asked == {(obj, offset) for obj in range(4) for offset in range(ends[obj] - LAST_READS, ends[obj] + 1)}
    assert {(each.object, each.group) for each in finals} == {(0, 0), (1, 0), (2, 1), (3, 1)}
    tail = next(each for each in finals if each.f is Action.TAIL and each.object == 3)
    assert workload.interpret(tail, 99).offset == 99
    assert workload.claimed_ends() == {3: 99}
    beyond = next(each for each in finals if each.f is Action.READ)
    assert tuple(workload.interpret(beyond, Pulled(beyond.offset, ())).values) == (NONE,)
    with pytest.raises(Nonsense):
        workload.interpret(requests[0], MessageStored(1 - requests[0].object % 2, 3))


def test_request_codes_are_those_of_the_protocol() -> None:
    assert (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, RequestCode.GET_MAX_OFFSET) == (310, 11, 30)
