"""Deliberate bugs about systems of others: what is fetched, where brokers are led, and which faults of an owner are believed."""

from collections.abc import Sequence
from functools import partial

from tests.mutants.mutant import Mutant, plant

HOOKS = "jepsen_like.nemesis.hooks"
HAPPY = ("tests/jepsen_like/run/test_target.py::test_a_half_of_the_options_is_refused",)
_bug = partial(plant, judge="targets", oracles=["targets"], happy=HAPPY)

TARGET_BUGS: Sequence[Mutant] = (
    _bug(
        "target-believes-a-command",
        "a command that ended with 0 counts as a fault, whatever the broker does",
        HOOKS,
        "if not text.startswith(TAKES_NO_PART)}",
        "if not text}",
    ),
    _bug(
        "target-leaves-what-had-no-effect",
        "a command without an effect is not undone, and may have one later",
        HOOKS,
        "            await self.undo(cluster, hit)\n",
        "",
    ),
    _bug(
        "target-deletes-what-others-made",
        "a topic that was there before the run is deleted after it",
        "jepsen_like.systems.kafka_target.control",
        "        if not self.is_ours:\n",
        "        if self.is_ours is None:\n",
    ),
    _bug(
        "target-topic-leaves-its-promise-to-brokers",
        "the topic of a run has the brokers' own number of replicas in sync",
        "jepsen_like.systems.kafka_target.mode",
        "            names.MIN_ISR: str(self.min_isr),\n",
        "",
    ),
    _bug(
        "target-fault-is-believed-unseen",
        "a broker that takes part all the time counts as gone",
        "jepsen_like.record.evidence",
        "            if not text.startswith(TAKES_NO_PART)\n",
        "            if not text\n",
    ),
    _bug(
        "target-deletes-keys-of-others",
        "keys that were there before the run are deleted after it",
        "jepsen_like.systems.etcd_target.control",
        "        if not self.is_ours:\n",
        "        if self.is_ours is None:\n",
    ),
    _bug(
        "target-member-without-leader-takes-part",
        "a member of etcd that answers and knows no leader counts as one that takes part",
        "jepsen_like.systems.etcd_target.control",
        '            if status.get("leader", NOBODY) == NOBODY:\n',
        '            if status.get("leader", "") == "":\n',
    ),
    _bug(
        "target-takes-records-of-others-for-its-own",
        "a record of another run is a value of this one",
        "jepsen_like.systems.raft.records",
        "        if not record.startswith(self.prefix):\n",
        "        if not record.startswith(self.prefix[:10]):\n",
    ),
    _bug(
        "target-log-that-was-cut-is-taken",
        "an append below the begin of the run is taken as one at its begin",
        "jepsen_like.systems.raft.log_workload",
        "                if base_offset < self.begin:\n",
        "                if base_offset < 0:\n",
    ),
    _bug(
        "target-deletes-topics-of-others",
        "a topic of RocketMQ that was there before the run is used, and deleted after it",
        "jepsen_like.systems.rocketmq_target.control",
        "        if await self._is_routed():\n            raise",
        "        if await self._is_routed() is None:\n            raise",
    ),
    _bug(
        "archive-keeps-any-file",
        "a file with another hash enters the cache",
        "jepsen_like.systems.archives.archive",
        "        if found != sha256:\n",
        "        if not found:\n",
    ),
    _bug(
        "apache-brokers-pass-the-faults",
        "brokers reach each other at home, where no fault is",
        "jepsen_like.systems.apache_kafka.processes",
        "hosts = {host_name(node): peers.peers[node][0] for",
        "hosts = {host_name(node): peers.listen[0] for",
    ),
    _bug(
        "apache-follower-reads-as-leader",
        "a broker that begins to follow counts as the leader",
        "jepsen_like.systems.apache_kafka.broker_lines",
        '"role": "follower", "leader_epoch": int(found["epoch"])}',
        '"role": "leader", "leader_epoch": int(found["epoch"])}',
    ),
)
