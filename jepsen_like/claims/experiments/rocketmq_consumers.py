"""RocketMQ's consumers and keys while a master is away, and what slow copies mean for readers."""

from typing import Any, Final

import numpy as np

from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, DoneRun, Experiment, fault
from jepsen_like.claims.experiments.rocketmq_pairs import ASYNC, RAFT, SYNC, pair
from jepsen_like.claims.judgement import Part, at_least, at_most, exactly, expect
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, Action, Outcome
from jepsen_like.port.zones import ZonePlan
from jepsen_like.run.exercise import RunPlan

DOWN_S: Final = 8.0
PROMOTED: Final = (fault(1, "promote-by-hand", 2.3, 1.0, seed=2),)
MASTER_DOWN: Final = (fault(1, "kill", 4.0, DOWN_S),)
ONE_OF_TWO_DOWN: Final = (fault(1, "kill", 4.0, DOWN_S),)
FETCHED_SHARE: Final = 0.05
"""A consumer may still have so much at hand in the second half of an outage."""
NS_OF_S: Final = 1e9
SLOW_S: Final = 0.25
"""One way to a slave that stands in another zone: its copies are half a second late."""


def _consuming(workload: str, consume_ms: int) -> RunPlan:
    return pair(ASYNC, f"consume_ms={consume_ms}", faults=MASTER_DOWN, workload=workload, rate=300.0, duration_s=15.0)


def concurrent_plan() -> RunPlan:
    """The plan of a pair whose master is down while consumers without an order have not consumed all."""
    return _consuming("group", 60)


READ: Final[dict[str, Any]] = {"workload": "group", "rate": 100.0, "duration_s": 6.0, "concurrency": 64}
"""Enough clients for this rate, though each waits half a second."""
GROUP_APART_S: Final = 0.02
"""One way between two members of a raft group."""


def follow_consumers(desk: ClaimDesk) -> None:
    """The master of a pair is killed while its consumers have not consumed all."""
    for name, plan in (("concurrent", concurrent_plan()), ("ordered", _consuming("order", 30))):
        shown = desk.run(f"{name} consumers, master killed", plan)
        row = _progress(shown)
        desk.measure(f"{name}_left_at_the_kill", row["left"], "messages", shown)
        desk.measure(f"{name}_given_while_down", row["given_late"], "messages", shown)
        share = row["given_late"] / row["left"] if row["left"] else 0.0
        desk.measure(f"{name}_share_given_while_down", round(share, 3), "", shown)
        desk.measure(f"{name}_lost", shown.lost, "records", shown)


def _progress(shown: DoneRun) -> dict[str, Any]:
    rows = [row for row in shown.results.under_faults or () if row["id"] == 1]
    if not rows:
        raise DidNotRun(f"{shown.place}: nothing is known of consumers under the fault")
    return dict(rows[0])


def choose_order(desk: ClaimDesk) -> None:
    """One master of two is killed; keys are pinned to their queues, or go to others."""
    for order in ("pinned", "rehashed"):
        plan = pair(
            ASYNC,
            f"order={order}",
            "pairs=2",
            "consume_ms=30",
            faults=ONE_OF_TWO_DOWN,
            workload="order",
            nodes=4,
            rate=150.0,
            duration_s=18.0,
        )
        shown = desk.run(f"keys {order}, one of two masters killed", plan)
        row = _progress(shown)
        inverted = sum(one["count"] for one in shown.results.tolerated or () if one["check"] == "key_order")
        desk.measure(f"{order}_keys_waiting", row["keys_waiting"], "keys", shown)
        desk.measure(f"{order}_inversions", inverted, "messages", shown)


def slow_slaves(desk: ClaimDesk) -> None:
    """Copies are late, and consumers are given messages meanwhile."""
    far = ZonePlan.of("2", delay_s=SLOW_S, clients="a")
    near = ZonePlan.of("3", delay_s=GROUP_APART_S)
    for name, words, plan in (
        ("async", "async pair, slave half a second away", pair(ASYNC, zones=far, **READ)),
        ("sync", "sync pair, slave half a second away", pair(SYNC, zones=far, **READ)),
        ("group", "raft group, members apart", pair(RAFT, nodes=3, zones=near, **READ)),
    ):
        shown = desk.run(f"{words}, consumers", plan)
        share, waited_s = _reading(shown)
        desk.measure(f"{name}_share_given", round(share, 3), "", shown)
        desk.measure(f"{name}_end_to_end_s", round(waited_s, 4), "s", shown)


def _reading(shown: DoneRun) -> tuple[float, float]:
    """Returns the share of acknowledged messages that were given, and the median time from a send's begin to the first time it was given."""
    names = ("f", "type", "a", "b", "t_inv")
    f, outcome, a, b, t_inv = HistoryReader.open(shown.directory / "history.parquet").columns(names)
    given = np.flatnonzero((f == Action.POLL) & (b != NONE))
    given = given[np.argsort(t_inv[given], kind="stable")]
    value, first = np.unique(a[given], return_index=True)
    acked = (f == Action.SEND) & (outcome == Outcome.OK)
    sent = np.flatnonzero(acked & np.isin(a, value))
    if not len(sent):
        raise DidNotRun(f"{shown.place}: no message that was acknowledged was given")
    at = t_inv[given[first]][np.searchsorted(value, a[sent])]
    return len(sent) / int(acked.sum()), float(np.median(at - t_inv[sent])) / NS_OF_S


