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
    _bug(
        "etcd-guarded-change-counts-unseen",
        "a guarded change counts as done though a comparison failed",
        "jepsen_like.systems.etcd.register_workload",
        'if not self.guards or answer.get("succeeded"):',
        "if True:",
    ),
    _bug(
        "rabbitmq-returned-message-counts",
        "a message that reached no queue counts as confirmed",
        "jepsen_like.systems.rabbitmq.clients",
        "            raise Returned\n",
        "            return\n",
    ),
    _bug(
        "rabbitmq-message-lost-with-patience",
        "a message that came with the end of patience is acknowledged and forgotten",
        "jepsen_like.systems.rabbitmq.clients",
        "with trio.CancelScope(shield=True), trio.move_on_after(ACK_WITHIN_S) as patience:",
        "with trio.move_on_after(ACK_WITHIN_S) as patience:\n            await trio.lowlevel.checkpoint()",
    ),
    _bug(
        "rabbitmq-lost-take-explains-losses",
        "a take without an answer is recorded as one that may have taken a message",
        "jepsen_like.systems.rabbitmq.queue_workload",
        "known = Outcome.FAIL if request.f is Action.DEQUEUE else outcome",
        "known = outcome",
    ),
    _bug(
        "rabbitmq-dry-at-once",
        "the last takes do not wait for messages that may come back",
        "jepsen_like.systems.rabbitmq.queue_workload",
        "elif self.clock() - self._empty_since_s < DRY_AFTER_S:",
        "elif self._empty_since_s < 0:",
    ),
    _bug(
        "rabbitmq-any-fault-may-lose",
        "any fault excuses a loss where nodes may part",
        "jepsen_like.systems.rabbitmq.promises",
        "if row.may_lose and fault.kind in PARTING",
        "if row.may_lose",
    ),
    _bug(
        "rabbitmq-nodes-of-two-clusters",
        "nodes that do not see each other count as one cluster",
        "jepsen_like.systems.rabbitmq.control",
        "all(state.serves and len(state.running) == nodes for state in states.values())",
        "all(state.serves for state in states.values())",
    ),
    _bug(
        "elements-loss-excused-for-ever",
        "a fault excuses the loss of messages that were put in long after it",
        "jepsen_like.checker.elements.losses",
        "within = (rows.t_inv <= allowance.injected_ns) & (rows.t_ret >= allowance.since_ns)",
        "within = rows.t_ret >= allowance.since_ns",
    ),
    _bug(
        "elements-loss-never-looked-for",
        "an element that is still in the queue counts as lost",
        "jepsen_like.checker.elements.losses",
        "(~np.isin(rows.a, taken) & (rows.t_ret < last_ns))",
        "~np.isin(rows.a, taken)",
    ),
    _bug(
        "apache-rocketmq-ledger-passes-the-faults",
        "members of a DLedger group reach each other at home, where no fault is",
        "jepsen_like.systems.apache_rocketmq.processes",
        "ledger.listen if each == node else ledger.peers[each]",
        "ledger.listen",
    ),
    _bug(
        "apache-rocketmq-broker-tells-a-local-address",
        "a broker tells slaves an address at which each of them is itself",
        "jepsen_like.systems.apache_rocketmq.processes",
        '"brokerIP2": plan.advertised[node][0],',
        '"brokerIP2": plan.listen[0],',
    ),
    _bug(
        "apache-rocketmq-follower-leads",
        "a member that follows anybody counts as the leader",
        "jepsen_like.systems.apache_rocketmq.brokers",
        '_json(metadata).get("leaderId") == self.member',
        '_json(metadata).get("leaderId") is not None',
    ),
    _bug(
        "apache-rocketmq-ledger-flushes",
        "flushDiskType is believed in a DLedger group, which does not read it",
        "jepsen_like.systems.apache_rocketmq.mode",
        "not self.is_raft and bool(self.settings[FLUSH] == SYNC_FLUSH)",
        "bool(self.settings[FLUSH] == SYNC_FLUSH)",
    ),
    _bug(
        "apache-rocketmq-slaves-are-compared",
        "slaves are held to what their master has, which RocketMQ does not promise",
        "jepsen_like.systems.apache_rocketmq.mode",
        "        return self.is_raft\n\n    @property\n    def master_role",
        "        return True\n\n    @property\n    def master_role",
    ),
)
