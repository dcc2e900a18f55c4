"""One trial of two topics on real Kafka brokers: two clusters, of which one is killed with messages that no one had read.

Its consumer lags when that happens. After a while the broker comes back with its disk, or does not.
"""

import time
from pathlib import Path
from typing import Final

import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.port.port import NotServing
from jepsen_like.systems.kafka.control import TOPIC
from jepsen_like.systems.kafka.load import LOG_WORKLOAD, bootstrap
from jepsen_like.systems.kafka.mode import KafkaMode
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.two_clusters.clients import PARTITIONS, TwoTopicsClients
from jepsen_like.two_clusters.figures import TwoTopicsFigures, measure
from jepsen_like.two_clusters.plan import TwoTopicsTrial

HISTORY: Final = "history.parquet"
NAMES: Final = ("a", "b")
WITHIN_S: Final = 30.0
CALM_S, LAG_S, DOWN_S, AFTER_S = 2.0, 0.5, 4.0, 3.0
"""Before; while the consumer lags; while the cluster is gone; and once it is back."""
POLL_S: Final = 0.02


async def run_trial(trial: TwoTopicsTrial, directory: Path, *, seed: int = 1) -> TwoTopicsFigures:
    """Returns the figures of a trial, whose history is in `directory` then. Raises `NotServing` if a cluster does not come up."""
    mode = KafkaMode.of([f"num.partitions={PARTITIONS}", "min.insync.replicas=1"]).on(1)
    opened = [
        open_cluster(directory / name, KafkaAdapter(), mode, nodes=1, cluster_id=f"two-topics-{name}-{seed}", seed=seed)
        for name in NAMES
    ]
    async with opened[0] as one, opened[1] as other:
        for cluster in (one, other):
            await cluster.control.prepare(mode, LOG_WORKLOAD, within_s=WITHIN_S)
        servers = [bootstrap(cluster.client_addresses) for cluster in (one, other)]
        clients = TwoTopicsClients(trial, servers, TOPIC)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, clients.run_sender)
            nursery.start_soon(trio.to_thread.run_sync, clients.run_reader)
            try:
                lost_ns, back_ns = await _lose_one(trial, one, clients)
            finally:
                clients.stopping.set()
                for gate in clients.gates:
                    gate.is_open.set()
    with HistoryWriter(directory / HISTORY) as history:
        clients.write(history)
    return measure(trial, HistoryReader.open(directory / HISTORY).ops(), lost_ns, back_ns)


async def _lose_one(trial: TwoTopicsTrial, cluster: Cluster, clients: TwoTopicsClients) -> tuple[int, int]:
    """Returns when the cluster was lost, and when it was back. Raises `NotServing` if no message is acknowledged or read."""
    with trio.move_on_after(WITHIN_S) as patience:
        while not (clients.sent and clients.read):  # noqa: ASYNC110 - threads set these
            await trio.sleep(POLL_S)
    if patience.cancelled_caught:
        raise NotServing(f"no message was acknowledged and read within {WITHIN_S:g} s")
    await trio.sleep(CALM_S)
    clients.gates[0].is_open.clear()
    await trio.sleep(LAG_S)
    lost_ns = time.monotonic_ns()
    await cluster.kill(cluster.nodes)
    await trio.sleep(DOWN_S)
    back_ns = time.monotonic_ns()
    if trial.comes_back:
        await cluster.restart(cluster.nodes)
        if await cluster.leader(within_s=WITHIN_S) is None:
            raise NotServing(f"the lost cluster did not serve within {WITHIN_S:g} s of its start")
        clients.gates[0].is_open.set()
        await trio.sleep(AFTER_S)
    return lost_ns, back_ns
