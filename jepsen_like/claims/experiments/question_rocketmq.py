"""The question of article 002: how available and how reliable is each plane of RocketMQ, by mode, from runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, DoneRun, Experiment
from jepsen_like.claims.experiments.raft_quorum import plan_kill
from jepsen_like.claims.experiments.rocketmq_consumers import concurrent_plan, positions_plan
from jepsen_like.claims.experiments.rocketmq_groups import DEAD_PAIR, ONE_THEN_TWO, PAUSED, plan_powerless
from jepsen_like.claims.experiments.rocketmq_names import NAMES_KILLED
from jepsen_like.claims.experiments.rocketmq_pairs import ASYNC, HOLD_S, KILLED, LOST, RAFT, SYNC, pair
from jepsen_like.claims.experiments.rocketmq_pairs import POWERLESS as PAIR_POWERLESS
from jepsen_like.claims.judgement import NEVER, at_least, at_most, exactly, expect
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.exercise import RunPlan

HEAD: Final = ("plane", "mode", "what is done", "availability: RTO", "reliability: RPO")
NOTE: Final = (
    "RTO: from the begin of the fault to the answer of the first message sent after it. RPO: acknowledged messages that no final log holds. "
    "Each figure leads to the report of its run. Our own client reads routes every second, RocketMQ's every 30 s: add up to 30 s where routes "
    "change. The controller mode of 5.x is not part of this project; a raft group of three, as a controller is one, stands for its control plane."
)
NAMES_DONE: Final = "name servers killed one by one, then all"
GROUP: Final = "raft group of three (DLedger)"
GROUP_DONE: Final = "raft group, one killed, then two"
AT_ONCE_S: Final = 0.5


def tell_rto(run: DoneRun, number: int = 1) -> str:
    """The recovery from a fault in words, next to how long it held."""
    rto_s, held_s = run.rto_s(number), float(run.fault(number)["hold_s"])
    if rto_s == NEVER:
        return "not back within the run"
    if rto_s < AT_ONCE_S:
        return f"{rto_s:.2f} s: it goes on"
    how = "back with the repair" if rto_s >= held_s - AT_ONCE_S else "back by itself"
    return f"{rto_s:.2f} s: {how} (the fault held {held_s:.1f} s)"


def tell_rpo(run: DoneRun) -> str:
    """The loss of a run in words."""
    if not run.lost:
        return f"0 of {run.acked:,} messages"
    return (
        f"{run.lost:,} of {run.acked:,} messages, acknowledged up to {run.results.rpo.s or 0.0:.2f} s before the fault"
    )


def tell_given_again(run: DoneRun) -> str:
    """The loss of a run with consumers, and what they were given again."""
    again = run.results.given.again if run.results.given else 0
    return f"{tell_rpo(run)}; {again:,} given to consumers again"


def tell_from_slave(run: DoneRun, number: int = 1) -> str:
    """Returns how many messages consumers were given while their master was away."""
    late = sum(int(row["given_late"]) for row in run.results.under_faults or ())
    return f"{late:,} messages given by the slave in the second half of the outage; sends: {tell_rto(run, number)}"


@attrs.frozen(kw_only=True)
class PlaneRow:
    """A row of the table, and its run. `figures` is how its figures are named; empty: it has none of its own."""

    plane: str
    mode: str
    done: str
    name: str
    plan: RunPlan
    number: int = 1
    """The fault that the row is about."""
    figures: str = ""
    rto: Callable[[DoneRun, int], str] = tell_rto
    rpo: Callable[[DoneRun], str] = tell_rpo


def _rows() -> tuple[PlaneRow, ...]:
    quorum = plan_kill(3, Target.LEADER)
    two_pairs = pair(ASYNC, "pairs=2", faults=DEAD_PAIR, nodes=4, duration_s=6.5)
    group = pair(RAFT, faults=ONE_THEN_TWO, nodes=3, duration_s=11.0)
    paused = pair(RAFT, faults=PAUSED, nodes=3, duration_s=15.0)
    names, positions = "control: name servers", "control: topics and positions of groups"
    peers, files = "three, each by itself", "files of each broker, copied by its slave"
    return (
        PlaneRow(
            plane=names,
            mode=peers,
            done="one of three is killed",
            name=NAMES_DONE,
            plan=NAMES_KILLED,
            figures="one_name_server",
        ),
        PlaneRow(
            plane=names,
            mode=peers,
            done="all are killed",
            name=NAMES_DONE,
            plan=NAMES_KILLED,
            number=4,
            figures="all_name_servers",
        ),
        PlaneRow(
            plane=positions,
            mode=files,
            done="the master is lost with its disk, a slave is promoted",
            name="sync pair, master lost, consumers",
            plan=positions_plan(),
            rpo=tell_given_again,
            figures="positions",
        ),
        PlaneRow(
            plane="control: controller (5.x)",
            mode="a raft quorum",
            done="its leader is killed",
            name="raft of 3, the leader killed",
            plan=quorum,
            figures="quorum",
        ),
        *_rows_of_pairs(),
        PlaneRow(
            plane="data: consumers",
            mode="asynchronous pair",
            done="the master is killed",
            name="concurrent consumers, master killed",
            plan=concurrent_plan(),
            rto=tell_from_slave,
        ),
        PlaneRow(
            plane="data",
            mode="two asynchronous pairs",
            done="one master is killed",
            name="two pairs, one master killed",
            plan=two_pairs,
            figures="two_pairs",
        ),
        PlaneRow(
            plane="data",
            mode=GROUP,
            done="the master is killed",
            name=GROUP_DONE,
            plan=group,
            figures="group_without_one",
        ),
        PlaneRow(
            plane="data",
            mode=GROUP,
            done="two of three are killed",
            name=GROUP_DONE,
            plan=group,
            number=2,
            figures="group_without_two",
        ),
        PlaneRow(
            plane="data",
            mode=GROUP,
            done="the master stands still",
            name="raft group, master paused",
            plan=paused,
            figures="group_paused",
        ),
        *(
            PlaneRow(
                plane="data",
                mode=f"{GROUP}, ack={ack}",
                done="all lose their power",
                name=f"raft group, ack={ack}, without power",
                plan=plan_powerless(ack),
                figures=f"group_{ack.replace('-', '_')}_powerless",
            )
            for ack in ("durable", "page-cache")
        ),
    )


def _rows_of_pairs() -> tuple[PlaneRow, ...]:
    faults = (
        ("killed", "the master is killed", "master killed", KILLED, 1),
        ("powerless", "both lose their power", "both without power", PAIR_POWERLESS, 1),
        ("lost", "the master is lost behind a cut, a slave is promoted", "master lost", LOST, 2),
    )
    return tuple(
        PlaneRow(
            plane="data",
            mode=mode,
            done=done,
            name=f"{way.value} pair, {words}",
            plan=pair(way, faults=hit),
            number=number,
            figures=f"{name}_pair_{figure}",
        )
        for mode, name, way in (("asynchronous pair", "async", ASYNC), ("synchronous pair", "sync", SYNC))
        for figure, done, words, hit, number in faults
    )


def fill_table(desk: ClaimDesk) -> None:
    """One row for each plane, mode and fault; a row whose run gave nothing to measure states the reason. Raises `DidNotRun` for it at the end."""
    rows: list[list[Any]] = []
    failed: list[DidNotRun] = []
    for row in _rows():
        begin = [row.plane, row.mode, row.done]
        try:
            run = desk.run(row.name, row.plan)
            cells = [(row.rto(run, row.number), run), (row.rpo(run), run)]
        except DidNotRun as error:
            failed.append(error)
            rows.append([*begin, str(error), ""])
            continue
        rows.append([*begin, *cells])
        if row.figures:
            desk.measure(f"{row.figures}_rto_s", run.rto_s(row.number), "s", run)
            desk.measure(f"{row.figures}_lost", run.lost, "messages", run)
    for sentence in tell_answers({name: figure.words for name, figure in desk.figures.items()}):
        desk.answer(sentence)
    desk.table("RTO and RPO by plane and by mode", HEAD, rows, NOTE)
    if failed:
        raise failed[0]


def tell_answers(told: Mapping[str, str]) -> list[str]:
    """The answers in sentences, from figures in words; one whose figures are missing is left out."""
    sentences = (
        "Name servers may all be gone (RTO {all_name_servers_rto_s}): clients that run keep their routes, and brokers register again.",
        "A pair takes messages again when its master is back (RTO {async_pair_killed_rto_s}); a second pair takes them meanwhile (RTO {two_pairs_rto_s}).",
        "A pair loses nothing by a kill. Without power it loses what was not flushed ({async_pair_powerless_lost}); with the master's disk an "
        "asynchronous one loses what was not copied ({async_pair_lost_lost}), a synchronous one {sync_pair_lost_lost}.",
        "A raft group is back after an election (RTO {group_without_one_rto_s}), waits while two of three are dead, and loses {group_without_one_lost}.",
    )
    return [sentence.format_map(told) for sentence in sentences if _is_known(sentence, told)]


def _is_known(sentence: str, told: Mapping[str, str]) -> bool:
    try:
        sentence.format_map(told)
    except KeyError:
        return False
    return True


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-planes",
        story="Each part of RocketMQ is killed, paused, or cut off from its disk or its power, in each way to replicate.",
        seconds=120,
        question="How available and how reliable is each plane of RocketMQ?",
        expects=(
            expect("Q002", "one_name_server_rto_s", at_most(1.0)),
            expect("Q002", "all_name_servers_rto_s", at_most(1.0)),
            expect("Q002", "positions_lost", exactly(0)),
            expect("Q002", "quorum_rto_s", at_most(HOLD_S)),
            *(expect("Q002", f"{way}_pair_killed_rto_s", at_least(HOLD_S)) for way in ("async", "sync")),
            *(expect("Q002", f"{way}_pair_killed_lost", exactly(0)) for way in ("async", "sync")),
            *(expect("Q002", f"{way}_pair_powerless_lost", at_least(1)) for way in ("async", "sync")),
            expect("Q002", "async_pair_lost_lost", at_least(1)),
            expect("Q002", "sync_pair_lost_lost", exactly(0)),
            expect("Q002", "two_pairs_rto_s", at_most(1.0)),
            expect("Q002", "group_without_one_rto_s", at_most(HOLD_S)),
            expect("Q002", "group_without_two_rto_s", at_least(HOLD_S)),
            expect("Q002", "group_without_two_lost", exactly(0)),
            expect("Q002", "group_durable_powerless_lost", exactly(0)),
            expect("Q002", "group_page_cache_powerless_lost", at_least(1)),
        ),
        conduct=fill_table,
    ),
)
