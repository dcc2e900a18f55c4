"""Deliberate bugs of the driver and its parts, which the simulated groups run: each is killed there."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

DRIVER = "raft.driver"
APPLIER = "raft.applier"
READS = "raft.pending_reads"
TRIMMING = "raft.trimming"

DRIVERS: Sequence[Mutant] = (
    Mutant(
        name="driver-answers-before-flush",
        bug="a write counts as durable once the operating system has it, whatever the policy says (P3, P4)",
        module=DRIVER,
        edits=[
            Edit(
                "        if (counted := self._flushes.counted) >= order.write_id:\n"
                "            self._inbox.events.append(Persisted(counted))\n",
                "        self._inbox.events.append(Persisted(order.write_id))\n",
            )
        ],
        oracles=["A1", "A2", "A3", "I1"],
    ),
    Mutant(
        name="driver-holds-nothing",
        bug="the driver sends at once what should wait for its write (P13)",
        module=DRIVER,
        edits=[
            Edit(
                "                if not self._outbox.hold(effect):\n"
                "                    self._environment.transport.send(to, message)\n",
                "                self._environment.transport.send(to, message)\n",
            )
        ],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="driver-forgets-what-waits-for-a-write",
        bug="messages that wait for a write are never sent",
        module=DRIVER,
        edits=[
            Edit(
                "            for send in self._outbox.release(event.write_id, core.term):\n",
                "            for send in self._outbox.release(event.write_id, core.term)[:0]:\n",
            )
        ],
        oracles=["V-liveness"],
    ),
    Mutant(
        name="driver-credits-later-writes",
        bug="a flush that has ended is taken to cover what was written while it ran",
        module=DRIVER,
        edits=[
            Edit(
                "        if (counted := self._flushes.counted) > before:\n"
                "            self._inbox.events.append(Persisted(counted))\n",
                "        if self._flushes.counted > before:\n"
                "            self._inbox.events.append(Persisted(self._storage.written))\n",
            )
        ],
        oracles=["A1", "A2", "A3"],
    ),
    Mutant(
        name="driver-tells-all-one-offset",
        bug="appends that left as one entry are all answered with the offset of the first",
        module=DRIVER,
        edits=[Edit("                    offset += request.span\n", "")],
        oracles=["A3"],
    ),
    Mutant(
        name="driver-answers-only-the-first",
        bug="of appends that left as one entry only the first is answered",
        module=DRIVER,
        edits=[
            Edit(
                "                for request in proposal.requests:\n                    request.caller.on_appended(",
                "                for request in proposal.requests[:1]:\n                    request.caller.on_appended(",
            )
        ],
        oracles=["A9"],
    ),
    Mutant(
        name="driver-applies-again",
        bug="each round of applying begins with the last entry of the one before, if that had several",
        module=APPLIER,
        edits=[
            Edit(
                "            self.applied_index = entry.index\n",
                "            self.applied_index = LogIndex(entry.index - (entry is entries[-1] and entry.index > first))\n",
            )
        ],
        oracles=["I11"],
    ),
    Mutant(
        name="driver-applies-what-is-not-committed",
        bug="a portion of the log is applied to its end, committed or not",
        module=APPLIER,
        edits=[
            Edit(
                "            if entry.index > commit_index:\n",
                "            if entry.index > self._core.log.last_index:\n",
            )
        ],
        oracles=["I11"],
    ),
    Mutant(
        name="driver-mixes-up-results",
        bug="when several commands are in one entry, their callers get the results in the wrong order",
        module=APPLIER,
        edits=[
            Edit(
                "        waiting = iter(self._waiting.pop(entry.index, ()))\n",
                "        waiting = iter(list(self._waiting.pop(entry.index, ()))[::-1])\n",
            )
        ],
        oracles=["A3"],
    ),
    Mutant(
        name="driver-shows-what-is-not-committed",
        bug="readers see the log up to its end, committed or not",
        module=APPLIER,
        edits=[
            Edit(
                "        self.committed_end = self._end_offset_of(commit_index)\n",
                "        self.committed_end = self._end_offset_of(self._core.log.last_index)\n",
            )
        ],
        oracles=["A6", "B-lost", "C-log"],
    ),
    Mutant(
        name="driver-does-not-move-the-end",
        bug="the committed end that readers see stays where it was if an entry has no records",
        module=APPLIER,
        edits=[
            Edit(
                "        self.committed_end = self._end_offset_of(commit_index)\n",
                "        self.committed_end = self._end_offset_of(LogIndex(max(commit_index - 1, self._core.log.start.index)))\n",
            )
        ],
        oracles=["B-stale"],
    ),
    Mutant(
        name="driver-reads-before-applying",
        bug="a query is answered from a state that has not reached the read index (P12)",
        module=READS,
        edits=[
            Edit(
                "            if read.after_apply and applied_index < read_index:\n",
                "            if read.after_apply and applied_index < 0:\n",
            )
        ],
        oracles=["A6"],
    ),
    Mutant(
        name="driver-releases-reads-one-entry-early",
        bug="a read that waits for the state machine is served one entry before its read index",
        module=READS,
        edits=[
            Edit(
                "self._confirmed[0][0] <= applied_index:\n",
                "self._confirmed[0][0] <= applied_index + 1:\n",
            )
        ],
        oracles=["A6"],
    ),
    Mutant(
        name="driver-forgets-rejected-reads",
        bug="reads that a node cannot serve any more are not answered",
        module=READS,
        edits=[
            Edit(
                "        for read in self._asked.pop(token):\n            read.caller.on_refused(read.request_id, error)\n",
                "        assert self._asked.pop(token) and error\n",
            )
        ],
        oracles=["A9"],
    ),
    Mutant(
        name="driver-reads-on-its-own-belief",
        bug="a node serves reads without asking the core, which would ask a majority (P12)",
        module=DRIVER,
        edits=[
            Edit(
                "        self._step(now, ReadRequest(token))\n",
                "        self._reads.confirm(token, self.core.commit_index, self._applier.applied_index)\n",
            )
        ],
        oracles=["A6"],
    ),
    Mutant(
        name="driver-calls-lost-leadership-a-refusal",
        bug="appends in flight when the leadership moved are refused for certain, though they may yet be committed",
        module=DRIVER,
        edits=[
            Edit(
                '                refuse(proposal.requests, OutcomeUnknown("the leadership moved while the request was in flight"))\n',
                "                refuse(proposal.requests, NotLeader())\n",
            )
        ],
        oracles=["B-phantom"],
    ),
    Mutant(
        name="driver-refuses-and-proposes",
        bug="what is refused for want of room is proposed all the same",
        module=DRIVER,
        edits=[
            Edit(
                "                self._step(now, StepDown())\n                continue\n",
                "                self._step(now, StepDown())\n",
            )
        ],
        oracles=["A9", "B-phantom"],
    ),
    Mutant(
        name="driver-closes-with-a-refusal",
        bug="a node that is stopped refuses for certain what is in flight",
        module=DRIVER,
        edits=[Edit("        refuse(under_way, unknown)\n", "        refuse(under_way, ShuttingDown())\n")],
        oracles=["B-phantom"],
    ),
    Mutant(
        name="driver-trims-what-is-not-durable",
        bug="entries leave the log that are applied, but not on this disk yet",
        module=TRIMMING,
        edits=[
            Edit(
                "        last_index = LogIndex(min(applier.applied_index, core.log.durable_index))\n",
                "        last_index = LogIndex(max(applier.applied_index, core.log.durable_index))\n",
            )
        ],
        oracles=["A8"],
    ),
    Mutant(
        name="driver-names-more-than-was-applied",
        bug="a snapshot is said to stand for all that is committed, applied or not",
        module=APPLIER,
        edits=[
            Edit(
                "        return Position(self.applied_index, self._core.log.term_at(self.applied_index)), snapshot\n",
                "        reached = self._core.commit_index\n"
                "        return Position(reached, self._core.log.term_at(reached)), snapshot\n",
            )
        ],
        oracles=["A8"],
    ),
    Mutant(
        name="driver-steps-down-for-no-disk",
        bug="a leader whose disk hangs leads on",
        module=DRIVER,
        edits=[
            Edit(
                "            if now > self._flushes.stalls_at:\n",
                "            if now > self._flushes.stalls_at + 1e9:\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="driver-ticks-before-it-reads",
        bug="a node that stood still lets its timer fire before it reads what arrived meanwhile",
        module=DRIVER,
        edits=[
            Edit(
                "        is_late = now > self.core.deadline + LATE_S and not self._leads\n",
                "        is_late = now > self.core.deadline + LATE_S and not self.core.role\n",
            )
        ],
        oracles=["floor"],
        judge="floors",
    ),
    Mutant(
        name="subscription-skips-what-waits",
        bug="a subscriber is not given the entry at which its portion began",
        module="raft.subscription",
        edits=[
            Edit(
                "        first, commit_index = LogIndex(self.last_index + 1), core.commit_index\n",
                "        first, commit_index = LogIndex(min(self.last_index + 2, core.commit_index)), core.commit_index\n",
            )
        ],
        oracles=["A10"],
    ),
    Mutant(
        name="driver-counts-votes-from-the-page-cache",
        bug="a vote counts once the operating system has it, if acknowledgements do: a power cut takes it",
        module="raft.flush_schedule",
        edits=[
            Edit(
                "        awaits_all = self._policy is FlushPolicy.BEFORE_ACK or self._storage.owes_state\n",
                "        awaits_all = self._policy is FlushPolicy.BEFORE_ACK\n",
            )
        ],
        oracles=["A1"],
    ),
    Mutant(
        name="driver-counts-what-is-not-written",
        bug="where acknowledgements wait for no flush, a write counts before it is written",
        module=DRIVER,
        edits=[
            Edit(
                "        self._storage.persist(order)\n",
                "        self._inbox.events.append(Persisted(order.write_id))\n        self._storage.persist(order)\n",
            )
        ],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="driver-resets-and-steps-later",
        bug="the core does not learn that entries have left the log",
        module=DRIVER,
        edits=[Edit("        self._step(self._now, Trimmed(start))\n", "        assert Trimmed(start)\n")],
        oracles=["A8", "V-liveness"],
    ),
    Mutant(
        name="driver-answers-another-entry",
        bug="commands wait for the entry after their own",
        module=DRIVER,
        edits=[
            Edit(
                "                    self._applier.expect(index, proposal.requests)\n",
                "                    self._applier.expect(LogIndex(index + 1), proposal.requests)\n",
            )
        ],
        oracles=["A3", "A9"],
    ),
    Mutant(
        name="driver-loses-what-a-batch-leaves",
        bug="a request that does not fit into the entry is dropped",
        module="raft.batching",
        edits=[
            Edit(
                "        self._pending_bytes -= size\n        return requests\n",
                "        self._pending_bytes -= size\n        queue.clear()\n        return requests\n",
            )
        ],
        oracles=["A9"],
    ),
)
