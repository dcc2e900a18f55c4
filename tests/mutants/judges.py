"""Judges of bugs: each plays, checks or runs with the bug in place until an oracle speaks.

A judge gives the oracle's name and sentence, or None, and how much it took: seeds, verdicts, or runs of real processes. A
crash is no oracle: a dead node or an endless loop is noticed by anybody.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tests.mutants.mutant import ROOT, Mutant

if TYPE_CHECKING:
    from jepsen_like.port.port import ProcessPlan
    from jepsen_like.simulation.kernel.model import SystemModel

OPERATIONS = 50_000
"""So many operations hide one planted violation."""
SMALL_HISTORIES = 2_000
WORLD_SEEDS_MAX = 60
MODEL_SEEDS_MAX = 600
GROUP_SEEDS_MAX = 300
RUNS_MAX = 3
RUN_ARGUMENTS = (
    "--quick",
    "--duration",
    "9",
    "--nodes",
    "3",
    "--concurrency",
    "20",
    "--nemesis",
    "kill,pause,partition",
)
SMALL_SEGMENTS = ("--set", "segment_bytes_max=65536")
CLAIM_TESTS: Mapping[str, Sequence[str]] = {
    "raft": ("test_peers", "shell/test_claims"),
    "kafka_compat": (
        "partition/test_claims",
        "controller/test_eligible",
        "controller/test_alter_partition",
        "broker/test_controller_link",
        "broker/test_controller_node",
        "broker/test_fetcher",
        "broker/test_fetch_sessions",
    ),
    "rocketmq_compat": ("replication/test_claims", "raft_state/test_broken_leaders"),
}
NOT_ORACLES = frozenset({"crash", "V-storm"})


@attrs.frozen
class Judgement:
    """The finding of a judge. `tried` counts its seeds, verdicts or runs; `seed` plays the same again."""

    killed_by: str | None
    tried: int
    sentence: str = ""
    seed: int | None = None
    crashed: Mapping[str, int] = {}


Judge = Callable[[Mutant, range], Judgement]


def simulate(mutant: Mutant, seeds: range) -> Judgement:
    """Simulated clusters, past crashes, until an oracle speaks; where none does, the conversations with the core."""
    from jepsen_like.simulation.raft.model import RAFT  # after the bug is in place

    crashed: Counter[str] = Counter()
    seeds = seeds[: 0 if list(mutant.oracles) == ["script"] else None]
    for seed in seeds:
        try:
            result = RAFT.play(seed, stop_at_first=False)
        except Exception as error:  # noqa: BLE001 - a bug may break the simulator itself, which proves nothing
            crashed[type(error).__name__] += 1
            continue
        seen = [violation for violation in result.violations if violation.oracle not in NOT_ORACLES]
        counted = [found for found in seen if found.oracle != "V-liveness" or "V-liveness" in mutant.oracles]
        crashed["node"] += any(violation.oracle == "crash" for violation in result.violations)
        if counted:
            return Judgement(counted[0].oracle, seed - seeds[0] + 1, str(counted[0]), seed, crashed)
    scripts = (f"tests/raft/{each}.py" for each in ("test_conversations", "test_rules", "test_trimmed_groups"))
    return attrs.evolve(_failing("script", *scripts), tried=max(len(seeds), 1), crashed=crashed)


def simulate_kafka(mutant: Mutant, seeds: range) -> Judgement:
    """Simulated Kafka clusters until an audit speaks; where none does, the scripts of deciders and stores."""
    from jepsen_like.simulation.kafka.model import KAFKA  # after the bug is in place

    scripts = (
        "partition/test_conversations",
        "partition/test_rules",
        "partition/test_eligible",
        "controller/test_alter_partition",
        "controller/test_elections",
        "controller/test_eligible",
        "controller/test_brokers",
        "controller/test_liveness",
        "broker/test_moved_replicas",
        "partition/test_replica",
        "coordinator/test_conversations",
        "coordinator/test_consumer_requests",
        "transactions/test_conversations",
        "transactions/test_machine",
        "storage/test_broker_store",
        "broker/test_log_reports",
    )
    return _simulate_or_converse(mutant, KAFKA, seeds, *(f"tests/kafka_compat/{each}.py" for each in scripts))


def simulate_rocketmq(mutant: Mutant, seeds: range) -> Judgement:
    """Simulated broker groups of RocketMQ until an audit speaks; where none does, the conversations with the copies."""
    from jepsen_like.simulation.rocketmq.model import ROCKETMQ  # after the bug is in place

    scripts = ("test_conversations", "test_rules", "test_roles")
    tests = (f"tests/rocketmq_compat/replication/{each}.py" for each in scripts)
    start = "tests/rocketmq_compat/broker/test_recovered_copy.py"
    return _simulate_or_converse(mutant, ROCKETMQ, seeds, *tests, start)


def simulate_rocketmq_groups(mutant: Mutant, seeds: range) -> Judgement:
    """Simulated raft groups of RocketMQ's brokers; where no audit speaks, three copies in any order of leaders, kills and snapshots."""
    from jepsen_like.simulation.rocketmq.model import rocketmq_world  # after the bug is in place
    from jepsen_like.simulation.rocketmq.swarm import draw_raft_group

    crashed: Counter[str] = Counter()
    for tried, seed in enumerate(seeds[:GROUP_SEEDS_MAX], 1):
        result = rocketmq_world(draw_raft_group(seed), stop_at_first=False).run()
        crashed["node"] += any(found.oracle == "crash" for found in result.violations)
        counted = [
            found
            for found in result.violations
            if found.oracle not in NOT_ORACLES and (found.oracle != "V-liveness" or "V-liveness" in mutant.oracles)
        ]
        if counted:
            return Judgement(counted[0].oracle, tried, f"raft group {seed}: {counted[0]}", crashed=crashed)
    tests = ("test_conversations", "test_copying_under_load", "test_copies_machine")
    return _failing("copies", *(f"tests/rocketmq_compat/raft_state/{each}.py" for each in tests))


