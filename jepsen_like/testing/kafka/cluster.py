"""Kafka clusters that a test can break: `LocalKafka` inside the test's process, `ProcessKafka` of real processes.

Unmodified clients connect to `bootstrap_servers`, behind fault proxies like the ways between brokers. The loop that
this runs in carries all that traffic: blocking clients belong in another thread, as with the fixtures and `sync`.
"""

import random
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.fault_network import FaultNetwork
from jepsen_like.cluster.location import Site, open_proxies
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port.answers import WrongAnswer
from jepsen_like.port.port import TlsPaths
from jepsen_like.port.wires import Address, Wires
from jepsen_like.systems.kafka.answers.proxy import AnswerProxy
from jepsen_like.systems.kafka.answers.rules import AnswerRule
from jepsen_like.systems.kafka.control import KafkaControl
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.processes import rack_words, tls_words
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.testing.certified import Papers, papers_of
from jepsen_like.testing.faulty import PATIENCE_S, FaultyCluster, WaitedTooLong, zones_planned
from jepsen_like.testing.kafka.agreement import POLL_S, agreed_logs
from jepsen_like.testing.kafka.ledger import KafkaVerdict, RecordLedger
from jepsen_like.testing.processes import DataProcesses, home_of
from jepsen_like.testing.threaded import DATA, TellOf, ThreadedCluster
from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.config import Settings
from kafka_compat.model import TopicPartition
from log.disk import Disk
from raft.config import RaftConfig
from raft.loop_thread import Opener
from raft.secret_file import fresh_secret

CLUSTER_ID = "test"
QUICK: Mapping[str, object] = {
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "replica.lag.time.max.ms": 1500,
}
"""Settings that take over quickly; a test's own come over them."""
PARTITIONS = "partitions"
"""Below a broker's data directory: what `wipe` removes. The controllers' log and votes next to it stay."""


def mode_of(brokers: int, settings: Mapping[str, object]) -> KafkaMode:
    """Returns the settings of a cluster of a test. Raises `WrongMode` for a setting or value that does not exist."""
    given = {**QUICK, "min.insync.replicas": min(2, brokers), **settings}
    words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()]
    return KafkaMode.of(words)


