"""Deliberate bugs in the rules for changes of the members (`raft.membership`, `raft.changes`)."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

CORE = "raft.core"
MEMBERSHIP = "raft.membership"
CHANGES = "raft.changes"

MEMBER_BUGS: Sequence[Mutant] = (
    plant(
        "members-used-on-commit",
        "a configuration is in force once it is committed, not as soon as it is in the log (section 4.1)",
        MEMBERSHIP,
        "        last = self.known[-1]\n",
        "        last = self.known[0]\n",
        oracles=["A3", "A4", "A5", "I1", "I9"],
    ),
    plant(
        "members-changed-before-an-entry-of-the-term",
        "a new leader changes the members before it has committed anything itself (correction of 2015)",
        CHANGES,
        "    has_committed = leader.first_index <= core.commit_index\n",
        "    has_committed = True\n",
        oracles=["I12"],
    ),
    plant(
        "learner-counted",
        "what a learner holds counts as a voter's copy",
        CHANGES,
        "        others = [progress[node] for node in peers if configuration.counts(node, progress[node].directory_id)]\n",
        "        others = [progress[node] for node in peers] and list(progress.values())\n",
        oracles=["A3", "A4", "I9"],
    ),
    plant(
        "joint-commits-by-new-voters",
        "while several voters are replaced, a majority of the new ones commits (section 4.3)",
        CHANGES,
        "    for group in configuration.groups:\n",
        "    for group in configuration.groups[:1]:\n",
        oracles=["A3", "A4", "I9"],
    ),
    plant(
        "joint-elects-by-new-voters",
        "while several voters are replaced, a majority of the new ones elects (section 4.3)",
        "raft.quorum",
        "len(granted & group) >= majority(len(group)) for group in groups)",
        "len(granted & group) >= majority(len(group)) for group in list(groups)[:1])",
        oracles=["I1", "I3"],
    ),
    plant(
        "wiped-voter-votes",
        "the vote of a node that has lost its directory counts as that of the voter that it was",
        CORE,
        "            if self.configuration.counts(sender, reply.directory_id):\n"
        "                self.role.granted.add(sender)\n"
        "            if is_quorum(self.role.granted, self.configuration.groups):\n"
        "                self._become_leader()\n",
        "            self.role.granted.add(sender)\n"
        "            if is_quorum(self.role.granted, self.configuration.groups):\n"
        "                self._become_leader()\n",
        oracles=["I1", "I3"],
    ),
    plant(
        "wiped-voter-holds",
        "what a node without its directory holds counts as a copy of the voter that it was",
        CHANGES,
        "if configuration.counts(node, progress[node].directory_id)]",
        "if configuration.counts(node, configuration.directory_ids.get(node, 0))]",
        oracles=["A3", "A4", "I9"],
    ),
    plant(
        "wiped-voter-keeps-its-directory",
        "a node that remembers nothing returns as the voter that it was, although the members have changed",
        "raft.recall",
        "            return HardState(term, directory_id=self.question)\n",
        "            return HardState(term)\n",
        oracles=["A1", "A3", "A4", "A7", "I1", "I3", "I8", "I9"],
    ),
    plant(
        "wiped-voter-excluded-at-once-or-never",
        "a leader that may not yet change the members never makes a learner of a voter without its directory",
        CHANGES,
        "    if any(group.silent for group in leader.groups):\n",
        "    if not leader:\n",
        oracles=["script", "V-storm", "V-liveness"],
    ),
    plant(
        "new-directory-keeps-its-copies",
        "what the last directory of a node held is believed of its new one",
        CHANGES,
        "    progress.reset(LogIndex(core.log.last_index + 1))\n",
        "    assert progress\n",
        oracles=["script"],
    ),
    plant(
        "members-not-stored",
        "the hard state forgets the configurations, so a restart begins with the first one",
        "raft.storage",
        "state.directory_id, state.configurations)\n",
        'state.directory_id, b"")\n',
        oracles=["A5"],
    ),
    plant(
        "members-not-undone",
        "a configuration stays in force though its entry was replaced",
        MEMBERSHIP,
        "        del self.known[len(self.known) - len(replaced) :]\n",
        "        assert replaced is not None\n",
        oracles=["A5", "I1", "I9"],
    ),
    plant(
        "replaced-members-not-stored",
        "a configuration that is about to be replaced is forgotten before its entry is",
        CHANGES,
        "    core._persist(hard_state=core.hard_state(replaced))\n",
        "    core._persist(hard_state=core.hard_state())\n",
        oracles=["A5"],
    ),
    plant(
        "snapshot-without-members",
        "a follower that is reset to a snapshot keeps the configuration that it had",
        CORE,
        "        configuration = self.membership.snapshot()\n",
        '        configuration = self.membership.snapshot()[:0] or b""\n',
        oracles=["A5", "I1"],
    ),
    plant(
        "blank-node-asks-only-its-first-members",
        "an answer does not report that the members have changed",
        CORE,
        "has_changed=self.membership.has_changed)",
        "has_changed=False)",
        oracles=["A1", "A3", "A4", "A7", "I1", "I3", "I8", "I9", "V-liveness"],
    ),
)
