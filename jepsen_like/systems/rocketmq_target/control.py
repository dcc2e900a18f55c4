"""Asks the brokers of a RocketMQ cluster that others run, about the topic of the run alone."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from jepsen_like.port.port import Access, Mode, NotServing, RunningCluster
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.apache_rocketmq import brokers
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.rocketmq.clients import BrokerConnection, Pulled
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection
from jepsen_like.systems.rocketmq.control import POLL_S, BrokerStatus, RocketControl
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq_target.clients import TargetClients, TargetConnection, access_to
from jepsen_like.systems.rocketmq_target.mode import RocketTargetMode
from jepsen_like.systems.target.system import first_answer, name_of
from raft.addresses import address_of
from rocketmq_compat.config_keys import SLAVE
from rocketmq_compat.remoting.bodies import ClusterInfo, SubscriptionGroupConfig
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.fields import ExtHeader
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader, NamesrvTopicRequestHeader
from rocketmq_compat.remoting.headers.topics import DeleteSubscriptionGroupRequestHeader, TopicRequestHeader

ANSWERS_WITHIN_S: Final = 3.0
SILENT_AFTER_S: Final = 2.0
CLEAR_WITHIN_S: Final = 20.0
_NO_ANSWER: Final = (NoConnection, NoBrokerAnswer, BrokerRefused, BadBody, KeyError, ValueError)


class RocketTargetControl(RocketControl):
    """See `RocketControl`. It makes one topic and one group, and removes no others."""

    def __init__(
        self,
        mode: RocketMode,
        access: Access,
        direct: Mapping[int, Address],
        can_answer: Callable[[int], bool] = lambda node: True,
    ) -> None:
        assert access.target is not None
        super().__init__(mode, direct, can_answer)
        self.topic = name_of(access.cluster_id)
        self._target = access.target
        self._clients = TargetClients(direct, access_to(access.target), self.topic)
        self._terms: dict[int, tuple[int, int]] = {}
        """By the number of its group: the master that was seen last, and how many were seen one after another."""
        self.is_ours = False
        """True once the topic of the run can be there because of this run."""

    def _open(self, address: Address, within_s: float) -> AbstractAsyncContextManager[BrokerConnection]:
        return self._clients.open(address, within_s)

    async def ask_names(self, code: RequestCode, header: ExtHeader | None = None) -> Command:
        """Returns the answer of the first name server that has one. Raises `NotServing`."""
        request = Command(code, ext=header.ext() if header is not None else {})

        async def ask(address: Address) -> Command:
            try:
                return await self._on(address, lambda on: on.ask(request), within_s=ANSWERS_WITHIN_S)
            except (NoConnection, NoBrokerAnswer) as error:
                raise NotAnswered(str(error)) from error

        return await first_answer(self._target.servers, ask)

    async def groups_found(self) -> list[list[Address]]:
        """Returns the brokers that the name servers know, by group and in the order of their names. Raises `NotServing`."""
        answer = await self.ask_names(RequestCode.GET_BROKER_CLUSTER_INFO)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotServing("--bootstrap-servers names brokers; give the name servers (namesrvAddr)")
        if answer.code != ResponseCode.SUCCESS:
            raise NotServing(f"the name server refuses: code {answer.code}: {answer.remark}")
        try:
            table = ClusterInfo.decode(answer.body).broker_addr_table
            return [sorted(map(address_of, data.broker_addrs.values())) for _, data in sorted(table.items())]
        except (BadBody, ValueError) as error:
            raise NotServing(f"the name server does not list brokers: {error}") from error

    # ---------------------------------------------------------------- what they are

    async def ask_broker(self, address: Address) -> tuple[Mapping[str, str], str]:
        """Returns runtime information and role of the broker there. Raises an error of `_NO_ANSWER`."""

        async def ask(on: BrokerConnection) -> tuple[Mapping[str, str], str]:
            assert isinstance(on, TargetConnection)
            table = await on.runtime_info()
            return table, await on.role_in(table)

        return await self._on(address, ask)

    async def status(self, node: int) -> BrokerStatus | None:
        """Returns the status of one broker; None if it does not answer at once. Given roles have no epochs here."""
        try:
            table, role = await self.ask_broker(self._direct[node])
            end = int(table["commitLogMaxOffset"])
            behind = table.get("dispatchBehindBytes")
            return BrokerStatus(
                node=node,
                is_master=role != SLAVE,
                epoch=int(table.get("epoch", brokers.FIXED_EPOCH)),
                log_end=end,
                dispatched=int(table["dispatchedOffset"]) if behind is None else end - int(behind),
                is_in_doubt=bool(table.get("doubt")),
            )
        except _NO_ANSWER:
            return None

    def shows(self, offset: int, pulled: Pulled) -> bool:
        """True: a queue may lack messages, and the check then tells which."""
        return True

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until each group has one master, which gives the ends of the run's queues."""
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                masters = [node for node, status in (await self.statuses()).items() if status.is_master]
                try:
                    if sorted(map(self._groups.number_of, masters)) == list(range(self._groups.pairs)):
                        ends = [await self._ends(node) for node in masters]
                        return {obj: end for of_group in ends for obj, end in of_group.items()}
                    why = f"masters are {', '.join(f'n{node}' for node in masters) or 'none'}"
                except _NO_ANSWER as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the masters do not give their queues {within_s:g} s after everything was healed: {why}")

    async def absence(self, node: int) -> str | None:
        """Silence at its address; or it answers, and the name servers list it no longer."""
        address = self._direct[node]
        if (silence := await self.why_silent_at(address, within_s=SILENT_AFTER_S)) is not None:
            return f"silent at {text_of(address)}: {silence}"
        try:
            listed = {each for group in await self.groups_found() for each in group}
        except NotServing:
            return None
        return (
            None if address in listed else f"it answers at {text_of(address)}, and the name servers list it no longer"
        )

    # ---------------------------------------------------------------- what the run makes

    def _name_server(self) -> Address:
        return self._target.servers[0]

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the topic and the group, both of which must be new. Raises `NotServing`."""
        found = await self.groups_found()
        wanted = [[self._direct[node] for node in members] for members in self._groups.all()]
        if found != wanted:
            sizes = ", ".join(str(len(group)) for group in found)
            raise NotServing(
                f"the brokers stand in {len(found)} groups, with {sizes} of them: give --set pairs={len(found)}, "
                "and name a cluster whose groups have the same size"
            )
        if await self._is_routed():
            raise NotServing(f"the topic {self.topic} is there already: use another --seed, or delete it")
        self.is_ours = True
        await super().prepare(mode, workload, within_s=within_s)
        body = SubscriptionGroupConfig(group_name=self.topic).encode()
        request = Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        for master in (await self.masters()).values():
            answer = await self._on(self._direct[master.node], lambda on: on.ask(request))
            if answer.code != ResponseCode.SUCCESS:
                raise NotServing(f"n{master.node} makes no group: code {answer.code}: {answer.remark}")

    async def _is_routed(self) -> bool:
        """Returns True if a name server knows the topic. Raises `NotServing`."""
        header = GetRouteInfoRequestHeader(topic=self.topic)
        answer = await self.ask_names(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if answer.code in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
            return answer.code == ResponseCode.SUCCESS
        raise NotServing(f"the name server refuses: code {answer.code}: {answer.remark}")

    async def clear(self) -> str | None:
        """Delete topic and group, if the run has made them: at all masters, and at the name servers once slaves know it."""
        if not self.is_ours:
            return None
        why: str | None = "no master answers"
        with trio.move_on_after(CLEAR_WITHIN_S):
            while True:
                try:
                    if (why := await self._delete_all()) is None:
                        return None
                except (*_NO_ANSWER, NotServing) as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the topic {self.topic} of this run could not be deleted: {why}")

    async def _delete_all(self) -> str | None:
        """Returns who still has the topic; None if it is gone. A slave would tell the name servers of it again."""
        topic = Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext=TopicRequestHeader(topic=self.topic).ext())
        group = DeleteSubscriptionGroupRequestHeader(group_name=self.topic, clean_offset=True)
        masters = await self.masters()
        if len(masters) < self._groups.pairs:
            return "a group has no master"

        refusals: list[str] = []

        async def delete(on: BrokerConnection) -> None:
            answer = await on.ask(topic)
            if answer.code != ResponseCode.SUCCESS:  # Apache's fails in its timers' figures, having deleted the topic
                refusals.append(f"code {answer.code}: {answer.remark}")
            await on.require(RequestCode.DELETE_SUBSCRIPTIONGROUP, group)

        for master in masters.values():
            await self._on(self._direct[master.node], delete)
        if having := [f"n{node}" for node in self._brokers if await self._has_topic(node)]:
            return "; ".join([f"{', '.join(having)} still has it", *refusals])
        forget = NamesrvTopicRequestHeader(topic=self.topic)
        await self.ask_names(RequestCode.DELETE_TOPIC_IN_NAMESRV, forget)
        return "a name server still knows it" if await self._is_routed() else None

    async def _has_topic(self, node: int) -> bool:
        """Returns True if a broker has the topic; one that does not answer tells no name server of it."""
        request = Command(RequestCode.GET_TOPIC_CONFIG, ext=TopicRequestHeader(topic=self.topic).ext())
        try:
            answer = await self._on(self._direct[node], lambda on: on.ask(request))
        except _NO_ANSWER:
            return False
        return answer.code == ResponseCode.SUCCESS


async def addresses_of(target: RunningCluster) -> dict[int, Address]:
    """Returns the addresses of the brokers, numbered by the order of their names, then of their addresses. Raises `NotServing`."""
    control = RocketTargetControl(RocketTargetMode.of((), "async-slave"), Access("", target=target), {})
    found = [address for group in await control.groups_found() for address in group]
    if not found:
        raise NotServing("no broker is registered at --bootstrap-servers")

    async def ask(address: Address) -> None:
        try:
            await control.ask_broker(address)
        except _NO_ANSWER as error:
            raise NotAnswered(str(error)) from error

    await first_answer(found, ask, "the brokers")
    return dict(enumerate(found, 1))
