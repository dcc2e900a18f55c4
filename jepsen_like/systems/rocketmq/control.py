"""The harness's questions to all brokers: runtime information, queues and messages, past the fault network."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

import attrs
import trio

from jepsen_like.history.files import DumpWriter
from jepsen_like.port.port import Control, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.reports import ask_each
from jepsen_like.systems.rocketmq.bodies import value_of
from jepsen_like.systems.rocketmq.client_settings import ORDER_WORKLOAD
from jepsen_like.systems.rocketmq.clients import TOPIC, BrokerConnection, Pulled
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection
from jepsen_like.systems.rocketmq.mode import RocketMode
from rocketmq_compat.records import MalformedRecord
from rocketmq_compat.remoting.bodies import TopicRouteData
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader, PutKvConfigRequestHeader
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader

ANSWERS_WITHIN_S: Final = 1.0
READS_WITHIN_S: Final = 30.0
READ_THROUGH_WITHIN_S: Final = 20.0
POLL_S: Final = 0.1
MESSAGES_OF_A_PULL: Final = 32
READ_AND_WRITE: Final = 6
PINS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace in which a name server keeps the brokers of an ordered topic's queues, present or not."""
_NO_ANSWER = (NoConnection, NoBrokerAnswer, BrokerRefused, BadBody, KeyError, ValueError)

T = TypeVar("T")


@attrs.frozen
class BrokerStatus:
    """A broker's word about itself. Ends are physical offsets, exclusive."""

    node: int
    is_master: bool
    epoch: int
    log_end: int
    dispatched: int
    """Up to where consumers see the log."""
    slaves: int | None = None
    """The number of slaves that a master has taken; None for a slave, and in a raft group."""
    is_in_doubt: bool = False
    """True if it may lack messages, and takes none before it has them back."""

    @classmethod
    def of(cls, node: int, table: Mapping[str, str]) -> "BrokerStatus":
        """From the answer to GET_BROKER_RUNTIME_INFO. Raises `KeyError` or `ValueError` if it is not one."""
        log_end, dispatched = int(table["commitLogMaxOffset"]), int(table["dispatchedOffset"])
        taken = table.get("slaves")
        slaves = None if taken is None else len(taken.split(",")) if taken else 0
        is_master, is_in_doubt = table["brokerRole"] != "SLAVE", bool(table.get("doubt"))
        return cls(node, is_master, int(table["epoch"]), log_end, dispatched, slaves, is_in_doubt)


