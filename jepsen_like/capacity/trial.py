"""One trial of capacity on real Kafka brokers: start them in zones, limit them, load them, take a zone away, and measure.

The fault network holds each broker to its stated capacity, on the way of its clients. What brokers copy from each other
is not limited: a stated capacity has taken it into account. Messages are sent when they are due, one in a request, and
given up when they are not acknowledged in time, so that an overload shows as messages without an answer.
"""

import time
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from jepsen_like.capacity.figures import Sends, TrialFigures, measure_window
from jepsen_like.capacity.plan import LOAD, SURGE, CapacityTrial, Limit, order_sends, place_pairs
from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.port.port import NotServing
from jepsen_like.port.wires import CLIENTS, Route
from jepsen_like.port.zones import ZonePlan
from jepsen_like.systems.kafka.control import TOPIC, KafkaControl
from jepsen_like.systems.kafka.load import COMMON, bootstrap
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.processes import scope_of
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.kafka.worker_plan import PACED_SENDER, WORKER, WorkerPlan
from jepsen_like.workload.client_process import STOP, STOPPED, ClientProcess
from jepsen_like.workload.client_sinks import LogSink
from jepsen_like.workload.recorder import Recorder

SETTINGS: Final = (
    *("acks=all", "enable.idempotence=false", "default.replication.factor=2"),
    *("broker.session.timeout.ms=9000", "replica.lag.time.max.ms=10000"),
)
"""A broker that is merely slow keeps what it leads; one that is killed is noticed by the end of its connections."""
HISTORY: Final = "history.parquet"
GIVEN_UP_MS: Final = 3000
UNDER_WAY: Final = 100
"""Requests of one client that one broker may have: more than all queues of its partitions hold."""
SLOTS: Final = 512
WITHIN_S: Final = 60.0
WARM_S, BEFORE_S, SETTLED_S, AFTER_S, SURGING_S, SURGE_S = 1.5, 4.0, 2.0, 5.0, 3.0, 4.0
ANSWERED_S: Final = 0.5
"""All that was sent before the loss has been answered by then."""
POLL_S: Final = 0.05
COLUMNS: Final = ("object", "f", "type", "t_inv", "t_ret")


@attrs.define
class _Windows:
    """The begins and ends of what is measured, on the monotonic clock."""

    of: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    async def pass_by(self, name: str, seconds: float) -> None:
        """Wait, and note the time as a window."""
        began = time.monotonic_ns()
        await trio.sleep(seconds)
        self.of[name] = began, time.monotonic_ns()


async def run_trial(
    trial: CapacityTrial, limit: Limit, directory: Path, *, record_bytes: int = 100, seed: int = 1
) -> TrialFigures:
    """Returns the figures of a trial, whose history is in `directory` then. Raises `NotServing` if brokers do not come up, or do not take over."""
    zones = ZonePlan.of(trial.zones)
    nodes = trial.brokers + trial.arbiters
    mode = KafkaMode.of(SETTINGS).on(nodes)
    windows = _Windows()
    async with open_cluster(
        directory / "nodes", KafkaAdapter(), mode, nodes=nodes, cluster_id=f"capacity-{seed}", seed=seed, zones=zones
    ) as cluster:
        holders = trial.holders(cluster.zones)
        pairs = place_pairs(holders)
        assert isinstance(cluster.control, KafkaControl)
        await cluster.control.place(pairs, within_s=WITHIN_S)
        _limit(cluster, limit)
        client: dict[str, Any] = {
            **COMMON,
            "bootstrap.servers": bootstrap(cluster.client_addresses),
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": UNDER_WAY,
            "message.timeout.ms": GIVEN_UP_MS,
            "request.timeout.ms": GIVEN_UP_MS,
            "retries": 0,
        }
        full_s = trial.needs * limit.requests(record_bytes)
        plan = WorkerPlan(
            role=PACED_SENDER,
            client=client,
            topic=TOPIC,
            partitions=len(pairs),
            may_retry=False,
            seed=seed,
            workers=2,
            slots=SLOTS,
            rate=LOAD * full_s,
            record_bytes=record_bytes,
            order=order_sends(pairs),
        )
        more = attrs.evolve(plan, index=1, rate=SURGE * full_s)
        with HistoryWriter(directory / HISTORY) as history:
            led_by = await _load(cluster, pairs, [plan, more], Recorder(history), windows)
    columns = HistoryReader.open(directory / HISTORY).columns(COLUMNS)
    sends = Sends.of(dict(zip(COLUMNS, columns, strict=True)))
    first = {partition: leader for partition, (leader, _) in enumerate(pairs)}
    found = {
        name: measure_window(sends, *span, first if name == "before" else led_by) for name, span in windows.of.items()
    }
    return TrialFigures(trial=trial, limit_s=limit.requests(record_bytes), zone_of=holders, **found)


def _limit(cluster: Cluster, limit: Limit) -> None:
    """Hold each broker to its capacity from now on."""
    cluster.network.lay(
        Route(ways=((CLIENTS, node),), bytes_per_s=limit.bytes_per_s, requests_per_s=limit.requests_per_s)
        for node in cluster.nodes
    )


async def _load(
    cluster: Cluster, pairs: list[tuple[int, int]], plans: list[WorkerPlan], recorder: Recorder, windows: _Windows
) -> dict[int, int]:
    """Carry the trial out. Returns who leads each partition once the zone is lost."""
    sink = LogSink(recorder)
    workers: list[ClientProcess] = []
    try:
        async with trio.open_nursery() as nursery:

            def begin(plan: WorkerPlan) -> None:
                worker = ClientProcess.start(WORKER, plan)
                workers.append(worker)
                nursery.start_soon(worker.listen, STOPPED, sink.take)

            begin(plans[0])
            with trio.fail_after(WITHIN_S):
                while not recorder.counts.ok:  # noqa: ASYNC110 - the worker is another process
                    await trio.sleep(POLL_S)
            await trio.sleep(WARM_S)
            await windows.pass_by("before", BEFORE_S)
            await trio.sleep(ANSWERED_S)
            lost = cluster.zones.members(cluster.zones.names[0])
            await cluster.kill(lost)
            led_by = {number: heir if leader in lost else leader for number, (leader, heir) in enumerate(pairs)}
            await _until_led(cluster, led_by)
            await trio.sleep(SETTLED_S)
            await windows.pass_by("after", AFTER_S)
            begin(plans[1])
            await trio.sleep(SURGING_S)
            await windows.pass_by("surge", SURGE_S)
            for worker in workers:
                worker.tell(STOP)
        return led_by
    finally:
        with trio.CancelScope(shield=True):
            for worker in workers:
                await worker.end()


async def _until_led(cluster: Cluster, led_by: dict[int, int]) -> None:
    """Wait until those lead that are to take over. Raises `NotServing`."""
    wanted = {scope_of(TOPIC, partition): broker for partition, broker in led_by.items()}
    with trio.move_on_after(WITHIN_S):
        while True:
            leaders = await cluster.control.leaders()
            if wanted == {scope: leader.node for scope, leader in leaders.items()}:
                return
            await trio.sleep(POLL_S)
    raise NotServing(f"not all partitions were taken over within {WITHIN_S:g} s of the loss")
