"""Every cluster that the harness starts has a secret of its own, which no command line contains."""

import stat
from pathlib import Path

import pytest

from jepsen_like.systems.secret_of import SECRET_NAME
from raft.client import Connection
from raft.errors import NotAdmitted
from tests.jepsen_like.raft_clusters import open_raft_cluster


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


@pytest.mark.cluster
async def test_processes_get_a_secret_by_its_path_and_refuse_whom_they_do_not_know(tmp_path: Path) -> None:
    async with open_raft_cluster(tmp_path, nodes=1) as cluster:
        assert await cluster.leader(within_s=10.0) is not None
        path = tmp_path / SECRET_NAME
        assert cluster.access.secret == path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        words = command_line(cluster.nodes[1].pid)
        assert str(path) in words
        assert path.read_text().strip() not in words
        with pytest.raises(NotAdmitted):
            await Connection.connect(*cluster.direct[1], cluster.cluster_id)