class RocketControl(Control):
    """Asks the brokers of one cluster; every answer is of this moment."""

    topic: str = TOPIC
    """That of the load."""

    def __init__(
        self, mode: RocketMode, direct: Mapping[int, Address], can_answer: Callable[[int], bool] = lambda node: True
    ) -> None:
        self._direct = dict(direct)
        self._brokers = tuple(range(1, mode.nodes + 1))
        self._can_answer = can_answer
        self._mode = mode
        self._groups = mode.division

    async def _on(
        self, address: Address, ask: Callable[[BrokerConnection], Awaitable[T]], *, within_s: float = ANSWERS_WITHIN_S
    ) -> T:
        """One question on a connection of its own. Raises what it raises, and `NoBrokerAnswer` if it takes too long."""
        with trio.move_on_after(within_s):
            async with self._open(address, within_s) as connection:
                return await ask(connection)
        raise NoBrokerAnswer(f"no answer within {within_s:g} s")

    def _open(self, address: Address, within_s: float) -> AbstractAsyncContextManager[BrokerConnection]:
        """A connection for the time of a block. Entering it raises `NoConnection`."""
        return BrokerConnection.open(address, within_s=within_s)

    # ---------------------------------------------------------------- what they are

    async def status(self, node: int) -> BrokerStatus | None:
        """Returns the status of one broker; None if it does not answer at once."""
        if not self._can_answer(node):
            return None
        try:
            return BrokerStatus.of(node, await self._on(self._direct[node], BrokerConnection.runtime_info))
        except _NO_ANSWER:
            return None

    async def statuses(self) -> dict[int, BrokerStatus]:
        """Of every broker that answers."""
        return await ask_each(self._brokers, self.status)

    async def masters(self) -> dict[int, BrokerStatus]:
        """By the number of its group: the master of the highest epoch that answers."""
        found: dict[int, BrokerStatus] = {}
        for status in sorted((await self.statuses()).values(), key=lambda status: status.epoch):
            if status.is_master:
                found[self._groups.number_of(status.node)] = status
        return found

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """The master of each group."""
        masters = await self.masters()
        return {self._groups.scopes[number]: Leadership(one.node, one.epoch) for number, one in masters.items()}

    async def is_serving(self) -> bool:
        """Returns True if every group has a master that takes messages."""
        masters = await self.masters()
        return len(masters) == self._groups.pairs and not any(each.is_in_doubt for each in masters.values())

    async def successor(self, node: int) -> int | None:
        """The copy of its group with the longest log."""
        members = self._groups.members(self._groups.number_of(node))
        others = [one for one in (await self.statuses()).values() if one.node in members and one.node != node]
        longest = max(others, key=lambda status: status.log_end, default=None)
        return None if longest is None else longest.node

    async def copies(self, scope: Scope) -> tuple[int, ...]:
        """Every broker of the group has a copy."""
        return self._groups.members_named(scope)

    # ---------------------------------------------------------------- how far they are

    async def goal(self) -> Mapping[int, int] | None:
        """The end of each master's log; None if there is a group without a master."""
        masters = await self.masters()
        if len(masters) < self._groups.pairs:
            return None
        return {number: master.log_end for number, master in masters.items()}

    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if its log is as long as its master's was."""
        status = await self.status(node)
        return status is not None and status.log_end >= int(goal[self._groups.number_of(node)])

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until in every group all logs end where the master's does, and consumers see all of it."""
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                statuses = await self.statuses()
                masters = [one.node for one in statuses.values() if one.is_master]
                if self._is_agreed(statuses):
                    try:
                        ends = [await self._ends(node) for node in masters]
                        return {obj: end for of_group in ends for obj, end in of_group.items()}
                    except _NO_ANSWER as error:
                        why = str(error)
                else:
                    seen = (
                        f"n{status.node} {'master' if status.is_master else 'slave'} at {status.log_end}"
                        for status in statuses.values()
                    )
                    why = ", ".join(seen) or why
                await trio.sleep(POLL_S)
        raise NotServing(f"the brokers do not agree {within_s:g} s after everything was healed: {why}")

    def _is_agreed(self, statuses: Mapping[int, BrokerStatus]) -> bool:
        if len(statuses) < len(self._brokers):
            return False
        for members in self._groups.all():
            group = [statuses[node] for node in members]
            masters = [status for status in group if status.is_master]
            compared = group if self._mode.copies_agree else masters
            ends = {end for status in compared for end in (status.log_end, status.dispatched)}
            if len(masters) != 1 or len(ends) != 1:
                return False
        return True

    async def agreed_copies(self) -> dict[Scope, tuple[int, ...]] | None:
        """Returns the brokers of each group whose copies must be alike, its master first; None until they have all."""
        statuses = await self.statuses()
        if not self._is_agreed(statuses):
            return None
        found = {}
        for number, members in enumerate(self._groups.all()):
            by_role = sorted(members, key=lambda node: not statuses[node].is_master)
            found[self._groups.scopes[number]] = tuple(by_role if self._mode.copies_agree else by_role[:1])
        return found

    def way_to(self, node: int) -> Address:
        """Returns the address of a process, past the fault network."""
        return self._direct[node]

    def _objects(self, node: int) -> range:
        return self._groups.objects(self._groups.number_of(node), self._mode.queues)

    async def _ends(self, node: int) -> dict[int, int]:
        async def of_all(connection: BrokerConnection) -> dict[int, int]:
            return {obj: await connection.end_of(queue) for queue, obj in enumerate(self._objects(node))}

        return await self._on(self._direct[node], of_all)

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """The queues of every broker; of the masters alone where nothing is promised of the others."""
        nodes = self._brokers if self._mode.copies_agree else [one.node for one in (await self.masters()).values()]
        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(self._dump_node, node, ends, writer)
        writer.dumped_ns = time.monotonic_ns()

    async def _dump_node(self, node: int, ends: Mapping[int, int], writer: DumpWriter) -> None:
        async with self._open(self._direct[node], ANSWERS_WITHIN_S) as connection:
            try:
                for queue, obj in enumerate(self._objects(node)):
                    offset, end = 0, ends[obj]
                    writer.begin(node, offset, obj)
                    while offset < end:
                        with trio.fail_after(READS_WITHIN_S):
                            pulled = await connection.pull(queue, offset, MESSAGES_OF_A_PULL)
                        if not self.shows(offset, pulled):
                            raise NotServing(f"n{node} has queue {queue} up to {end} and does not show {offset}")
                        if not pulled.records:
                            break
                        # The checker wants each value; a damaged message gets one that no client sent.
                        values = [value_of(body)[0] for _, body in pulled.records][: end - offset]
                        writer.record(node, offset, 0, values, obj=obj)
                        offset += len(values)
            except (*_NO_ANSWER, MalformedRecord, trio.TooSlowError) as error:
                raise NotServing(f"n{node} did not give its queues: {error}") from error

    def shows(self, offset: int, pulled: Pulled) -> bool:
        """Returns True if a copy gives what it has at an offset; each of ours has a message there, with that offset in it."""
        return bool(pulled.records) and pulled.records[0][0].queue_offset == offset

    async def read_through(self, node: int) -> None:
        """Pull all of the load's queues from a broker, once it gives it: after a start or damage it needs a while."""
        with trio.move_on_after(READ_THROUGH_WITHIN_S):
            while not await self._is_read(node):  # noqa: ASYNC110 - only the broker knows
                await trio.sleep(POLL_S)

    async def _is_read(self, node: int) -> bool:
        """Returns True if every queue of a broker was pulled to its end."""
        try:
            ends = await self._ends(node)
            async with self._open(self._direct[node], ANSWERS_WITHIN_S) as connection:
                for queue, obj in enumerate(self._objects(node)):
                    offset = 0
                    while offset < ends[obj]:
                        records = (await connection.pull(queue, offset, MESSAGES_OF_A_PULL)).records
                        if not records:
                            return False
                        offset = records[-1][0].queue_offset + 1
        except (*_NO_ANSWER, MalformedRecord):
            return False
        return True

    # ---------------------------------------------------------------- the rest

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the topic of the load in every group, wait until every broker answers, a master has all its slaves, and
        clients find the topic.

        A slave that dials before its master listens comes again 5 s later, as RocketMQ's does.
        """
        assert isinstance(mode, RocketMode)
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                statuses, masters = await self.statuses(), await self.masters()
                is_whole = len(masters) == self._groups.pairs and len(statuses) == len(self._brokers)
                is_followed = all(one.slaves in (None, self._groups.size - 1) for one in masters.values())
                if not is_followed:
                    why = "a slave has not come to its master"
                if is_whole and is_followed:
                    try:
                        for master in masters.values():
                            await self._on(self._direct[master.node], self._create)
                        break
                    except _NO_ANSWER as error:
                        why = str(error)
                await trio.sleep(POLL_S)
            while True:
                try:
                    if await self._on(self._name_server(), lambda one: self._find_queues(one, mode, workload)):
                        return
                except _NO_ANSWER as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the topic {self.topic} was not ready within {within_s:g} s: {why}")

    def _name_server(self) -> Address:
        """Returns the address of one."""
        return self._direct[max(self._direct)]

    async def _create(self, connection: BrokerConnection) -> None:
        """Make the topic on a master."""
        header = CreateTopicRequestHeader(
            topic=self.topic,
            default_topic="TBW102",
            read_queue_nums=self._mode.queues,
            write_queue_nums=self._mode.queues,
            perm=READ_AND_WRITE,
            topic_filter_type="SINGLE_TAG",
        )
        await connection.require(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def _find_queues(self, names: BrokerConnection, mode: RocketMode, workload: str) -> bool:
        """Returns True if clients find the queues; the name server pins them where keys stay with their queues."""
        if workload == ORDER_WORKLOAD and mode.is_pinned:
            pins = PutKvConfigRequestHeader(namespace=PINS, key=self.topic, value=pins_of(mode))
            await names.ask(Command(RequestCode.PUT_KV_CONFIG, ext=pins.ext()))
        header = GetRouteInfoRequestHeader(topic=self.topic)
        answer = await names.ask(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=header.ext()))
        if answer.code != ResponseCode.SUCCESS:
            return False
        found = [queues.write_queue_nums for queues in TopicRouteData.decode(answer.body).queue_datas]
        return found == [mode.queues] * mode.pairs

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """By any request: a refusal is an answer, too."""
        try:
            await self._on(
                address, lambda one: one.ask(Command(RequestCode.GET_BROKER_RUNTIME_INFO)), within_s=within_s
            )
        except (NoConnection, NoBrokerAnswer) as error:
            return str(error)
        return None


def pins_of(mode: RocketMode) -> str:
    """The queues of an ordered topic as a name server keeps them."""
    return ";".join(f"{scope}:{mode.queues}" for scope in mode.division.scopes)
