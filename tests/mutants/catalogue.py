"""The deliberate bugs: mistakes that people have made, each a few lines, each invisible on the happy path."""

from collections.abc import Sequence

from tests.mutants.blank_bugs import BLANK_BUGS
from tests.mutants.driver_bugs import DRIVERS
from tests.mutants.harness_bugs import HARNESS
from tests.mutants.kafka_bugs import KAFKA_BUGS
from tests.mutants.kafka_copy_bugs import KAFKA_COPY_BUGS
from tests.mutants.kafka_host_bugs import KAFKA_HOST_BUGS
from tests.mutants.mutant import Edit, Mutant
from tests.mutants.rocketmq_bugs import ROCKETMQ_BUGS
from tests.mutants.rocketmq_group_bugs import ROCKETMQ_GROUP_BUGS
from tests.mutants.rocketmq_host_bugs import ROCKETMQ_HOST_BUGS
from tests.mutants.shell_bugs import SHELL
from tests.mutants.simulator_bugs import SIMULATOR

CORE = "raft.core"

RAFT: Sequence[Mutant] = (
    Mutant(
        name="vote-before-durable",
        bug="a granted vote leaves before the vote is durable (P1)",
        module=CORE,
        edits=[
            Edit(
                "Send(sender, VoteReply(self.term, granted), after=self._hard_state_write)",
                "Send(sender, VoteReply(self.term, granted))",
            )
        ],
        oracles=["A1"],
    ),
    Mutant(
        name="vote-not-persisted",
        bug="a granted vote is never written (P1)",
        module=CORE,
        edits=[
            Edit(
                "                self._persist(hard_state=HardState(self.term, sender, self.floor))",
                "                pass",
            )
        ],
        oracles=["A1"],
        explored=True,
    ),
    Mutant(
        name="votes-twice",
        bug="a vote is granted but not remembered, so others get one too in the same term",
        module=CORE,
        edits=[Edit("                self.vote = sender\n", "")],
        oracles=["A1", "I1"],
        explored=True,
    ),
    Mutant(
        name="candidacy-before-durable",
        bug="requests for votes leave before the candidate's own vote is durable (P1)",
        module=CORE,
        edits=[
            Edit(
                "            self._effects.append(Send(peer, request, after=write))",
                "            self._effects.append(Send(peer, request))",
            )
        ],
        oracles=["A1"],
    ),
    Mutant(
        name="ack-before-fsync",
        bug="a follower acknowledges entries that are not on its disk yet (P3)",
        module=CORE,
        edits=[Edit("Send(sender, accepted, after=self._write_covering(match_index))", "Send(sender, accepted)")],
        oracles=["A2"],
    ),
    Mutant(
        name="term-not-persisted",
        bug="a newer term learnt from a message is not written (P1, P2)",
        module=CORE,
        edits=[Edit("            self._persist(hard_state=HardState(term, None, self.floor))\n", "")],
        oracles=["A2"],
    ),
    Mutant(
        name="leader-counts-itself-unflushed",
        bug="a leader counts its own copy before its own flush (P4)",
        module=CORE,
        edits=[
            Edit(
                "reached_by_majority([*matched, self.log.durable_index])",
                "reached_by_majority([*matched, self.log.last_index])",
            )
        ],
        oracles=["I9", "A3"],
    ),
    Mutant(
        name="commit-by-count-of-older-term",
        bug="an entry of an earlier term is committed by counting copies (section 5.4.2, figure 8)",
        module=CORE,
        edits=[
            Edit(
                "if reached > self.commit_index and self.log.term_at(reached) == self.term:",
                "if reached > self.commit_index:",
            )
        ],
        oracles=["I6", "A4"],
        explored=True,
    ),
    Mutant(
        name="commit-ordered-before-its-entry",
        bug="what a step commits is ordered to be served before what it appends is ordered to be written",
        module=CORE,
        edits=[
            Edit(
                "effects, self._effects = self._effects, []",
                "effects, self._effects = sorted(self._effects, key=lambda effect: not isinstance(effect, Commit)), []",
            )
        ],
        oracles=["I4"],
    ),
    Mutant(
        name="no-previous-term-check",
        bug="a follower checks that the previous entry is there, not that it is the same (section 5.3)",
        module=CORE,
        edits=[
            Edit(
                "if not self.log.matches(request.prev_index, request.prev_term):",
                "if request.prev_index > self.log.last_index:",
            )
        ],
        oracles=["I2", "A2"],
        explored=True,
    ),
    Mutant(
        name="no-up-to-date-check",
        bug="votes go to candidates whose log is behind (section 5.4.1)",
        module=CORE,
        edits=[
            Edit(
                "asked.up_to_date_with(self.log.position) and",
                "asked.index >= 0 and",
            )
        ],
        oracles=["I3"],
    ),
    Mutant(
        name="up-to-date-by-length-only",
        bug="logs are compared by their length, not by their last term first (section 5.4.1)",
        module=CORE,
        edits=[
            Edit(
                "asked.up_to_date_with(self.log.position) and",
                "asked.index >= self.log.last_index and",
            )
        ],
        oracles=["I3"],
    ),
    Mutant(
        name="positions-compare-by-length-first",
        bug="everywhere a longer log is taken for more up to date than one of a later term (section 5.4.1)",
        module="raft.model",
        edits=[
            Edit(
                "return (self.term, self.index) >= (other.term, other.index)",
                "return (self.index, self.term) >= (other.index, other.term)",
            )
        ],
        oracles=["I3", "A7"],
    ),
    Mutant(
        name="commit-not-clamped",
        bug="a follower commits up to the leader's index though its own tail is not known to match",
        module=CORE,
        edits=[
            Edit(
                "self._commit(min(request.commit_index, follower.verified_index))",
                "self._commit(min(request.commit_index, self.log.last_index))",
            )
        ],
        oracles=["I4"],
    ),
    Mutant(
        name="truncates-what-matches",
        bug="every append replaces all from its first entry on, whether or not anything conflicts (P5)",
        module=CORE,
        edits=[
            Edit("        missing = self.log.missing_from(request.entries)\n", "        missing = request.entries\n"),
            Edit(
                '            assert missing[0].index > self.commit_index, "a committed entry would be replaced (P5)"\n',
                "",
            ),
        ],
        oracles=["I4", "A2"],
    ),
    Mutant(
        name="read-without-quorum",
        bug="a leader serves reads without asking a majority whether it still leads (P12)",
        module=CORE,
        edits=[
            Edit(
                "            leader.reads.begin(leader.round + 1, self.commit_index)\n",
                "            leader.reads.begin(leader.round, self.commit_index)\n",
            ),
            Edit(
                "        done = leader.reads.confirm(reached_by_majority([*acked, leader.round]))\n",
                "        done = leader.reads.confirm(max([*acked, leader.round]))\n",
            ),
        ],
        oracles=["A6", "B-stale"],
    ),
    Mutant(
        name="read-counts-older-rounds",
        bug="answers to heartbeats sent before the read arrived confirm it (P12)",
        module=CORE,
        edits=[
            Edit(
                "            leader.reads.begin(leader.round + 1, self.commit_index)\n",
                "            leader.reads.begin(leader.round, self.commit_index)\n",
            )
        ],
        oracles=["A6", "B-stale"],
    ),
    Mutant(
        name="read-before-own-commit",
        bug="a new leader serves reads before it has committed anything itself (P12)",
        module=CORE,
        edits=[
            Edit(
                "if leader.reads.can_begin() and self.commit_index >= leader.first_index:",
                "if leader.reads.can_begin():",
            )
        ],
        oracles=["A6", "B-stale"],
    ),
    Mutant(
        name="stale-vote-counted",
        bug="a vote given in an earlier term counts for the present one",
        module=CORE,
        edits=[
            Edit(
                "        elif reply.term == self.term and reply.granted and isinstance(self.role, Candidate):",
                "        elif reply.granted and isinstance(self.role, Candidate):",
            )
        ],
        oracles=["I1", "I3"],
    ),
    Mutant(
        name="vote-ignores-floor",
        bug="a node whose log damage has cut votes for logs that lack what it held",
        module=CORE,
        edits=[Edit(" and asked.up_to_date_with(self.floor)", "")],
        oracles=["A7", "I3"],
    ),
    Mutant(
        name="campaigns-below-floor",
        bug="a node whose log damage has cut gives its floor up and campaigns when it hears no leader",
        module=CORE,
        edits=[
            Edit(
                "                if self.floor == NO_POSITION:\n",
                "                self.floor = NO_POSITION\n                if self.floor == NO_POSITION:\n",
            )
        ],
        oracles=["A7", "I3"],
    ),
    Mutant(
        name="floor-not-kept",
        bug="the next hard state that a node saves forgets the floor, so a second restart begins without it",
        module="raft.storage",
        edits=[
            Edit("    if state.floor != NO_POSITION:\n", "    if state.floor != NO_POSITION and state.vote is None:\n")
        ],
        oracles=["A5", "A7"],
    ),
    Mutant(
        name="mark-before-flush",
        bug="the durable-end checkpoint records a flush that is not done yet",
        module="log.segmented_log",
        edits=[Edit("steps.append(partial(self._mark.write", "steps.insert(0, partial(self._mark.write")],
        oracles=["A5"],
    ),
    Mutant(
        name="match-never-falls",
        bug="a leader never learns that a follower came back with less than it had proved",
        module=CORE,
        edits=[
            Edit(
                "            if reply.round <= progress.accepted_round:\n",
                "            if reply.round >= 0:\n",
            )
        ],
        oracles=["V-liveness"],
    ),
    Mutant(
        name="verified-survives-leader",
        bug="what matched an earlier leader's log is taken to match the new one's",
        module=CORE,
        edits=[
            Edit(
                "                self.role = Follower(deadline, leader)\n",
                "                self.role = Follower(deadline, leader, getattr(old, 'verified_index', NO_INDEX))\n",
            )
        ],
        oracles=["A2", "I4"],
    ),
    Mutant(
        name="superseded-write-proves-durable",
        bug="the completion of a write marks entries durable that have replaced its own (P9)",
        module=CORE,
        edits=[
            Edit(
                "attrs.evolve(write, last_index=min(write.last_index, kept)) for write in self._pending_writes",
                "write for write in self._pending_writes",
            )
        ],
        oracles=["A2", "I9"],
    ),
    Mutant(
        name="pre-vote-raises-term",
        bug="a node takes over the term of a mere pre-vote request (section 9.6)",
        module=CORE,
        edits=[
            Edit(
                "        granted = (\n            request.term > self.term\n            and not self._trusts_a_leader()",
                "        if request.term > self.term and not self._trusts_a_leader():\n"
                "            self._become_follower(Term(request.term - 1), leader=None)\n"
                "        granted = (\n            request.term > self.term\n            and not self._trusts_a_leader()",
            )
        ],
        oracles=["I10"],
    ),
    Mutant(
        name="half-is-a-majority",
        bug="in a group of four, two are taken for a majority",
        module="raft.quorum",
        edits=[Edit("    return voters // 2 + 1", "    return (voters + 1) // 2")],
        oracles=["I9", "I1"],
    ),
    Mutant(
        name="window-forgets-lost-acks",
        bug="a follower never repeats a lost acknowledgement, so a full window stays full",
        module=CORE,
        edits=[
            Edit(
                "        match_index = max(last_index, min(follower.verified_index, self.log.durable_index))\n",
                "        match_index = last_index\n",
            )
        ],
        oracles=["V-liveness"],
    ),
)

