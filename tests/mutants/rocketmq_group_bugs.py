"""Deliberate bugs of RocketMQ's brokers as a raft group: what is derived from the raft log, and what a leader counts on."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

COPY = "rocketmq_compat.broker.raft_copy"
STATE = "rocketmq_compat.raft_state"
GROUP_HAPPY = (
    "tests/rocketmq_compat/broker/test_groups.py::test_what_is_acknowledged_is_read_from_the_master_and_is_on_every_broker",
)


def _bug(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(
        name=f"rocketmq-group-{name}",
        bug=bug,
        module=module,
        edits=[Edit(old, new)],
        oracles=["copies"],
        judge="rocketmq-groups",
        happy=GROUP_HAPPY,
    )


ROCKETMQ_GROUP_BUGS: Sequence[Mutant] = (
    _bug(
        "trims-what-is-not-flushed",
        "what leaves the raft log is only in the page cache of the commit log",
        COPY,
        "        self._store.flush()\n        return self.state.snapshot()\n",
        "        return self.state.snapshot()\n",
    ),
    _bug(
        "trims-what-it-lacks",
        "a node takes a snapshot although its commit log lacks what it stands for",
        COPY,
        "        if self.incomplete.is_set():\n            return None\n",
        "",
    ),
    _bug(
        "one-queue-offset-for-two",
        "what is under way is not counted when the next message gets its queue offset (B14)",
        COPY,
        "lambda key: leadership.nexts.get(key) or self._store.next_offset(key)",
        "self._store.next_offset",
    ),
    _bug(
        "earlier-leaderships-go-on",
        "what an earlier leader has proposed takes effect after a later one has begun",
        STATE,
        "        if command.term < self.term:\n            return False\n",
        "",
    ),
)
