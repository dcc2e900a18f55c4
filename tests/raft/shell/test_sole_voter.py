"""A group is begun again from what one of its nodes holds, in place of all its members."""

import shutil
from pathlib import Path

import pytest

from log.errors import DirectoryLocked
from raft.directory import WrongDirectory
from raft.membership import AddLearner, Promote, Remove
from raft.sole_voter import make_sole_voter
from tests.raft.shell.nodes import local_cluster, until
from tests.raft.shell.test_changing_members import change, records_of, voters_are


async def test_one_directory_is_enough_to_begin_again_after_the_members_have_changed(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await (await cluster.leader()).append([b"first"])
        await change(cluster, AddLearner(4, await cluster.join(4)), Promote(4), Remove(1))
        await (await cluster.leader()).append([b"second"])
        await cluster.stop(1)
        address = "{}:{}".format(*cluster.members[4])
        with pytest.raises(DirectoryLocked):
            make_sole_voter(str(tmp_path / "4"), address, 4)
        await until(lambda: cluster.nodes[4].group.status()["committed_end"] == 2)
        for node in (2, 3, 4):
            await cluster.stop(node)
        for node in (2, 3):
            shutil.rmtree(tmp_path / str(node))
        with pytest.raises(WrongDirectory):
            make_sole_voter(str(tmp_path / "4"), address, 3)
        made = make_sole_voter(str(tmp_path / "4"), address, 4)
        assert (made.node_id, made.end_offset, made.lost_entries) == (4, 2, 0)
        await cluster.start(4)
        alone = await cluster.leader()
        assert alone.status()["voters"] == [4]
        assert await records_of(alone) == [b"first", b"second"]
        cluster.joined[2] = {node: cluster.members[node] for node in (2, 4)}
        await cluster.start(2)
        await change(cluster, AddLearner(2, "{}:{}".format(*cluster.members[2])), Promote(2))
        await voters_are(cluster.nodes[2].group, [2, 4])
        await (await cluster.leader()).append([b"third"])
        for node in (2, 4):
            await cluster.stop(node)
            await cluster.start(node)
        assert (await records_of(await cluster.leader()))[-1] == b"third"
