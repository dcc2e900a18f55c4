"""Judges whether a run was a test at all: it names what would make its verdict worthless if it were believed.

A harness has bugs like anything else. A nemesis that kills no process, a cut that lets everything through, a recorder that
forgets what went wrong: each makes every system look good. So a run shows evidence for what it did. Nothing here makes a run
invalid, because it is about the harness and not the system: a doubt leaves the run undecided, with a reason.

- A killed or stopped process was gone from /proc, a paused one stood still, over a cut way no byte passed;
  and every way that was to be slow, lossy or whatever else tells that it was.
- A disk was touched while its node was down, and what it held was something else afterwards.
- A fault hit what its target means, in every direction; the node it took for the leader had said itself that it leads;
  and every kind of process and link fault hit a leader at least once.
- What a fault broke is whole again after its end, as seen from outside: the process runs, every way carried a question and
  its answer, clocks are right, disks work. And once nothing is broken any more, service comes back within the time that
  the kind of fault is given (`NemesisKind.serves_within_s`).
- A fault by a command of the cluster's owner held once the network showed that the process took no part.
- The history holds as many operations of each outcome as were counted when they ended. A process does one thing at a
  time, nothing after an unknown outcome, and ends nothing before it began.
"""

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from jepsen_like.history.ops import Outcome
from jepsen_like.nemesis.contents import CONTENT_KINDS, TOUCHED
from jepsen_like.nemesis.keys import ADDED, DROPPED, Rotate
from jepsen_like.nemesis.kind import TAKES_NO_PART, TAKES_PART
from jepsen_like.nemesis.links import LinkKind
from jepsen_like.nemesis.nemesis import FaultRecord
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Target
from jepsen_like.nemesis.zones import InZone, ZoneCut
from jepsen_like.port.observations import LEADER, RoleSeen
from jepsen_like.port.zones import NOWHERE, ZoneMap
from jepsen_like.record.attempts import Attempts
from jepsen_like.record.recovery_time import Writes, recovery, unbroken_s
from jepsen_like.record.results import CheckResult

DEAD = re.compile(r"^pid \d+ dead$")
POWERLESS = re.compile(r"^pid \d+ dead, its files held [\d,]+ bytes$")
GONE_FIRST = re.compile(r"^pid \d+ dead\b")
TOUCHED_INDEED = re.compile(r"^n\d+ seen from outside: (gone|changed)\b")
STOPPED = re.compile(r"^pid \d+ state T$")
NOTHING_PASSED = re.compile(r"^cut .*: 0 bytes passed\b(?!.*\bswallowed\b)")
"""And nothing was lost: what a cut holds back goes through after its end."""
RUNS = re.compile(r"^pid \d+ state [RSDI]\b")
STRUCK = re.compile(r"\bpid \d+ (dead|state T)$|\bit has not started yet; pid \d+ state \w$")
"""A node that does not answer because another fault holds it, or ended a moment ago: one that serves would have answered."""
CARRIED = re.compile(r"^carried ")
WALL_OFF = re.compile(r"told the wall time ([+-][\d.]+) s off")
RATE_TOLD = re.compile(r"told a time ([\d.]+) times as fast")
WALL_OFF_S_MAX = 1.0
RATE_OFF_MAX = 0.1
"""The most that a healed clock may be off by what was read of it: the readings are those of a process that goes on meanwhile."""
COUNTED = re.compile(r"healed: .*: ([\d,]+)$")
PROCESS_PROOFS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "kill": (DEAD, "gone"),
    "restart": (DEAD, "gone"),
    "pause": (STOPPED, "stopped"),
    **dict.fromkeys(("power", "zone-down"), (POWERLESS, "gone with its power")),
}
PARTITION = "partition"
LEADER_KINDS = (*(kind for kind in PROCESS_PROOFS if not isinstance(KINDS[kind], InZone)), PARTITION)
"""Kinds that every run which asks for them carries out on a leader: nothing can withhold them, and no plan names another zone."""
DOUBTS_MAX = 5
NOTHING_SEEN = "nothing was seen of it"
PACES = 3
"""A load that writes seldom shows service late by up to so many times its usual distance between two writes."""


