"""The deliberate bugs: mistakes that people have made, each a few lines, each invisible on the happy path."""

from collections.abc import Sequence

from tests.mutants.access_bugs import ACCESS_BUGS
from tests.mutants.answer_bugs import ANSWER_BUGS
from tests.mutants.beside_bugs import BESIDE_BUGS
from tests.mutants.blank_bugs import BLANK_BUGS
from tests.mutants.budget_bugs import BUDGET_BUGS
from tests.mutants.capacity_bugs import CAPACITY_BUGS
from tests.mutants.claim_bugs import CLAIM_BUGS
from tests.mutants.compaction_judge_bugs import COMPACTION_JUDGE_BUGS
from tests.mutants.cycle_judge_bugs import CYCLE_JUDGE_BUGS
from tests.mutants.driver_bugs import DRIVERS
from tests.mutants.foreign_bugs import FOREIGN_BUGS
from tests.mutants.full_disk_bugs import FULL_DISK_BUGS
from tests.mutants.harness_bugs import HARNESS
from tests.mutants.kafka_bugs import KAFKA_BUGS
from tests.mutants.kafka_compaction_bugs import KAFKA_COMPACTION_BUGS
from tests.mutants.kafka_consumer_bugs import KAFKA_CONSUMER_BUGS
from tests.mutants.kafka_copy_bugs import KAFKA_COPY_BUGS
from tests.mutants.kafka_host_bugs import KAFKA_HOST_BUGS
from tests.mutants.kafka_move_bugs import KAFKA_MOVE_BUGS
from tests.mutants.kafka_transaction_bugs import KAFKA_TRANSACTION_BUGS
from tests.mutants.member_bugs import MEMBER_BUGS
from tests.mutants.mirror_judge_bugs import MIRROR_JUDGE_BUGS
from tests.mutants.mutant import Edit, Mutant, plant
from tests.mutants.operator_bugs import OPERATOR_BUGS
from tests.mutants.recording_bugs import RECORDING_BUGS
from tests.mutants.rocketmq_bugs import ROCKETMQ_BUGS
from tests.mutants.rocketmq_group_bugs import ROCKETMQ_GROUP_BUGS
from tests.mutants.rocketmq_host_bugs import ROCKETMQ_HOST_BUGS
from tests.mutants.shell_bugs import SHELL
from tests.mutants.simulator_bugs import SIMULATOR
from tests.mutants.standby_bugs import STANDBY_BUGS
from tests.mutants.target_bugs import TARGET_BUGS
from tests.mutants.transaction_judge_bugs import TRANSACTION_JUDGE_BUGS
from tests.mutants.trust_bugs import TRUST_BUGS
from tests.mutants.two_topics_bugs import TWO_TOPICS_BUGS
from tests.mutants.worth_bugs import WORTH_BUGS
from tests.mutants.zone_bugs import ZONE_BUGS

CORE = "raft.core"

