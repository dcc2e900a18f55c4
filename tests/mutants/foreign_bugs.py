"""Deliberate bugs in adapters of programs of others: links left whole, errors taken for outcomes, and losses allowed that are not."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

HAPPY = ("tests/jepsen_like/systems/nats/test_mode.py::test_a_stream_has_at_most_five_copies",)
_bug = partial(plant, judge="foreign", oracles=["foreign"], happy=HAPPY)

FOREIGN_BUGS: Sequence[Mutant] = (
    _bug(
        "foreign-further-ports-stay-open",
        "a cut between two nodes leaves the ports open that only they use",
        "jepsen_like.cluster.fault_network",
        "            for links in (self.between, *self.further.values())\n            for part in (",
        "            for links in (self.between,)\n            for part in (",
    ),
    _bug(
        "foreign-old-leader-leads",
        "a leader is one although another process knows of a newer epoch",
        "jepsen_like.systems.foreign.watching",
        'max(claims, key=lambda claim: (claim[2], claim[1] == LEADER), default=(0, "", 0))',
        'max(claims, key=lambda claim: (claim[1] == LEADER, claim[2]), default=(0, "", 0))',
    ),
    _bug(
        "foreign-role-told-once",
        "a leader that begins another epoch is not told",
        "jepsen_like.systems.foreign.watching",
        "if self._roles.get(scope) != (role, epoch):",
        'if self._roles.get(scope, ("", 0))[0] != role:',
    ),
    _bug(
        "nats-minority-may-lose",
        "a power cut of any server excuses a loss",
        "jepsen_like.systems.nats.promises",
        "if row.may_lose and 2 * len(_without_power(cut, cuts, reach_ns)) > nodes",
        "if row.may_lose and _without_power(cut, cuts, reach_ns)",
    ),
    _bug(
        "nats-cuts-do-not-add-up",
        "of several power cuts in one interval each counts alone",
        "jepsen_like.systems.nats.promises",
        "if cut.begun_ns - reach_ns <= one.begun_ns <= cut.begun_ns)",
        "if one.begun_ns == cut.begun_ns)",
    ),
    _bug(
        "nats-stale-leader-answers-probes",
        "a leader without a majority is taken for one that can write",
        "jepsen_like.systems.nats.log_workload",
        "return 2 * (1 + fresh) > 1 + len(others)",
        "return 2 * (2 + fresh) > 1 + len(others)",
    ),
    _bug(
        "nats-duplicate-counts",
        "an acknowledgement of an earlier message counts as one of its own",
        "jepsen_like.systems.nats.log_workload",
        'if sequence > 0 and not answer.get("duplicate"):',
        "if sequence > 0:",
    ),
    _bug(
        "etcd-timeout-is-a-refusal",
        "a proposal whose fate is open is recorded as one that certainly failed",
        "jepsen_like.systems.etcd.clients",
        "if TOO_MANY in words:",
        "if words:",
    ),
    _bug(
        "etcd-swap-always-succeeds",
        "a compare-and-set tells the expected value though it found another",
        "jepsen_like.systems.etcd.register_workload",
        '            case Action.CAS, {"responses": [{"response_range": dict(found)}]}:\n                return value_of(found)\n',
        '            case Action.CAS, {"responses": [{"response_range": dict()}]}:\n                return request.a\n',
    ),
    _bug(
        "zookeeper-swap-takes-any-version",
        "a compare-and-set overwrites what came in between",
        "jepsen_like.systems.zookeeper.clients",
        "await self.write(path, new, found.version)",
        "await self.write(path, new)",
    ),
    _bug(
        "zookeeper-lost-answer-is-a-failure",
        "an error that leaves the outcome open is recorded as a failure",
        "jepsen_like.systems.zookeeper.clients",
        "case ErrorCoded(Code.NO_NODE):",
        "case ErrorCoded():",
    ),
)
