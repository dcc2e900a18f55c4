"""Deliberate bugs in how partitions move to other brokers: what is added, when the others leave, and what becomes of copies."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import ELECTIONS, kafka_bug
from tests.mutants.kafka_host_bugs import REPLICAS
from tests.mutants.mutant import Mutant

MOVES = "kafka_compat.controller.reassignment"
CHANGES = "kafka_compat.controller.changes"

KAFKA_MOVE_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "move-ends-with-the-first",
        "a move is complete when one replica of its target is in sync",
        MOVES,
        ("not set(target) <= set(state.isr)", "not set(target) & set(state.isr)"),
        oracles=["K4", "K13", "K1", "script"],
    ),
    kafka_bug(
        "move-ends-without-the-new",
        "a move is complete before the replicas that it adds are in sync",
        MOVES,
        ("not set(target) <= set(state.isr)", "not set(target) - set(state.adding) <= set(state.isr)"),
        oracles=["K4", "K13", "K1", "script"],
    ),
    kafka_bug(
        "move-deletes-at-once",
        "a replica that is to leave deletes its copy before the others are in sync",
        REPLICAS,
        ("for partition, state in states.items() if own in state.replicas}", "for partition, state in states.items() if own in state.target}"),
        oracles=["K1", "K2", "K7", "K11", "K13"],
    ),
    kafka_bug(
        "move-cancel-drops-the-old",
        "who cancels a move loses the replicas that it was to remove",
        MOVES,
        ("        return _with_replicas(state, original, (), ())", "        return _with_replicas(state, state.target, (), ())"),
        oracles=["K4", "K13", "K1", "script"],
    ),
    kafka_bug(
        "move-leaves-the-isr",
        "a replica leaves, and stays in the ISR",
        MOVES,
        ("        isr=tuple([each for each in state.isr if each in replicas]),", "        isr=state.isr,"),
        oracles=["K4", "script"],
    ),
    kafka_bug(
        "move-leaves-the-leader",
        "a leader that leaves goes on leading",
        ELECTIONS,
        (
            "    if state.leader in state.isr and image.active(state.leader):",
            "    if image.active(state.leader):",
        ),
        oracles=["K4", "K1", "script"],
    ),
    kafka_bug(
        "move-keeps-the-epoch",
        "a replica leaves, and its leader takes it for as far as it was when it comes again",
        ELECTIONS,
        (
            "    is_new = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)",
            "    is_new = after.leader != before.leader",
        ),
        oracles=["K4", "K13", "K1", "script"],
    ),
    kafka_bug(
        "move-drops-the-last",
        "a cancelled move drops the only copies that count",
        CHANGES,
        ("        check_kept(state, after)\n", ""),
        oracles=["K4", "K11", "K13", "script"],
    ),
    kafka_bug(
        "move-adds-for-ever",
        "another target keeps what only the one before has added",
        MOVES,
        ("    original, target = state.original, wanted.replicas", "    original, target = state.replicas, wanted.replicas"),
        oracles=["script"],
    ),
    kafka_bug(
        "move-keeps-the-copy",
        "a replica that has left keeps its copy",
        REPLICAS,
        ("        for partition in [each for each in states if each not in mine]:\n", "        for partition in ():\n"),
        oracles=["K7", "K1", "K2", "K4"],
    ),
    kafka_bug(
        "move-obeys-an-older-state",
        "a broker that starts deletes a copy by an older state than the one that has added it again",
        REPLICAS,
        ("            if not self._is_assigned(partition, states[partition].topic_id):\n", "            if True:\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "move-deletes-what-came-back",
        "a replica that leaves and is added again loses its copy while it serves",
        REPLICAS,
        (
            "            if self._store.topic_id(partition) == topic_id and partition not in self.hosted:",
            "            if self._store.topic_id(partition) == topic_id:",
        ),
        oracles=["script"],
    ),
)  # fmt: skip
"""In order of what they break: the rules of the controller, then the copies of a broker."""
