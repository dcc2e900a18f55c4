"""A member that has proven itself and claims the impossible loses its link, with the reason; the group goes on as before."""

from pathlib import Path

import attrs
import msgpack
import pytest
import trio

from raft import client_codec as wire
from raft.codec import encode_message
from raft.errors import ProtocolError
from raft.messages import AppendAccepted, AppendEntries, AppendRejected, InstallSnapshot, Message, TimeoutNow
from raft.model import LogIndex, LogStart, Offset, Position, Term
from raft.objections import TERM_MAX
from tests.raft.shell.nodes import CLUSTER_ID, local_cluster, until
from tests.raft.shell.test_admission import SECRET, Liar, all_of
from tests.raft.shell.test_driver import TWO, Rig, heartbeat
from tests.raft.shell.test_driver import entry as entry_of
from tests.raft.shell.test_retention import KEEP, QUERY, install_snapshot


def claims(term: int) -> list[Message]:
    """Each of them would end, unseat or brick a node that believed it."""
    nothing = LogIndex(0), Term(0), LogIndex(0)
    far = Position(LogIndex(10**6), Term(term))
    return [
        AppendEntries(Term(term), *nothing, 0),
        TimeoutNow(Term(term)),
        InstallSnapshot(Term(term + 1), LogStart(far, Offset(0), far, b""), 0),
        AppendEntries(Term(term + 1), LogIndex(1), Term(term + 1), LogIndex(0), 0),
        AppendAccepted(Term(TERM_MAX + 1), LogIndex(0), LogIndex(0), 0),
    ]


async def test_a_member_that_lies_to_a_group_unseats_nobody_and_ends_no_node(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 3, secret=SECRET) as cluster:
        leader = await cluster.leader()
        await leader.append([b"kept"])
        status = leader.status()
        term, node_1 = status["term"], cluster.nodes[1].group
        assert isinstance(term, int)
        await until(lambda: node_1.status()["commit_index"] == status["commit_index"])
        liar = next(node for node in (2, 3) if node != status["node"])
        for message in claims(term):
            async with await trio.open_tcp_stream(*cluster.members[1]) as stream:
                member = Liar(stream, str(liar))
                await member.prove()
                greeting = wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, liar))
                await stream.send_all(greeting + b"".join(encode_message(message)))
                assert b"protocol" in await all_of(stream)
        await until(lambda: len(ended_by(cluster.told, liar)) == len(claims(term)))
        assert all("protocol error" in reason for reason in ended_by(cluster.told, liar))
        assert (await cluster.leader()).status()["term"] == term
        appended = await leader.append([b"and more"])
        assert (await leader.read(0)).committed_end == appended.base_offset + 1


def ended_by(told: list[tuple[int, str, dict[str, object]]], liar: int) -> list[str]:
    closed = (fields for node, event, fields in told if node == 1 and event == "connection_closed")
    return [str(each["reason"]) for each in closed if f"peer {liar}" in str(each)]


# -------------------------------------------------------------------- what a driver knows and a core does not


def follower() -> Rig:
    """It holds two records and knows them to be committed."""
    rig = Rig(3, config=KEEP)
    for index in (1, 2):
        rig.receive(TWO, heartbeat(entry_of(index, b"x"), prev=index - 1))
    rig.settle()
    return rig


def test_a_gap_between_records_is_refused_also_where_entries_are_replaced_that_are_on_the_disk_alone() -> None:
    rig = follower()
    rig.core.log.cache_bytes_max = 0
    rig.core.log.evict()
    assert rig.core.log.cached_entries(LogIndex(2), 0) is None
    newer = entry_of(2, b"y", term=2)
    with pytest.raises(ProtocolError, match="index 2 begins at offset 1"):
        rig.receive(TWO, heartbeat(attrs.evolve(newer, base_offset=Offset(5)), term=2, prev=1))
    rig.receive(TWO, heartbeat(newer, term=2, prev=1))
    assert rig.core.log.last_term == 2


def test_an_older_leader_whose_entry_has_another_place_than_what_left_is_refused_as_older() -> None:
    rig = follower()
    rig.receive(TWO, install_snapshot(index=50, term=9))
    rig.settle()
    assert rig.core.log.start.index == 50
    rig.receive(TWO, heartbeat(entry_of(50, b"never committed", term=2), term=8, prev=49))
    assert rig.messages(AppendRejected)[-1].term == 9


def test_a_snapshot_that_the_state_machine_does_not_take_is_refused_before_it_costs_the_log() -> None:
    rig = follower()
    good = install_snapshot(value=7)
    for part in (b"\xc1", msgpack.packb(7), msgpack.packb(["k", 7, "odd"])):
        with pytest.raises(ProtocolError, match="the state machine takes no such snapshot"):
            rig.receive(TWO, attrs.evolve(good, start=attrs.evolve(good.start, snapshot=part)))
        assert rig.core.log.last_index == 2
    rig.receive(TWO, good)
    assert msgpack.unpackb(rig.driver.query(QUERY)) == 7


def test_a_snapshot_that_begins_before_what_is_committed_is_refused() -> None:
    rig = follower()
    rig.receive(TWO, attrs.evolve(heartbeat(prev=2), commit_index=LogIndex(2)))
    end = rig.driver.committed_end
    early = install_snapshot()
    for offset in (end - 1, 0):
        with pytest.raises(ProtocolError, match=f"all before {end} is committed"):
            rig.receive(TWO, attrs.evolve(early, start=attrs.evolve(early.start, offset=Offset(offset))))
    rig.receive(TWO, early)
    assert rig.core.log.start.index == 50
