"""The adapter of Apache Kafka: brokers from its own jars, with the load, the control and the promises of our Kafka system."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.observations import Observation
from jepsen_like.port.port import Access, Control, Mode, SecretSteps
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_kafka import processes
from jepsen_like.systems.apache_kafka.broker_lines import translate
from jepsen_like.systems.apache_kafka.control import ApacheControl
from jepsen_like.systems.apache_kafka.launch import FILES, LOGS, METADATA
from jepsen_like.systems.apache_kafka.mode import ApacheMode
from jepsen_like.systems.apache_kafka.scenarios import SCENARIOS
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from jepsen_like.systems.kafka.control import TOPIC
from jepsen_like.systems.kafka.processes import observe
from jepsen_like.systems.kafka.states import states_of
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.tls_of import certificates_in

_OWN_FILES = "Apache Kafka's own recovery from damaged files is not among its promises; use kill, power or wipe"


class ApacheKafkaAdapter(KafkaAdapter):
    """Brokers of Apache Kafka, each a controller too."""

    name: ClassVar[str] = "apache-kafka"
    further_ports: ClassVar[tuple[str, ...]] = (processes.PEERS, processes.CONTROLLER_PORT)
    files: ClassVar[LogFiles] = LogFiles(segments=f"{LOGS}/*/*.log", indexes=f"{LOGS}/*/*.index")
    refused: ClassVar[Mapping[str, str]] = {
        **KafkaAdapter.refused,
        "damage": _OWN_FILES,
        "vanish": _OWN_FILES,
        "rotate": "its processes know each other by no secret here",
    }
    standing_settings: ClassVar[tuple[str, ...]] = ()
    kept_by_wipe: ClassVar[tuple[str, ...]] = (METADATA, FILES)
    slower_by_s: ClassVar[float] = 60.0
    ends_by_majority: ClassVar[bool] = True
    recovers_in_s: ClassVar[float] = 30.0
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    configure = staticmethod(ApacheMode.of)
    mode_of = staticmethod(ApacheMode.of_test)
    command = staticmethod(processes.broker_command)

    def lacking(self) -> str | None:
        """The clients of a run, or the jars."""
        if (lack := super().lacking()) is not None:
            return lack
        mend = APACHE_KAFKA.missing()
        return f"--system {self.name} needs {APACHE_KAFKA.title} {APACHE_KAFKA.version}; run: {mend}" if mend else None

    def keep_secret(self, directory: Path) -> Path | None:
        """Its processes have none."""
        return None

    def secret_steps(self) -> SecretSteps | None:
        """See `keep_secret`."""
        return None

    def observe(self, event: Mapping[str, Any]) -> Observation | None:
        """As of our own brokers, once the line is read."""
        return observe(translate(event))

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By Kafka's protocol."""
        return ApacheControl(access.cluster_id, direct, can_answer, certificates_in(access.tls))

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Without what only our own brokers report of themselves."""
        return {name: value for name, value in super().describe(mode, workload).items() if name != "shows"}

    def keep_states(self, directory: Path, workload: str) -> None:
        """Leaders and replicas in sync, as the brokers' own logs tell them."""
        states_of(directory / "nodes", TOPIC, translate).write(directory)