def slow_copies(desk: ClaimDesk) -> None:
    """One of two slaves stands half a second away; the master waits for one, two or three copies."""
    far = ZonePlan.of("2+1", delay_s=SLOW_S, clients="a")
    five = "replicationFlavor=5.x"
    for copies, way, settings in (
        (1, ASYNC, ()),
        (2, SYNC, (five, "inSyncReplicas=2")),
        (3, SYNC, (five, "inSyncReplicas=3")),
    ):
        plan = pair(way, *settings, nodes=3, zones=far, rate=50.0, duration_s=5.0)
        shown = desk.run(f"{copies} of 3 copies, one slave half a second away", plan)
        desk.measure(
            f"p50_waiting_for_{copies}_ms", round(float(np.median(_latencies_of_queues(shown))), 1), "ms", shown
        )
    plan = pair(SYNC, zones=ZonePlan.of("2", delay_s=SLOW_S, clients="a"), rate=50.0, duration_s=5.0)
    shown = desk.run("sync pair, slave half a second away", plan)
    slow = _latencies_of_queues(shown)
    desk.measure("queues_delayed", len(slow), "", shown)
    desk.measure("least_delayed_queue_ms", round(min(slow), 1), "ms", shown)
    desk.measure("logs_of_a_broker", _count_logs(shown), "", shown)


def _latencies_of_queues(shown: DoneRun) -> list[float]:
    """Returns the median latency of each queue, in ms."""
    names = ("object", "f", "type", "t_inv", "t_ret")
    obj, f, outcome, t_inv, t_ret = HistoryReader.open(shown.directory / "history.parquet").columns(names)
    sent = (f == Action.APPEND) & (outcome == Outcome.OK)
    return [float(np.median((t_ret - t_inv)[sent & (obj == each)])) / 1e6 for each in np.unique(obj[sent])]


def _count_logs(shown: DoneRun) -> int:
    """Returns the most logs that a broker keeps for all its queues."""
    places = [shown.directory / "nodes" / str(node) / "data" / "commitlog" / "logs" for node in (1, 2)]
    return max(sum(each.is_dir() for each in place.iterdir()) for place in places)


def positions_plan() -> RunPlan:
    """The plan of a pair with consumers whose master is lost while its slave is near: a consumer reads what no slave has yet."""
    return pair(SYNC, faults=PROMOTED, workload="group", rate=100.0)


def move_offsets(desk: ClaimDesk) -> None:
    """The master is lost with its disk; the slave that an operator lets lead has its own copy of the groups' positions."""
    plan = positions_plan()
    shown = desk.run("sync pair, master lost, consumers", plan)
    desk.measure("given_again", shown.results.given.again if shown.results.given else 0, "messages", shown)
    desk.measure("lost", shown.lost, "records", shown)


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-consumers-move",
        story="The master of a pair is down for 8 s, while its consumers have not consumed all.",
        seconds=45,
        expects=(
            expect("C81", "concurrent_left_at_the_kill", at_least(1)),
            expect("C81", "concurrent_given_while_down", at_least(1)),
            expect(
                "C81",
                "ordered_share_given_while_down",
                at_most(FETCHED_SHARE),
                Part.EXCEPTION,
                condition="consumers are concurrent, and slaves may be read",
            ),
            expect("C80", "concurrent_lost", exactly(0)),
        ),
        conduct=follow_consumers,
    ),
    Experiment(
        name="rocketmq-order-or-availability",
        story="One of two masters is down for 8 s; keys stay with their queues, or go to others.",
        seconds=55,
        expects=(
            expect("C85", "pinned_keys_waiting", at_least(1)),
            expect("C85", "pinned_inversions", exactly(0)),
            expect("C85", "rehashed_keys_waiting", exactly(0)),
            expect("C85", "rehashed_inversions", at_least(1)),
            expect("C82", "pinned_inversions", exactly(0)),
        ),
        conduct=choose_order,
    ),
    Experiment(
        name="rocketmq-slow-copies",
        story="A slave stands half a second away, and the master waits for one, two or three copies.",
        seconds=50,
        expects=(
            expect("C70", "p50_waiting_for_1_ms", at_most(100)),
            expect("C70", "p50_waiting_for_3_ms", at_least(450)),
            expect(
                "C70",
                "p50_waiting_for_2_ms",
                at_most(200),
                Part.EXCEPTION,
                condition="the copies that are waited for are the slow ones; the fastest count",
            ),
            expect("C77", "queues_delayed", at_least(2)),
            expect("C77", "least_delayed_queue_ms", at_least(450)),
            expect("C77", "logs_of_a_broker", exactly(1)),
        ),
        conduct=slow_copies,
    ),
    Experiment(
        name="rocketmq-readers",
        story="Consumers of a pair whose slave is half a second away, and of a raft group whose members are far from each other.",
        seconds=45,
        expects=(
            expect("C71", "async_share_given", at_least(0.95)),
            expect("C71", "sync_share_given", at_least(0.95)),
            expect("C71", "group_share_given", at_least(0.95)),
            expect("C71", "async_end_to_end_s", part=Part.PRICE),
            expect("C71", "sync_end_to_end_s", part=Part.PRICE),
            expect(
                "C71",
                "group_end_to_end_s",
                at_least(2 * GROUP_APART_S),
                Part.EXCEPTION,
                condition="the rate is meant; a reader of a group waits until a record is committed",
            ),
        ),
        conduct=slow_slaves,
    ),
    Experiment(
        name="rocketmq-positions",
        story="The master of a pair with consumers is lost with its disk, and an operator lets the slave lead.",
        seconds=18,
        expects=(expect("Q002", "lost", exactly(0)), expect("Q002", "given_again", part=Part.PRICE)),
        conduct=move_offsets,
    ),
)
