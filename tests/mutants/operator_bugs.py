"""Deliberate bugs of the operator's command for members (`jepsen_like.operate.members`), and of brokers that join."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

MEMBERS = "jepsen_like.operate.members"
HAPPY = ("tests/jepsen_like/operate/test_log.py::test_appended_records_are_committed_and_read_as_they_were_given",)
_bug = partial(plant, judge="operator", oracles=["operator"], happy=HAPPY)

OPERATOR_BUGS: Sequence[Mutant] = (
    _bug(
        "operator-promotes-what-lacks",
        "a learner becomes a voter although its state machine still lacks what only others hold",
        MEMBERS,
        '            if reached[0] >= end and lacks == "":\n',
        "            if reached[0] >= end:\n",
    ),
    _bug(
        "operator-promotes-what-lags",
        "a learner becomes a voter before it has what was committed when the command began",
        MEMBERS,
        '            if reached[0] >= end and lacks == "":\n',
        '            if lacks == "":\n',
    ),
    _bug(
        "operator-removes-who-is-needed",
        "a voter leaves although those that stay lack what it holds",
        MEMBERS,
        "        if staying and len(lacking) * 2 >= len(staying):\n",
        "        if not staying:\n",
    ),
    _bug(
        "operator-removes-who-has-copies",
        "a broker leaves with copies of partitions that were not moved",
        MEMBERS,
        "        if kept:\n",
        "        if kept and False:\n",
    ),
    _bug(
        "operator-takes-another-node-for-the-new-one",
        "the node that answers at an address is taken for the one that is to be added there",
        MEMBERS,
        "                if connection.node_id != node:\n",
        "                if connection.node_id < 1:\n",
    ),
    _bug(
        "operator-takes-a-forgotten-voter-for-a-voter",
        "a node that has lost its directory is left as the voter that it was",
        MEMBERS,
        '            if own is not None and own["term"] and own["directory_id"] == members.directory_id(node):\n',
        '            if own is not None and own["term"]:\n',
    ),
    _bug(
        "operator-denies-what-may-be-done",
        "a change of unknown outcome is reported as certainly not made",
        MEMBERS,
        "        if is_unknown:\n            return PerhapsDone(",
        "        if is_unknown:\n            return NotDone(",
    ),
    _bug(
        "rocketmq-group-hides-what-it-lacks",
        "a broker without a part of the commit log reports that it lacks nothing",
        "rocketmq_compat.broker.raft_copy",
        '            return ""\n        return f"its commit log',
        '            return ""\n        return "" and f"its commit log',
    ),
    _bug(
        "kafka-dials-the-first-brokers-alone",
        "a broker that joined later is not dialled, although the group names its address",
        "kafka_compat.broker.peer_table",
        "            if broker != self._broker_id:\n",
        "            if broker in self._known:\n",
    ),
    _bug(
        "kafka-drops-a-fetch-from-an-unknown-leader",
        "a replica whose leader is not known yet is never fetched",
        "kafka_compat.broker.following",
        "            self._unreached[partition] = leader, position\n",
        "",
    ),
    _bug(
        "kafka-skips-the-tail-that-it-began-with",
        "a broker whose leadership begins where its log had ended before never becomes the controller",
        "kafka_compat.broker.broker",
        'after_index=_index(group, "commit_index")',
        'after_index=_index(group, "last_index")',
    ),
)