TRIMS: Sequence[Mutant] = (
    Mutant(
        name="begins-anew-although-it-holds-more",
        bug="a follower forgets what it has acknowledged when its leader says where logs begin",
        module=CORE,
        edits=[
            Edit(
                "        if not self.log.matches(start.index, start.position.term):\n",
                "        if start.index > self.commit_index:\n",
            )
        ],
        oracles=["I8", "I9", "A4"],
    ),
    Mutant(
        name="snapshot-counts-before-it-arrived",
        bug="a leader counts what it has sent a snapshot of as held",
        module=CORE,
        edits=[
            Edit(
                "            progress.next_index = LogIndex(start.index + 1)\n",
                "            progress.note_accepted(start.index)\n",
            )
        ],
        oracles=["I8", "I9"],
    ),
    Mutant(
        name="snapshot-never-sent",
        bug="a leader goes on from where its log begins, whether or not the follower has what was before",
        module=CORE,
        edits=[
            Edit(
                "            self._send_snapshot_part(leader, peer, progress.snapshot_offset)\n            return\n",
                "",
            )
        ],
        oracles=["V-liveness"],
    ),
    Mutant(
        name="snapshot-never-starts-over",
        bug="a leader sends on where it was, though the follower has restarted and lacks the beginning",
        module="raft.progress",
        edits=[
            Edit(
                "        self.snapshot_offset = received\n",
                "        self.snapshot_offset = max(self.snapshot_offset, received)\n",
            )
        ],
        oracles=["V-liveness"],
    ),
    Mutant(
        name="trims-what-is-not-applied",
        bug="segments leave the log though not all of them is committed, durable and applied",
        module="raft.storage",
        edits=[Edit("last_index + 1, max(self.log.last_index, 1))", "max(self.log.last_index, 1))")],
        oracles=["A5", "A8"],
    ),
    Mutant(
        name="snapshot-is-put-down-for-less",
        bug="a trim says that its snapshot knows what has left, and not more",
        module="raft.storage",
        edits=[
            Edit(
                "        return self.trim_with(first_index, SnapshotToStore(applied, snapshot))\n",
                "        applied = Position(LogIndex(first_index - 1), applied.term)\n"
                "        return self.trim_with(first_index, SnapshotToStore(applied, snapshot))\n",
            )
        ],
        oracles=["A8", "I11"],
    ),
    Mutant(
        name="start-keeps-the-older-term",
        bug="a log that is reset begins after an entry of the term that it had itself",
        module="raft.storage",
        edits=[
            Edit(
                "            self.log.reset(_tail_of(start), staged.payload)\n",
                "            term = self.log.last_epoch or start.position.term\n"
                "            self.log.reset(LogTail(start.index, term, start.offset), staged.payload)\n",
            )
        ],
        oracles=["A8", "A5"],
    ),
    Mutant(
        name="restart-forgets-snapshot",
        bug="a restart begins where the log does, with an empty state machine",
        module="raft.storage",
        edits=[
            Edit(
                "            return LogStart(position, Offset(before.end_offset), Position(LogIndex(index), Term(term)), snapshot)\n",
                "            return LogStart(position, Offset(before.end_offset), Position(LogIndex(index), Term(term)))\n",
            )
        ],
        oracles=["A5", "A8", "I11"],
    ),
    Mutant(
        name="names-go-before-the-log-start",
        bug="a flush takes the names of what left away before it is put down where the log begins",
        module="log.retirement",
        edits=[
            Edit(
                "            commit(self._disk, self._directory)\n            self.begins_at = start.base\n",
                "            self.begins_at = start.base\n",
            ),
            Edit(
                "            self.keep_room(len(start.payload))\n",
                "            self._disk.sync_directory(self._directory)\n            commit(self._disk, self._directory)\n",
            ),
        ],
        oracles=["A5", "I8"],
    ),
)

