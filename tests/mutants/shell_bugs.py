"""Deliberate bugs of the shell: flushes, the client, what is let go and what is refused."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

DRIVER = "raft.driver"
APPLIER = "raft.applier"
CLIENT = "raft.client"

FLUSHES: Sequence[Mutant] = (
    plant(
        "flush-skips-the-newest-file",
        "a flush that has filled segments to prove forgets the one that is being written",
        "log.segmented_log",
        "        if self.end > max(self.durable_end, self._active.base):\n",
        "        if self.end > max(self.durable_end, self._active.base) and not flush.sealed:\n",
        oracles=["A1", "A2"],
    ),
    plant(
        "flush-shrugs-at-a-failed-sync",
        "a sync that failed is taken for one that went well",
        "log.flush",
        "            self._fail(error)\n            raise\n",
        "            assert error\n",
        oracles=["A1", "A2", "A5"],
    ),
)

CLIENTS: Sequence[Mutant] = (
    plant(
        "client-calls-a-broken-connection-a-refusal",
        "a request under way when the connection broke is said to be certainly not done",
        CLIENT,
        "        if call.reply is None:\n            raise self._unknown()\n",
        "        if call.reply is None:\n            raise Unreachable(self.address, str(self._broken))\n",
        oracles=["C2", "C3"],
        judge="clients",
    ),
    plant(
        "client-repeats-what-it-cannot-know",
        "an append whose outcome is unknown is sent again",
        CLIENT,
        "                if not error.definite or trio.current_time() + pause_s >= give_up_at:\n",
        "                if trio.current_time() + pause_s >= give_up_at:\n",
        oracles=["C3"],
        judge="clients",
    ),
    plant(
        "client-takes-the-first-answer-for-the-first-call",
        "an answer goes to the oldest call under way, not to the one that it names",
        CLIENT,
        "            call = self._calls.get(request_id)\n",
        "            call = next(iter(self._calls.values()), None)\n",
        oracles=["C1"],
        judge="clients",
    ),
    plant(
        "client-says-where-the-batch-ends",
        "the client takes the answer's offset for that of the last record",
        "raft.client_codec",
        '        number(base_offset, "base_offset"), integer(count, "count", 1, RECORDS_MAX), number(epoch, "epoch")\n',
        '        max(0, number(base_offset, "base_offset") - count + 1),\n'
        '        integer(count, "count", 1, RECORDS_MAX),\n'
        '        number(epoch, "epoch"),\n',
        oracles=["C1"],
        judge="clients",
    ),
)

LET_GO: Sequence[Mutant] = (
    plant(
        "driver-releases-what-is-not-applied",
        "what is committed may leave the log, though the state machine has not got it yet",
        "raft.trimming",
        "        last_index = LogIndex(min(applier.applied_index, core.log.durable_index))\n",
        "        last_index = LogIndex(min(core.commit_index, core.log.durable_index))\n",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "driver-dates-a-snapshot-too-late",
        "a snapshot is said to hold all that is committed, and what was not applied yet is left out for ever",
        APPLIER,
        "        return Position(self.applied_index, self._core.log.term_at(self.applied_index)), snapshot\n",
        "        return Position(self._core.commit_index, self._core.log.term_at(self._core.commit_index)), snapshot\n",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "driver-takes-a-snapshot-without-room",
        "a snapshot that the disk has no room for is handed on nevertheless",
        "raft.inbox",
        "self._deliver_with_room(sender, staged, message.total)",
        "self._deliver_with_room(sender, staged, 0)",
        oracles=["retention"],
        judge="retention",
    ),
    plant(
        "client-asks-again-for-what-has-left",
        "a client takes records that have left the log for ones that are not there yet",
        CLIENT,
        "NotAllowed, ProtocolError, RecordsTrimmed)\n",
        "NotAllowed, ProtocolError)\n",
        oracles=["retention"],
        judge="retention",
    ),
)

REFUSALS: Sequence[Mutant] = (
    plant(
        "snapshot-believed-where-none-can-be",
        "a snapshot replaces the log of a node whose settings let nothing leave a log",
        "raft.objections",
        "if not core._takes_snapshots and core.log.start.index == NO_INDEX:",
        "if False:",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "snapshot-may-contradict-what-is-committed",
        "a snapshot is not held against what is known to be committed",
        "raft.objections",
        "    return None if is_possible else _contradiction(",
        "    return None if start.index else _contradiction(",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "any-term-is-believed",
        "a message with the last of all terms is acted upon",
        "raft.objections",
        "    if message.term > TERM_MAX:\n",
        "    if False:\n",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "term-moves-in-one-step",
        "one message moves the term as far as it likes",
        "raft.core",
        "        if message.term > self.term + TERM_STEP_MAX and self._learns_term_from(message):\n",
        "        if False:\n",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "group-starts-without-its-log",
        "a node whose log and durable-end checkpoint are gone starts empty and votes",
        "raft.directory",
        "    if has_identity and missing is not None:\n",
        "    if False:\n",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "loss-asks-for-no-checkpoint",
        "a log is taken for whole though nothing shows how far it was durable",
        "log.loss",
        "    if not any(content):\n",
        "    if False:\n",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "group-makes-its-identity-again",
        "an identity that is gone is made again, though more of the node's log is missing",
        "raft.directory",
        "not has_identity and storage.log.end > 0 and",
        "not has_identity and storage.log.end < 0 and",
        oracles=["refusals"],
        judge="refusals",
    ),
    plant(
        "identity-before-its-log",
        "a new directory gets its identity before its log is durable, so a crash looks like a loss",
        "raft.directory",
        "                storage.flush()\n",
        "                pass\n",
        oracles=["refusals"],
        judge="refusals",
    ),
)

SHELL: Sequence[Mutant] = (*FLUSHES, *CLIENTS, *LET_GO, *REFUSALS)
