"""A node process is observed by its process id, and never outlives the harness."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.cluster.process import Ended, NodeDidNotStart, NodeProcess, Seen, process_state
from jepsen_like.port.observations import DOWN, Ready, RoleReported
from jepsen_like.port.port import Member, ProcessPlan
from jepsen_like.systems.raft.control import NodeStatus, leader_among
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.processes import raft_command
from jepsen_like.systems.raft.system import RaftSystem
from tests.jepsen_like.raft_clusters import open_raft_cluster

SAYS_STARTED = """
import json, sys, time
print(json.dumps({"t_ns": time.monotonic_ns(), "event": "started"}), flush=True)
print("not json", flush=True)
print(json.dumps({"event": "role", "role": "leader", "term": 4}), flush=True)
"""
NODE = SAYS_STARTED + "time.sleep(600)"
DEAF_NODE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + NODE
ENDING_NODE = SAYS_STARTED + "sys.exit('out of luck')"
SILENT_NODE = "import time; time.sleep(600)"
BREAKS_WHEN_ASKED_TO_STOP = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit('assertion failed'))" + NODE
)
ENDS_AS_JAVA = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(143))" + NODE
FAILS_WHEN_TOLD = "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit('a failed disk'))" + NODE
DAMAGED_WORDS = "the segment 00.log is damaged at byte 12"
MEETS_DAMAGE = SAYS_STARTED + f"sys.stderr.write({DAMAGED_WORDS!r} + chr(10)); sys.exit(4)"


def says_and_hangs(**event: object) -> str:
    """A node that reports this event when its end begins, and is slow to end."""
    return SAYS_STARTED + f"print({json.dumps(event)!r}, flush=True); time.sleep(600)"


BROKEN_NODE = "import sys; sys.exit('no such option')"

HARNESS = """
import sys, trio
from pathlib import Path
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.systems.raft.system import RaftSystem

