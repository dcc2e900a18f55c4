"""Deliberate bugs of the shell: flushes, the client, what is let go and what is refused."""

from collections.abc import Sequence

from tests.mutants.mutant import Edit, Mutant

DRIVER = "raft.driver"
APPLIER = "raft.applier"
CLIENT = "raft.client"

FLUSHES: Sequence[Mutant] = (
    Mutant(
        name="flush-skips-the-newest-file",
        bug="a flush that has filled segments to prove forgets the one that is being written",
        module="log.segmented_log",
        edits=[
            Edit(
                "        if self.end > max(self.durable_end, self._active.base):\n",
                "        if self.end > max(self.durable_end, self._active.base) and not flush.sealed:\n",
            )
        ],
        oracles=["A1", "A2"],
    ),
    Mutant(
        name="flush-shrugs-at-a-failed-sync",
        bug="a sync that failed is taken for one that went well",
        module="log.flush",
        edits=[
            Edit(
                "            self._fail(error)\n            raise\n",
                "            assert error\n",
            )
        ],
        oracles=["A1", "A2", "A5"],
    ),
)

CLIENTS: Sequence[Mutant] = (
    Mutant(
        name="client-calls-a-broken-connection-a-refusal",
        bug="a request under way when the connection broke is said to be certainly not done",
        module=CLIENT,
        edits=[
            Edit(
                "        if call.reply is None:\n            raise self._unknown()\n",
                "        if call.reply is None:\n            raise Unreachable(self.address, str(self._broken))\n",
            )
        ],
        oracles=["C2", "C3"],
        judge="clients",
    ),
    Mutant(
        name="client-repeats-what-it-cannot-know",
        bug="an append whose outcome is unknown is sent again",
        module=CLIENT,
        edits=[
            Edit(
                "                if not error.definite or trio.current_time() + pause_s >= give_up_at:\n",
                "                if trio.current_time() + pause_s >= give_up_at:\n",
            )
        ],
        oracles=["C3"],
        judge="clients",
    ),
    Mutant(
        name="client-takes-the-first-answer-for-the-first-call",
        bug="an answer goes to the oldest call under way, not to the one that it names",
        module=CLIENT,
        edits=[
            Edit(
                "            call = self._calls.get(request_id)\n",
                "            call = next(iter(self._calls.values()), None)\n",
            )
        ],
        oracles=["C1"],
        judge="clients",
    ),
    Mutant(
        name="client-says-where-the-batch-ends",
        bug="the client takes the answer's offset for that of the last record",
        module="raft.client_codec",
        edits=[
            Edit(
                '        number(base_offset, "base_offset"), integer(count, "count", 1, RECORDS_MAX), number(epoch, "epoch")\n',
                '        max(0, number(base_offset, "base_offset") - count + 1),\n'
                '        integer(count, "count", 1, RECORDS_MAX),\n'
                '        number(epoch, "epoch"),\n',
            )
        ],
        oracles=["C1"],
        judge="clients",
    ),
)

LET_GO: Sequence[Mutant] = (
    Mutant(
        name="driver-releases-what-is-not-applied",
        bug="what is committed may leave the log, though the state machine has not got it yet",
        module="raft.trimming",
        edits=[
            Edit(
                "        last_index = LogIndex(min(applier.applied_index, core.log.durable_index))\n",
                "        last_index = LogIndex(min(core.commit_index, core.log.durable_index))\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="driver-dates-a-snapshot-too-late",
        bug="a snapshot is said to hold all that is committed, and what was not applied yet is left out for ever",
        module=APPLIER,
        edits=[
            Edit(
                "        return Position(self.applied_index, self._core.log.term_at(self.applied_index)), snapshot\n",
                "        return Position(self._core.commit_index, self._core.log.term_at(self._core.commit_index)), snapshot\n",
            )
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="driver-takes-a-snapshot-without-room",
        bug="a snapshot that the disk has no room for is handed on nevertheless",
        module="raft.inbox",
        edits=[
            Edit("self._deliver_with_room(sender, staged, message.total)", "self._deliver_with_room(sender, staged, 0)")
        ],
        oracles=["retention"],
        judge="retention",
    ),
    Mutant(
        name="client-asks-again-for-what-has-left",
        bug="a client takes records that have left the log for ones that are not there yet",
        module=CLIENT,
        edits=[Edit(" | ProtocolError | RecordsTrimmed) or", " | ProtocolError) or")],
        oracles=["retention"],
        judge="retention",
    ),
)

REFUSALS: Sequence[Mutant] = (
    Mutant(
        name="snapshot-believed-where-none-can-be",
        bug="a snapshot replaces the log of a node whose settings let nothing leave a log",
        module="raft.core",
        edits=[Edit("if not self._takes_snapshots and self.log.start.index == NO_INDEX:", "if False:")],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="snapshot-may-contradict-what-is-committed",
        bug="a snapshot is not held against what is known to be committed",
        module="raft.core",
        edits=[
            Edit(
                "        if is_possible:\n            return None\n",
                "        if start.index:\n            return None\n",
            )
        ],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="any-term-is-believed",
        bug="a message with the last of all terms is acted upon",
        module="raft.core",
        edits=[Edit("        if message.term > TERM_MAX:\n", "        if False:\n")],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="term-moves-in-one-step",
        bug="one message moves the term as far as it likes",
        module="raft.core",
        edits=[
            Edit(
                "        if message.term > self.term + TERM_STEP_MAX and self._learns_term_from(message):\n",
                "        if False:\n",
            )
        ],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="group-starts-without-its-log",
        bug="a node whose log and durable-end checkpoint are gone starts empty and votes",
        module="raft.directory",
        edits=[Edit("    if has_identity and missing is not None:\n", "    if False:\n")],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="loss-asks-for-no-checkpoint",
        bug="a log is taken for whole though nothing shows how far it was durable",
        module="log.loss",
        edits=[Edit("    if not any(content):\n", "    if False:\n")],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="group-makes-its-identity-again",
        bug="an identity that is gone is made again, though more of the node's log is missing",
        module="raft.directory",
        edits=[Edit("not has_identity and storage.log.end > 0 and", "not has_identity and storage.log.end < 0 and")],
        oracles=["refusals"],
        judge="refusals",
    ),
    Mutant(
        name="identity-before-its-log",
        bug="a new directory gets its identity before its log is durable, so a crash looks like a loss",
        module="raft.directory",
        edits=[Edit("                storage.flush()\n", "                pass\n")],
        oracles=["refusals"],
        judge="refusals",
    ),
)

SHELL: Sequence[Mutant] = (*FLUSHES, *CLIENTS, *LET_GO, *REFUSALS)
