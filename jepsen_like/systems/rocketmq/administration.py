"""Administers a cluster by RocketMQ's protocol: name servers know the brokers, and masters know topics and groups.

A change goes to every master, one after another, since each has topics of its own. If one of them is lost on the way, the
error names the masters that have the change: the same command again completes it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Final, Self, TypeVar

import trio

from jepsen_like.operate.access import OPEN, BrokerAccess
from jepsen_like.operate.addresses import text_of_cluster
from jepsen_like.operate.administration import Silent, TopicPlan
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.operate.reassignment import Assignment, Partition
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.reports import ask_each
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection, RemotingConnection
from raft.addresses import address_of
from rocketmq_compat.consumers.topic_names import is_system_topic
from rocketmq_compat.remoting.bodies import (
    READABLE,
    WRITABLE,
    ClusterInfo,
    ConsumeStats,
    GetConsumerListByGroupResponseBody,
    GroupList,
    SubscriptionGroupWrapper,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
)
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.clients import ConsumerGroupRequestHeader
from rocketmq_compat.remoting.headers.fields import ExtHeader
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader, NamesrvTopicRequestHeader
from rocketmq_compat.remoting.headers.topics import (
    CreateTopicRequestHeader,
    GetConsumeStatsRequestHeader,
    TopicRequestHeader,
)

ANSWERS_WITHIN_S: Final = 3.0
QUEUES: Final = 8
MASTER_ID: Final = 0
_NO_ANSWER: Final = (NoConnection, NoBrokerAnswer, BrokerRefused, BadBody, KeyError, ValueError)
_UNKNOWN_OUTCOMES: Final = frozenset({ResponseCode.SYSTEM_ERROR})

T = TypeVar("T")


class RocketMqAdministration:
    """Asks one name server, and the brokers that it knows."""

    system: ClassVar[str] = "rocketmq"

    def __init__(
        self,
        names: Address,
        cluster: ClusterInfo,
        named: Sequence[Address],
        within_s: float,
        access: BrokerAccess = OPEN,
    ) -> None:
        """Use `open`."""
        self.notes: list[str] = []
        self._names = names
        self._access = access
        self._named = named
        self._flags = f"--cluster {text_of_cluster(named)}"
        self._within_s = min(ANSWERS_WITHIN_S, within_s)
        self._copies = {
            (name, broker_id): address_of(address)
            for name, data in sorted(cluster.broker_addr_table.items())
            for broker_id, address in sorted(data.broker_addrs.items())
        }
        self._masters = {name: address for (name, broker_id), address in self._copies.items() if broker_id == MASTER_ID}

    @classmethod
    async def open(cls, addresses: Sequence[Address], within_s: float, access: BrokerAccess) -> Self:
        """See `Administration`. Raises `NotDone` if brokers were named."""
        reasons: dict[str, str] = {}
        for address in addresses:
            try:
                answer = await _on(
                    address, min(ANSWERS_WITHIN_S, within_s), _asking(RequestCode.GET_BROKER_CLUSTER_INFO), access
                )
                return cls(address, ClusterInfo.decode(answer.body), addresses, within_s, access)
            except BrokerRefused as refused:
                if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise NotDone(
                        f"{text_of(address)} is a broker of RocketMQ: name its name servers in --cluster (namesrvAddr)"
                    ) from refused
                reasons[text_of(address)] = str(refused)
            except _NO_ANSWER as error:
                reasons[text_of(address)] = str(error)
        raise Silent(reasons)

    # ---------------------------------------------------------------- asking

    async def _ask(self, address: Address, code: RequestCode, header: ExtHeader | None = None) -> Command:
        """Returns the answer. Raises what `RemotingConnection.require` does."""
        return await _on(address, self._within_s, _asking(code, header), self._access)

    async def _of_masters(self, ask: Callable[[Address], Awaitable[T]]) -> dict[str, T]:
        """Returns the answers of the masters by name; those without one get a note."""
        names = list(self._masters)

        async def of(at: int) -> T | None:
            address = self._masters[names[at]]
            try:
                return await ask(address)
            except _NO_ANSWER as error:
                does = "refuses this account" if _is_denied(error) else "does not answer"
                note = f"{names[at]} at {text_of(address)} {does} ({error}): what it has is left out"
                if note not in self.notes:
                    self.notes.append(note)
                return None

        answers = await ask_each(range(len(names)), of)
        return {names[at]: answer for at, answer in answers.items()}

    async def _route(self, topic: str) -> TopicRouteData | None:
        try:
            header = GetRouteInfoRequestHeader(topic=topic)
            return TopicRouteData.decode(
                (await self._ask(self._names, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)).body
            )
        except BrokerRefused as refused:
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise NotDone(f"the name server refuses: {refused}") from refused
        except _NO_ANSWER as error:
            raise NotDone(f"the name server {text_of(self._names)} does not answer: {error}") from error

    # ---------------------------------------------------------------- brokers

    async def brokers(self) -> list[Row]:
        """Each broker: `behind` are the bytes that a slave lacks of its master's log, `in_sync` the slaves of a master."""
        keys = list(self._copies)

        async def facts(at: int) -> Mapping[str, str]:
            try:
                return await _on(self._copies[keys[at]], self._within_s, RemotingConnection.runtime_info, self._access)
            except _NO_ANSWER as error:
                return {"error": str(error)}

        found = {keys[at]: answer for at, answer in (await ask_each(range(len(keys)), facts)).items()}
        ends = {
            name: int(table["commitLogMaxOffset"])
            for (name, number), table in found.items()
            if number == 0 and "error" not in table
        }
        return [self._broker_row(*key, found[key], ends.get(key[0])) for key in keys]

    def _broker_row(self, name: str, number: int, table: Mapping[str, str], end: int | None) -> Row:
        row: dict[str, object] = {"broker": name, "id": number, "address": text_of(self._copies[name, number])}
        own = _number(table, "commitLogMaxOffset")
        slaves = table.get("slaves")
        notes = (
            table.get("error"),
            table.get("doubt"),
            table.get("divergences") and f"diverges: {table['divergences']}",
        )
        return {
            **row,
            "role": "silent" if "error" in table else table.get("brokerRole", "").lower(),
            "epoch": _number(table, "epoch"),
            "log_start": _number(table, "commitLogMinOffset"),
            "log_end": own,
            "durable_end": _number(table, "commitLogFlushedOffset"),
            "behind": None if own is None or end is None else max(0, end - own),
            "in_sync": None if slaves is None else list(filter(None, slaves.split(","))),
            "note": "; ".join(filter(None, notes)) or None,
        }

    # ---------------------------------------------------------------- topics

    async def _topic_names(self) -> list[str]:
        try:
            answer = await self._ask(self._names, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            return sorted(TopicList.decode(answer.body).topic_list)
        except _NO_ANSWER as error:
            raise NotDone(f"the name server {text_of(self._names)} does not answer: {error}") from error

    async def topics(self) -> list[Row]:
        """See `Administration`."""
        rows: list[Row] = []
        for name in await self._topic_names():
            queues = () if (route := await self._route(name)) is None else route.queue_datas
            rows.append(
                {
                    "topic": name,
                    "queues": sum(each.write_queue_nums for each in queues),
                    "brokers": sorted(each.broker_name for each in queues),
                    "readable": any(each.perm & READABLE for each in queues),
                    "writable": any(each.perm & WRITABLE for each in queues),
                    "system": is_system_topic(name),
                }
            )
        return rows

    async def topic(self, name: str) -> list[Row]:
        """See `Administration`. A master without an answer leaves its queues without a start and an end."""
        route = await self._route(name)
        if route is None:
            raise self._no_topic(name)
        header = TopicRequestHeader(topic=name)

        async def stats(address: Address) -> TopicStatsTable:
            return TopicStatsTable.decode((await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)).body)

        found = {
            (queue.broker_name, queue.queue_id): offsets
            for table in (await self._of_masters(stats)).values()
            for queue, offsets in table.offset_table.items()
        }
        rows: list[Row] = []
        for queues in sorted(route.queue_datas, key=lambda each: each.broker_name):
            master = self._masters.get(queues.broker_name)
            for queue in range(queues.write_queue_nums):
                offsets = found.get((queues.broker_name, queue))
                rows.append(
                    {
                        "broker": queues.broker_name,
                        "queue": queue,
                        "leader": None if master is None else text_of(master),
                        "start": None if offsets is None else offsets.min_offset,
                        "end": None if offsets is None else offsets.max_offset,
                    }
                )
        return rows

    def _no_topic(self, name: str) -> NotDone:
        return NotDone(f"there is no topic {name}; see which there are: quorumlog topics {self._flags}")

    async def create_topic(self, plan: TopicPlan) -> list[Row]:
        """See `Administration`. It is made at those masters that lack it; each has as many queues."""
        if plan.replicas is not None:
            raise NotDone("RocketMQ copies all topics of a broker alike: leave out --replication-factor")
        queues = plan.partitions or QUEUES
        header = CreateTopicRequestHeader(
            topic=plan.name,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=READABLE | WRITABLE,
            attributes=",".join(f"+{name}={value}" for name, value in plan.settings.items()) or None,
        )
        route = await self._route(plan.name)
        have = set() if route is None else {each.broker_name for each in route.queue_datas}
        lacking = [name for name in self._masters if name not in have]
        if not self._masters:
            raise NotDone(f"no master is registered; see quorumlog brokers {self._flags}")
        if not lacking:
            raise NotDone(f"the topic {plan.name} exists; see it: quorumlog topics describe {plan.name} {self._flags}")
        await self._change(RequestCode.UPDATE_AND_CREATE_TOPIC, header, lacking, plan.name)
        return [{"topic": plan.name, "outcome": "created", "brokers": lacking, "queues": queues * len(lacking)}]

    async def delete_topic(self, name: str) -> list[Row]:
        """See `Administration`. Name servers forget it last."""
        route = await self._route(name)
        if route is None:
            raise self._no_topic(name)
        holding = [each.broker_name for each in route.queue_datas]
        lost = sorted(set(holding) - self._masters.keys())
        if lost:
            raise NotDone(
                f"{', '.join(lost)} has the topic and no master; start it, and see quorumlog brokers {self._flags}"
            )
        await self._change(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic=name), holding, name)
        for address in self._named:
            try:
                await self._ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, NamesrvTopicRequestHeader(topic=name))
            except _NO_ANSWER as error:
                self.notes.append(f"name server {text_of(address)} was not told ({error}); brokers will tell it")
        return [{"topic": name, "outcome": "deleted", "brokers": holding}]

    async def _change(self, code: RequestCode, header: ExtHeader, masters: Sequence[str], topic: str) -> None:
        done: list[str] = []
        for name in masters:
            before = f"done at {', '.join(done)}; " if done else ""
            again = f"see quorumlog topics describe {topic} {self._flags}, and give the command again"
            try:
                await self._ask(self._masters[name], code, header)
            except BrokerRefused as refused:
                if _is_denied(refused):
                    raise NotDone(f"{before}{name}: {refused}; give --command-config an account that may") from refused
                text = f"{before}{name}: {refused}; {again}"
                raise (PerhapsDone if refused.code in _UNKNOWN_OUTCOMES else NotDone)(text) from refused
            except NoConnection as error:
                raise NotDone(f"{before}not at {name}, which cannot be reached ({error}); {again}") from error
            except NoBrokerAnswer as error:
                raise PerhapsDone(f"{before}perhaps at {name}, which was asked ({error}); {again}") from error
            done.append(name)

    # ---------------------------------------------------------------- groups

    async def assignment(self) -> Assignment:
        """See `Administration`."""
        raise NotDone("the queues of RocketMQ stay on their brokers: make the topic on others, and let it drain here")

    async def reassign(self, wanted: Mapping[Partition, tuple[int, ...] | None]) -> None:
        """See `Administration`."""
        await self.assignment()

    async def moving(self) -> list[Row]:
        """See `Administration`."""
        await self.assignment()
        return []

    async def groups(self) -> list[Row]:
        """See `Administration`."""

        async def groups_at(address: Address) -> set[str]:
            try:
                answer = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            except BrokerRefused as refused:
                if refused.code != ResponseCode.NO_PERMISSION:
                    raise
                return await self._consumers_at(address)  # the table is for members alone
            return set(SubscriptionGroupWrapper.decode(answer.body).subscription_group_table)

        names = sorted(set().union(*(await self._of_masters(groups_at)).values()))
        rows: list[Row] = []
        for name in names:
            positions = await self._positions(name)
            rows.append(
                {
                    "group": name,
                    "members": len(await self._members(name)),
                    "topics": len({row["topic"] for row in positions}),
                    "lag": sum(row["lag"] for row in positions),
                }
            )
        return rows

    async def _consumers_at(self, address: Address) -> set[str]:
        """Returns the groups that consume, or have consumed, any topic of a broker."""
        found: set[str] = set()
        for topic in await self._topic_names():
            answer = await self._ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequestHeader(topic=topic))
            found.update(GroupList.decode(answer.body).group_list)
        return found

    async def group(self, name: str) -> list[Row]:
        """See `Administration`."""
        positions = await self._positions(name)
        if not positions and name not in {row["group"] for row in await self.groups()}:
            raise NotDone(f"there is no group {name}; see which there are: quorumlog groups {self._flags}")
        return positions

    async def _positions(self, name: str) -> list[Row]:
        header = GetConsumeStatsRequestHeader(consumer_group=name)

        async def stats(address: Address) -> ConsumeStats:
            return ConsumeStats.decode((await self._ask(address, RequestCode.GET_CONSUME_STATS, header)).body)

        found = {
            (queue.topic, queue.broker_name, queue.queue_id): offsets
            for table in (await self._of_masters(stats)).values()
            for queue, offsets in table.offset_table.items()
        }
        return [
            {
                "topic": topic,
                "broker": broker,
                "queue": queue,
                "committed": offsets.consumer_offset,
                "end": offsets.broker_offset,
                "lag": max(0, offsets.broker_offset - offsets.consumer_offset),
            }
            for (topic, broker, queue), offsets in sorted(found.items())
        ]

    async def _members(self, name: str) -> set[str]:
        header = ConsumerGroupRequestHeader(consumer_group=name)

        async def members(address: Address) -> tuple[str, ...]:
            try:
                answer = await self._ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            except BrokerRefused:
                return ()  # no client is online
            return GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list

        return {member for found in (await self._of_masters(members)).values() for member in found}


def _asking(code: RequestCode, header: ExtHeader | None = None) -> Callable[[RemotingConnection], Awaitable[Command]]:
    """Returns a question that demands success."""

    async def ask(connection: RemotingConnection) -> Command:
        return await connection.require(code, header)

    return ask


async def _on(
    address: Address, within_s: float, ask: Callable[[RemotingConnection], Awaitable[T]], access: BrokerAccess
) -> T:
    """One question on a connection of its own. Raises what it raises, and `NoBrokerAnswer` if it takes too long."""
    connection = await RemotingConnection.connect(address, within_s=within_s, access=access)
    try:
        with trio.move_on_after(within_s):
            return await ask(connection)
    finally:
        connection.close()
    raise NoBrokerAnswer(f"no answer within {within_s:g} s")


def _is_denied(error: Exception) -> bool:
    """Returns True for the refusal of an account: by ACL 1.0 an exception's name is all that tells it from failures."""
    return isinstance(error, BrokerRefused) and (
        error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark
    )


def _number(table: Mapping[str, str], name: str) -> int | None:
    text = table.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else None