DRIVER: Sequence[Mutant] = (
    Mutant(
        name="outbox-one-write-early",
        bug="a held message leaves one write too early",
        module="raft.outbox",
        edits=[Edit("            if send.after > self.durable:", "            if send.after > self.durable + 1:")],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="outbox-holds-nothing-of-the-newest",
        bug="a message that depends on the newest write does not wait for it",
        module="raft.outbox",
        edits=[Edit("        if send.after <= self.durable:", "        if send.after <= self.durable + 1:")],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="outbox-keeps-older-terms",
        bug="a message held since an older term is sent once its write is durable (P9)",
        module="raft.outbox",
        edits=[Edit("            elif send.message.term >= term:", "            elif term >= 0:")],
        oracles=["A2"],
    ),
    Mutant(
        name="flush-proves-later-writes",
        bug="a flush that ends proves all that was written meanwhile, not what was written before it began",
        module="raft.storage",
        edits=[
            Edit(
                "        self.durable = max(self.durable, flush.write_id)\n",
                "        self.durable = self.written\n",
            )
        ],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="restart-forgets-vote",
        bug="a restart reads the term back, but not the vote",
        module="raft.storage",
        edits=[
            Edit(
                "            return HardState(Term(term), None if vote is None else NodeId(vote))",
                "            return HardState(Term(term), None if vote is None else None)",
            )
        ],
        oracles=["A5"],
    ),
    Mutant(
        name="restart-trusts-page-cache",
        bug="what a killed process left in the page cache is taken to be on the disk (P10)",
        module="log.recovery",
        edits=[
            Edit(
                "            found.file.write_at(position, [chunk])\n        found.file.sync()\n",
                "            assert chunk\n",
            )
        ],
        oracles=["A5", "A2"],
    ),
)