def consume_from_rocketmq(mutant: Mutant, seeds: range) -> Judgement:
    """The rules of consuming, locks among them."""
    tests = ("test_locks", "test_delays", "test_conversations", "test_registry_machine")
    return _failing("consumers", *(f"tests/rocketmq_compat/consumers/{each}.py" for each in tests))


def store_for_rocketmq(mutant: Mutant, seeds: range) -> Judgement:
    """A store of messages in any order of appends, cuts and crashes, and its queues."""
    tests = ("test_message_store_machine", "test_consume_queue")
    return _failing("store", *(f"tests/rocketmq_compat/storage/{each}.py" for each in tests))


def _simulate_or_converse(mutant: Mutant, model: "SystemModel[Any]", seeds: range, *tests: str) -> Judgement:
    """Worlds of a model until an audit speaks; where none does, or none is expected to, these tests."""
    crashed: Counter[str] = Counter()
    seeds = seeds[: 0 if list(mutant.oracles) == ["script"] else MODEL_SEEDS_MAX]
    for seed in seeds:
        result = model.play(seed, stop_at_first=False)
        seen = [found for found in result.violations if found.oracle not in NOT_ORACLES]
        crashed["node"] += any(found.oracle == "crash" for found in result.violations)
        counted = [found for found in seen if found.oracle != "V-liveness" or "V-liveness" in mutant.oracles]
        if counted:
            return Judgement(counted[0].oracle, seed - seeds[0] + 1, str(counted[0]), seed, crashed)
    return attrs.evolve(_failing("script", *tests), tried=max(len(seeds), 1), crashed=crashed)


def reach_floors(mutant: Mutant, seeds: range) -> Judgement:
    """A block of seeds as a campaign plays it: an idle simulator misses a floor."""
    from jepsen_like.simulation.kernel.campaign import JUDGED_SEEDS_MIN, Block
    from jepsen_like.simulation.raft.model import RAFT

    block = Block(0, RAFT.floors)
    for seed in range(JUDGED_SEEDS_MIN):
        block.add(RAFT.play(seed))
    missed = block.shortfalls()
    if missed:
        return Judgement("floor", block.seeds, "; ".join(map(str, missed)))
    return Judgement(None, block.seeds)


def told_lies(mutant: Mutant, seeds: range) -> Judgement:
    """Every audit, the judge of the end, the black box and the search are told lies by hand, and must name them."""
    tests = ("test_blackbox", "test_end_state", "test_recency", "test_reduction", "test_audits")
    return _failing("lies", *(f"tests/simulation/raft/{test}.py" for test in tests))


