"""The stage: a running cluster of brokers, what its operator and its metadata report, and what is done to it.

Answers about the cluster are those of its brokers, past the fault network. Faults are placed by hand, since an experiment has to hit the one
broker that its claim is about.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.history.files import DumpWriter
from jepsen_like.port.file_damage import empty_disk
from jepsen_like.port.port import NotServing
from jepsen_like.port.wires import CLEAR, CUT, Address, Condition, Pair, Route
from jepsen_like.port.zones import NO_ZONES, ZonePlan
from jepsen_like.systems.kafka.control import KafkaControl
from jepsen_like.systems.kafka.mode import ISR
from jepsen_like.systems.kafka.stage.acts import Act, between
from jepsen_like.systems.kafka.stage.probe import Probe, ProbeLog, ProbePlan
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.kafka.wire import NoAnswer, ask
from kafka_compat.model import NO_LEADER, TopicPartition
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from kafka_compat.protocol.apis.elect_leaders import ELECT_LEADERS, ElectLeadersRequest, ElectLeadersTopic
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.metadata import METADATA, MetadataPartition, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records

SERVES_WITHIN_S: Final = 90.0
READY_WITHIN_S: Final = 30.0
SETTLES_WITHIN_S: Final = 60.0
ANSWERS_WITHIN_S: Final = 2.0
POLL_S: Final = 0.02
CREATE_VERSION: Final = 7
ELECT_VERSION: Final = 2
PRODUCE_VERSION: Final = 9
UNCLEAN: Final = 1
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 12
READ_BYTES: Final = 1024 * 1024
CREATES_WITHIN_S: Final = 5.0
ELSEWHERE: Final = frozenset({KafkaErrorCode.NOT_CONTROLLER, KafkaErrorCode.REQUEST_TIMED_OUT})


@attrs.frozen(kw_only=True)
class PlacedTopic:
    """A topic to create: `placed`, the brokers of each partition, or a number of partitions and of copies."""

    name: str
    placed: Sequence[Sequence[int]] = ()
    partitions: int = 1
    copies: int = -1
    configs: Mapping[str, str] = {}


class Stage:
    """One cluster. Use `open_stage`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        assert isinstance(cluster.control, KafkaControl)
        self.cluster = cluster
        self.control: KafkaControl = cluster.control
        self.directory = directory
        self.acts: list[Act] = []
        """All faults so far, in their order."""

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of all brokers."""
        return tuple(self.cluster.nodes)

    @property
    def alive(self) -> tuple[int, ...]:
        """Those that run and do not stand still."""
        return tuple(node for node in self.brokers if self.cluster.can_answer(node))

    # ---------------------------------------------------------------- asking

    async def ask(
        self, node: int, api: Api[Any, Any], version: int, request: Any, *, within_s: float = ANSWERS_WITHIN_S
    ) -> Any:
        """Returns a broker's response, past the fault network. Raises `NoAnswer`."""
        return await ask(self.cluster.direct[node], api, version, request, within_s=within_s)

    def name_of(self, topic: str, partition: int = 0) -> TopicPartition:
        """The name of a partition, as the control takes it."""
        return TopicPartition(topic, partition)

    async def state(self, topic: str, partition: int = 0) -> MetadataPartition | None:
        """Returns the newest state of a partition that a broker knows; None if none does."""
        return (await self.control.view()).partitions.get(TopicPartition(topic, partition))

    async def states(self, topic: str) -> dict[int, MetadataPartition]:
        """Returns the newest states of a topic's partitions, by number."""
        found = (await self.control.view()).of_topic(topic)
        return {name.partition: state for name, state in found.items()}

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Returns the leader, -1 without any."""
        state = await self.state(topic, partition)
        return NO_LEADER if state is None else state.leader_id

    async def leader_by(self, node: int, topic: str, partition: int = 0) -> int:
        """Returns whom one broker takes for the leader, -1 for none. Raises `NoAnswer`."""
        wanted = MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=(wanted,), allow_auto_topic_creation=False)
        answer = await self.ask(node, METADATA, METADATA_VERSION, request)
        states = [state for each in answer.topics for state in each.partitions if state.partition_index == partition]
        return int(states[0].leader_id) if states else NO_LEADER

    async def controller(self) -> int:
        """Returns the controller that most brokers name. Raises `NotServing`."""
        await self.until("a controller", self._has_controller)
        return (await self.control.view()).controller

    async def _has_controller(self) -> bool:
        return (await self.control.view()).controller in self.alive

    async def until(
        self, what: str, is_so: Callable[[], Awaitable[bool]], *, within_s: float = READY_WITHIN_S
    ) -> float:
        """Wait for something. Returns how long that took. Raises `NotServing`."""
        began = trio.current_time()
        while not await is_so():
            if trio.current_time() - began > within_s:
                raise NotServing(f"not within {within_s:g} s: {what}")
            await trio.sleep(POLL_S)
        return trio.current_time() - began

    async def until_led(
        self, topic: str, by: Iterable[int], partition: int = 0, *, within_s: float = READY_WITHIN_S
    ) -> float:
        """Wait until one of these leads. Returns how long that took. Raises `NotServing`."""
        wanted = frozenset(by)

        async def is_led() -> bool:
            return await self.leader(topic, partition) in wanted

        return await self.until(f"a leader of {topic} among {sorted(wanted)}", is_led, within_s=within_s)

    async def until_in_sync(
        self, topic: str, members: Iterable[int], partition: int = 0, *, within_s: float = READY_WITHIN_S
    ) -> float:
        """Wait until exactly these are in sync. Returns how long that took. Raises `NotServing`."""
        wanted = frozenset(members)

        async def is_so() -> bool:
            state = await self.state(topic, partition)
            return state is not None and frozenset(state.isr_nodes) == wanted

        return await self.until(f"{topic} in sync on {sorted(wanted)}", is_so, within_s=within_s)

    # ---------------------------------------------------------------- topics

    async def create(self, *plans: PlacedTopic) -> None:
        """Create topics, and wait until each partition is led and all its copies are in sync. Raises `NotServing`."""
        codes = await self.try_to_create(plans)
        if any(codes):
            raise NotServing(f"topics were refused with errors {codes}")
        await self.until_whole(*(plan.name for plan in plans))

    async def _is_whole(self, topic: str) -> bool:
        states = await self.states(topic)
        return bool(states) and all(
            state.leader_id != NO_LEADER and set(state.isr_nodes) == set(state.replica_nodes)
            for state in states.values()
        )

    async def until_whole(self, *topics: str, within_s: float = READY_WITHIN_S) -> None:
        """Wait until all copies of these are in sync. Raises `NotServing`."""
        for topic in topics:

            async def is_whole(topic: str = topic) -> bool:
                return await self._is_whole(topic)

            await self.until(f"all copies of {topic} in sync", is_whole, within_s=within_s)

    async def until_even(self, topic: str) -> None:
        """Wait until all copies of each partition end alike. Raises `NotServing`."""
        for partition, state in (await self.states(topic)).items():
            name = self.name_of(topic, partition)

            async def is_even(
                name: TopicPartition = name, replicas: Sequence[int] = tuple(state.replica_nodes)
            ) -> bool:
                ends = [await self.control.ends(node, [name]) for node in replicas]
                return None not in ends and len({end[name] for end in ends if end is not None}) == 1

            await self.until(f"all copies of {name} end alike", is_even)

    async def try_to_create(self, plans: Sequence[PlacedTopic]) -> list[int]:
        """Returns the error code for each. Raises `NotServing` if no controller takes the request."""
        request = CreateTopicsRequest(topics=tuple(map(_entry_of, plans)), timeout_ms=round(CREATES_WITHIN_S * 1e3))
        deadline = trio.current_time() + READY_WITHIN_S
        while trio.current_time() < deadline:
            for node in self.alive:
                try:
                    answer = await self.ask(
                        node, CREATE_TOPICS, CREATE_VERSION, request, within_s=CREATES_WITHIN_S + ANSWERS_WITHIN_S
                    )
                except NoAnswer:
                    continue
                codes = [result.error_code for result in answer.topics]
                if ELSEWHERE.isdisjoint(codes):
                    return codes
            await trio.sleep(POLL_S)
        raise NotServing("no controller creates topics")

    def probe(self, log: ProbeLog, plan: ProbePlan) -> Probe:
        """A probe that reaches brokers as clients do, through the fault network."""
        return Probe(plan, self.cluster.client_addresses, log)

    async def dump(self, topic: str, directory: Path) -> None:
        """Wait until all copies of a topic agree, and write their logs down as a run does. Raises `NotServing`."""
        self.control.topic = topic
        try:
            ends = await self.control.settle(within_s=SETTLES_WITHIN_S)
            with DumpWriter(directory / "dump.parquet") as writer:
                await self.control.dump(ends, writer)
        finally:
            self.control.topic = None

    async def read(self, node: int, topic: str, offset: int = 0, partition: int = 0) -> FetchPartitionResponse:
        """Ask a broker for records as a consumer does. Raises `NoAnswer`."""
        return await read_as_consumer(self.cluster.direct[node], topic, partition, offset)

    async def write_at(self, node: int, topic: str, partition: int = 0) -> int:
        """Ask a broker to append a record, whether it leads or not. Returns the error code. Raises `NoAnswer`."""
        batch = encode_records([(None, b"asked")], 0)
        part = ProducePartition(index=partition, records=batch)
        request = ProduceRequest(
            acks=1, timeout_ms=1000, topic_data=(ProduceTopic(name=topic, partition_data=(part,)),)
        )
        answer = await self.ask(node, PRODUCE, PRODUCE_VERSION, request)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def elect_unclean(self, topic: str, partition: int = 0) -> int:
        """Have the controller elect any replica that lives, as an operator does. Returns the error code. Raises `NoAnswer`."""
        wanted = ElectLeadersTopic(topic=topic, partitions=(partition,))
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=(wanted,), timeout_ms=5000)
        answer = await self.ask(await self.controller(), ELECT_LEADERS, ELECT_VERSION, request, within_s=7.0)
        results = [result for each in answer.replica_election_results for result in each.partition_result]
        return int(answer.error_code or results[0].error_code)

    # ---------------------------------------------------------------- acts

    def _note(self, act: Act) -> Act:
        self.acts.append(act)
        return act

    async def kill(self, *nodes: int) -> Act:
        """SIGKILL these brokers."""
        act = self._note(Act(kind="kill", nodes=nodes))
        await self.cluster.kill(nodes)
        return act.complete()

    async def wipe(self, *nodes: int) -> Act:
        """SIGKILL these brokers and take away what they have of partitions."""
        act = self._note(Act(kind="wipe", nodes=nodes))
        await self.cluster.kill(nodes)
        for node in nodes:
            empty_disk(self.cluster.nodes[node].machine.data, self.cluster.system.kept_by_wipe)
        return act.complete()

    async def pause(self, *nodes: int) -> Act:
        """SIGSTOP these brokers."""
        act = self._note(Act(kind="pause", nodes=nodes))
        await self.cluster.pause(nodes)
        return act.complete()

    def cut(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> Act:
        """Let nothing pass between these."""
        return self._impose("partition", CUT, pairs, clients)

    def slow(self, pairs: Iterable[Pair], delay_s: float, clients: Iterable[int] = ()) -> Act:
        """Let everything between these take longer, each way."""
        return self._impose("slow", Condition(delay_s=delay_s), pairs, clients)

    def throttle(self, pairs: Iterable[Pair], bytes_per_s: float, clients: Iterable[int] = ()) -> Act:
        """Let no more pass on each of these ways."""
        return self._impose("throttle", Condition(bytes_per_s=bytes_per_s), pairs, clients)

    def bound_sending(self, bytes_per_s: float) -> None:
        """For good, let each broker send no more than this to all others together, as one network card does."""
        self.cluster.network.lay(
            Route(ways=tuple((node, other) for other in self.brokers if other != node), bytes_per_s=bytes_per_s)
            for node in self.brokers
        )

    def isolate(self, *nodes: int) -> Act:
        """Cut these brokers off from all others; clients reach them."""
        return self.cut(between(nodes, [node for node in self.brokers if node not in nodes]))

    def _impose(self, kind: str, condition: Condition, pairs: Iterable[Pair], clients: Iterable[int]) -> Act:
        act = self._note(Act(kind=kind, pairs=tuple(pairs), clients=tuple(clients)))
        self.cluster.network.impose(condition, act.pairs, act.clients)
        return act.complete()

    async def end(self, *acts: Act) -> None:
        """Undo these: start, resume, or clear the ways."""
        for act in acts:
            act.undone_ns = time.monotonic_ns()
            match act.kind:
                case "pause":
                    for node in act.nodes:
                        self.cluster.nodes[node].resume()
                case "kill" | "wipe":
                    await self.cluster.restart(act.nodes)
                case _:
                    self.cluster.network.impose(CLEAR, act.pairs, act.clients)
            act.finish()

    async def heal(self) -> None:
        """Undo all that holds."""
        held = [act for act in self.acts if not act.ended_ns]
        await self.cluster.heal()
        for act in held:
            act.finish()


async def read_as_consumer(address: Address, topic: str, partition: int, offset: int = 0) -> FetchPartitionResponse:
    """Ask the broker at an address for records of a partition. Raises `NoAnswer`."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, topics=(FetchTopic(topic=topic, partitions=(wanted,)),)
    )
    answer = await ask(address, FETCH, FETCH_VERSION, request, within_s=ANSWERS_WITHIN_S)
    found: FetchPartitionResponse = answer.responses[0].partitions[0]
    return found


