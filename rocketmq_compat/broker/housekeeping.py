"""Periodic work of a broker: retention, checkpoints of tables and of the log's derived files, closing idle files."""

from collections.abc import Callable

from log.errors import NoSpace
from rocketmq_compat.broker.context import Context, DiskWork
from rocketmq_compat.broker.tables import TablesPort
from rocketmq_compat.storage.retention import CommitLogRetention

SAVE_EVERY_S = 60.0
"""The longest time between saves of the derived files, so that a restart reads little again."""
SAVE_CHECK_S = 1.0


class Housekeeping:
    """Does the work that is due; call `tick` once a round. Slow work goes to the disk thread."""

    def __init__(self, context: Context, tables: TablesPort, disk: DiskWork, on_trimmed: Callable[[int], None]) -> None:
        """`on_trimmed` is called with the new start of the log."""
        properties, now = context.properties, context.clock()
        self._context = context
        self._disk = disk
        self._on_trimmed = on_trimmed
        self._saving = False
        self._save_due = now + SAVE_EVERY_S
        self._every: list[tuple[float, Callable[[], None]]] = [
            (properties.seconds("flushConsumerOffsetInterval"), tables.save),
            (properties.seconds("cleanResourceInterval"), self._clean),
            (SAVE_CHECK_S, self._save_if_due),
        ]
        self._due = [now + every_s for every_s, _ in self._every]

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return min(self._due)

    def tick(self, now: float) -> None:
        """Do the work that is due."""
        if self.deadline > now:
            return
        for number, (every_s, work) in enumerate(self._every):
            if self._due[number] <= now:
                self._due[number] = now + every_s
                work()

    def _clean(self) -> None:
        store = self._context.store
        rule = CommitLogRetention(hours_max=self._context.properties.number("fileReservedTime"))
        before = store.log.start_offset
        start = store.retain(rule, self._context.wall_ms(), self._context.delays_from())
        if start > before:
            self._on_trimmed(start)
        store.close_idle()

    def _save_if_due(self) -> None:
        store, now = self._context.store, self._context.clock()
        if self._saving or not (store.derived.save_due or now >= self._save_due):
            return
        self._saving = True
        self._save_due = now + SAVE_EVERY_S
        save = store.begin_save()

        def on_saved(error: BaseException | None) -> None:
            self._saving = False
            store.end_save(save)
            if isinstance(error, NoSpace):
                self._context.tell("checkpoint_failed", reason=str(error))
            elif error is not None:
                raise error

        self._disk.submit(save.run, on_saved)
