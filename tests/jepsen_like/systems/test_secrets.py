"""Every cluster that the harness starts has a secret of its own, which no command line contains, and refuses strangers."""

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.port.port import System
from jepsen_like.systems.kafka.system import KafkaAdapter
from jepsen_like.systems.kafka.wire import ask
from jepsen_like.systems.raft.system import RaftSystem
from jepsen_like.systems.rocketmq.system import RocketMqSystem
from jepsen_like.systems.secret_of import SECRET_NAME
from kafka_compat.protocol.apis.controller import BROKER_HEARTBEAT, BrokerHeartbeatRequest
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.client import Connection
from raft.errors import NotAdmitted
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader

WITHIN_S = 20.0


async def refuses_a_client(cluster: Cluster) -> None:
    with pytest.raises(NotAdmitted):
        await Connection.connect(*cluster.direct[1], cluster.cluster_id)


async def refuses_a_heartbeat(cluster: Cluster) -> None:
    beat = BrokerHeartbeatRequest(
        cluster_id=cluster.cluster_id, broker_id=1, broker_epoch=1, applied_index=1, wants_shutdown=True
    )
    answer = await ask(cluster.direct[1], BROKER_HEARTBEAT, 0, beat, within_s=WITHIN_S)
    assert answer.error_code == KafkaErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def refuses_a_registration(cluster: Cluster) -> None:
    header = RegisterBrokerRequestHeader(
        cluster_name="DefaultCluster", broker_name="ghost", broker_addr="127.0.0.1:1", broker_id=0, ha_server_addr=""
    )
    async with connected_client(cluster.direct[max(cluster.direct)]) as stranger:
        answer = await stranger.ask(Command(RequestCode.REGISTER_BROKER, ext=header.ext()), timeout_s=WITHIN_S)
    assert answer.code == ResponseCode.NO_PERMISSION


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("system", "refuses"),
    [
        pytest.param(RaftSystem(), refuses_a_client, id="raft"),
        pytest.param(KafkaAdapter(), refuses_a_heartbeat, id="kafka"),
        pytest.param(RocketMqSystem(), refuses_a_registration, id="rocketmq"),
    ],
)
async def test_processes_get_a_secret_by_its_path_and_refuse_strangers(
    tmp_path: Path, system: System, refuses: Callable[[Cluster], Awaitable[None]]
) -> None:
    mode = system.configure((), system.replications[0]).on(1)
    async with open_cluster(tmp_path, system, mode, nodes=1, cluster_id="test") as cluster:
        path = tmp_path / SECRET_NAME
        assert cluster.access.secret == path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for process in cluster.nodes.values():
            words = command_line(process.pid)
            assert str(path) in words
            assert path.read_text().strip() not in words
        await refuses(cluster)