LOG: Sequence[Mutant] = (
    Mutant(
        name="directory-not-synced",
        bug="the name of a new segment is never synced, so power loss takes the whole file",
        module="log.segmented_log",
        edits=[Edit("            steps.append(self._sync_directory)\n", "            pass\n")],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="sealed-segment-not-synced",
        bug="a flush forgets the segments that were filled since the last one",
        module="log.segmented_log",
        edits=[Edit("tuple(self._unproven), self._fail", "(), self._fail")],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="torn-tail-not-cut",
        bug="recovery leaves the torn tail in place, and the log goes on behind it",
        module="log.recovery",
        edits=[
            Edit(
                "        found.file.cut(found.valid_bytes + 1)\n        found.file.cut(found.valid_bytes)\n"
                "        found.segment.size = found.valid_bytes\n",
                "",
            )
        ],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="torn-payload-accepted",
        bug="recovery checks the frame's header, but not its payload",
        module="log.scan",
        edits=[
            Edit(
                "            if checksum(payload) != header.payload_crc:\n"
                '                raise DamagedFrame("the checksum of the payload does not match", header)\n'
                "            found",
                "            found",
            )
        ],
        oracles=["A5"],
    ),
    Mutant(
        name="truncation-keeps-old-index",
        bug="replacing a tail leaves the old entries' places in the index",
        module="log.segmented_log",
        edits=[
            Edit(
                "            self._lookup.cut(first_index, frames[0].base_offset)\n",
                "",
            )
        ],
        oracles=["B-moved", "B-diverged"],
    ),
    Mutant(
        name="oldest-state-wins",
        bug="recovery takes term and vote from the oldest segment instead of the newest",
        module="log.recovery",
        edits=[
            Edit(
                "        for each in reversed(kept):\n            position = each.summary",
                "        for each in kept:\n            position = each.summary",
            )
        ],
        oracles=["A5"],
    ),
)

