"""The question of article 002: how available and how reliable is each plane of RocketMQ, by mode, from runs."""

from typing import Final

from jepsen_like.claims.experiment import ClaimDesk, DoneRun, Experiment
from jepsen_like.claims.experiments.raft_quorum import plan_kill
from jepsen_like.claims.experiments.rocketmq_consumers import MASTER_DOWN, positions_plan
from jepsen_like.claims.experiments.rocketmq_groups import ONE_THEN_TWO, PAUSED, POWERLESS
from jepsen_like.claims.experiments.rocketmq_names import ONE_BY_ONE, THREE_ZONES
from jepsen_like.claims.experiments.rocketmq_pairs import ASYNC, HOLD_S, KILLED, LOST, RAFT, SYNC, pair
from jepsen_like.claims.experiments.rocketmq_pairs import POWERLESS as PAIR_POWERLESS
from jepsen_like.claims.judgement import NEVER, at_least, at_most, exactly, expect
from jepsen_like.nemesis.targets import Target
from jepsen_like.run.exercise import RunPlan

Cell = tuple[str, DoneRun] | str
HEAD: Final = ("plane", "mode", "what is done", "availability: RTO", "reliability: RPO")


def tell_rto(run: DoneRun, number: int = 1) -> tuple[str, DoneRun]:
    """The recovery from a fault in words, next to how long it held."""
    rto_s, held_s = run.rto_s(number), float(run.fault(number)["hold_s"])
    if rto_s == NEVER:
        return "not back within the run", run
    waited = "back with the repair" if rto_s >= held_s - 0.5 else "goes on" if rto_s < 0.5 else "back by itself"
    return f"{rto_s:.2f} s: {waited} (the fault held {held_s:.1f} s)", run


def tell_rpo(run: DoneRun) -> tuple[str, DoneRun]:
    """The loss of a run in words."""
    if not run.lost:
        return f"0 of {run.acked:,} records", run
    return f"{run.lost:,} of {run.acked:,} records, back to {run.results.rpo.s or 0.0:.2f} s before the fault", run


