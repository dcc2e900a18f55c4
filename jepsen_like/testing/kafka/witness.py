"""The check of a Kafka cluster that is up: what its clients report as acknowledged, compared with the logs of every replica."""

from collections.abc import Iterable

import attrs

from jepsen_like.port.port import NotServing
from jepsen_like.port.witness import CheckFinding, ReportedRecord, Witness
from jepsen_like.systems.kafka.control import KafkaControl
from jepsen_like.testing.faulty import WaitedTooLong
from jepsen_like.testing.kafka.agreement import agreed_logs
from jepsen_like.testing.kafka.ledger import RecordLedger


@attrs.frozen
class AcknowledgedRecord:
    """A record at the place where a broker acknowledged it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None


class KafkaWitness(Witness):
    """See `Witness`. A report has `topic`, `partition`, `offset` and `value`, and may have `key`."""

    def __init__(self, control: KafkaControl, brokers: Iterable[int]) -> None:
        super().__init__()
        self._control = control
        self._brokers = tuple(brokers)
        self._ledger = RecordLedger()

    def parse(self, record: ReportedRecord) -> AcknowledgedRecord:
        """See `Witness.parse`."""
        return AcknowledgedRecord(
            record.text("topic"),
            record.number("partition"),
            record.number("offset"),
            record.content("value"),
            record.content("key", is_needed=False),
        )

    def keep(self, record: AcknowledgedRecord) -> None:
        """See `Witness.keep`."""
        self._ledger.on_acknowledged(record.topic, record.partition, record.offset, (record.key, record.value))

    def start_over(self) -> None:
        """See `Witness.start_over`."""
        self._ledger = RecordLedger()

    async def compare(self, *, within_s: float) -> CheckFinding:
        """See `Witness.compare`: byte for byte."""
        try:
            logs = await agreed_logs(self._control, self._brokers, within_s=within_s)
        except WaitedTooLong as late:
            raise NotServing(str(late)) from late
        verdict = self._ledger.verdict(logs)
        return CheckFinding(verdict.valid, str(verdict), verdict.acknowledged, verdict.compared, verdict.broken)