RAFT: Sequence[Mutant] = (
    plant(
        "vote-before-durable",
        "a granted vote leaves before the vote is durable (P1)",
        CORE,
        "Send(sender, reply, after=self._hard_state_write)",
        "Send(sender, reply)",
        oracles=["A1"],
    ),
    plant(
        "vote-not-persisted",
        "a granted vote is never written (P1)",
        CORE,
        "                self._persist(hard_state=self.hard_state())\n        reply = VoteReply",
        "                pass\n        reply = VoteReply",
        oracles=["A1"],
        explored=True,
    ),
    plant(
        "votes-twice",
        "a vote is granted but not remembered, so others get one too in the same term",
        CORE,
        "                self.vote = sender\n",
        "",
        oracles=["A1", "I1"],
        explored=True,
    ),
    plant(
        "candidacy-before-durable",
        "requests for votes leave before the candidate's own vote is durable (P1)",
        CORE,
        "            self._effects.append(Send(peer, request, after=write))",
        "            self._effects.append(Send(peer, request))",
        oracles=["A1"],
    ),
    plant(
        "ack-before-fsync",
        "a follower acknowledges entries that are not on its disk yet (P3)",
        CORE,
        "Send(sender, accepted, after=self._write_covering(match_index))",
        "Send(sender, accepted)",
        oracles=["A2"],
    ),
    plant(
        "term-not-persisted",
        "a newer term learnt from a message is not written (P1, P2)",
        CORE,
        "            self._persist(hard_state=self.hard_state())\n        match old:\n",
        "        match old:\n",
        oracles=["A2"],
    ),
    plant(
        "leader-counts-itself-unflushed",
        "a leader counts its own copy before its own flush (P4)",
        CORE,
        "leader.count_copies(self.log.durable_index)",
        "leader.count_copies(self.log.last_index)",
        oracles=["I9", "A3"],
    ),
    plant(
        "commit-by-count-of-older-term",
        "an entry of an earlier term is committed by counting copies (section 5.4.2, figure 8)",
        CORE,
        "if reached > self.commit_index and self.log.term_at(reached) == self.term:",
        "if reached > self.commit_index:",
        oracles=["I6", "A4"],
        explored=True,
    ),
    plant(
        "commit-ordered-before-its-entry",
        "what a step commits is ordered to be served before what it appends is ordered to be written",
        CORE,
        "effects, self._effects = self._effects, []",
        "effects, self._effects = sorted(self._effects, key=lambda effect: not isinstance(effect, Commit)), []",
        oracles=["I4"],
    ),
    plant(
        "no-previous-term-check",
        "a follower checks that the previous entry is there, not that it is the same (section 5.3)",
        CORE,
        "if not self.log.matches(request.prev_index, request.prev_term):",
        "if request.prev_index > self.log.last_index:",
        oracles=["I2", "A2"],
        explored=True,
    ),
    plant(
        "no-up-to-date-check",
        "votes go to candidates whose log is behind (section 5.4.1)",
        CORE,
        "asked.up_to_date_with(self.log.position) and",
        "asked.index >= 0 and",
        oracles=["I3"],
    ),
    plant(
        "up-to-date-by-length-only",
        "logs are compared by their length, not by their last term first (section 5.4.1)",
        CORE,
        "asked.up_to_date_with(self.log.position) and",
        "asked.index >= self.log.last_index and",
        oracles=["I3"],
    ),
    plant(
        "positions-compare-by-length-first",
        "everywhere a longer log is taken for more up to date than one of a later term (section 5.4.1)",
        "raft.model",
        "return (self.term, self.index) >= (other.term, other.index)",
        "return (self.index, self.term) >= (other.index, other.term)",
        oracles=["I3", "A7"],
    ),
    plant(
        "commit-not-clamped",
        "a follower commits up to the leader's index though its own tail is not known to match",
        CORE,
        "self._commit(min(request.commit_index, follower.verified_index))",
        "self._commit(min(request.commit_index, self.log.last_index))",
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
                "        done = leader.reads.confirm(leader.confirmed_round())\n",
                "        done = leader.reads.confirm(leader.round)\n",
            ),
        ],
        oracles=["A6", "B-stale"],
    ),
    plant(
        "read-counts-older-rounds",
        "answers to heartbeats sent before the read arrived confirm it (P12)",
        CORE,
        "            leader.reads.begin(leader.round + 1, self.commit_index)\n",
        "            leader.reads.begin(leader.round, self.commit_index)\n",
        oracles=["A6", "B-stale"],
    ),
    plant(
        "read-before-own-commit",
        "a new leader serves reads before it has committed anything itself (P12)",
        CORE,
        "if leader.reads.can_begin() and self.commit_index >= leader.first_index:",
        "if leader.reads.can_begin():",
        oracles=["A6", "B-stale"],
    ),
    plant(
        "stale-vote-counted",
        "a vote given in an earlier term counts for the present one",
        CORE,
        "        elif reply.term == self.term and reply.granted and isinstance(self.role, Candidate):",
        "        elif reply.granted and isinstance(self.role, Candidate):",
        oracles=["I1", "I3"],
    ),
    plant(
        "vote-ignores-floor",
        "a node whose log damage has cut votes for logs that lack what it held",
        CORE,
        " and asked.up_to_date_with(self.floor)",
        "",
        oracles=["A7", "I3"],
    ),
    plant(
        "campaigns-below-floor",
        "a node whose log damage has cut gives its floor up and campaigns when it hears no leader",
        CORE,
        "                if self.may_campaign():\n",
        "                self.floor = NO_POSITION\n                if self.may_campaign():\n",
        oracles=["A7", "I3"],
    ),
    plant(
        "floor-not-kept",
        "the next hard state that a node saves forgets the floor, so a second restart begins without it",
        "raft.storage",
        "    if state.floor != NO_POSITION:\n",
        "    if state.floor != NO_POSITION and state.vote is None:\n",
        oracles=["A5", "A7"],
    ),
    plant(
        "mark-before-flush",
        "the durable-end checkpoint records a flush that is not done yet",
        "log.segmented_log",
        "steps.append(partial(self._mark.write",
        "steps.insert(0, partial(self._mark.write",
        oracles=["A5"],
    ),
    plant(
        "match-never-falls",
        "a leader never learns that a follower came back with less than it had proved",
        CORE,
        "            if reply.round <= progress.accepted_round:\n",
        "            if reply.round >= 0:\n",
        oracles=["V-liveness"],
    ),
    plant(
        "verified-survives-leader",
        "what matched an earlier leader's log is taken to match the new one's",
        CORE,
        "                self.role = Follower(deadline, leader)\n",
        "                self.role = Follower(deadline, leader, getattr(old, 'verified_index', NO_INDEX))\n",
        oracles=["A2", "I4"],
    ),
    plant(
        "superseded-write-proves-durable",
        "the completion of a write marks entries durable that have replaced its own (P9)",
        CORE,
        "attrs.evolve(write, last_index=min(write.last_index, kept)) for write in self._pending_writes",
        "write for write in self._pending_writes",
        oracles=["A2", "I9"],
    ),
    plant(
        "pre-vote-raises-term",
        "a node takes over the term of a mere pre-vote request (section 9.6)",
        CORE,
        "        granted = (\n            request.term > self.term\n            and not self._trusts_a_leader()",
        "        if request.term > self.term and not self._trusts_a_leader():\n"
        "            self._become_follower(Term(request.term - 1), leader=None)\n"
        "        granted = (\n            request.term > self.term\n            and not self._trusts_a_leader()",
        oracles=["I10"],
    ),
    plant(
        "half-is-a-majority",
        "in a group of four, two are taken for a majority",
        "raft.quorum",
        "    return voters // 2 + 1",
        "    return (voters + 1) // 2",
        oracles=["I9", "I1"],
    ),
    plant(
        "window-forgets-lost-acks",
        "a follower never repeats a lost acknowledgement, so a full window stays full",
        CORE,
        "        match_index = max(last_index, min(follower.verified_index, self.log.durable_index))\n",
        "        match_index = last_index\n",
        oracles=["V-liveness"],
    ),
)

