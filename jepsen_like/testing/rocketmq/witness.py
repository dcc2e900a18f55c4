"""The check of a RocketMQ cluster that is up: what its clients report as acknowledged, compared with the queues of every copy.

A reported message must be on its group's master, and on all slaves where the mode lets copies agree. What an operator may have to
accept in another mode counts as lost here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs
import trio

from jepsen_like.port.port import NotServing
from jepsen_like.port.witness import CheckFinding, ReportedRecord, Witness
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer
from jepsen_like.systems.rocketmq.control import RocketControl
from jepsen_like.systems.rocketmq.division import Division
from jepsen_like.testing.ledger import NOTHING_LOST, show, show_first
from jepsen_like.testing.rocketmq.copies import queues_of, status_of
from jepsen_like.testing.rocketmq.ledger import QueueCopy, QueueName
from raft.secret_file import credentials_of
from raft.trust import ADMIN, Credentials, SecretSource
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES

POLL_S: Final = 0.05
FIRST_GROUP: Final = Division(1, 1).scopes[0]

Copies = Mapping[int, Mapping[QueueName, QueueCopy]]
"""The queues of each broker of a group, its master first."""


@attrs.frozen
class ReportedMessage:
    """A message at the place where a broker acknowledged it."""

    broker_name: str
    queue: QueueName
    offset: int
    body: bytes

    def __str__(self) -> str:
        return f"{self.queue[0]}-{self.queue[1]} of {self.broker_name}: offset {self.offset}, {show(self.body)}"


def operator_of(secret: SecretSource, words: Sequence[str]) -> Credentials:
    """Returns what shows brokers of these properties that an operator asks."""
    return credentials_of(secret, Properties.read(BROKER_PROPERTIES, words).words("brokerClusterName"), ADMIN)


class RocketWitness(Witness):
    """See `Witness`. A report has `topic`, `queue`, `offset` and `value`, and `broker` where there are several groups."""

    def __init__(self, control: RocketControl, operator: Credentials) -> None:
        super().__init__()
        self._control = control
        self._operator = operator
        self._messages: list[ReportedMessage] = []

    def parse(self, record: ReportedRecord) -> ReportedMessage:
        """See `Witness.parse`."""
        name = record.text("broker") if "broker" in record.fields else FIRST_GROUP
        queue, offset = (record.text("topic"), record.number("queue")), record.number("offset")
        return ReportedMessage(name, queue, offset, record.content("value") or b"")

    def keep(self, record: ReportedMessage) -> None:
        """See `Witness.keep`."""
        self._messages.append(record)

    def start_over(self) -> None:
        """See `Witness.start_over`."""
        self._messages = []

    async def compare(self, *, within_s: float) -> CheckFinding:
        """See `Witness.compare`: message for message."""
        groups = await self._agreed_queues(within_s)
        broken = [each for copies in groups.values() for each in list_differences(copies)]
        for message in self._messages:
            broken += list_losses(message, groups.get(message.broker_name, {}))
        compared = len(
            {(name, queue) for name, copies in groups.items() for found in copies.values() for queue in found}
        )
        told = "; ".join(show_first(broken)) or NOTHING_LOST
        text = f"{len(self._messages)} acknowledged, {compared} queues compared: {told}"
        return CheckFinding(not broken, text, len(self._messages), compared, tuple(broken))

    async def _agreed_queues(self, within_s: float) -> dict[str, Copies]:
        why = "a copy lacks what its master has"
        with trio.move_on_after(within_s):
            while True:
                try:
                    if (agreed := await self._control.agreed_copies()) is not None:
                        return {name: await self._queues(name, nodes) for name, nodes in agreed.items()}
                except NoBrokerAnswer as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the brokers do not agree {within_s:g} s after everything was healed: {why}")

    async def _queues(self, name: str, nodes: Iterable[int]) -> Copies:
        also = {message.queue for message in self._messages if message.broker_name == name}
        found = {}
        for node in nodes:
            address = self._control.way_to(node)
            found[node] = await queues_of(address, also, await status_of(address), self._operator)
            also |= found[node].keys()  # a slave may not know its master's topics yet
        return found


def list_differences(copies: Copies) -> Iterator[str]:
    """Yields where slaves' queues first differ from the master's; of each only from where both begin."""
    (master, own), *others = copies.items()
    for node, queues in others:
        for queue in sorted({*own, *queues}):
            one, other = own.get(queue, QueueCopy()), queues.get(queue, QueueCopy())
            begin = max(one.start, other.start)
            for offset in sorted({*one.messages, *other.messages}):
                if offset >= begin and one.messages.get(offset) != other.messages.get(offset):
                    yield f"{queue[0]}-{queue[1]}: brokers {master} and {node} differ at offset {offset}"
                    break


def list_losses(message: ReportedMessage, copies: Copies) -> Iterator[str]:
    """Yields where a message is not, unless it has left the queue by retention."""
    if not copies:
        yield f"{message}: there is no such group"
    for node, queues in copies.items():
        copy = queues.get(message.queue, QueueCopy())
        held = copy.messages.get(message.offset)
        if held is None and message.offset >= copy.start:
            yield f"{message}, is lost on broker {node}"
        elif held is not None and held.body != message.body:
            yield f"{message}, is {show(held.body)} on broker {node}"