class BreakableKafka(FaultyCluster):
    """The common part of both kinds. Brokers are named by their ids, 1 to n; `ValueError` for any other."""

    def __init__(
        self,
        nodes: Iterable[int],
        clients: Mapping[int, Address],
        direct: Mapping[int, Address],
        wires: Wires,
        tls: TlsPaths | None,
    ) -> None:
        """Use `open`."""
        super().__init__(CLUSTER_ID, nodes, [f"{host}:{port}" for host, port in clients.values()], wires)
        self.ledger = RecordLedger()
        self.tls = tls
        self._control = KafkaControl(CLUSTER_ID, direct, self._can_answer, certificates_in(tls))
        self._direct = dict(direct)
        self._answers = AnswerProxy(names=self._control.topic_names)

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it."""
        return ",".join(self.addresses)

    def note_acknowledged(
        self, topic: str, partition: int, offset: int, value: bytes | None, key: bytes | None = None
    ) -> None:
        """Have `check` look for this record, which a broker acknowledged; from any thread."""
        self.ledger.on_acknowledged(topic, partition, offset, (key, value))

    @abstractmethod
    def _can_answer(self, node: int) -> bool:
        """Returns True if this broker is up and does not stand still."""

    async def leader(self, topic: str, partition: int = 0, *, within_s: float = PATIENCE_S) -> int:
        """Returns the leading broker, reachable by clients. Raises `WaitedTooLong` if there is none in time."""
        name, state = TopicPartition(topic, partition), None
        with trio.move_on_after(within_s):
            while True:
                state = (await self._control.view()).partitions.get(name)
                if state is not None and self._is_reachable(state.leader_id):
                    return int(state.leader_id)
                await trio.sleep(POLL_S)
        if state is None:
            raise WaitedTooLong(f"{name} did not exist within {within_s:g} s; a topic begins with its first record")
        raise WaitedTooLong(f"{name} has no leader that clients can reach within {within_s:g} s")

    def _is_reachable(self, node: int) -> bool:
        return node in self.nodes and self._can_answer(node) and node not in self._cut_clients

    async def wait_until_serving(self, *, within_s: float = PATIENCE_S) -> None:
        """Wait until every broker is registered and unfenced. Raises `WaitedTooLong`."""
        with trio.move_on_after(within_s):
            while not await self._control.is_serving():  # noqa: ASYNC110 - only the brokers know
                await trio.sleep(POLL_S)
            return
        raise WaitedTooLong(f"the brokers do not all serve within {within_s:g} s")

    @abstractmethod
    async def wipe(self, *nodes: int) -> None:
        """Kill these brokers and take what they have of partitions away; they fetch it again once they are started."""

    # ---------------------------------------------------------------- answers on request

    async def answer(
        self,
        api: str,
        *,
        error: str | None = None,
        delay: float | None = None,
        disconnect: str | None = None,
        times: int | None = 1,
        call: int = 1,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> AnswerRule:
        """Have clients' requests of this API answered by an `error`, `delay` seconds late, or not at all.

        `error` is Kafka's name of one; no broker sees the request. With `delay` the broker's answer is late.
        `disconnect="before"` ends the connection instead of serving the request, `"after"` once it has been served.
        From the `call`-th request on, counted from now, this befalls `times` of them, or all with None; only those of
        this `client_id` and that name this `topic`, if given. The result counts: `seen`, `done`. `heal` and `undo` end it.

        The first call ends the clients' connections once, for they have to pass a proxy from then on. Raises `ValueError`
        for a name or number that makes no sense, and for a cluster with TLS, which no proxy can read.
        """
        rule = AnswerRule.of(
            api,
            error=error,
            delay=delay,
            disconnect=disconnect,
            times=times,
            call=call,
            client_id=client_id,
            topic=topic,
        )
        if self.tls is not None:
            raise WrongAnswer("answers need connections that a proxy can read; this cluster speaks TLS")
        await self._answers.add(rule)
        assert isinstance(self._wires, FaultNetwork)
        self._wires.lead_clients_to({node: (LOOPBACK, self._answers.listen(at)) for node, at in self._direct.items()})
        self.tell(0, "answer", rule=str(rule))
        return rule

    async def undo(self, rule: AnswerRule) -> None:
        """End this wish: what it holds back arrives."""
        self._answers.undo(rule)

    def answers(self) -> list[AnswerRule]:
        """Every wish so far with its counts, in their order."""
        return list(self._answers.rules.rules)

    async def heal(self) -> None:
        """See `FaultyCluster.heal`; ends every wish of `answer`, too."""
        self._answers.undo_all()
        await super().heal()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answers.serve)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    # ---------------------------------------------------------------- promises

    async def check(self, *, within_s: float = 3 * PATIENCE_S) -> KafkaVerdict:
        """Heal and start everything, wait until all replicas are in sync and end alike, compare their logs byte by
        byte, and look for all that was acknowledged. Call it when no client writes any more. Raises `WaitedTooLong`.
        """
        await self.heal()
        await self.start()
        return self.ledger.verdict(await agreed_logs(self._control, self.nodes, within_s=within_s))


class LocalKafka(ThreadedCluster, BreakableKafka):
    """Brokers in threads of this process, on disks in memory. Made by `open`."""

    _wiped_directory = f"{DATA}/{PARTITIONS}"

    def __init__(self, nodes: Iterable[int], site: Site, mode: KafkaMode, rng: random.Random, papers: Papers) -> None:
        """Use `open`."""
        super().__init__(nodes, site.clients, site.direct, site.wires, papers.client)
        self._papers = papers
        self._install(site, rng)
        self._words = mode.broker_words(len(self.nodes))
        self._secret = fresh_secret()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["LocalKafka"]:
        """Start brokers 1 to `brokers` until all serve; stop them at the end. `settings` are by Kafka's names.

        With `zones`, as `quorumlog run` takes them, each broker's rack is its zone.

        With `tls` brokers speak TLS to each other and to clients, which need the authority of `tls.authority`. Raises `WrongMode` for a setting or value that does not exist, `WaitedTooLong` if they do not serve in time.
        """
        mode, ids = mode_of(brokers, settings or {}), range(1, brokers + 1)
        with papers_of(ids, tls=tls) as papers:
            async with open_proxies(ids) as site:
                cluster = cls(ids, site, mode, random.Random(seed), papers)
                cluster._stand(zones_planned(zones, zone_delay_s).settle([ids]))
                async with cluster._answering():
                    try:
                        await cluster.start()
                        await cluster.wait_until_serving()
                        yield cluster
                    finally:
                        with trio.CancelScope(shield=True):
                            await cluster._end(*cluster.nodes)

    def _opener(self, node: int, disk: Disk, rng: random.Random, tell: TellOf) -> Opener[Broker]:
        site = self._site
        words = [*self._words, *rack_words(self.zones.zone_of(node)), *tls_words(self._papers.nodes.get(node))]
        plan = BrokerPlan(
            cluster_id=CLUSTER_ID,
            broker_id=node,
            listen=site.listen[node],
            data=DATA,
            peers={other: site.peers[node, other] for other in self.nodes if other != node},
            advertised=site.clients[node],
            settings=Settings.from_assignments(words),
            secret=self._secret,
            raft=RaftConfig(heartbeat_s=0.05, election_timeout_s_min=0.25, election_timeout_s_max=0.5),
        )
        return lambda: Broker.open(plan, tell=tell, disk=disk, rng=rng)

    async def _leave(self, server: Broker) -> None:
        """It asks the controller for leave, so that others lead."""
        await server.shut_down()

    def _on_broken(self, what: str) -> None:
        self.ledger.on_broken(what)


class ProcessKafka(DataProcesses, BreakableKafka):
    """Brokers as processes of their own, on the real disk. Made by `open`."""

    def __init__(self, cluster: Cluster) -> None:
        """Use `open`."""
        super().__init__(cluster.nodes, cluster.client_addresses, cluster.direct, cluster.network, cluster.access.tls)
        self._install(cluster)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        directory: Path | None = None,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["ProcessKafka"]:
        """Start brokers 1 to `brokers` until all serve; stop them at the end.

        Without a `directory` the files are removed. Raises `WrongMode`; `NodeDidNotStart`, in an exception group;
        `WaitedTooLong`.
        """
        mode, plan = mode_of(brokers, settings or {}), zones_planned(zones, zone_delay_s)
        with home_of(directory) as home:
            system = KafkaAdapter()
            opening = open_cluster(home, system, mode, nodes=brokers, cluster_id=CLUSTER_ID, tls=tls, zones=plan)
            async with opening as running:
                cluster = cls(running)
                async with cluster._answering():
                    await cluster.wait_until_serving(within_s=3 * PATIENCE_S)
                    yield cluster