def fill_table(desk: ClaimDesk) -> None:
    """One row for each plane, mode and fault."""
    rows: list[list[Cell]] = []

    def add(plane: str, mode: str, done: str, name: str, plan: RunPlan, number: int = 1) -> DoneRun:
        run = desk.run(name, plan)
        rows.append([plane, mode, done, tell_rto(run, number), tell_rpo(run)])
        return run

    names = pair(ASYNC, faults=ONE_BY_ONE, nodes=3, zones=THREE_ZONES, duration_s=13.0)
    one = add(
        "control: name servers",
        "three, each by itself",
        "one of three is killed",
        "name servers killed one by one, then all",
        names,
        1,
    )
    add(
        "control: name servers",
        "three, each by itself",
        "all are killed",
        "name servers killed one by one, then all",
        names,
        4,
    )
    offsets = desk.run("sync pair, master lost, consumers", positions_plan())
    again = offsets.results.given.again if offsets.results.given else 0
    rows.append(
        [
            "control: topics and positions of groups",
            "files of each broker, copied by its slave",
            "the master is lost with its disk, a slave is promoted",
            tell_rto(offsets),
            (f"{offsets.lost:,} lost; {again:,} messages given again", offsets),
        ]
    )
    rows.append(["control: controller (5.x)", "a raft quorum", "its leader is killed", *_of_quorum(desk)])
    for name, way in (("asynchronous pair", ASYNC), ("synchronous pair", SYNC)):
        short = way.value
        pairs = (
            ("the master is killed", f"{short} pair, master killed", KILLED, 1),
            ("both lose their power", f"{short} pair, both without power", PAIR_POWERLESS, 1),
            ("the master is lost behind a cut, a slave is promoted", f"{short} pair, master lost", LOST, 2),
        )
        for done, words, faults, number in pairs:
            run = add("data", name, done, words, pair(way, faults=faults), number)
            desk.measure(f"{short}_{faults[-1].kind}_rto_s".replace("-", "_"), run.rto_s(number), "s", run)
            desk.measure(f"{short}_{faults[-1].kind}_lost".replace("-", "_"), run.lost, "records", run)
    moved = desk.run(
        "concurrent consumers, master killed",
        pair(ASYNC, "consume_ms=60", faults=MASTER_DOWN, workload="group", rate=300.0, duration_s=15.0),
    )
    late = sum(int(row["given_late"]) for row in moved.results.under_faults or ())
    rows.append(
        [
            "data, consumers",
            "asynchronous pair",
            "the master is killed",
            (f"{late:,} messages given from the slave meanwhile", moved),
            tell_rpo(moved),
        ]
    )
    group = pair(RAFT, faults=ONE_THEN_TWO, nodes=3, duration_s=11.0)
    words = "raft group, one killed, then two"
    first = add("data", "raft group of three (DLedger)", "the master is killed", words, group, 1)
    second = add("data", "raft group of three (DLedger)", "two of three are killed", words, group, 2)
    add(
        "data",
        "raft group of three (DLedger)",
        "the master stands still",
        "raft group, master paused",
        pair(RAFT, faults=PAUSED, nodes=3, duration_s=15.0),
    )
    for ack in ("durable", "page-cache"):
        plan = pair(RAFT, f"ack={ack}", faults=POWERLESS, nodes=3)
        add(
            "data",
            f"raft group of three, ack={ack}",
            "all lose their power",
            f"raft group, ack={ack}, without power",
            plan,
        )
    desk.measure("rto_of_sends_without_a_name_server_s", one.rto_s(1), "s", one)
    desk.measure("rto_of_sends_without_any_name_server_s", one.rto_s(4), "s", one)
    desk.measure("group_rto_without_one_s", first.rto_s(1), "s", first)
    desk.measure("group_served_without_two", second.serves_during(2), "", second)
    desk.measure("group_lost", first.lost, "records", first)
    desk.answer(
        "Name servers may all be gone: clients that run keep their routes, and nothing is lost, because brokers register again."
    )
    desk.answer(
        "A single pair takes messages again when its master is back. It loses what was not flushed or not copied; a synchronous one has it on two brokers."
    )
    desk.answer("A raft group is back after an election while a majority lives, and loses nothing that a majority had.")
    desk.table("RTO and RPO by plane and by mode", HEAD, rows, NOTE)


NOTE: Final = (
    "RTO: from the begin of the fault to the answer of the first message sent after it. RPO: acknowledged messages that no final log holds. "
    "Each figure leads to the report of its run. Our own client reads routes every second, RocketMQ's every 30 s: add up to 30 s where routes "
    "change. The controller mode of 5.x is not part of this project; a raft group of three, as a controller is one, stands for its control plane."
)


def _of_quorum(desk: ClaimDesk) -> tuple[Cell, Cell]:
    run = desk.run("raft of 3, the leader killed", plan_kill(3, Target.LEADER))
    return tell_rto(run), tell_rpo(run)


EXPERIMENTS: Final = (
    Experiment(
        name="rocketmq-planes",
        story="Each part of RocketMQ is killed, paused, cut off from its disk or from its power, in each way to replicate.",
        seconds=120,
        question="How available and how reliable is each plane of RocketMQ?",
        expects=(
            expect("Q002", "rto_of_sends_without_a_name_server_s", at_most(1.0)),
            expect("Q002", "rto_of_sends_without_any_name_server_s", at_most(1.0)),
            *(expect("Q002", f"{way}_kill_rto_s", at_least(HOLD_S)) for way in ("async_slave", "sync_slave")),
            *(expect("Q002", f"{way}_kill_lost", exactly(0)) for way in ("async_slave", "sync_slave")),
            expect("Q002", "async_slave_promote_by_hand_lost", at_least(1)),
            expect("Q002", "sync_slave_promote_by_hand_lost", exactly(0)),
            expect("Q002", "group_rto_without_one_s", at_most(HOLD_S)),
            expect("Q002", "group_served_without_two", exactly(0)),
            expect("Q002", "group_lost", exactly(0)),
        ),
        conduct=fill_table,
    ),
)
