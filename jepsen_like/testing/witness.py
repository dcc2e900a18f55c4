"""The check of a raft group that is up: what its clients report as acknowledged, compared with the log of every node."""

from collections.abc import Iterable

import attrs

from jepsen_like.port.port import NotServing
from jepsen_like.port.witness import CheckFinding, ReportedRecord, Witness, WrongReport
from jepsen_like.systems.raft.control import RaftControl
from jepsen_like.systems.raft.log_workload import LOG
from jepsen_like.testing.ledger import Ledger
from log.retention import Retention
from raft.errors import RaftError


@attrs.frozen
class AppendedRecord:
    """A record at the offset where it was committed."""

    offset: int
    value: bytes


class RaftWitness(Witness):
    """See `Witness`. A report has `offset` and `value`."""

    def __init__(self, control: RaftControl, nodes: Iterable[int], retention: Retention) -> None:
        super().__init__()
        self._control = control
        self._nodes = tuple(nodes)
        self._ledger = Ledger(retention=retention)

    def parse(self, record: ReportedRecord) -> AppendedRecord:
        """See `Witness.parse`."""
        offset, value = record.number("offset"), record.content("value")
        if value is None:
            raise WrongReport(f"{record.place}: value is a text")
        return AppendedRecord(offset, value)

    def keep(self, record: AppendedRecord) -> None:
        """See `Witness.keep`."""
        self._ledger.on_appended(record.offset, [record.value])

    def start_over(self) -> None:
        """See `Witness.start_over`."""
        self._ledger = Ledger(retention=self._ledger.retention)

    async def compare(self, *, within_s: float) -> CheckFinding:
        """See `Witness.compare`: record for record."""
        end = (await self._control.settle(within_s=within_s))[LOG]
        try:
            logs = {node: await self._control.read_committed(node, end) for node in self._nodes}
        except RaftError as error:
            raise NotServing(f"a node did not give its log: {error}") from error
        self._ledger.on_end(end)
        verdict = self._ledger.verdict(
            {node: records for node, (_, records) in logs.items()}, {node: start for node, (start, _) in logs.items()}
        )
        return CheckFinding(verdict.valid, str(verdict), verdict.acknowledged, len(logs), verdict.broken)
