"""A recording on a stage finds what a fault cost: told by the checker, from the history and the final logs alone."""

import math
from pathlib import Path

import pytest
import trio

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.verdict import Engine
from jepsen_like.claims.experiment import ClaimDesk
from jepsen_like.claims.recordings import KeptRecording, Recording, gaps_by_partition, judge, open_scene
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.systems.kafka.stage.acts import Act, between
from jepsen_like.systems.kafka.stage.probe import Delivery, ProbeLog
from jepsen_like.systems.kafka.stage.stage import PlacedTopic

RATE = 50.0
PLACED = (1, 2, 3)
ANSWERED_NS = 10**8
"""After a cut, the fetches that wait at a leader are answered within this time; the answers arrive when the cut ends."""


async def record_all(desk: ClaimDesk) -> tuple[dict[str, Recording], Act, Act]:
    async with open_scene(desk, "losses", brokers=3) as scene:
        stage = scene.stage
        controller = await stage.controller()
        leader, *others = sorted(stage.brokers, key=lambda node: node == controller)
        names = ("0", "1", "all", "again", "once-each")
        configs = {"min.insync.replicas": "2"}
        await stage.create(*(PlacedTopic(name=name, placed=[(leader, *others)], configs=configs) for name in names))
        recordings = {name: scene.record(name, name, f"acks={name}") for name in names[:3]}
        recordings |= {name: scene.record(name, name, "acks=all") for name in names[3:]}
        for name in names[:3]:
            scene.load(recordings[name], acks=name, rate=RATE)
        scene.load(recordings["again"], rate=RATE, delivery=Delivery.AGAIN, answers_lost=5)
        scene.load(recordings["once-each"], rate=RATE, delivery=Delivery.IDEMPOTENT, answers_lost=5)
        await trio.sleep(0.5)
        cut = stage.cut(between([leader], others))
        await trio.sleep(0.5)
        killed = await stage.kill(leader)
        await stage.end(cut)
        for name in names:
            await stage.until_led(name, others)
        await trio.sleep(0.3)
        await scene.keep(*recordings.values())
        return recordings, cut, killed


@pytest.mark.cluster
def test_what_a_dead_leader_alone_had_is_found_missing(tmp_path: Path) -> None:
    desk = ClaimDesk(tmp_path, Engine.LOCAL, LocalEngine())
    recordings, cut, killed = trio.run(record_all, desk)
    kept: dict[str, KeptRecording] = {name: judge(desk, recording) for name, recording in recordings.items()}
    alone = (cut.injected_ns + ANSWERED_NS, killed.begun_ns)
    assert kept["1"].lost >= kept["1"].acked_between(*alone) > 0
    assert kept["0"].unseen > 0
    assert kept["all"].lost == kept["all"].acked_between(*alone) == 0
    assert kept["all"].gap_s(cut.begun_ns, killed.ended_ns) >= 0.5
    assert kept["again"].missing == kept["once-each"].missing == 0
    assert kept["again"].again > 0
    assert kept["once-each"].again == 0
    for each in kept.values():
        assert {"history.parquet", "dump.parquet", "test.json", "results.json", "report.html"} <= {
            path.name for path in each.directory.iterdir()
        }
    for name in ("0", "1", "all", "once-each"):  # every loss is one that its acks allow
        assert kept[name].results.valid is not False, kept[name].results.violations


# -------------------------------------------------------------------- figures of a history that was written by hand

SECOND = 10**9
START = 5 * SECOND


def write(history: HistoryWriter, value: int, outcome: Outcome, **fields: int) -> None:
    """One request: it begins `at_ms` after the start, takes `took_ms`, and lands at `offset`."""
    t_inv = START + fields["at_ms"] * 10**6
    ended = t_inv + fields.get("took_ms", 1) * 10**6
    history.record(
        Op(
            f=Action.APPEND,
            type=outcome,
            t_inv=t_inv,
            t_ret=NEVER if outcome is Outcome.INFO else ended,
            object=fields.get("partition", 0),
            process=value,
            err=ErrorCode(fields.get("error", 0)),
            a=value,
            offset=fields.get("offset", NONE),
            node=fields.get("node", 1),
        )
    )


@pytest.fixture
def hand_written(tmp_path: Path) -> KeptRecording:
    """Two acknowledged records of which one is lost, two that no answer was asked for, one unknown, one refused."""
    desk = ClaimDesk(tmp_path, Engine.LOCAL, LocalEngine())
    directory = desk.new_directory("by hand")
    with HistoryWriter(directory / "history.parquet") as history:
        write(history, 1, Outcome.OK, at_ms=0, took_ms=2, offset=0)
        write(history, 2, Outcome.OK, at_ms=100, took_ms=4, offset=1)
        write(history, 3, Outcome.INFO, at_ms=150)
        write(history, 4, Outcome.INFO, at_ms=160)
        write(history, 5, Outcome.INFO, at_ms=170, error=ErrorCode.CONNECTION_LOST)
        write(history, 6, Outcome.FAIL, at_ms=180, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        write(history, 7, Outcome.OK, at_ms=600, took_ms=8, offset=2)
    with DumpWriter(directory / "dump.parquet") as dump:
        for node in PLACED:
            dump.begin(node, 0)
            dump.record(node, 0, 1, [1, 3, 7])
    recording = Recording(
        name="by hand",
        topic="log",
        partitions=1,
        settings=("acks=1",),
        directory=directory,
        writer=history,
        log=ProbeLog(history),
        ended_ns=START + SECOND,
    )
    return judge(desk, recording)


def test_what_the_final_logs_lack_is_counted_by_what_its_client_was_told(hand_written: KeptRecording) -> None:
    assert (hand_written.acked, hand_written.lost) == (3, 1)  # 2 was acknowledged
    assert hand_written.unseen == 1  # 4: nothing was asked; 3 is there
    assert hand_written.missing == 4  # 2, 4, 5 and 6


def test_times_are_those_of_acknowledgements(hand_written: KeptRecording) -> None:
    assert hand_written.rto_s(START + SECOND // 2) == pytest.approx(0.108)
    assert hand_written.rto_s(START + SECOND) == math.inf
    assert hand_written.rto_s(START + 10**6) == pytest.approx(0.103)  # the first answer is to an older request
    assert hand_written.gap_s(START, START + SECOND) == pytest.approx(0.504)
    assert hand_written.p50_ms(START, START + SECOND) == 4
    assert hand_written.p50_ms(START + 2 * SECOND, START + 3 * SECOND) == math.inf


def test_a_request_counts_in_the_time_in_which_it_began_and_ended(hand_written: KeptRecording) -> None:
    assert hand_written.acked_between(START + 50 * 10**6, START + SECOND) == 2
    assert hand_written.acked_between(START + 50 * 10**6, START + 102 * 10**6) == 0  # it ended later
    assert hand_written.refused_between(START, START + SECOND) == 1
    assert hand_written.rate_s(START, START + SECOND) == 3


def test_partitions_pause_apart(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet") as history:
        for at_ms in (0, 100, 200, 900):
            write(history, at_ms + 1, Outcome.OK, at_ms=at_ms, offset=at_ms)
        for at_ms in range(0, 1000, 100):
            write(history, at_ms + 2, Outcome.OK, at_ms=at_ms, offset=at_ms, partition=1)
        write(history, 5000, Outcome.OK, at_ms=0, offset=0, partition=2)
    gaps = gaps_by_partition(tmp_path, START, START + SECOND)
    assert gaps == {0: pytest.approx(0.7), 1: pytest.approx(0.1, abs=0.01), 2: pytest.approx(1.0, abs=0.01)}
