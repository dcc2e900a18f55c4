"""The harness's questions about whole queues, through the fault network: a group's positions, messages' places."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import attrs
import trio

from jepsen_like.cluster.cluster import together
from jepsen_like.port.wires import Address
from jepsen_like.systems.reports import ask_each
from jepsen_like.systems.rocketmq.bodies import value_of
from jepsen_like.systems.rocketmq.clients import BrokerConnection
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection
from rocketmq_compat.config_keys import SLAVE
from rocketmq_compat.records import MalformedRecord
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader, QueryConsumerOffsetRequestHeader

ANSWERS_WITHIN_S: Final = 0.5
READ_WITHIN_S: Final = 30.0
MESSAGES_OF_A_PULL: Final = 32
_NO_ANSWER = (NoConnection, NoBrokerAnswer, BrokerRefused, BadBody, BadHeader, KeyError)


class ToldPosition(NamedTuple):
    """A group's position in one object, as a master told it."""

    object: int
    offset: int
    t_inv: int
    t_ret: int
    node: int


@attrs.define
class QueueReader:
    """Reads positions of one group, and messages. `groups` are the brokers of each broker group, with `queues` each."""

    group: str
    topic: str
    addresses: Mapping[int, Address]
    groups: Sequence[Sequence[int]]
    queues: int
    connection: type[BrokerConnection] = BrokerConnection

    @property
    def objects(self) -> int:
        """The number of objects."""
        return len(self.groups) * self.queues

    async def read(self) -> list[ToldPosition]:
        """Of every group whose master answers at once; none for a queue without a position."""
        numbers = self._numbers()

        async def ask(node: int) -> list[ToldPosition] | None:
            with trio.move_on_after(ANSWERS_WITHIN_S), suppress(*_NO_ANSWER):
                return await self._of_master(numbers[node], node)
            return None

        return [each for told in (await ask_each(numbers, ask)).values() for each in told]

    def _numbers(self) -> dict[int, int]:
        """Returns the number of the group of each broker."""
        return {node: number for number, members in enumerate(self.groups) for node in members}

    async def _of_master(self, number: int, node: int) -> list[ToldPosition]:
        async with self.connection.open(self.addresses[node], within_s=ANSWERS_WITHIN_S) as connection:
            if await connection.role() == SLAVE:
                return []
            found = []
            for queue in range(self.queues):
                t_inv = time.monotonic_ns()
                offset = await self._position(connection, queue)
                if offset is not None:
                    t_ret = time.monotonic_ns()
                    found.append(ToldPosition(number * self.queues + queue, offset, t_inv, t_ret, node))
            return found

    async def _position(self, connection: BrokerConnection, queue: int) -> int | None:
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.group, topic=self.topic, queue_id=queue, set_zero_if_not_found=False
        )
        answer = await connection.ask(Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=header.ext()))
        return OffsetResponseHeader.read(answer.ext).offset if answer.code == ResponseCode.SUCCESS else None

    async def places(self) -> dict[int, int]:
        """The object of every message that is there, by value; of what can be read within a while."""
        found: dict[int, int] = {}

        numbers = self._numbers()

        async def read(node: int) -> None:
            with trio.move_on_after(READ_WITHIN_S), suppress(*_NO_ANSWER, MalformedRecord):
                async with self.connection.open(self.addresses[node], within_s=ANSWERS_WITHIN_S) as connection:
                    for queue in range(self.queues):
                        obj = numbers[node] * self.queues + queue
                        found.update(dict.fromkeys(await _values(connection, queue), obj))

        await together(read, numbers)
        return found


async def _values(connection: BrokerConnection, queue: int) -> list[int]:
    found: list[int] = []
    while pulled := (await connection.pull(queue, len(found), MESSAGES_OF_A_PULL)).records:
        found += [value_of(body)[0] for _, body in pulled]
    return found
