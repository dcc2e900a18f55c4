"""The adapter of the Kafka system."""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryWriter
from jepsen_like.port.answers import Answers
from jepsen_like.port.file_damage import Absence, LogFiles
from jepsen_like.port.port import Access, Control, Mode, Scope, SecretSteps, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.port.witness import Witness
from jepsen_like.systems.kafka import processes
from jepsen_like.systems.kafka.answers.proxy import AnswerProxy
from jepsen_like.systems.kafka.control import TOPIC, KafkaControl
from jepsen_like.systems.kafka.load import (
    COMPACT_WORKLOAD,
    DELETE_RETENTION_MS,
    GROUP_WORKLOAD,
    GROUPS,
    GROUPS_WORKLOAD,
    LOG_WORKLOAD,
    MIN_LAG_MS,
    REBALANCE_MS,
    SESSION_MS,
    TXN_WORKLOAD,
    ClientLoad,
    bootstrap,
    load_of,
    transactional_ids,
)
from jepsen_like.systems.kafka.mode import ISR, KafkaMode
from jepsen_like.systems.kafka.promises import SERVES
from jepsen_like.systems.kafka.scenarios import SCENARIOS
from jepsen_like.systems.kafka.states import states_of
from jepsen_like.systems.secret_of import SecretFileSteps, keep_secret
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.workload.keyed import KeyedRecorder
from jepsen_like.workload.load import LoadPlan
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder
from jepsen_like.workload.transactions import TransactionRecorder
from kafka_compat.config_keys import BROKER_KEYS


class KafkaAdapter(System):
    """Brokers with ISR replication, each a member of the controllers' group too."""

    name: ClassVar[str] = "kafka"
    replications: ClassVar[tuple[str, ...]] = (ISR,)
    workloads: ClassVar[Mapping[str, Model]] = {
        LOG_WORKLOAD: Model.LOG,
        GROUP_WORKLOAD: Model.QUEUE,
        GROUPS_WORKLOAD: Model.QUEUE,
        TXN_WORKLOAD: Model.TRANSACTIONS,
        COMPACT_WORKLOAD: Model.COMPACTED,
    }
    serves: ClassVar[Mapping[str, str]] = SERVES
    standing_settings: ClassVar[tuple[str, ...]] = tuple(
        f"{name}={BROKER_KEYS[name].default}"
        for name in ("broker.session.timeout.ms", "broker.heartbeat.interval.ms", "replica.lag.time.max.ms")
    )
    fault_settings: ClassVar[Mapping[str, tuple[str, ...]]] = {"shrink-isr": ("default.replication.factor=2",)}
    files: ClassVar[LogFiles] = LogFiles(
        segments="partitions/logs/*/*.log",
        indexes="partitions/logs/*/*.index",
        copies=("partitions/logs/*",),
        checkpoints=(
            *("partitions/broker", "partitions/high-watermarks", "partitions/run"),
            *("metadata/durable", "metadata/identity.json"),
            *("partitions/logs/*/durable", "partitions/logs/*/manifest", "partitions/logs/*/partition"),
        ),
        absences=(Absence.COPY, Absence.SEGMENT, Absence.CHECKPOINT, Absence.DISK),
    )
    refused: ClassVar[Mapping[str, str]] = {
        "disk-error": "a broker ends when its disk fails, and leaves that to whoever starts it; use kill",
        "wipe-master": "a controller elects leaders; use wipe",
        "promote-by-hand": "a controller elects leaders; use kill",
        "disk-full": "a broker ends when its disk is full; use kill",
    }
    own_scope: ClassVar[Scope | None] = processes.CONTROLLER
    kept_by_wipe: ClassVar[tuple[str, ...]] = (processes.METADATA_DIRECTORY,)
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    member_role: ClassVar[str] = "broker"
    configure = staticmethod(KafkaMode.of)
    mode_of = staticmethod(KafkaMode.of_test)
    command = staticmethod(processes.broker_command)
    observe = staticmethod(processes.observe)

    def keep_secret(self, directory: Path) -> Path | None:
        """In a file."""
        return keep_secret(directory)

    def secret_steps(self) -> SecretSteps | None:
        """By its three steps."""
        return SecretFileSteps()

    def lacking(self) -> str | None:
        """The clients of a run."""
        if importlib.util.find_spec("confluent_kafka") is not None:
            return None
        return (
            "--system kafka needs the package confluent-kafka, which cannot be imported here; "
            f"run: {sys.executable} -m pip install 'quorumlog[kafka]'"
        )

    def address_line(self, addresses: Mapping[int, Address]) -> str:
        """As clients take it."""
        return f"bootstrap.servers={bootstrap(addresses)}"

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By Kafka's protocol."""
        return KafkaControl(access.cluster_id, direct, can_answer, certificates_in(access.tls))

    def answers(self, control: Control) -> Answers | None:
        """By the names of Kafka's APIs and errors."""
        assert isinstance(control, KafkaControl)
        return AnswerProxy(names=control.topic_names)

    def witness(self, control: Control, mode: Mode, access: Access, nodes: Iterable[int]) -> Witness:
        """As the fixtures check."""
        from jepsen_like.testing.kafka.witness import KafkaWitness  # it stands on this adapter

        assert isinstance(control, KafkaControl)
        return KafkaWitness(control, nodes)

    def recorder(self, workload: str, history: HistoryWriter) -> Recorder:
        """A queue's for groups."""
        if workload == TXN_WORKLOAD:
            return TransactionRecorder(history)
        if workload == COMPACT_WORKLOAD:
            return KeyedRecorder(history)
        return QueueRecorder(history) if workload in GROUPS else Recorder(history)

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Returns what the check of the workload expects of these clients, and of the topic."""
        assert isinstance(mode, KafkaMode)
        shows = {"shows": [processes.FOLLOWER_READS]} if mode.client_rack else {}
        names = {str(partition): processes.scope_of(TOPIC, partition) for partition in range(mode.partitions)}
        if workload == TXN_WORKLOAD:
            coordinators = sorted(
                {processes.coordinator_of(one, mode.transaction_partitions) for one in transactional_ids(mode)}
            )
            return {**shows, "struck": {"coordinators": coordinators, "leaders": sorted(names.values())}}
        if workload == COMPACT_WORKLOAD:
            return {**shows, "compaction": {"min_lag_ms": MIN_LAG_MS, "delete_retention_ms": DELETE_RETENTION_MS}}
        if workload not in GROUPS:
            return shows
        return {
            **shows,
            "queue": {
                "acks": mode.acks,
                "ordered_sends": mode.is_idempotent,
                "may_duplicate": False,
                "session_timeout_s": SESSION_MS / 1e3,
                "rebalance_timeout_s": REBALANCE_MS / 1e3,
                "partitions": names,
                "groups": {str(number): name for number, name in enumerate(GROUPS[workload])},
            },
        }

    def keep_states(self, directory: Path, workload: str) -> None:
        """Leaders, replicas in sync and high watermarks, as the brokers told them."""
        states_of(directory / "nodes", TOPIC).write(directory)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> ClientLoad:
        """confluent-kafka, in processes of its own."""
        assert isinstance(mode, KafkaMode)
        return load_of(mode, workload, recorder, bootstrap(addresses), TOPIC, plan, access.tls)