def let_go(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of logs from which records leave: of a node, of the checker, and of the clusters of tests."""
    return _failing(
        "retention",
        "tests/raft/shell/test_retention.py",
        "tests/jepsen_like/checker/log/test_retention.py",
        "tests/jepsen_like/checker/log/test_scan.py",
        "tests/jepsen_like/checker/log/test_forgiveness.py",
        "tests/jepsen_like/systems/raft/test_workloads.py",
        "tests/jepsen_like/testing/test_ledger.py",
    )


def operate(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of an operator's steps on a played group, and of brokers that join one, or come back to it."""
    return _failing(
        "operator",
        "tests/jepsen_like/operate/test_operator.py",
        "tests/kafka_compat/broker/test_joined_peers.py",
        "tests/rocketmq_compat/raft_state/test_quiet_queues.py",
        "tests/kafka_compat/broker/test_controller_members.py::"
        "test_a_broker_that_began_with_a_tail_that_is_gone_becomes_the_controller",
    )


def stand_in_zones(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of zones: of who stands where, of the lines between them, of their faults and what proves those."""
    return _failing(
        "zones",
        "tests/jepsen_like/port/test_zones.py",
        "tests/jepsen_like/nemesis/test_zones.py",
        "tests/jepsen_like/cluster/test_switch.py",
        "tests/jepsen_like/cluster/test_fault_proxy.py::test_a_line_delays_both_links_that_a_way_leads_over_and_stays_when_healed",
    )


def break_others(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of systems of others: what is fetched, how brokers are led, and what their owner's commands prove."""
    return _failing(
        "targets",
        "tests/jepsen_like/nemesis/test_hooks.py",
        "tests/jepsen_like/run/test_target.py",
        "tests/jepsen_like/systems/archives",
        "tests/jepsen_like/systems/apache_kafka",
        "tests/jepsen_like/systems/kafka_target",
        "tests/jepsen_like/systems/raft_target",
        "tests/jepsen_like/systems/rocketmq_target",
        "tests/jepsen_like/systems/etcd_target",
        "tests/jepsen_like/record/test_evidence.py::test_a_fault_by_a_command_is_proved_by_the_network",
        *("-m", "not cluster and not campaign"),
    )


def compare_systems(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of two systems side by side that start none of them, and those of the settings of brokers of others."""
    return _failing(
        "beside",
        "tests/jepsen_like/record/test_behaviour.py",
        *(f"tests/jepsen_like/{place}/test_beside.py" for place in ("record", "report", "run")),
        "tests/jepsen_like/systems/apache_kafka/test_settings.py",
        *("-m", "not cluster and not campaign"),
    )


def adapt(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of adapters of programs of others that start none of them."""
    return _failing(
        "foreign",
        "tests/jepsen_like/cluster/test_cluster.py",
        "tests/jepsen_like/cluster/test_fault_proxy.py::test_a_cut_between_two_nodes_cuts_their_further_ports_too",
        *(
            f"tests/jepsen_like/systems/{name}"
            for name in ("foreign", "nats", "etcd", "zookeeper", "rabbitmq", "apache_rocketmq")
        ),
        "tests/jepsen_like/checker/elements/test_losses.py",
        *("-m", "not cluster and not campaign"),
    )


def copy_to_standby(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the mirror: of its decider and map, of its batches, and of two clusters with a link."""
    found = _failing("standby", "tests/jepsen_like/mirror", "-m", "not cluster")
    return found if found.killed_by else _failing("standby", "tests/jepsen_like/mirror", "-m", "cluster", "-x")


def weigh_claims(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of claims: of how figures become verdicts, and of whom the faults of experiments hit."""
    return _failing(
        "worth",
        "tests/jepsen_like/claims/test_judgement.py",
        "tests/jepsen_like/claims/test_catalogue.py",
        "tests/jepsen_like/claims/test_experiments.py",
        "tests/jepsen_like/claims/test_desk.py",
        "tests/jepsen_like/nemesis/test_entrances.py",
    )


def hold_capacity(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of capacity: of its plan, its figures, and the lines that limit brokers."""
    return _failing(
        "capacity",
        "tests/jepsen_like/capacity",
        "tests/jepsen_like/cluster/test_line.py",
        "tests/jepsen_like/systems/kafka/test_promises.py",
        "tests/jepsen_like/systems/kafka/test_paced_sender.py",
    )


def measure_recordings(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of figures that experiments take of their own recordings."""
    return _failing(
        "recordings",
        "tests/jepsen_like/claims/test_kafka_verdicts.py",
        "tests/jepsen_like/claims/test_recordings.py::test_what_the_final_logs_lack_is_counted_by_what_its_client_was_told",
        "tests/jepsen_like/claims/test_recordings.py::test_times_are_those_of_acknowledgements",
        "tests/jepsen_like/claims/test_recordings.py::test_a_request_counts_in_the_time_in_which_it_began_and_ended",
        "tests/jepsen_like/claims/test_recordings.py::test_partitions_pause_apart",
    )


def send_to_two(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of two topics: of the deciders, of the shells around clients, and of the experiment's figures."""
    return _failing(
        "two-topics",
        "tests/raft/two_topics",
        "tests/kafka_compat/test_topic_pair.py",
        "tests/rocketmq_compat/test_topic_pair.py",
        "tests/jepsen_like/two_clusters",
    )


def refuse(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of refusals: of messages that no correct peer sends, and of directories that lost a node's promises."""
    return _failing("refusals", "tests/raft/test_rules.py", "tests/raft/shell/test_lost_files.py")


def admit(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of what strangers get, and members that speak for others: of the handshake, of TLS, and on each wire."""
    return _failing(
        "strangers",
        "tests/raft/test_trust.py",
        "tests/raft/shell/test_admission.py",
        "tests/raft/shell/test_tls.py",
        "tests/jepsen_like/cluster/test_keys.py",
        "tests/kafka_compat/broker/test_strangers.py",
        "tests/rocketmq_compat/broker/test_strangers.py",
    )


def doubt_claims(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of what members may claim on the wires of the system that has the bug."""
    system = mutant.module.partition(".")[0]
    return _failing("claims", *(f"tests/{system}/{each}.py" for each in CLAIM_TESTS[system]))


def answer_clients(mutant: Mutant, seeds: range) -> Judgement:
    """The scripts of the proxy that answers on request."""
    return _failing("answers", "tests/jepsen_like/systems/kafka/answers/test_conversation.py")


def fill_disks(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of full disks: of nodes and groups, and of the brokers upon them."""
    return _failing(
        "full-disks",
        "tests/raft/shell/test_full_disk.py",
        "tests/raft/shell/test_applier.py",
        "tests/kafka_compat/broker/test_failed_disk.py",
        "tests/kafka_compat/broker/test_full_disks.py",
        "tests/rocketmq_compat/broker/test_full_disks.py",
    )


def keep_room(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of what all connections may hold, and of the places and descriptors that members keep."""
    return _failing("room", "tests/raft/shell/test_budget.py")


def authorize(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of who may do what: of access lists and accounts, and of the brokers that obey them."""
    return _failing(
        "access",
        "tests/kafka_compat/sasl/test_oauthbearer.py",
        "tests/kafka_compat/broker/test_sasl.py",
        "tests/kafka_compat/test_acls.py",
        "tests/kafka_compat/broker/test_guards.py",
        "tests/kafka_compat/broker/test_acls.py",
        "tests/rocketmq_compat/test_acls.py",
        "tests/rocketmq_compat/broker/test_accounts.py",
        "tests/rocketmq_compat/test_policies.py",
        "tests/rocketmq_compat/broker/test_policies.py",
    )


def judge_transactions(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the judge of transactions, of what it records, and of what it has found."""
    return _failing(
        "transactions",
        "tests/jepsen_like/checker/transactions/test_check.py",
        "tests/jepsen_like/systems/kafka/test_transactor.py",
        "tests/kafka_compat/broker/test_produce.py",
        "tests/kafka_compat/broker/test_registration.py",
    )


def judge_compacted(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the judge of compacted partitions, one of them with the brokers' compaction."""
    return _failing(
        "compacted",
        "tests/jepsen_like/checker/compaction/test_compacted_log.py",
        "tests/jepsen_like/checker/compaction/test_check.py",
        "tests/jepsen_like/workload/test_keyed.py",
    )


def judge_mirrored(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the judge of two clusters: planted faults, and rehearsals that a model draws."""
    return _failing(
        "mirrored", "tests/jepsen_like/checker/mirror/test_check.py", "tests/jepsen_like/checker/mirror/test_model.py"
    )


def judge_cycles(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the judge of transactions: cases of Elle's, and small histories next to every order of them."""
    place = "tests/jepsen_like/checker/cycles"
    return _failing(
        "cycles", f"{place}/test_elle_lists.py", f"{place}/test_elle_registers.py", f"{place}/test_differential.py"
    )


def judge_clients(mutant: Mutant, seeds: range) -> Judgement:
    """Runs the tests of the judge of what clients of any Kafka saw: cases of Jepsen's, and records a line."""
    place = "tests/jepsen_like/checker/kafka"
    return _failing("kafka-seen", f"{place}/test_jepsen.py", f"{place}/test_records.py")


def _failing(oracle: str, *tests: str) -> Judgement:
    """Runs these tests with the bug in place; `oracle` kills it if any of them fails."""
    import pytest

    failed: list[str] = []

    class _Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and report.when == "call":
                failed.append(report.nodeid.rpartition("::")[2])

    paths = [str(ROOT / path) if path.startswith("tests/") else path for path in tests]
    with open(os.devnull, "w") as silent:
        kept = os.dup(1)
        os.dup2(silent.fileno(), 1)
        try:
            # Plain, since pytest would load what it rewrites past the bug.
            ended = pytest.main(
                ["-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", *paths], plugins=[_Listener()]
            )
        finally:
            os.dup2(kept, 1)
    assert ended in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), f"pytest ended with {ended!r}"
    return Judgement(oracle if failed else None, 1, ", ".join(failed[:3]))


def check(mutant: Mutant, seeds: range) -> Judgement:
    """Planted violations, and small histories held against the definition."""
    from jepsen_like.checker.verdict import Model
    from tests.jepsen_like.checker.differential import compare_histories
    from tests.jepsen_like.checker.plants_found import first_misjudged

    tried = 0
    for model in (Model.LOG, Model.REGISTER):
        wrong, asked = first_misjudged(model, OPERATIONS)
        tried += asked
        if wrong is not None:
            return Judgement("planted", tried, wrong)
    for model in (Model.LOG, Model.REGISTER):
        tally = compare_histories(model, SMALL_HISTORIES, seed=5)
        tried += tally.histories
        if tally.differences:
            return Judgement("definition", tried, tally.differences[0])
    return Judgement(None, tried)


def call(mutant: Mutant, seeds: range) -> Judgement:
    """A client among nodes that fail and know the truth."""
    from tests.raft.shell import client_world

    return _play_seeds(client_world.play, client_world.Broken)


def _play_seeds(play: Callable[[int], Awaitable[None]], broken: type[Exception]) -> Judgement:
    import trio

    crashed: Counter[str] = Counter()
    for seed in range(WORLD_SEEDS_MAX):
        try:
            trio.run(play, seed)
        except Exception as error:  # noqa: BLE001 - sorted out below
            told = [each for each in _leaves(error) if isinstance(each, broken)]
            if told:
                name, colon, _ = str(told[0]).partition(":")
                return Judgement(name if colon else "durable", seed + 1, str(told[0]), seed, crashed)
            crashed[type(error).__name__] += 1
    return Judgement(None, WORLD_SEEDS_MAX, crashed=crashed)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def compact_logs(mutant: Mutant, seeds: range) -> Judgement:
    """A log that is written, compacted and copied at random, by what compaction promises."""
    from tests.kafka_compat.storage.compaction_world import Broken, play

    async def play_in_trio(seed: int) -> None:
        play(seed)

    return _play_seeds(play_in_trio, Broken)


def draw_stops(mutant: Mutant, seeds: range) -> Judgement:
    """In which orders nodes are stopped and started, by what is never drawn."""
    from tests.jepsen_like.nemesis.drawn_stops import SEEDS, never_drawn

    missing = never_drawn()
    return Judgement("stops" if missing else None, len(SEEDS), "; ".join(missing[:1]))


def touch_disks(mutant: Mutant, seeds: range) -> Judgement:
    """`quorumlog run` with faults that touch the content of disks."""
    return run_processes(mutant, seeds, arguments=(*RUN_ARGUMENTS[:-1], "damage,vanish", *SMALL_SEGMENTS))


def run_processes(mutant: Mutant, seeds: range, *, arguments: Sequence[str] = RUN_ARGUMENTS) -> Judgement:
    """`quorumlog run`, as a user would start it: real processes, real faults, its own verdict."""
    from jepsen_like.cli import execute

    crashed: Counter[str] = Counter()
    for number in range(1, RUNS_MAX + 1):
        with tempfile.TemporaryDirectory() as out, open(os.devnull, "w") as silent:
            kept = os.dup(1), os.dup(2)
            os.dup2(silent.fileno(), 1)
            os.dup2(silent.fileno(), 2)
            try:
                execute(["run", *arguments, "--seed", str(number), "--out", out])
            except SystemExit:
                pass
            finally:
                os.dup2(kept[0], 1)
                os.dup2(kept[1], 2)
            found = Path(out, "latest", "results.json")
            results: dict[str, Any] = json.loads(found.read_text()) if found.exists() else {}
        if not results:
            crashed["run"] += 1
            continue
        if results["valid"] is not True:
            return _judge_results(results, number, crashed)
    return Judgement(None, RUNS_MAX, crashed=crashed)


def run_mutated_nodes(mutant: Mutant, seeds: range) -> Judgement:
    """The same with a sound harness, and nodes that have the bug."""
    from jepsen_like.systems.raft import processes

    sound = processes.raft_command

    def mutate_command(plan: "ProcessPlan") -> list[str]:
        executable, dash_m, _, *arguments = sound(plan)
        return [executable, dash_m, "tests.mutants.mutated_node", mutant.name, *arguments]

    processes.raft_command = mutate_command
    return run_processes(mutant, seeds)


def _judge_results(results: Mapping[str, Any], number: int, crashed: Counter[str]) -> Judgement:
    """Names the check that failed; a run that acknowledged nothing was stopped by the bug, and no oracle killed it."""
    names = [name for name, row in results["checks"].items() if row["valid"] is not True and name != "linearizable"]
    if not names:
        return Judgement(None, number, str(results["unknown"]), number, crashed)
    broken = [name for name in names if results["checks"][name]["valid"] is False] or names
    return Judgement(broken[0], number, str(results["checks"][broken[0]]["examples"][:1]), number, crashed)


def conclude(mutant: Mutant, seeds: range) -> Judgement:
    """Runs with one known trouble each, judged as `quorumlog run` does it."""
    from tests.jepsen_like.verdicts import first_wrong

    wrong, tried = first_wrong()
    return Judgement("verdicts" if wrong else None, tried, wrong or "")


JUDGES: Mapping[str, Judge] = {
    "simulation": simulate,
    "kafka": simulate_kafka,
    "rocketmq": simulate_rocketmq,
    "rocketmq-groups": simulate_rocketmq_groups,
    "rocketmq-consumers": consume_from_rocketmq,
    "rocketmq-store": store_for_rocketmq,
    "floors": reach_floors,
    "lies": told_lies,
    "transactions": judge_transactions,
    "compacted": judge_compacted,
    "mirrored": judge_mirrored,
    "cycles": judge_cycles,
    "kafka-seen": judge_clients,
    "retention": let_go,
    "checker": check,
    "refusals": refuse,
    "strangers": admit,
    "claims": doubt_claims,
    "operator": operate,
    "zones": stand_in_zones,
    "targets": break_others,
    "beside": compare_systems,
    "foreign": adapt,
    "standby": copy_to_standby,
    "worth": weigh_claims,
    "capacity": hold_capacity,
    "recordings": measure_recordings,
    "two-topics": send_to_two,
    "access": authorize,
    "answers": answer_clients,
    "full-disks": fill_disks,
    "room": keep_room,
    "compaction": compact_logs,
    "clients": call,
    "run": run_processes,
    "contents": touch_disks,
    "stops": draw_stops,
    "nodes": run_mutated_nodes,
    "verdicts": conclude,
}
ALONE = frozenset({"run", "nodes", "contents"})
"""Judges that measure real time, and so want the machine for themselves."""