async def main():
    async with trio.open_nursery() as nursery:
        node = NodeProcess(1, [sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]), RaftSystem(), lambda *seen: None)
        await node.start(nursery, within_s=60)
        await node.pause()
        print(node.pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def node(script: str, directory: Path, observed: list[Seen] | None = None) -> NodeProcess:
    all_seen = [] if observed is None else observed
    return NodeProcess(
        1, [sys.executable, "-c", script], directory, RaftSystem(), lambda _, t_ns, seen: all_seen.append(seen)
    )


async def test_a_node_is_ready_when_it_says_so_and_its_events_are_heard_and_kept(tmp_path: Path) -> None:
    observed: list[Seen] = []
    async with trio.open_nursery() as nursery:
        process = node(NODE, tmp_path, observed)
        await process.start(nursery, within_s=60)
        assert process.observe() in (f"pid {process.pid} state S", f"pid {process.pid} state R")
        with trio.fail_after(60):
            while len(observed) < 2:  # noqa: ASYNC110  what is waited for happens in another process
                await trio.sleep(0.005)
        await process.kill()
    assert observed == [Ready(), RoleReported("leader", 4), Ended()]
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 3


async def test_kill_leaves_no_process_and_the_node_can_be_started_again(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(NODE, tmp_path)
        await process.start(nursery, within_s=60)
        first = process.pid
        await process.kill()
        assert process.observe() == f"pid {first} dead"
        assert not process.is_running
        await process.start(nursery, within_s=60)
        assert process.pid != first
        await process.kill()
    assert process.unasked_ends == []


async def test_pause_is_seen_as_state_t_and_resume_ends_it(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(NODE, tmp_path)
        await process.start(nursery, within_s=60)
        await process.pause()
        assert process.observe() == f"pid {process.pid} state T"
        process.resume()
        assert process_state(process.pid) != "T"
        await process.pause()
        await process.stop(within_s=60)
        assert process.observe() == f"pid {process.pid} dead"
    assert process.unasked_ends == []


@pytest.mark.parametrize("must_end", [True, False])
async def test_a_node_that_ignores_sigterm_is_killed_and_that_is_noted(tmp_path: Path, must_end: bool) -> None:
    async with trio.open_nursery() as nursery:
        process = node(DEAF_NODE, tmp_path)
        await process.start(nursery, within_s=60)
        await process.stop(within_s=0.1, must_end=must_end)
        assert not process.is_running
    assert process.unasked_ends == ["node 1 did not stop within 0.1 s of SIGTERM"][: int(must_end)]


async def test_a_node_that_ends_by_itself_is_noted_with_its_last_output(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(ENDING_NODE, tmp_path)
        await process.start(nursery, within_s=60)
    (line,) = process.unasked_ends
    assert "ended with status 1: out of luck" in line


async def test_a_node_that_ends_with_the_status_of_its_signal_has_ended_as_it_was_asked(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(ENDS_AS_JAVA, tmp_path)
        await process.start(nursery, within_s=60)
        await process.stop(within_s=60)
    assert process.unasked_ends == []


async def test_a_node_that_breaks_when_it_is_asked_to_stop_is_noted(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(BREAKS_WHEN_ASKED_TO_STOP, tmp_path)
        await process.start(nursery, within_s=60)
        await process.stop(within_s=60)
    (line,) = process.unasked_ends
    assert "ended with status 1: assertion failed" in line


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"event": "broken_invariant", "reason": "two leaders"}, "ended with status 1: two leaders"),
        ({"event": "failed", "reason": "no such disk", "status": 4}, "ended with status 4: no such disk"),
    ],
)
async def test_a_node_that_is_killed_while_it_ends_itself_is_noted(
    event: dict[str, object], says: str, tmp_path: Path
) -> None:
    observed: list[Seen] = []
    async with trio.open_nursery() as nursery:
        process = node(says_and_hangs(**event), tmp_path, observed)
        await process.start(nursery, within_s=60)
        with trio.fail_after(60):
            while len(observed) < 3:  # noqa: ASYNC110  what is waited for happens in another process
                await trio.sleep(0.005)
        await process.kill()
    (line,) = process.unasked_ends
    assert says in line


async def test_a_node_that_may_end_by_itself_may_end_with_any_status(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(FAILS_WHEN_TOLD, tmp_path)
        await process.start(nursery, within_s=60)
        process.expect_end()
        os.kill(process.pid, signal.SIGUSR1)
        assert await process.ends(within_s=60)
    assert process.unasked_ends == []


async def test_a_damage_excuses_one_end_and_no_words_of_a_former_life(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(MEETS_DAMAGE, tmp_path)
        process.unmet_damages = 1
        await process.start(nursery, within_s=60)  # it ends, is started again as it was damaged, and ends once more
        with trio.fail_after(60):
            while not process.unasked_ends:  # noqa: ASYNC110  what is waited for happens in another process
                await trio.sleep(0.005)
        assert (process.ends_of_damage, process.unmet_damages) == (1, 0)
        assert process.stderr_tail() == DAMAGED_WORDS
        process.unmet_damages = 1
        process.command = node(SAYS_STARTED + "sys.exit(4)", tmp_path).command
        await process.start(nursery, within_s=60)
    assert process.ends_of_damage == 1
    assert len(process.unasked_ends) == 2


@pytest.mark.parametrize("attempt", range(12))
async def test_a_start_is_over_though_the_node_has_ended_and_was_started_again_before_anybody_looked(
    tmp_path: Path, attempt: int
) -> None:
    """The harness is held up until the process that said it was ready has gone; the rest is as Trio draws it."""

    def wait_for_the_end(_: int, t_ns: int, seen: Seen) -> None:
        if seen == Ready() and not process.ends_of_damage:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    process = NodeProcess(1, [sys.executable, "-c", MEETS_DAMAGE], tmp_path, RaftSystem(), wait_for_the_end)
    process.unmet_damages = 1
    async with trio.open_nursery() as nursery:
        await process.start(nursery, within_s=60)
    assert process.ends_of_damage == len(process.unasked_ends) == 1


@pytest.mark.parametrize(
    ("script", "within_s", "says"),
    [(BROKEN_NODE, 20.0, "status 1: no such option"), (SILENT_NODE, 0.3, "not ready after 0.3 s")],
)
async def test_a_node_that_does_not_start_says_why_and_leaves_nothing(
    script: str, within_s: float, says: str, tmp_path: Path
) -> None:
    async with trio.open_nursery() as nursery:
        process = node(script, tmp_path)
        with pytest.raises(NodeDidNotStart, match=says):
            await process.start(nursery, within_s=within_s)
        assert process_state(process.pid) is None


async def test_a_cancelled_harness_leaves_no_process(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        process = node(NODE, tmp_path)
        await process.start(nursery, within_s=60)
        nursery.cancel_scope.cancel()
    assert process_state(process.pid) is None


def test_not_even_a_paused_node_outlives_a_killed_harness(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, NODE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert process_state(pid) == "T"
        watch = os.pidfd_open(pid)
        harness.kill()
        harness.wait()
        os.set_blocking(watch, False)
        try:
            trio.run(trio.lowlevel.wait_readable, watch)
        finally:
            os.close(watch)
    assert process_state(pid) is None


def test_a_node_has_a_process_group_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            process = node(NODE, tmp_path)
            await process.start(nursery, within_s=60)
            assert os.getpgid(process.pid) == process.pid
            await process.kill()

    trio.run(main)


async def test_a_reserved_port_is_free_for_a_server_and_for_no_other_process() -> None:
    with ReservedPorts(2) as reserved:
        assert len(set(reserved.ports)) == 2
        port = reserved.ports[0]
        for _ in range(2):
            (listener,) = await trio.open_tcp_listeners(port, host=LOOPBACK)
            await listener.aclose()
        with trio.socket.socket() as other, pytest.raises(OSError, match="in use"):
            await other.bind((LOOPBACK, port))


def test_the_command_of_a_node_names_proxies_for_all_others() -> None:
    plan = ProcessPlan(
        member=Member(2, "node"),
        cluster_id="c",
        listen=(LOOPBACK, 1002),
        data=Path("d"),
        peers={1: (LOOPBACK, 2001)},
        advertised={1: (LOOPBACK, 3001), 2: (LOOPBACK, 3002)},
        mode=RaftMode.of(["flush=none"]),
    )
    words = " ".join(raft_command(plan)[1:])
    assert words == (
        "-m raft.node --id 2 --cluster-id c --listen 127.0.0.1:1002 --data d --peer 1=127.0.0.1:2001 "
        "--advertise 1=127.0.0.1:3001 --advertise 2=127.0.0.1:3002 --set flush=none"
    )


async def test_a_node_that_does_not_come_back_is_noted_and_the_others_do(tmp_path: Path) -> None:
    once = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(exist_ok=sys.argv[2] == '2')" + NODE

    def command(plan: ProcessPlan) -> list[str]:
        return [sys.executable, "-c", once, str(tmp_path / f"seen-{plan.member.id}"), str(plan.member.id)]

    async with open_raft_cluster(tmp_path / "nodes", nodes=2, command=command) as cluster:
        await cluster.kill([1, 2])
        await cluster.restart([1, 2])
        assert not cluster.nodes[1].is_running
        assert cluster.nodes[2].is_running
        assert await cluster.control.leaders() == {}
    (line,) = cluster.unasked_ends
    assert line.startswith("node 1 (pid ")
    assert "FileExistsError" in line


async def test_a_killed_node_is_down_and_after_its_start_has_no_role_that_it_had_before(tmp_path: Path) -> None:
    def command(plan: ProcessPlan) -> list[str]:
        return [sys.executable, "-c", NODE]

    async with open_raft_cluster(tmp_path / "nodes", nodes=1, command=command) as cluster:
        with trio.fail_after(60):
            while not cluster.reports.roles:  # noqa: ASYNC110  what is waited for happens in another process
                await trio.sleep(0.005)
        await cluster.kill([1])
        (said, down) = cluster.reports.roles
        assert (said.role, down.role, down.term) == ("leader", DOWN, 0)
        assert said.t_ns <= down.t_ns


def status(number: int, role: str, term: int) -> NodeStatus:
    return NodeStatus(number, role, term, 0, 0, 0)


@pytest.mark.parametrize(
    ("statuses", "leader"),
    [
        pytest.param([], None, id="nobody answers"),
        pytest.param([status(1, "leader", 3), status(2, "follower", 3)], 1, id="one leader"),
        pytest.param([status(1, "leader", 3), status(2, "leader", 4)], 2, id="the newer of two"),
        pytest.param([status(1, "leader", 3), status(2, "follower", 4)], None, id="deposed, and nobody elected"),
    ],
)
def test_who_leads_is_decided_by_the_highest_term(statuses: list[NodeStatus], leader: int | None) -> None:
    found = leader_among(statuses)
    assert (found.node if found else None) == leader
