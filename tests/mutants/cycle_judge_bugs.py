"""Deliberate bugs of what judges transactions of several operations, and what clients of any Kafka saw."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

GRAPH = "jepsen_like.checker.cycles.graph"
SEARCH = "jepsen_like.checker.cycles.search"
LISTS = "jepsen_like.checker.cycles.lists"
REGISTERS = "jepsen_like.checker.cycles.registers"
READS = "jepsen_like.checker.cycles.reads"
PARTITION = "jepsen_like.checker.kafka.partition"
KAFKA_TASKS = "jepsen_like.checker.kafka.tasks"


def misjudge(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """Returns the mutant in which `new` stands in place of `old`."""
    return plant(f"cycles-{name}", bug, module, old, new, oracles=["cycles"], judge="cycles")


def overlook(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """Returns the mutant of the judge of partitions in which `new` stands in place of `old`."""
    return plant(f"clients-of-kafka-{name}", bug, module, old, new, oracles=["kafka-seen"], judge="kafka-seen")


CYCLE_JUDGE_BUGS: Sequence[Mutant] = (
    misjudge(
        "pieces-are-cut",
        "the stretch that a backward edge covers ends one place early",
        GRAPH,
        "np.add.at(change, source[back], -1)",
        "np.add.at(change, source[back] - 1, -1)",
    ),
    misjudge(
        "touching-is-before",
        "an operation that ended when another began counts as concurrent with all that began later",
        GRAPH,
        "ended = [one for one in ended if end[one] >= begin[following]]",
        "ended = [one for one in ended if end[one] < begin[following]]",
    ),
    misjudge(
        "low-links-are-lost",
        "a strongly connected part is found only where its edges lead straight back",
        GRAPH,
        "low[work[-1][0]] = min(low[work[-1][0]], low[node])",
        "low[work[-1][0]] = low[work[-1][0]]",
    ),
    misjudge(
        "reads-may-be-neighbours",
        "a snapshot may miss two versions in turn, around the place where the cycle begins",
        SEARCH,
        "pairs = [(source, target + 1)] if edge.kind is Kind.RW",
        "pairs = [(source, target + 1), (source + 1, target + 1)] if edge.kind is Kind.RW",
    ),
    misjudge(
        "unseen-appends-are-free",
        "who read the whole list comes before no append that no read has",
        LISTS,
        "[chain[place[following]]] if following is not None else unseen",
        "[chain[place[following]]] if following is not None else ()",
    ),
    misjudge(
        "overwriting-is-unseen",
        "a read of the first state is overwritten by no append",
        LISTS,
        "if not is_first or read.values",
        "if not is_first or not read.values or read.values",
    ),
    misjudge(
        "last-append-is-any",
        "a read may end with what its transaction went on from",
        LISTS,
        "if last.values != appended[-1].values:",
        "if last.values == appended[-1].values and len(appended) > 9:",
    ),
    misjudge(
        "own-appends-may-be-missed",
        "a transaction need not see what it appended",
        LISTS,
        "elif tail != tuple(own) or (seen",
        "elif tail != tuple(own)[:0] and (seen",
    ),
    misjudge(
        "first-state-is-anywhere",
        "a register's first state comes before nothing",
        REGISTERS,
        "found.setdefault(NONE, {})[version] = None",
        "found.setdefault(version, {})",
    ),
    misjudge(
        "time-is-any",
        "versions follow the real time at every level",
        REGISTERS,
        "if order is KeptOrder.REALTIME:",
        "if order is not None:",
    ),
    misjudge(
        "twice-is-once",
        "two transactions that wrote one value are taken for one",
        READS,
        "twice.append(value)",
        "twice.extend(())",
    ),
    overlook(
        "unknown-is-lost",
        "a transaction of unknown outcome counts as committed once anything was polled",
        KAFKA_TASKS,
        "return rows.epoch[unknown[seen]].astype(np.int64)",
        "return rows.epoch[unknown].astype(np.int64)",
    ),
    overlook(
        "last-offset-is-enough",
        "a record is lost only if all that was polled lies behind it by two places",
        PARTITION,
        "if one.places[offsets[-1]] <= reached",
        "if one.places[offsets[-1]] < reached - 1",
    ),
    overlook(
        "aborts-move-on",
        "a transaction that was aborted moves the position of its process",
        PARTITION,
        "if one.type[final] == Outcome.OK:",
        "if one.type[final] in (Outcome.OK, Outcome.FAIL):",
    ),
    overlook(
        "kept-partitions-are-new",
        "a process that takes partitions may start anywhere in those that it had",
        "jepsen_like.check.kafka_maps",
        "for partition in [key for key in touched if key not in kept]:",
        "for partition in list(touched):",
    ),
    overlook(
        "reads-in-a-circle",
        "transactions may poll each other's records",
        KAFKA_TASKS,
        "told.add(by_reads, cycle)",
        "allowed.add(by_reads, cycle)",
    ),
    overlook(
        "groups-may-pass-over",
        "a group may commit what no member was given",
        PARTITION,
        "if start <= at < one.offset[top] and at not in there:",
        "if start > at and at not in there:",
    ),
)
