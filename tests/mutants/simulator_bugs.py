"""Deliberate bugs of the simulator, by which it would find nothing: audits that are blind, worlds in which all goes well."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

NETWORK = "jepsen_like.simulation.kernel.network"
AUDITS = "jepsen_like.simulation.raft.audits"
INVARIANTS = "jepsen_like.simulation.raft.invariants"

SIMULATOR: Sequence[Mutant] = (
    Mutant(
        name="disk-loses-nothing",
        bug="a power cut leaves everything that was written, synced or not",
        module="log.memory_disk",
        edits=[
            Edit(
                "        platter = bytearray(inode.durable)\n        for change in _pick_survivors(",
                "        platter = bytearray(inode.image)\n        for change in () and _pick_survivors(",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="network-loses-nothing",
        bug="a simulated message is lost only where a link is cut",
        module=NETWORK,
        edits=[
            Edit(
                "        if self.loss and state.rng.random() < self.loss:\n",
                "        if self.loss and state.rng.random() < 0:\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="network-keeps-the-order",
        bug="simulated messages never overtake each other",
        module=NETWORK,
        edits=[Edit("            if knobs.fifo:\n", "            if not None:\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="network-cuts-nothing",
        bug="a simulated partition is counted, but no link is cut",
        module=NETWORK,
        edits=[Edit("            self.links[link].cuts += 1\n", "            self.links[link].cuts += 0\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="pause-goes-on-working",
        bug="a simulated pause is counted, but the node works on",
        module="jepsen_like.simulation.raft.machine",
        edits=[Edit("        self.paused = True\n", "        self.paused = False\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="cut-after-answer-never-springs",
        bug="a power cut that waits for an answer to a client never comes",
        module="jepsen_like.simulation.raft.machine",
        edits=[
            Edit(
                "        if self.traps.after_answer:\n",
                "        if not self.traps:\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="cut-after-send-never-springs",
        bug="a power cut that waits for a message never comes",
        module="jepsen_like.simulation.raft.machine",
        edits=[
            Edit(
                "        if trap is not None and isinstance(message, trap):\n",
                "        if trap is None and isinstance(message, trap or int):\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="slow-disk-is-not-slow",
        bug="a simulated slow disk is counted, but flushes take their usual time",
        module="jepsen_like.simulation.raft.machine",
        edits=[Edit("        took = usual * self.slowness\n", "        took = usual * min(self.slowness, 1.0)\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="full-disk-has-room",
        bug="a simulated full disk is counted, but nothing is refused for it",
        module="jepsen_like.simulation.raft.nemesis",
        edits=[
            Edit(
                "            machine.held.disk.capacity_bytes = machine.held.disk.used_bytes()\n",
                "            machine.held.disk.capacity_bytes = None\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="clock-does-not-jump",
        bug="a simulated clock jump is counted, but the clock stands where it stood",
        module="jepsen_like.simulation.raft.machine",
        edits=[Edit("        self.clock.jump(seconds)\n", "        self.clock.jump(min(seconds, 0.0))\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="happy-generator",
        bug="the generator of worlds draws no fault",
        module="jepsen_like.simulation.kernel.swarm",
        edits=[
            Edit(
                "    kinds = [kind for kind in kinds if rng.random() < 0.5]\n",
                "    kinds = [kind for kind in kinds if rng.random() < 0]\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="clients-never-read",
        bug="simulated clients only append",
        module="jepsen_like.simulation.raft.swarm",
        edits=[Edit("        reads=rng.choice((0.1, 0.3, 0.6)),\n", "        reads=rng.choice((0.0, 0.0, 0.0)),\n")],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="audit-believes-acceptances",
        bug="what a follower accepts is not compared with its disk (A2)",
        module=AUDITS,
        edits=[
            Edit(
                "                self._check_accepted(machine, term, match_index)\n",
                "                assert term and match_index >= 0\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="audit-counts-one-copy-for-a-majority",
        bug="an acknowledgement is in order if one disk holds the entry (A3)",
        module=AUDITS,
        edits=[Edit("        if len(copies) < self._majority and not", "        if len(copies) < 1 and not")],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="audit-lets-reads-be-old",
        bug="a read is in order however old its index is (A6)",
        module=AUDITS,
        edits=[Edit("        if index < committed_when_asked and not", "        if index < 0 and not")],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="audit-lets-a-node-vote-again",
        bug="a second vote in a term is in order if it is on the disk (A1)",
        module=AUDITS,
        edits=[Edit("        if given != candidate:\n", "        if given == 0:\n")],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="invariant-believes-the-leader",
        bug="what a leader believes of a follower is not compared with the follower's disk (I8)",
        module=INVARIANTS,
        edits=[
            Edit(
                "        if held.durable_log().term <= core.term and not held.vouches_for(machine.entries[match - 1]):\n",
                "        if held.durable_log().term < 0 and not held.vouches_for(machine.entries[match - 1]):\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="invariant-lets-the-commit-fall",
        bug="a commit index may fall (I7)",
        module=INVARIANTS,
        edits=[Edit("        if core.commit_index < before.commit_index:\n", "        if core.commit_index < 0:\n")],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="invariant-lets-a-leader-rewrite",
        bug="a leader may replace what stands in its log (I5)",
        module=INVARIANTS,
        edits=[
            Edit(
                "        if isinstance(core.role, Leader) and first.index <= len(machine.entries):\n",
                "        if isinstance(core.role, Leader) and first.index <= 0:\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="one-repair-excuses-every-damage",
        bug="a node that was repaired may find, and cut, whatever it likes until it has caught up (A5)",
        module="jepsen_like.simulation.raft.holdings",
        edits=[
            Edit(
                "        return self.rot is not None and not self.rot.found\n",
                "        return self.rot is not None and self.rot is self.rot\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="any-disk-may-fail",
        bug="a node may say that its disk failed though no fault was set (A5)",
        module="jepsen_like.simulation.raft.holdings",
        edits=[
            Edit(
                "                return self.disk.failed_as_asked\n",
                "                return self.disk.failed_as_asked in (True, False)\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="black-box-forgives-staleness",
        bug="a read may see less than was known before it began (B-stale)",
        module="jepsen_like.simulation.raft.blackbox",
        edits=[
            Edit("        if op.is_read and op.end_offset < floor:\n", "        if op.is_read and op.end_offset < 0:\n")
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="judge-looks-at-the-leader-alone",
        bug="at the end of a world only the leader's stored log is compared with the committed one (B-diverged)",
        module="jepsen_like.simulation.raft.world",
        edits=[
            Edit(
                "        first_index = LogIndex(machine.core.log.start.index + 1)\n",
                "        if machine.core.role_name.value != 'leader':\n            return log\n"
                "        first_index = LogIndex(machine.core.log.start.index + 1)\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="judge-compares-what-both-have",
        bug="at the end of a world a stored log may be shorter than the committed one (B-diverged)",
        module="jepsen_like.simulation.raft.record",
        edits=[
            Edit(
                "    if differs is None and len(entries) != len(others):\n",
                "    if differs is None and len(entries) > len(others):\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="oracles-compare-lengths-first",
        bug="for the oracles the longer log is the more recent one, whatever its last term (A4, A5, A7)",
        module="jepsen_like.simulation.raft.record",
        edits=[Edit("    if position.term != other.term:\n", "    if position.term < 0:\n")],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="search-trusts-what-it-leaves-out",
        bug="what an exhaustive search leaves out is delivered, but it may change its receiver",
        module="jepsen_like.simulation.raft.explorer",
        edits=[
            Edit(
                "        if self._without_outbox(before) != self._without_outbox(after) or _waiting(after)[: len(waiting)] != waiting:\n",
                "        if self._without_outbox(before) is self._without_outbox(after):\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
    Mutant(
        name="search-leaves-votes-out",
        bug="an exhaustive search leaves out the votes that a candidate waits for",
        module="jepsen_like.simulation.raft.reduction",
        edits=[
            Edit(
                "            counts = granted and isinstance(receiver.core.role, Candidate)\n",
                "            counts = granted and isinstance(receiver.core.role, Leader)\n",
            )
        ],
        oracles=["lies"],
        judge="lies",
    ),
)
