"""The harness's questions to brokers of Apache RocketMQ, past the fault network."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from jepsen_like.port.port import Access, Mode, NotServing, Scope
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_rocketmq import brokers, controllers
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.processes import LEDGER, ledger_member
from jepsen_like.systems.reports import ask_each
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
        self._members: dict[str, int] = {}
        """The brokers by the addresses that they tell others, as far as they have answered."""

    async def status(self, node: int) -> BrokerStatus | None:
        """Returns the status of one broker; None if it does not answer at once.

        A leader of DLedger's becomes a master once it has seen all of its log committed, and takes nothing before.
        """
        if not self._can_answer(node):
            return None
        try:
            table, config, slaves = await self._on(self._direct[node], self._ask_broker)
            self._members[brokers.address_in(config)] = node
            role = config[brokers.ROLE]
            leads, epoch = role != SLAVE, brokers.FIXED_EPOCH
            if self._apache.is_ledger:
                leads, epoch = await self._on(self._ledgers[node], lambda on: self._ledger_role(node, on))
            elif self._apache.has_controller:
                epoch = controllers.epoch_of(await self._on(self._direct[node], lambda on: on.ask(controllers.EPOCHS)))
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

    async def _ask_broker(self, on: BrokerConnection) -> tuple[Mapping[str, str], Mapping[str, str], int | None]:
        """Returns runtime information, the configuration, and the number of slaves that a master has; none in a DLedger group."""
        table = brokers.runtime_of(await on.ask(brokers.RUNTIME))
        config = brokers.config_of(await on.ask(brokers.CONFIG))
        is_followed = config[brokers.ROLE] != SLAVE and not self._apache.is_ledger
        return table, config, brokers.slaves_of(await on.ask(brokers.HA_STATUS)) if is_followed else None

    async def _ledger_role(self, node: int, on: BrokerConnection) -> tuple[bool, int]:
        member = ledger_member(self._apache, node)
        return member.role(await on.ask(member.metadata()), await on.ask(member.outdated_heartbeat()))

    # ---------------------------------------------------------------- controllers

    async def in_sync(self, scope: Scope) -> tuple[int, ...]:
        """The SyncStateSet, as the leader of the controllers has it; none in groups without a controller."""
        state = await self._sync_state(scope)
        members = () if state is None else map(self._members.get, state.in_sync)
        return tuple(sorted(node for node in members if node is not None))

    async def _sync_state(self, scope: Scope) -> controllers.SyncState | None:
        """Returns the newest word of a controller that leads about a group; None without any."""
        if not self._apache.has_controller:
            return None
        told = await self._ask_leading(controllers.ask_sync_state(self._groups.scopes))
        states = []
        for answer in told:
            with contextlib.suppress(*brokers.NOT_ANSWERED):
                states.append(controllers.sync_states_of(answer)[scope])
        return max(states, default=None)

    async def _ask_leading(self, request: Command) -> Sequence[Command]:
        """Returns the answers of the controllers that take themselves for the leader; an old one may do so for a while."""

        async def ask(on: BrokerConnection) -> Command | None:
            leads = controllers.leads_controllers(await on.ask(controllers.CONTROLLER_METADATA))
            return await on.ask(request) if leads else None

        async def ask_one(node: int) -> Command | None:
            try:
                return await self._on(self._ledgers[node], ask)
            except _NO_ANSWER:
                return None

        return tuple((await ask_each(self._brokers, ask_one)).values())

    async def _all_in_sync(self) -> bool:
        """Returns True if every broker may be the next master; asked of groups with a controller."""
        found = [await self.in_sync(scope) for scope in self._groups.scopes]
        return [len(nodes) for nodes in found] == [self._groups.size] * self._groups.pairs

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """As of our own brokers; with a controller, once all are in its set, for a copy that is not may hold what is cut later.

        A slave that follows an old master stays out of the set, and is compared all the same.
        """
        began = trio.current_time()
        if self._apache.has_controller:
            with trio.move_on_after(within_s / 2):
                while not await self._all_in_sync():  # noqa: ASYNC110
                    await trio.sleep(POLL_S)
        return await super().settle(within_s=began + within_s - trio.current_time())

    def shows(self, offset: int, pulled: Pulled) -> bool:
        """True: a queue may lack messages, and have those behind them at other places; the check then tells which."""
        return True

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """As of our own brokers; in a group that elects wait until all have copied the topic, for any may lead soon.

        A slave that an operator lets lead makes the topic with the first message. With a controller, wait for its set, too.
        """
        began = trio.current_time()
        await super().prepare(mode, workload, within_s=within_s)
        if not self._apache.is_raft:
            return
        lacking: dict[int, Address] = dict(self._direct)
        with trio.move_on_at(began + within_s):
            while lacking := {node: self._direct[node] for node in self._brokers if not await self._knows_topic(node)}:  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            while self._apache.has_controller and not await self._all_in_sync():  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return
        names = ", ".join(f"n{node}" for node in lacking)
        why = (
            f"the topic {TOPIC} was not copied to {names}"
            if lacking
            else "the controllers' set of brokers in sync lacks some"
        )
        raise NotServing(f"{why} within {within_s:g} s")

    async def _knows_topic(self, node: int) -> bool:
        request = Command(RequestCode.GET_TOPIC_CONFIG, ext={"topic": TOPIC})
        try:
            return (await self._on(self._direct[node], lambda on: on.ask(request))).code == ResponseCode.SUCCESS
        except _NO_ANSWER:
            return False