TRIMS: Sequence[Mutant] = (
    plant(
        "begins-anew-although-it-holds-more",
        "a follower forgets what it has acknowledged when its leader says where logs begin",
        CORE,
        "        if not self.log.matches(start.index, start.position.term):\n",
        "        if start.index > self.commit_index:\n",
        oracles=["I8", "I9", "A4"],
    ),
    plant(
        "snapshot-counts-before-it-arrived",
        "a leader counts what it has sent a snapshot of as held",
        CORE,
        "            progress.next_index = LogIndex(start.index + 1)\n",
        "            progress.note_accepted(start.index)\n",
        oracles=["I8", "I9"],
    ),
    plant(
        "snapshot-never-sent",
        "a leader goes on from where its log begins, whether or not the follower has what was before",
        CORE,
        "            self._send_snapshot_part(leader, peer, progress.snapshot_offset)\n            return\n",
        "",
        oracles=["V-liveness"],
    ),
    plant(
        "snapshot-never-starts-over",
        "a leader sends on where it was, though the follower has restarted and lacks the beginning",
        "raft.progress",
        "        self.snapshot_offset = received\n",
        "        self.snapshot_offset = max(self.snapshot_offset, received)\n",
        oracles=["V-liveness"],
    ),
    plant(
        "trims-what-is-not-applied",
        "segments leave the log though not all of them is committed, durable and applied",
        "raft.storage",
        "last_index + 1, max(self.log.last_index, 1))",
        "max(self.log.last_index, 1))",
        oracles=["A5", "A8"],
    ),
    plant(
        "snapshot-is-put-down-for-less",
        "a trim says that its snapshot knows what has left, and not more",
        "raft.snapshot_work",
        "            made.append(SnapshotToStore(applied, ",
        "            made.append(SnapshotToStore(attrs.evolve(applied, index=first_index - 1), ",
        oracles=["A8", "I11"],
    ),
    plant(
        "start-keeps-the-older-term",
        "a log that is reset begins after an entry of the term that it had itself",
        "raft.storage",
        "            self.log.reset(_tail_of(start), staged.payload)\n",
        "            term = self.log.last_epoch or start.position.term\n"
        "            self.log.reset(LogTail(start.index, term, start.offset), staged.payload)\n",
        oracles=["A8", "A5"],
    ),
    plant(
        "restart-forgets-snapshot",
        "a restart begins where the log does, with an empty state machine",
        "raft.storage",
        "            return LogStart(position, Offset(before.end_offset), Position(LogIndex(index), Term(term)), snapshot)\n",
        "            return LogStart(position, Offset(before.end_offset), Position(LogIndex(index), Term(term)))\n",
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
    plant(
        "outbox-one-write-early",
        "a held message leaves one write too early",
        "raft.outbox",
        "            if send.after > self.durable:",
        "            if send.after > self.durable + 1:",
        oracles=["A1", "A2"],
    ),
    plant(
        "outbox-holds-nothing-of-the-newest",
        "a message that depends on the newest write does not wait for it",
        "raft.outbox",
        "        if send.after <= self.durable:",
        "        if send.after <= self.durable + 1:",
        oracles=["A1", "A2"],
    ),
    plant(
        "outbox-keeps-older-terms",
        "a message held since an older term is sent once its write is durable (P9)",
        "raft.outbox",
        "            elif send.message.term >= term:",
        "            elif term >= 0:",
        oracles=["A2"],
    ),
    plant(
        "flush-proves-later-writes",
        "a flush that ends proves all that was written meanwhile, not what was written before it began",
        "raft.storage",
        "        self.durable = max(self.durable, flush.write_id)\n",
        "        self.durable = self.written\n",
        oracles=["A1", "A2"],
    ),
    plant(
        "restart-forgets-vote",
        "a restart reads the term back, but not the vote",
        "raft.storage",
        "            return HardState(Term(term), None if vote is None else NodeId(vote))",
        "            return HardState(Term(term), None if vote is None else None)",
        oracles=["A5"],
    ),
    plant(
        "restart-trusts-page-cache",
        "what a killed process left in the page cache is taken to be on the disk (P10)",
        "log.recovery",
        "            found.file.write_at(position, [chunk])\n        found.file.sync()\n",
        "            assert chunk\n",
        oracles=["A5", "A2"],
    ),
)

LOG: Sequence[Mutant] = (
    plant(
        "directory-not-synced",
        "the name of a new segment is never synced, so power loss takes the whole file",
        "log.segmented_log",
        "            steps.append(self._sync_directory)\n",
        "            pass\n",
        oracles=["A1", "A2"],
    ),
    plant(
        "sealed-segment-not-synced",
        "a flush forgets the segments that were filled since the last one",
        "log.segmented_log",
        "tuple(self._unproven), self._fail",
        "(), self._fail",
        oracles=["A1", "A2"],
    ),
    plant(
        "torn-tail-not-cut",
        "recovery leaves the torn tail in place, and the log goes on behind it",
        "log.recovery",
        "        found.file.cut(found.valid_bytes + 1)\n        found.file.cut(found.valid_bytes)\n"
        "        found.segment.size = found.valid_bytes\n",
        "",
        oracles=["A1", "A2"],
    ),
    plant(
        "torn-payload-accepted",
        "recovery checks the frame's header, but not its payload",
        "log.scan",
        "            if checksum(payload) != header.payload_crc:\n"
        '                raise DamagedFrame("the checksum of the payload does not match", header)\n'
        "            found",
        "            found",
        oracles=["A5"],
    ),
    plant(
        "truncation-keeps-old-index",
        "replacing a tail leaves the old entries' places in the index",
        "log.segmented_log",
        "            self._lookup.cut(first_index, frames[0].base_offset)\n",
        "",
        oracles=["B-moved", "B-diverged"],
    ),
    plant(
        "oldest-state-wins",
        "recovery takes term and vote from the oldest segment instead of the newest",
        "log.recovery",
        "        for each in reversed(kept):\n            position = each.summary",
        "        for each in kept:\n            position = each.summary",
        oracles=["A5"],
    ),
)

CHECKER: Sequence[Mutant] = (
    plant(
        "checker-ignores-time",
        "the log checker does not ask whether what ended before is seen by what began after",
        "jepsen_like.checker.log.scan",
        "        bad = np.flatnonzero(known > least)\n",
        "        bad = np.flatnonzero(known < 0)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-believes-empty-reads",
        "a read that saw nothing is not held against what was known to be there",
        "jepsen_like.checker.log.scan",
        "    denies = (rows.f != Action.READ) | (rows.a == NONE)\n",
        "    denies = rows.f != Action.READ\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-skips-missed-swaps",
        "a compare-and-set that did not swap is not taken for a read of what it saw",
        "jepsen_like.checker.register.scan",
        "    read = happened & ((rows.f == Action.READ) | (cas & ~swap))\n",
        "    read = happened & (rows.f == Action.READ)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-forgives-unwritten",
        "a register may show a value that nobody wrote",
        "jepsen_like.checker.register.scan",
        "    unwritten = np.flatnonzero(blocks.seen & (blocks.writers == 0) & (blocks.value != NONE))\n",
        "    unwritten = np.flatnonzero(blocks.seen & (blocks.writers < 0) & (blocks.value != NONE))\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-looks-at-one-final-log",
        "the final logs of the nodes are judged as one: a node that lacks its end is not noticed",
        "jepsen_like.checker.log.explain",
        "key=lambda log: log.node) if log.end < end]\n",
        "key=lambda log: log.node) if log.end < 0]\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-fills-holes-of-final-logs",
        "what was read counts as there, though the final logs hold nothing at its place",
        "jepsen_like.checker.log.scan",
        "        there[there] = content[offset[there]] != NONE\n",
        "",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "checker-ignores-epochs-named",
        "an acknowledgement may name another epoch than the one in the final logs",
        "jepsen_like.checker.log.scan",
        "    differs = np.flatnonzero(epochs[offset] != epoch)\n",
        "    differs = np.flatnonzero(epoch < 0)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-lets-epochs-fall",
        "epochs may fall along a log",
        "jepsen_like.checker.log.scan",
        "    falls = np.flatnonzero(np.diff(epochs[places]) < 0)\n",
        "    falls = np.flatnonzero(np.diff(epochs[places]) < -NEVER)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-takes-batches-apart",
        "the records of a batch of unknown outcome count as appends of their own",
        "jepsen_like.checker.log.batches",
        "    of_batch = np.flatnonzero(batch != NONE)\n",
        "    of_batch = np.flatnonzero(batch < NONE)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-sees-halves-of-batches",
        "a length that ends inside a batch counts as any other",
        "jepsen_like.checker.log.batches",
        "    inside = (at >= 0) & (lengths < spans[1][at])\n",
        "    inside = (at >= 0) & (lengths < 0)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-believes-refused-swaps",
        "a compare-and-set may be refused although the value that it expected is there",
        "jepsen_like.checker.register.scan",
        "    refused = cas & (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE)\n",
        "    refused = cas & (rows.type == Outcome.FAIL) & (rows.err != rows.err)\n",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-forgives-lost-updates",
        "two swaps may replace one and the same value",
        "jepsen_like.checker.register.scan",
        "    found += [FlawFound(Flaw.REPLACED_TWICE, int(blocks.object[block]), int(block)) for block in replaced]\n",
        "",
        oracles=["planted"],
        judge="checker",
    ),
    plant(
        "checker-asks-a-tree-for-its-order",
        "where a value was replaced twice, both that replaced it are held to the order of one chain",
        "jepsen_like.checker.register.scan",
        "    is_tree[trees] = True\n",
        "",
        oracles=["definition", "planted"],
        judge="checker",
    ),
    plant(
        "checker-excuses-any-age",
        "any clock that was set excuses a record that left too young, however little it was set",
        "jepsen_like.checker.log.clocks",
        "np.maximum(found, jump.offset_s), found)\n        return found\n\n\nRIGHT_CLOCKS",
        "NEVER, found)\n        return found\n\n\nRIGHT_CLOCKS",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "checker-charges-what-was-replaced-by-no-leader",
        "under a rule of bytes, appends of unknown outcome excuse what left though no later leader replaced them",
        "jepsen_like.checker.log.retention",
        "    led_until_ns = since_ns if terms > 0 else",
        "    led_until_ns = since_ns if terms > -1 else",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "checker-forgives-what-survived",
        "a record that was read after a fault is charged to it",
        "jepsen_like.checker.log.forgiveness",
        "        read_after = np.flatnonzero(self._saw_lost & (rows.t_inv > one.injected_ns))\n",
        "        read_after = np.flatnonzero(self._saw_lost & (rows.t_inv > NEVER))\n",
        oracles=["retention"],
        judge="retention",
    ),
)

ALL: Sequence[Mutant] = (
    *RAFT,
    *BLANK_BUGS,
    *MEMBER_BUGS,
    *TRIMS,
    *DRIVER,
    *LOG,
    *SHELL,
    *CHECKER,
    *HARNESS,
    *TRANSACTION_JUDGE_BUGS,
    *COMPACTION_JUDGE_BUGS,
    *MIRROR_JUDGE_BUGS,
    *CYCLE_JUDGE_BUGS,
    *DRIVERS,
    *SIMULATOR,
    *TRUST_BUGS,
    *ZONE_BUGS,
    *TARGET_BUGS,
    *BESIDE_BUGS,
    *FOREIGN_BUGS,
    *STANDBY_BUGS,
    *WORTH_BUGS,
    *CAPACITY_BUGS,
    *RECORDING_BUGS,
    *TWO_TOPICS_BUGS,
    *CLAIM_BUGS,
    *FULL_DISK_BUGS,
    *BUDGET_BUGS,
    *ACCESS_BUGS,
    *ANSWER_BUGS,
    *OPERATOR_BUGS,
    *KAFKA_BUGS,
    *KAFKA_COPY_BUGS,
    *KAFKA_COMPACTION_BUGS,
    *KAFKA_MOVE_BUGS,
    *KAFKA_TRANSACTION_BUGS,
    *KAFKA_CONSUMER_BUGS,
    *KAFKA_HOST_BUGS,
    *ROCKETMQ_BUGS,
    *ROCKETMQ_GROUP_BUGS,
    *ROCKETMQ_HOST_BUGS,
)


def by_name(name: str) -> Mutant:
    """The mutant of this name; `KeyError` if there is none."""
    return {mutant.name: mutant for mutant in ALL}[name]