CHECKER: Sequence[Mutant] = (
    Mutant(
        name="checker-ignores-time",
        bug="the log checker does not ask whether what ended before is seen by what began after",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit(
                "        bad = np.flatnonzero(known > least)\n",
                "        bad = np.flatnonzero(known < 0)\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-believes-empty-reads",
        bug="a read that saw nothing is not held against what was known to be there",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit(
                "    denies = (rows.f != Action.READ) | (rows.a == NONE)\n",
                "    denies = rows.f != Action.READ\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-skips-missed-swaps",
        bug="a compare-and-set that did not swap is not taken for a read of what it saw",
        module="jepsen_like.checker.register.scan",
        edits=[
            Edit(
                "    read = happened & ((rows.f == Action.READ) | (cas & ~swap))\n",
                "    read = happened & (rows.f == Action.READ)\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-forgives-unwritten",
        bug="a register may show a value that nobody wrote",
        module="jepsen_like.checker.register.scan",
        edits=[
            Edit(
                "    unwritten = np.flatnonzero(blocks.seen & (blocks.writers == 0) & (blocks.value != NONE))\n",
                "    unwritten = np.flatnonzero(blocks.seen & (blocks.writers < 0) & (blocks.value != NONE))\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-looks-at-one-final-log",
        bug="the final logs of the nodes are judged as one: a node that lacks its end is not noticed",
        module="jepsen_like.checker.log.explain",
        edits=[Edit("key=lambda log: log.node) if log.end < end]\n", "key=lambda log: log.node) if log.end < 0]\n")],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-fills-holes-of-final-logs",
        bug="what was read counts as there, though the final logs hold nothing at its place",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit(
                "        there[there] = content[offset[there]] != NONE\n",
                "",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-ignores-epochs-named",
        bug="an acknowledgement may name another epoch than the one in the final logs",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit("    differs = np.flatnonzero(epochs[offset] != epoch)\n", "    differs = np.flatnonzero(epoch < 0)\n")
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-lets-epochs-fall",
        bug="epochs may fall along a log",
        module="jepsen_like.checker.log.scan",
        edits=[
            Edit(
                "    falls = np.flatnonzero(np.diff(epochs[places]) < 0)\n",
                "    falls = np.flatnonzero(np.diff(epochs[places]) < -NEVER)\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-takes-batches-apart",
        bug="the records of a batch of unknown outcome count as appends of their own",
        module="jepsen_like.checker.log.batches",
        edits=[Edit("    of_batch = np.flatnonzero(batch != NONE)\n", "    of_batch = np.flatnonzero(batch < NONE)\n")],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-sees-halves-of-batches",
        bug="a length that ends inside a batch counts as any other",
        module="jepsen_like.checker.log.batches",
        edits=[
            Edit(
                "    inside = (at >= 0) & (lengths < spans[1][at])\n",
                "    inside = (at >= 0) & (lengths < 0)\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-believes-refused-swaps",
        bug="a compare-and-set may be refused although the value that it expected is there",
        module="jepsen_like.checker.register.scan",
        edits=[
            Edit(
                "    refused = cas & (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE)\n",
                "    refused = cas & (rows.type == Outcome.FAIL) & (rows.err != rows.err)\n",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-forgives-lost-updates",
        bug="two swaps may replace one and the same value",
        module="jepsen_like.checker.register.scan",
        edits=[
            Edit(
                "    found += [FlawFound(Flaw.REPLACED_TWICE, int(blocks.object[block]), int(block)) for block in replaced]\n",
                "",
            )
        ],
        oracles=["planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-asks-a-tree-for-its-order",
        bug="where a value was replaced twice, both that replaced it are held to the order of one chain",
        module="jepsen_like.checker.register.scan",
        edits=[Edit("    is_tree[trees] = True\n", "")],
        oracles=["definition", "planted"],
        judge="checker",
    ),
    Mutant(
        name="checker-excuses-any-age",
        bug="any clock that was set excuses a record that left too young, however little it was set",
        module="jepsen_like.checker.log.clocks",
        edits=[
            Edit(
                "np.maximum(found, jump.offset_s), found)\n        return found\n\n\nRIGHT_CLOCKS",
                "NEVER, found)\n        return found\n\n\nRIGHT_CLOCKS",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-charges-what-was-replaced-by-no-leader",
        bug="under a rule of bytes, appends of unknown outcome excuse what left though no later leader replaced them",
        module="jepsen_like.checker.log.retention",
        edits=[Edit("    led_until_ns = since_ns if terms > 0 else", "    led_until_ns = since_ns if terms > -1 else")],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="checker-forgives-what-survived",
        bug="a record that was read after a fault is charged to it",
        module="jepsen_like.checker.log.forgiveness",
        edits=[
            Edit(
                "        read_after = np.flatnonzero(self._saw_lost & (rows.t_inv > one.injected_ns))\n",
                "        read_after = np.flatnonzero(self._saw_lost & (rows.t_inv > NEVER))\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
)

ALL: Sequence[Mutant] = (
    *RAFT,
    *BLANK_BUGS,
    *TRIMS,
    *DRIVER,
    *LOG,
    *SHELL,
    *CHECKER,
    *HARNESS,
    *DRIVERS,
    *SIMULATOR,
    *KAFKA_BUGS,
    *KAFKA_COPY_BUGS,
    *KAFKA_HOST_BUGS,
    *ROCKETMQ_BUGS,
    *ROCKETMQ_GROUP_BUGS,
    *ROCKETMQ_HOST_BUGS,
)


def by_name(name: str) -> Mutant:
    """The mutant of this name; `KeyError` if there is none."""
    return {mutant.name: mutant for mutant in ALL}[name]
