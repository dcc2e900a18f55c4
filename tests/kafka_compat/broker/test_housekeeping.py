"""A broker logs a full disk once."""

from collections.abc import Callable

import attrs
import pytest

from kafka_compat.broker.housekeeping import Housekeeping
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
