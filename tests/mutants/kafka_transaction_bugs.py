"""Deliberate bugs of transactions: the guards of KIP-98, KIP-360, KIP-447 and KIP-890, each removed, and more."""

from collections.abc import Sequence

from tests.mutants.kafka_bugs import kafka_bug
from tests.mutants.mutant import Mutant

COORDINATOR = "kafka_compat.transactions.core"
MODEL = "kafka_compat.transactions.model"
PRODUCERS = "kafka_compat.partition.producer_state"
TRANSACTIONS = "kafka_compat.partition.transactions"
OFFSETS = "kafka_compat.coordinator.offsets"
OFFSET_REQUESTS = "kafka_compat.coordinator.offset_requests"
SENDER = "kafka_compat.broker.marker_sender"
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
)
