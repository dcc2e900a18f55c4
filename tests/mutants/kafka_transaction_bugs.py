"""Deliberate bugs of transactions: the guards of KIP-98, KIP-360, KIP-447 and KIP-890, each removed, and more."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import kafka_bug
from tests.mutants.mutant import Mutant

COORDINATOR = "kafka_compat.transactions.core"
WAITING = "kafka_compat.transactions.waiting"
MODEL = "kafka_compat.transactions.model"
PRODUCERS = "kafka_compat.partition.producer_state"
TRANSACTIONS = "kafka_compat.partition.transactions"
OFFSETS = "kafka_compat.coordinator.offsets"
OFFSET_REQUESTS = "kafka_compat.coordinator.offset_requests"
SENDER = "kafka_compat.broker.marker_sender"
WRITER = "kafka_compat.broker.marker_writer"
GROUPS = "kafka_compat.broker.coordinators"
SNAPSHOTS = "kafka_compat.storage.producer_snapshots"
COMPACTION = "kafka_compat.storage.compaction"

KAFKA_TRANSACTION_BUGS: Sequence[Mutant] = (
    kafka_bug(
        "txn-fence-keeps-the-epoch",
        "a newer producer aborts a transaction, and the old producer keeps its epoch (KIP-360)",
        MODEL,
        (
            "            producer_epoch=self.producer_epoch + (raises or fences),",
            "            producer_epoch=self.producer_epoch + raises,",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-end-keeps-the-epoch",
        "the end of a transaction of version 2 does not raise the epoch (KIP-890)",
        MODEL,
        ("        raises = version >= RAISING_VERSION\n", "        raises = False\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-older-epochs-add-partitions",
        "a fenced producer still adds partitions",
        COORDINATOR,
        (
            "        if data.producer_epoch != request.producer_epoch:\n",
            "        if data.producer_epoch < request.producer_epoch:\n",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-steps-overlap",
        "a step begins while the markers of the last outcome are being written",
        MODEL,
        ("        return self.is_busy or self.data.state.is_prepared", "        return self.is_busy"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-waits-outlast-failed-steps",
        "a request that waits for a step is not served when the step fails",
        COORDINATOR,
        (
            "            write.done(error)\n            for entry, _ in write.steps:\n                self._serve_waiting(entry.name)\n",
            "            write.done(error)\n",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-leaders-wait",
        "a leader of a partition waits, and with it the questions of all its producers",
        COORDINATOR,
        ("        if by_leader or not self._waiting", "        if not self._waiting"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-newest-wait-ends-first",
        "the request that came last is the first to be refused",
        WAITING,
        ("        return self.take(next(iter(self._by_token", "        return self.take(next(reversed(self._by_token"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-markers-leave-once",
        "a coordinator that begins does not send the markers of what was decided before",
        COORDINATOR,
        (
            "            if entry.data.state.is_prepared:\n                self._send_markers(entry)\n",
            "            pass\n",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-markers-are-lost",
        "a marker that a leader refused is not sent again",
        SENDER,
        (
            "                    self.resent += 1\n                    self._pause(sending)\n",
            "                    sending.left.discard(partition)\n",
        ),
        oracles=["K14", "V-liveness"],
    ),
    kafka_bug(
        "txn-decides-before-it-is-written",
        "the markers leave although the outcome could not be written",
        COORDINATOR,
        (
            "            if error is not NONE:\n                self._answer(token, client_error(error))\n                return\n            # The outcome",
            "            # The outcome",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-batches-are-not-verified",
        "a first batch needs no answer of the coordinator (KIP-890)",
        PRODUCERS,
        ("        if verifies and not self.transactions", "        if False and not self.transactions"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-markers-leave-questions-open",
        "a marker does not void the verification that is under way (KIP-890)",
        TRANSACTIONS,
        ("        self._verifying.pop(producer_id, None)\n        first =", "        first ="),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-late-markers-count",
        "a marker that comes again ends the next transaction (KIP-890)",
        PRODUCERS,
        ("        if is_late and marker.producer_id in self.transactions.open:", "        if False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-replaced-coordinators-write",
        "a marker of a coordinator that was replaced counts",
        PRODUCERS,
        ("        if marker.coordinator_epoch < known.coordinator_epoch:", "        if False:"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-open-ones-are-stable",
        "the last stable offset passes an open transaction",
        TRANSACTIONS,
        ("        firsts += islice(self.open.values(), 1)\n", ""),
        oracles=["K14", "script"],
    ),
    kafka_bug(
        "txn-markers-count-before-they-are-committed",
        "the last stable offset passes a transaction whose marker may be lost",
        TRANSACTIONS,
        ("        firsts = [first for first, _ in self._ending]\n", "        firsts: list[int] = []\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-aborted-ones-are-not-listed",
        "an aborted transaction is not named to readers",
        TRANSACTIONS,
        ("        if kind is BatchKind.ABORT:", "        if kind is BatchKind.PLAIN:"),
        oracles=["K14"],
    ),
    kafka_bug(
        "txn-truncations-keep-transactions",
        "a truncation does not roll transactions back",
        PRODUCERS,
        ("        self.transactions.restore(transactions)\n", ""),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-offsets-count-at-once",
        "an offset in a transaction is visible before the marker (KIP-98)",
        OFFSETS,
        (
            "            if producer_id != NO_PRODUCER:\n                self.load_in_transaction(producer_id, change)\n            else:",
            "            if True:",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-offsets-are-stable",
        "a consumer gets the offset that a transaction is about to change (KIP-447)",
        OFFSET_REQUESTS,
        ("            if stable and self.offsets.is_unstable(", "            if False and self.offsets.is_unstable("),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-generations-do-not-fence",
        "a former member commits in a transaction (KIP-447)",
        OFFSET_REQUESTS,
        (
            "    if error is KafkaErrorCode.NONE and request.generation_id != group.generation:\n        return",
            "    if False:\n        return",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-others-go-on",
        "a producer goes on in the place of another one that has its transactional id (KIP-360)",
        COORDINATOR,
        (
            "    if expected is None or expected[0] == data.producer_id:\n        return True\n    return expected",
            "    if True:\n        return True\n    return expected",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-older-epochs-go-on",
        "a producer that was fenced goes on with the next epoch (KIP-360)",
        COORDINATOR,
        (
            "            else:\n                self._answer(token, KafkaErrorCode.PRODUCER_FENCED)\n                return\n        begun",
            "        begun",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-begins-are-not-repeated",
        "a producer whose answer was lost is fenced by its own request (KIP-360)",
        COORDINATOR,
        ("            elif request.expected[1] == data.last_epoch:  #", "            elif False:  #"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-no-epoch-is-kept-to-fence",
        "a client gets the last epoch, so that nothing can fence it",
        MODEL,
        ("LAST_EPOCH = EPOCH_MAX - 1\n", "LAST_EPOCH = EPOCH_MAX\n"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-ends-are-not-repeated",
        "a producer whose answer was lost is fenced by its own EndTxn (KIP-890)",
        COORDINATOR,
        ("    is_repeated = is_rotated or (", "    is_repeated = False and ("),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-any-end-is-a-repetition",
        "an abort after a commit is answered as if it had been done",
        COORDINATOR,
        ("    return (data.state is TransactionState.COMPLETE_COMMIT) == request.commits", "    return True"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-all-partitions-are-verified",
        "a leader hears that a partition is in a transaction to which no one has added it (KIP-890)",
        COORDINATOR,
        ("    return data.state is TransactionState.ONGOING and partition in data.partitions", "    return True"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-decided-ones-are-verified",
        "a leader hears of a transaction that is decided as if it did not exist (KIP-890)",
        COORDINATOR,
        ("        elif entry.data.state.is_prepared:\n            error", "        elif False:\n            error"),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-nothing-times-out",
        "a transaction that its producer has forgotten stays open",
        COORDINATOR,
        ("    return ongoing and data.start_ms + data.timeout_ms < time_ms", "    return False"),
        oracles=["V-liveness", "script"],
    ),
    kafka_bug(
        "txn-timeouts-begin-again",
        "each further partition gives a transaction its whole timeout again",
        MODEL,
        (
            "            start_ms=now_ms if self.state is not TransactionState.ONGOING else self.start_ms,\n            updated_ms=now_ms,\n            version=version,\n        )\n\n    def prepare",
            "            start_ms=now_ms,\n            updated_ms=now_ms,\n            version=version,\n        )\n\n    def prepare",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-timeouts-keep-the-epoch",
        "a producer whose transaction has timed out goes on in the next one (KIP-360)",
        COORDINATOR,
        (
            "        prepared = self._prepare(entry, commits=False, version=entry.data.version, fences=True)\n\n        def on_written(error: KafkaErrorCode) -> None:\n            if error is NONE:  # else",
            "        prepared = self._prepare(entry, commits=False, version=entry.data.version, fences=False)\n\n        def on_written(error: KafkaErrorCode) -> None:\n            if error is NONE:  # else",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-open-ones-take-newer-epochs",
        "a batch of the next transaction enters one whose marker is on its way (KIP-890)",
        PRODUCERS,
        ("        return known is not None and known.epoch == epoch", "        return known is not None"),
        oracles=["K14", "K15", "V-liveness", "script"],
    ),
    kafka_bug(
        "txn-older-markers-count",
        "a marker of an older epoch ends a transaction of a newer one",
        PRODUCERS,
        ("        if marker.producer_epoch < known.epoch:", "        if False:"),
        oracles=["K14", "script"],
    ),
    kafka_bug(
        "txn-aborted-offsets-count",
        "the offsets of an aborted transaction count (KIP-98)",
        OFFSETS,
        ("        if not commits:\n            return []\n", ""),
        oracles=["K15"],
    ),
    kafka_bug(
        "txn-loaded-offsets-count-at-once",
        "a coordinator that loads its log counts the offsets of open transactions (KIP-98)",
        GROUPS,
        (
            "        yield RecordsLoaded(records, header.producer_id if header.is_transactional else NO_PRODUCER)",
            "        yield RecordsLoaded(records, NO_PRODUCER)",
        ),
        oracles=["K15"],
    ),
    kafka_bug(
        "txn-markers-end-no-offsets",
        "the coordinator of a group does not hear of markers: its offsets stay unstable (KIP-447)",
        WRITER,
        (
            "            if answer.error is KafkaErrorCode.NONE and partition.topic == OFFSETS_TOPIC:",
            "            if False:",
        ),
        oracles=["K15"],
    ),
    kafka_bug(
        "txn-former-members-commit",
        "a member that has left the group commits in a transaction (KIP-447)",
        OFFSET_REQUESTS,
        (
            "    error = group.member_error(request.member_id, request.group_instance_id)\n    if error is KafkaErrorCode.NONE and request.generation_id != group.generation:\n        return KafkaErrorCode.ILLEGAL_GENERATION\n    return error\n\n\ndef _delete",
            "    error = KafkaErrorCode.NONE\n    if error is KafkaErrorCode.NONE and request.generation_id != group.generation:\n        return KafkaErrorCode.ILLEGAL_GENERATION\n    return error\n\n\ndef _delete",
        ),
        oracles=["script"],
    ),
    kafka_bug(
        "txn-compaction-keeps-aborted-offsets",
        "compaction removes an offset for one that was aborted",
        COMPACTION,
        (
            "            if self.aborted and transactions.is_aborted(read_batch_header(_bytes_of(batch))):",
            "            if False:",
        ),
        oracles=["K8", "K15"],
    ),
)
