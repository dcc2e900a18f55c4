"""Kafka clusters that a test can break, in plain Python: `cluster` by the same names, blocking, from any thread."""

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from jepsen_like.systems.kafka.client_config import security_config
from jepsen_like.testing.faces import FaultyFace
from jepsen_like.testing.kafka import cluster
from jepsen_like.testing.kafka.cluster import BreakableKafka
from raft.errors import ShuttingDown
from raft.loop_thread import Opener, in_loop, opening
from raft.sync import blocking

KafkaT_co = TypeVar("KafkaT_co", bound=BreakableKafka, covariant=True)


class _KafkaFace(FaultyFace[KafkaT_co]):
    """The common part of both kinds: see `cluster.BreakableKafka`."""

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it: where it reaches the brokers, behind the faults."""
        return self._loop.living.bootstrap_servers

    def note_acknowledged(
        self, topic: str, partition: int, offset: int, value: bytes | None, key: bytes | None = None
    ) -> None:
        """Have `check` look for this record, which a broker acknowledged."""
        self._loop.living.note_acknowledged(topic, partition, offset, value, key)

    def producer(self, settings: Mapping[str, Any] | None = None) -> Any:
        """Returns a producer of confluent-kafka with acks=all; `check` looks for everything that is acknowledged to it.

        `settings` are the client's own, by its names. Raises `ImportError` without confluent-kafka, `ValueError` for
        other acks, with which records may be lost.
        """
        try:
            from jepsen_like.testing.kafka.producer import WitnessedProducer
        except ImportError as error:
            raise ImportError(
                "producer() needs the package confluent-kafka, which cannot be imported here; "
                f"run: {sys.executable} -m pip install 'quorumlog[kafka]', or pass what another client was "
                "acknowledged to note_acknowledged()"
            ) from error
        given = {"acks": "all", **(settings or {})}
        if str(given["acks"]) not in ("all", "-1"):
            raise ValueError(f"acks={given['acks']} promises nothing that could be checked; use a producer of your own")
        tls = self.tls
        secured = {} if tls is None else security_config(str(tls.authority), str(tls.keystore))
        common = {"bootstrap.servers": self.bootstrap_servers, **secured}
        return WitnessedProducer({**common, **given}, self.note_acknowledged)

    def forget(self, topic: str) -> None:
        """The test deleted this topic: `check` looks for nothing of it."""
        self._loop.living.ledger.forget(topic)

    answer = blocking(BreakableKafka.answer)
    undo = blocking(BreakableKafka.undo)
    answers = blocking(in_loop(BreakableKafka.answers))
    leader = blocking(BreakableKafka.leader)
    wait_until_serving = blocking(BreakableKafka.wait_until_serving)
    wipe = blocking(BreakableKafka.wipe)
    check = blocking(BreakableKafka.check)


class LocalKafka(_KafkaFace[cluster.LocalKafka]):
    """See `cluster.LocalKafka`; use as `with`."""

    @staticmethod
    @opening(cluster.LocalKafka.open)
    def open(opener: Opener[cluster.LocalKafka]) -> "LocalKafka":
        """See `cluster.LocalKafka.open`."""
        return LocalKafka(opener, ShuttingDown)

    power = blocking(cluster.LocalKafka.power)
    disk = blocking(in_loop(cluster.LocalKafka.disk))


class ProcessKafka(_KafkaFace[cluster.ProcessKafka]):
    """See `cluster.ProcessKafka`; use as `with`."""

    @staticmethod
    @opening(cluster.ProcessKafka.open)
    def open(opener: Opener[cluster.ProcessKafka]) -> "ProcessKafka":
        """See `cluster.ProcessKafka.open`."""
        return ProcessKafka(opener, ShuttingDown)
