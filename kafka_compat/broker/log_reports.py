"""Reports logs to the controller (`ReportLogs`), so that a copy without all acknowledged records cannot lead.

Once the broker has applied its own registration, it compares the metadata, with the ISRs that it was in, with the logs
on its disk. It reports the copies that may lack records. The controller may unfence the broker only when it has all of
these reports: until then the broker's heartbeats state that it has applied nothing. At any time the broker reports the
end of each log whose partition awaits an election that compares logs.
"""

import itertools
from collections.abc import Callable, Mapping

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.reporter import Tell
from kafka_compat.controller.commands import REPORTS_PER_COMMAND_MAX, Acknowledged, CommandResult, LogReport, ReportLogs
from kafka_compat.model import NO_EPOCH, PartitionState, TopicPartition
from kafka_compat.partition.model import ComparedLog
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.storage.broker_store import BrokerStore

RETRY_S = 0.05
NEVER = float("inf")
NAMED_MAX = 20
"""Partitions that one event names; of more it gives the number."""
REPAIRED = "it is repaired from the other replicas"
ONLY_COPY = "there is no other replica to repair it from; what was cut off is kept next to the log"


class LogReports:
    """The reports of one broker, one command at a time. `tick` is to be called once a round."""

    def __init__(self, context: Context, store: BrokerStore, replicas: Replicas, tell: Tell) -> None:
        self.ready = False
        """True once the controller has recorded every copy that may lack records; only then may the broker serve."""
        self._context = context
        self._store = store
        self._replicas = replicas
        self._tell = tell
        self._doubtful: dict[TopicPartition, bytes] = {}
        self._begun = False
        self._under_way = False
        self.deadline = NEVER
        """The time at which `tick` is due."""

    def begin(self, assigned: Mapping[TopicPartition, PartitionState]) -> None:
        """Take note that this process is registered; `assigned` are its partitions.

        Call this before missing logs are made. The doubtful logs and the registration are durable when it returns.
        Raises the errors of the disk.
        """
        store, context = self._store, self._context
        for damage in store.damages:
            self._tell("damage", log=damage.name, reason=damage.reason, repair=damage.done)
        registration = context.image.brokers[context.broker_id]
        # It may be the metadata that is missing something, or the directory may be another cluster's.
        is_older = registration.epoch <= store.broker_epoch or registration.served_epoch < 0 <= store.broker_epoch
        store.keeps_strays = not store.is_new and (not store.meta.found or is_older)
        strays = store.strays({partition: state.topic_id for partition, state in assigned.items()})
        if store.keeps_strays and strays:
            names = [str(each) for each in strays]
            self._tell(
                "strays_kept", logs=names[:NAMED_MAX], count=len(names), reason="the metadata may be too old for them"
            )
        if registration.served_epoch > store.broker_epoch:
            store.doubt_all("the directory is new, or older than the one from which this broker served last")
        if context.eligible:
            self._note_doubts(assigned)
        store.serves_as(registration.epoch)
        self._begun = True
        self.image_changed()

    def _note_doubts(self, assigned: Mapping[TopicPartition, PartitionState]) -> None:
        own = self._context.broker_id
        reasons: dict[TopicPartition, tuple[bytes, str]] = {}
        for partition, state in assigned.items():
            # Any other copy counts for nothing until it has caught up with a leader.
            if own in (*state.isr, *state.elr):
                reason = self._store.doubt_of(partition, state.topic_id)
                if reason is not None:
                    reasons[partition] = state.topic_id, reason
        self._store.doubt(reasons)
        self._doubtful = {partition: topic_id for partition, (topic_id, _) in reasons.items()}
        by_reason: dict[tuple[str, str], list[str]] = {}
        for partition, (_, reason) in reasons.items():
            repair = REPAIRED if len(assigned[partition].replicas) > 1 else ONLY_COPY
            by_reason.setdefault((reason, repair), []).append(str(partition))
        for (reason, repair), names in by_reason.items():
            self._tell("doubtful", partitions=names[:NAMED_MAX], count=len(names), reason=reason, repair=repair)

    def image_changed(self) -> None:
        """Note that the image may want further log ends."""
        if self._begun and not self._under_way:
            self.deadline = 0.0

    def tick(self, now: float) -> None:
        """Send the next command, if there is anything to report."""
        if now < self.deadline:
            return
        reports = self._reports() if self._context.eligible else ()
        if not reports and not self.ready:
            if self._context.eligible:
                self._store.doubts_known()
            self.ready = True
        if not reports:
            # A log that is still to be made, or that is being truncated, is reported when that is done.
            self.deadline = now + RETRY_S if self._find_wanted() else NEVER
            return
        self._under_way, self.deadline = True, NEVER
        context = self._context
        command = ReportLogs(context.broker_id, context.broker_epoch, reports, context.unclean_default)
        context.controller.send(command, self._done_with(reports))

    def _reports(self) -> tuple[LogReport, ...]:
        """Returns the next reports, the doubtful ones first: the controller keeps no log end of an unreported doubt."""
        hosted = self._replicas.hosted
        # A topic may be gone by now, and made again under its name.
        self._doubtful = {
            partition: topic_id
            for partition, topic_id in self._doubtful.items()
            if partition in hosted and hosted[partition].topic_id == topic_id
        }
        wanted = [each for each in self._find_wanted() if each in hosted]
        due = [*((each, True) for each in self._doubtful), *((each, False) for each in wanted)]
        found = (self._report(hosted[each], doubtful) for each, doubtful in due)
        return tuple(itertools.islice((each for each in found if each is not None), REPORTS_PER_COMMAND_MAX))

    def _find_wanted(self) -> tuple[TopicPartition, ...]:
        """Returns the partitions whose log ends the image lacks."""
        if not self._context.eligible:
            return ()
        return tuple(self._context.image.log_ends_wanted(self._context.broker_id))

    @staticmethod
    def _report(hosted: LocalReplica, doubtful: bool) -> LogReport | None:
        """Returns the report of a log, or None if the log may still change and the report can wait."""
        log = hosted.decider.compared_log
        if log is None:
            if not doubtful:
                return None
            log = ComparedLog(NO_EPOCH, NO_EPOCH, 0)
        return LogReport(
            hosted.topic_id, hosted.partition.partition, log.leader_epoch, doubtful, log.last_epoch, log.end_offset
        )

    def _done_with(self, reports: tuple[LogReport, ...]) -> Callable[[CommandResult | CommandFailed], None]:
        reported = {(each.topic_id, each.partition) for each in reports}

        def on_result(result: CommandResult | CommandFailed) -> None:
            self._under_way = False
            if isinstance(result, Acknowledged) and result.error is KafkaErrorCode.NONE:
                self.deadline = 0.0
                self._doubtful = {
                    partition: topic_id
                    for partition, topic_id in self._doubtful.items()
                    if (topic_id, partition.partition) not in reported
                }
            else:
                self.deadline = self._context.clock() + RETRY_S

        return on_result
