"""Asks the brokers of a cluster that others run, about the topic of the run alone."""

from collections.abc import Mapping
from typing import Final

import trio

from jepsen_like.port.port import Access, Leadership, Mode, NotServing, Scope
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.kafka.control import ClusterView, KafkaControl
from jepsen_like.systems.kafka.processes import CONTROLLER
from jepsen_like.systems.kafka_target.properties import access_to
from jepsen_like.systems.target.system import OURS_BEGINS, name_of
from kafka_compat.model import NO_LEADER
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode

SILENT_AFTER_S: Final = 2.0
DELETE_VERSION: Final = 5
DELETE_TIMEOUT_MS: Final = 10_000
POLL_S: Final = 0.5


class TargetControl(KafkaControl):
    """See `KafkaControl`. It makes one topic, and removes no other one."""

    def __init__(self, access: Access, direct: Mapping[int, Address]) -> None:
        assert access.target is not None
        shown = access_to(access.target)
        super().__init__(
            access.cluster_id, direct, tls=shown.tls, login=shown.login, load_topic=name_of(access.cluster_id)
        )
        self.is_ours = False
        """True once the topic of the run can be there because of this run."""

    async def view(self) -> ClusterView:
        """Of the topic of the run; a cluster of others may have thousands."""
        return ClusterView.of(await self.metadata(self._load_topic))

    async def leaders(self) -> Mapping[Scope, Leadership]:
        """Before the load its controller alone, as brokers name it."""
        found = await super().leaders()
        return {scope: leader for scope, leader in found.items() if (scope == CONTROLLER) is (self.topic is None)}

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Make the topic, which must be new. Raises `NotServing` if there is one of this name."""
        if (await self.view()).of_topic(self._load_topic):
            raise NotServing(f"the topic {self._load_topic} is there already: use another --seed, or delete it")
        self.is_ours = True
        await super().prepare(mode, workload, within_s=within_s)

    async def clear(self) -> str | None:
        """Delete the topic of the run, if the run has made it."""
        if not self.is_ours:
            return None
        request = DeleteTopicsRequest(topic_names=(self._load_topic,), timeout_ms=DELETE_TIMEOUT_MS)
        why = "no broker answers"
        with trio.move_on_after(DELETE_TIMEOUT_MS / 1e3 * 2):
            while True:
                for node in self._direct:
                    answer = await self._try(
                        node, DELETE_TOPICS, DELETE_VERSION, request, within_s=DELETE_TIMEOUT_MS / 1e3
                    )
                    for result in answer.responses if answer is not None else ():
                        if result.error_code in (KafkaErrorCode.NONE, KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                            return None
                        why = f"n{node} refused it with error {result.error_code} {result.error_message or ''}".strip()
                await trio.sleep(POLL_S)
        raise NotServing(f"the topic {self._load_topic} of this run could not be deleted: {why}")

    async def absence(self, node: int) -> str | None:
        """Silence at its address; or the others no longer list it, or count it out of a set of replicas in sync."""
        address = self._direct[node]
        if (silence := await self.why_silent_at(address, within_s=SILENT_AFTER_S)) is not None:
            return f"silent at {text_of(address)}: {silence}"
        others = {other: answer for other, answer in (await self.metadata(self._load_topic)).items() if other != node}
        if not others:
            return None
        if not any(node in {broker.node_id for broker in answer.brokers} for answer in others.values()):
            return f"it answers at {text_of(address)}, and {_names(others)} list it no longer"
        left = [
            name
            for name, state in ClusterView.of(others).of_topic(self._load_topic).items()
            if node in state.replica_nodes and node not in state.isr_nodes and state.leader_id != NO_LEADER
        ]
        if left:
            return f"it answers at {text_of(address)}, and is no replica in sync of {', '.join(map(str, left))}"
        return None


def _names(nodes: Mapping[int, object]) -> str:
    return ", ".join(f"n{node}" for node in sorted(nodes))


async def addresses_of(control: KafkaControl) -> dict[int, Address]:
    """Returns the address of each broker of the cluster, as the brokers advertise it. Raises `NotServing`."""
    answers = await control.metadata(OURS_BEGINS)
    found = {broker.node_id: (broker.host, broker.port) for answer in answers.values() for broker in answer.brokers}
    if not found:
        raise NotServing("none of --bootstrap-servers answers")
    return found
