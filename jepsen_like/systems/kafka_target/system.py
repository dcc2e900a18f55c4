"""The adapter of a Kafka cluster that others run: our load, record and judge, and nothing of it started here."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs

from jepsen_like.checker.verdict import Model
from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import Access, Control, Mode, NotServing, RunningCluster
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.kafka.control import TOPIC, KafkaControl
from jepsen_like.systems.kafka.load import LOG_WORKLOAD, ClientLoad, load_of
from jepsen_like.systems.kafka.states import states_of
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.kafka_target.control import TargetControl, addresses_of
from jepsen_like.systems.kafka_target.mode import TargetMode
from jepsen_like.systems.kafka_target.properties import access_to, librdkafka_config
from jepsen_like.systems.target.system import TargetSystem, name_of, none_answers
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.recorder import Recorder


class KafkaTarget(TargetSystem, KafkaAdapter):
    """A cluster that runs already."""

    name: ClassVar[str] = "target-kafka"
    workloads: ClassVar[Mapping[str, Model]] = {LOG_WORKLOAD: Model.LOG}
    recovers_in_s: ClassVar[float] = 30.0
    """A session of nine seconds, and as long until the broker that is back may register again."""
    configure = staticmethod(TargetMode.of)
    mode_of = staticmethod(TargetMode.of_test)

    async def find_members(self, target: RunningCluster) -> Mapping[int, Address]:
        """The brokers that those at the given addresses list."""
        shown = access_to(target)
        first = dict(enumerate(target.servers))
        try:
            return await addresses_of(KafkaControl("", first, tls=shown.tls, login=shown.login))
        except NotServing:
            control = KafkaControl("", first, tls=shown.tls, login=shown.login)
            found = {address: await control.why_silent_at(address, within_s=5.0) for address in target.servers}
            raise none_answers({address: why for address, why in found.items() if why}) from None

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By Kafka's protocol, as the file of properties demands."""
        return TargetControl(access, direct)

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Without what only our own brokers report of themselves."""
        return {name: value for name, value in super().describe(mode, workload).items() if name != "shows"}

    def keep_states(self, directory: Path, workload: str) -> None:
        """As the run saw them when it asked."""
        states_of(directory / "nodes", TOPIC, _translate).write(directory)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> ClientLoad:
        """confluent-kafka, in processes of its own, with the access of the file of properties."""
        assert isinstance(mode, TargetMode)
        assert access.target is not None
        servers = ",".join(text_of(address) for address in access.target.servers)
        load = load_of(mode, workload, recorder, servers, name_of(access.cluster_id), plan)
        shown = librdkafka_config(access_to(access.target))
        load.plans = tuple(attrs.evolve(each, client={**each.client, **shown}) for each in load.plans)
        return load


def _translate(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns what was seen of a leader in the form in which our brokers report it."""
    _, _, partition = str(event["scope"]).rpartition("-")
    seen = {"event": "partition", "role": LEADER, "topic": TOPIC, "partition": partition}
    return {**event, **seen, "leader_epoch": event["epoch"], "isr": event["in_sync"]}