def _entry_of(plan: PlacedTopic) -> CreateTopic:
    placed = tuple(
        CreateTopicAssignment(partition_index=number, broker_ids=tuple(brokers))
        for number, brokers in enumerate(plan.placed)
    )
    return CreateTopic(
        name=plan.name,
        num_partitions=-1 if placed else plan.partitions,
        replication_factor=-1 if placed else plan.copies,
        assignments=placed,
        configs=tuple(CreateTopicConfig(name=name, value=value) for name, value in plan.configs.items()),
    )


@asynccontextmanager
async def open_stage(
    directory: Path, *, brokers: int, settings: Sequence[str] = (), seed: int = 0, zones: ZonePlan = NO_ZONES
) -> AsyncIterator[Stage]:
    """Start a cluster with its files in `directory`, and wait until it serves; stop it afterwards.

    Raises `NotServing`, `WrongMode`, and `NodeDidNotStart` in a group.
    """
    system = KafkaAdapter()
    mode = system.configure(settings, ISR).on(brokers)
    opening = open_cluster(
        directory, system, mode, nodes=brokers, cluster_id=f"stage-{seed}-{time.monotonic_ns()}", seed=seed, zones=zones
    )
    async with opening as cluster:
        stage = Stage(cluster, directory)
        await stage.until("all brokers serve", stage.control.is_serving, within_s=SERVES_WITHIN_S)
        yield stage
