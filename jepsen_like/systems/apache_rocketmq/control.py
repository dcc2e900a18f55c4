"""The harness's questions to brokers of Apache RocketMQ, past the fault network."""

from collections.abc import Callable, Mapping
from typing import Final

import trio

from jepsen_like.port.port import Access, Mode, NotServing
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_rocketmq import brokers
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.processes import LEDGER, ledger_member
from jepsen_like.systems.rocketmq.clients import TOPIC, BrokerConnection, Pulled
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer, NoConnection
from jepsen_like.systems.rocketmq.control import POLL_S, BrokerStatus, RocketControl
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command

SLAVE: Final = "SLAVE"
_NO_ANSWER: Final = (NoConnection, NoBrokerAnswer, *brokers.NOT_ANSWERED)


class ApacheRocketControl(RocketControl):
    """Asks by the remoting protocol; see `RocketControl`."""

    def __init__(
        self,
        mode: ApacheRocketMode,
        access: Access,
        direct: Mapping[int, Address],
        can_answer: Callable[[int], bool] = lambda node: True,
    ) -> None:
        super().__init__(mode, direct, can_answer)
        self._apache = mode
        self._ledgers = access.further[LEDGER]

    async def status(self, node: int) -> BrokerStatus | None:
        """Returns the status of one broker; None if it does not answer at once.

        A leader of DLedger's becomes a master once it has seen all of its log committed, and takes nothing before.
        """
        if not self._can_answer(node):
            return None
        try:
            table, role, slaves = await self._on(self._direct[node], self._ask_broker)
            leads, epoch = role != SLAVE, brokers.FIXED_EPOCH
            if self._apache.is_raft:
                leads, epoch = await self._on(self._ledgers[node], lambda on: self._ledger_role(node, on))
            end = int(table["commitLogMaxOffset"])
            return BrokerStatus(
                node=node,
                is_master=leads,
                epoch=epoch,
                log_end=end,
                dispatched=end - int(table["dispatchBehindBytes"]),
                slaves=slaves,
                is_in_doubt=leads and role == SLAVE,
            )
        except _NO_ANSWER:
            return None

    async def _ask_broker(self, on: BrokerConnection) -> tuple[Mapping[str, str], str, int | None]:
        """Returns runtime information, role, and the number of slaves that a master with a fixed role has."""
        table = brokers.runtime_of(await on.ask(brokers.RUNTIME))
        role = brokers.config_of(await on.ask(brokers.CONFIG))[brokers.ROLE]
        is_followed = role != SLAVE and not self._apache.is_raft
        return table, role, brokers.slaves_of(await on.ask(brokers.HA_STATUS)) if is_followed else None

    async def _ledger_role(self, node: int, on: BrokerConnection) -> tuple[bool, int]:
        member = ledger_member(self._apache, node)
        return member.role(await on.ask(member.metadata()), await on.ask(member.outdated_heartbeat()))

    def shows(self, offset: int, pulled: Pulled) -> bool:
        """True: a queue may lack messages, and have those behind them at other places; the check then tells which."""
        return True

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """As of our own brokers; in a group that elects wait until all have copied the topic, for any may lead soon.

        A slave that an operator lets lead makes the topic with the first message.
        """
        began = trio.current_time()
        await super().prepare(mode, workload, within_s=within_s)
        if not self._apache.is_raft:
            return
        lacking: dict[int, Address] = dict(self._direct)
        with trio.move_on_at(began + within_s):
            while lacking := {node: self._direct[node] for node in self._brokers if not await self._knows_topic(node)}:  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return
        names = ", ".join(f"n{node}" for node in lacking)
        raise NotServing(f"the topic {TOPIC} was not copied to {names} within {within_s:g} s")

    async def _knows_topic(self, node: int) -> bool:
        request = Command(RequestCode.GET_TOPIC_CONFIG, ext={"topic": TOPIC})
        try:
            return (await self._on(self._direct[node], lambda on: on.ask(request))).code == ResponseCode.SUCCESS
        except _NO_ANSWER:
            return False
