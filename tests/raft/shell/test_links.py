"""The links that a node dials to its peers."""

import socket
from pathlib import Path

import pytest

from raft import links
from raft.net.dialing import dial
from tests.raft.shell.nodes import local_cluster, until


async def test_a_link_whose_bytes_nobody_confirms_is_given_up_long_before_tcp_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[socket.socket] = []

    async def noted(host: str, port: int) -> socket.socket:
        dialled.append(await dial(host, port))
        return dialled[-1]

    monkeypatch.setattr(links, "dial", noted)
    async with local_cluster(tmp_path, 2) as cluster:
        await until(lambda: len(cluster.heard("link_up")) == 2)
        bounds = [
            link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) for link in dialled if link.fileno() >= 0
        ]
        assert set(bounds) == {5000}