def of_faults(
    faults: Sequence[FaultRecord],
    roles: Sequence[RoleSeen],
    nodes: Sequence[int],
    kinds: Sequence[str],
    zones: ZoneMap = NOWHERE,
) -> list[str]:
    """Returns doubts about the faults of a run that was to have these `kinds`; none for one that had them all."""
    told = [
        (fault, doubt)
        for fault in faults
        for doubt in [*_of(fault, roles, nodes), *_misses_zone(fault, zones), *_not_undone(fault, faults)]
    ]
    led = {fault.kind for fault in faults if fault.target in (Target.LEADER, Target.ALL)}
    return [
        *(f"fault {fault.id} ({fault.kind} {fault.target}): {doubt}" for fault, doubt in told),
        *(f"no {kind} hit a leader" for kind in kinds if kind in LEADER_KINDS and kind not in led),
    ]


def count_struck(
    faults: Sequence[FaultRecord], roles: Sequence[RoleSeen], to_strike: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Returns how many faults hit a node that led one of these scopes when the fault began, by the name of the scopes."""
    return {
        name: sum(not set(fault.nodes).isdisjoint(_leaders_at(fault.begun_ns, roles, scopes)) for fault in faults)
        for name, scopes in to_strike.items()
    }


def of_struck(
    faults: Sequence[FaultRecord], roles: Sequence[RoleSeen], to_strike: Mapping[str, Sequence[str]]
) -> list[str]:
    """Returns a doubt for each name whose scopes' leaders no fault hit."""
    struck = count_struck(faults, roles, to_strike)
    return [f"no fault hit one of the {name} that the clients used" for name, count in struck.items() if not count]


def of_served(served: Mapping[str, int]) -> list[str]:
    """Returns a doubt for each thing that the run is about and no node did."""
    return [f"there were no {what}" for what, times in served.items() if not times]


def _leaders_at(t_ns: int, roles: Sequence[RoleSeen], scopes: Sequence[str]) -> set[int]:
    """Returns the nodes of which each was the last to say, by then, that it leads one of the scopes."""
    said = [role for role in roles if role.t_ns <= t_ns and role.role == LEADER and role.scope in scopes]
    newest = {role.scope: role.node for role in sorted(said, key=lambda role: role.term)}
    return set(newest.values())


def _of(fault: FaultRecord, roles: Sequence[RoleSeen], nodes: Sequence[int]) -> list[str]:
    if fault.by_hook:
        seen = {node: fault.observed.get(str(node), NOTHING_SEEN) for node in fault.nodes}
        doubts = [
            f"n{node} took part all the time: {text}"
            for node, text in seen.items()
            if not text.startswith(TAKES_NO_PART)
        ]
    elif fault.kind in PROCESS_PROOFS:
        doubts = _of_processes(fault)
        doubts += [doubt for doubt in _of_links(fault, "half-open") if fault.links]
    elif fault.kind in CONTENT_KINDS:
        doubts = _of_contents(fault)
    elif fault.kind == PARTITION:
        doubts = _of_cuts(fault, nodes)
    elif fault.kind == ZoneCut.name:
        doubts = [] if fault.links else ["it cut no way"]
        doubts += _passing(fault)
    elif isinstance(kind := KINDS.get(fault.kind), LinkKind):
        doubts = _of_links(fault, kind.shows)
    elif fault.kind == Rotate.name:
        doubts = [] if any(what.startswith(ADDED) for what in fault.observed) else [NOTHING_SEEN]
    else:
        return []  # what other kinds show is theirs to judge
    misses = _misses_target(fault, nodes)
    if misses is not None:
        doubts.append(misses)
    if fault.target == Target.LEADER and not _has_led(fault, roles):
        doubts.append(f"n{fault.leader} never said that it led in term {fault.term}")
    return doubts


def _of_processes(fault: FaultRecord) -> list[str]:
    proof, word = PROCESS_PROOFS[fault.kind]
    seen = {node: fault.observed.get(str(node), "nothing was seen of it") for node in fault.nodes}
    return [f"n{node} was not {word}: {text}" for node, text in seen.items() if not proof.match(text)]


def _of_contents(fault: FaultRecord) -> list[str]:
    seen = {node: fault.observed.get(str(node), NOTHING_SEEN) for node in fault.nodes}
    doubts = [f"n{node} was not gone: {text}" for node, text in seen.items() if not GONE_FIRST.match(text)]
    disks = {node: fault.observed.get(f"{TOUCHED} {node}", NOTHING_SEEN) for node in fault.harmed}
    doubts += [
        f"the disk of n{node} was not touched: {text}" for node, text in disks.items() if not TOUCHED_INDEED.match(text)
    ]
    return doubts if fault.harmed else [*doubts, "it touched no disk"]


def _of_cuts(fault: FaultRecord, nodes: Sequence[int]) -> list[str]:
    if not fault.links:
        return ["it cut no way"]
    doubts = _passing(fault)
    cut = set(fault.links)
    one_way = [way for way in fault.links if "client" not in way and _opposite(way) not in cut]
    if one_way and fault.target != Target.ONE_WAY:
        doubts.append(f"{_opposite(one_way[0])} was open, though {one_way[0]} was cut")
    if fault.target == Target.LEADER:
        around = {f"{fault.leader}>{node}" for node in nodes if node != fault.leader}
        doubts += [f"{way} was open" for way in sorted(around - cut)]
    return doubts


def _passing(fault: FaultRecord) -> list[str]:
    """Returns a doubt for each way of a cut that something passed."""
    seen = {way: fault.observed.get(way, NOTHING_SEEN) for way in fault.links}
    return [f"{way} was not cut: {text}" for way, text in seen.items() if not NOTHING_PASSED.match(text)]


def _misses_zone(fault: FaultRecord, zones: ZoneMap) -> list[str]:
    """Returns why a fault of a zone did not hit all that stands in it, and every way that it is about; nothing if it did."""
    kind = KINDS.get(fault.kind)
    if not isinstance(kind, InZone) and fault.target != Target.ZONE:
        return []
    if not fault.nodes or not zones.of.keys() >= set(fault.nodes):
        return ["it hit no zone"]
    hit = sorted({zones.zone_of(node) for node in fault.nodes})
    doubts = [] if len(hit) == 1 else [f"it hit zones {', '.join(hit)}, not one"]
    if missed := set(zones.whole(fault.nodes)) - set(fault.nodes):
        doubts.append(f"{_names(sorted(missed))} of zone {hit[0]} went on")
    if isinstance(kind, InZone):
        pairs, clients = zones.border(fault.nodes)
        ways = {*(f"{one}>{other}" for one, other in pairs), *(f"client>{node}" for node in clients)}
        doubts += [f"{way} leads out of zone {hit[0]} and was left" for way in sorted(ways - set(fault.links))]
    return doubts


def _of_links(fault: FaultRecord, shows: str) -> list[str]:
    if not fault.links:
        return ["it concerned no way"]
    seen = {way: fault.observed.get(way, "nothing was seen of it") for way in fault.links}
    return [f"{way} was as always: {text}" for way, text in seen.items() if not text.startswith(shows)]


def is_all_undone(faults: Sequence[FaultRecord]) -> bool:
    """Returns True if all that these faults broke was seen whole again after their ends."""
    return not any(_not_undone(fault, faults) for fault in faults)


def _not_undone(fault: FaultRecord, faults: Sequence[FaultRecord]) -> list[str]:
    """Returns what the fault broke and was not seen whole after its end, but for what another fault had broken by then."""
    if fault.kind not in KINDS:
        return []
    others = [other for other in faults if other is not fault and _overlap(other, fault)]
    held = {str(node) for other in others for node in other.nodes}
    doubts = []
    for node in map(str, fault.nodes):
        text = fault.healed.get(node, NOTHING_SEEN)
        is_back = text == TAKES_PART if fault.by_hook else RUNS.match(text)
        if not is_back and not (node in held and (fault.by_hook or STRUCK.search(text))):
            doubts.append(f"n{node} does not run after its end: {text}")
        for what in ("clock", "disk"):
            text = fault.healed.get(f"{what} of {node}", "")
            if not _is_healed(text):
                doubts.append(f"the {what} of n{node} is not healed after its end: {text}")
    if fault.kind == Rotate.name and not any(what.startswith(DROPPED) for what in fault.healed):
        doubts.append("the earlier keys are still accepted after its end")
    for way in fault.links:
        text = fault.healed.get(way, NOTHING_SEEN)
        if not CARRIED.match(text) and (held.isdisjoint(way.split(">")) or not STRUCK.search(text)):
            doubts.append(f"{way} carries nothing after its end: {text}")
    return doubts


def _is_healed(text: str) -> bool:
    """Returns True if nothing that was seen of a clock or a disk after a fault's end is as the fault had made it."""
    off, rate, count = WALL_OFF.search(text), RATE_TOLD.search(text), COUNTED.search(text)
    return (
        (off is None or abs(float(off[1])) <= WALL_OFF_S_MAX)
        and (rate is None or abs(float(rate[1]) - 1) <= RATE_OFF_MAX)
        and (count is None or count[1] == "0")
    )


def _overlap(one: FaultRecord, other: FaultRecord) -> bool:
    return one.begun_ns <= other.ended_ns and other.begun_ns <= one.ended_ns


def of_service(faults: Sequence[FaultRecord], writes: Writes, grace_s: float = 0.0) -> list[str]:
    """Doubts about service that stayed away while nothing was broken: the harness may have mended less than it recorded."""
    pace_s = float(np.median(np.diff(writes.t_ret))) / 1e9 if len(writes.t_ret) > 1 else 0.0
    doubts = []
    for fault in faults:
        first_s = recovery(fault, writes).first_success_s
        if fault.kind not in KINDS or first_s is None:
            continue  # one that nothing recovered from is counted as such
        away_s = unbroken_s(fault.begun_ns, fault.begun_ns + round(first_s * 1e9), faults)
        bound_s = KINDS[fault.kind].serves_within_s + grace_s + PACES * pace_s
        if away_s > bound_s:
            doubts.append(
                f"fault {fault.id} ({fault.kind} {fault.target}): no write was acknowledged for {first_s:.1f} s, "
                f"{away_s:.1f} s of it with nothing broken; {bound_s:.0f} s are expected at most"
            )
    return doubts


def _opposite(way: str) -> str:
    sender, _, receiver = way.partition(">")
    return f"{receiver}>{sender}"


def _misses_target(fault: FaultRecord, nodes: Sequence[int]) -> str | None:
    """Why the nodes that were hit are not those that the target means."""
    is_of_zone = isinstance(KINDS.get(fault.kind), InZone)
    if fault.target == Target.LEADER and is_of_zone and fault.leader not in fault.nodes:
        return f"it hit {_names(fault.nodes)}, and n{fault.leader} led in another zone"
    if fault.target == Target.LEADER and not is_of_zone and set(fault.nodes) != {fault.leader}:
        return f"it hit {_names(fault.nodes)}, and n{fault.leader} led"
    if fault.kind == PARTITION:
        return None
    hit, majority = len(set(fault.nodes)), len(nodes) // 2 + 1
    expected = {
        Target.ONE: hit == 1,
        Target.MINORITY: 0 < hit < majority or len(nodes) < 3,
        Target.MAJORITY: hit >= majority,
        Target.ALL: hit == len(nodes),
        Target.ENTRANCE: hit == 1 and set(fault.nodes).isdisjoint(nodes),
        Target.ENTRANCES: hit > 0 and set(fault.nodes).isdisjoint(nodes),
    }
    return (
        None
        if expected.get(Target(fault.target), True)
        else f"it hit {_names(fault.nodes) or 'no node'} of {len(nodes)}"
    )


def _has_led(fault: FaultRecord, roles: Sequence[RoleSeen]) -> bool:
    said = (
        role for role in roles if role.role == LEADER and role.scope == fault.scope and role.t_ns <= fault.injected_ns
    )
    return any((role.node, role.term) == (fault.leader, fault.term) for role in said)


def _names(nodes: Sequence[int]) -> str:
    return ", ".join(f"n{node}" for node in nodes)


def of_history(operations: Attempts, counted: Mapping[Outcome, int], *, may_overlap: bool = False) -> list[str]:
    """Doubts about a history, given outcomes `counted` as they ended; `may_overlap`: a process does many at once."""
    doubts = []
    for outcome, expected in counted.items():
        found = int((operations.outcome == outcome).sum())
        if found != expected:
            doubts.append(
                f"the history holds {found:,} operations that ended as {outcome.name.lower()}, not {expected:,}"
            )
    order = np.lexsort((operations.t_ret, operations.t_inv, operations.process))
    process, is_unknown = operations.process[order], operations.outcome[order] == Outcome.INFO
    t_inv, t_ret = operations.t_inv[order], operations.t_ret[order]
    backwards = np.flatnonzero(t_ret < t_inv)
    if len(backwards):
        doubts.append(f"process {process[backwards[0]]} ended an operation before it began")
    follows = process[1:] == process[:-1]
    overlaps = np.flatnonzero(follows & ((t_ret[:-1] > t_inv[1:]) | is_unknown[:-1]))
    if len(overlaps) and not may_overlap:
        doubts.append(f"process {process[overlaps[0]]} began an operation before its last one had ended")
    return doubts


def check(doubts: Sequence[str], shown: str | None = None) -> CheckResult:
    """Returns the doubts as a check of the run: open, not broken; with what it has `shown`, if that is to be told."""
    return CheckResult(None if doubts else True, len(doubts), tuple(itertools.islice(doubts, DOUBTS_MAX)), shown)
