"""A broker logs a full disk once, and ends deletions only when no replica needs them."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kafka_compat.broker.housekeeping import Housekeeping
from kafka_compat.config import CompactionRule
from kafka_compat.storage.compaction import Compactor
from kafka_compat.storage.partition_log import PartitionLog
from log.errors import NoSpace
from tests.kafka_compat.broker.world import world

EVERY_S = 5.0
FULL = NoSpace("write", "a checkpoint")


@attrs.define
class Disk:
    """Carries out nothing; each work ends with `error`."""

    error: BaseException | None = None
    works: int = 0

    def submit(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        self.works += 1
        done(self.error)


def test_a_full_disk_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    with world() as broker:
        housekeeping = Housekeeping(broker.context, broker.store, broker.replicas, disk)

        def work(times: int) -> list[str]:
            caplog.clear()
            for _ in range(times):
                broker.now += EVERY_S
                housekeeping.tick(broker.now)
            return caplog.messages

        assert work(2) == []
        disk.error = FULL
        assert work(3) == [f"checkpoints of high watermarks are not written until there is room: {FULL}"]
        disk.error = None
        assert work(3) == ["checkpoints of high watermarks are written again"]
        disk.error = FULL
        assert len(work(3)) == 1
        assert disk.works == 11


@pytest.mark.parametrize(
    ("in_sync", "is_confirmed", "ends"), [((1, 2), True, True), ((1,), True, False), ((1, 2), False, False)]
)
def test_deletions_leave_only_while_every_replica_is_surely_in_sync(
    monkeypatch: pytest.MonkeyPatch, in_sync: tuple[int, ...], is_confirmed: bool, ends: bool
) -> None:
    asked: list[bool] = []

    def begin(compactor: Compactor, log: PartitionLog, rule: CompactionRule, **about: Any) -> None:
        asked.append(about["may_end_deletions"])

    monkeypatch.setattr(Compactor, "begin", begin)
    with world("log.cleanup.policy=compact") as broker:
        broker.topic("t", replicas=(1, 2), isr=in_sync)
        housekeeping = Housekeeping(broker.context, broker.store, broker.replicas, Disk())
        broker.now += 15.0
        broker.link.confirmed_until = broker.now if is_confirmed else broker.now - 1
        housekeeping.tick(broker.now)
        while broker.context.turns.has_more:
            broker.context.turns.pump()
    assert asked == [ends]
