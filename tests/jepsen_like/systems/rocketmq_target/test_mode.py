"""Facts that an owner has set decide about the promise, and all else about his brokers is his."""

import pytest

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.rocketmq_target.mode import RocketTargetMode


def test_facts_decide_about_the_promise() -> None:
    mode = RocketTargetMode.of(["flushDiskType=SYNC_FLUSH", "inSyncReplicas=2", "pairs=2", "queues=4"], "sync-slave")
    assert mode.acks_are_durable
    assert not mode.may_hold_alone
    assert (mode.pairs, mode.queues) == (2, 4)
    assert mode.on(4).division.all() == ((1, 2), (3, 4))
    test = {"replication": mode.replication, "settings": mode.settings, "nodes": 1}
    assert RocketTargetMode.of_test(test) == mode


def test_slaves_are_not_read() -> None:
    assert not RocketTargetMode.of([], "dledger").copies_agree


@pytest.mark.parametrize("word", ["brokerRole=SLAVE", "mappedFileSizeCommitLog=1", "pairs=0", "pairs=x", "queues=99"])
def test_a_setting_that_is_the_owners_is_refused(word: str) -> None:
    with pytest.raises(WrongMode, match=r"not the run's to set|takes a number"):
        RocketTargetMode.of([word], "dledger")
