"""`python -m benchmarks.peers`: `quorumlog bench raft` with its peers.

A peer that is not on this machine becomes a line with the command that brings it.
"""

from typing import Any

from benchmarks.peers import pysyncobj_cluster
from benchmarks.peers.etcd_cluster import ETCD
from benchmarks.peers.nats_cluster import NATS
from benchmarks.peers.zookeeper_cluster import ZOOKEEPER
from jepsen_like.bench.command import bench, measure_raft, raft_options
from jepsen_like.bench.own_cluster import OWN_SYSTEMS
from jepsen_like.cli import ExitStatus

PEERS = (pysyncobj_cluster.AT_ONCE, pysyncobj_cluster.IN_BATCHES, ETCD, ZOOKEEPER, NATS)
SYSTEMS = {**OWN_SYSTEMS, **{system.key: system for system in PEERS}}


@bench.command()
@raft_options(SYSTEMS)
def peers(**flags: Any) -> ExitStatus:
    """Compare three nodes of the replicated log with PySyncObj, etcd, ZooKeeper and NATS JetStream, with their own
    defaults.

    Ends with 0 whatever the figures are: aims that are missed are said, and are no broken promise. An acknowledged
    record that is missing is one.
    """
    return measure_raft(SYSTEMS, flags)
