"""The ledger tells broken promises from what the mode allows and from messages that are elsewhere, without any broker."""

from collections.abc import Mapping

import attrs
import pytest

from jepsen_like.testing.rocketmq.ledger import (
    WIPED,
    WITHOUT_POWER,
    AcknowledgedMessage,
    CopyLedger,
    CopyPromise,
    GroupCopies,
    HeldMessage,
    QueueCopy,
    RocketVerdict,
)
from rocketmq_compat.replication.acks import SendStatus

ASYNC = CopyPromise(slaves_awaited=0, is_flushed=False, compares=True)
SYNC = attrs.evolve(ASYNC, slaves_awaited=1)
GROUP = (1, 2, 3)
QUEUE = ("orders", 0)
OK = SendStatus.SEND_OK


def acknowledge(ledger: CopyLedger, offset: int, body: bytes, *, status: SendStatus = OK, master: int = 1) -> None:
    ledger.on_acknowledged("broker-a", AcknowledgedMessage(QUEUE, offset, body, status, master, ledger.now))


def verdict(
    ledger: CopyLedger, copies: Mapping[int, list[bytes]], *, master: int = 1, diverged: int = 0
) -> RocketVerdict:
    """Of the bodies that each broker has, from offset 0 on."""
    queues = {
        node: {
            QUEUE: QueueCopy(0, {offset: HeldMessage(b"record " + body, body) for offset, body in enumerate(bodies)})
        }
        for node, bodies in copies.items()
    }
    return ledger.verdict({"broker-a": GroupCopies(master, queues, frozenset({diverged} - {0}))})


def test_what_all_copies_have_is_not_lost() -> None:
    ledger = CopyLedger(SYNC)
    acknowledge(ledger, 0, b"a")
    found = verdict(ledger, {1: [b"a"], 2: [b"a"], 3: [b"a"]})
    assert str(found) == "1 acknowledged, 1 queues compared: nothing acknowledged was lost"


def test_a_master_that_was_not_harmed_must_have_what_it_acknowledged_also_when_others_do() -> None:
    ledger = CopyLedger(ASYNC)
    acknowledge(ledger, 0, b"a")
    found = verdict(ledger, {1: [], 2: [b"a"], 3: []}, master=2, diverged=1)
    assert found.broken[-1] == "orders-0: offset 0, b'a', is lost on broker 1"


@pytest.mark.parametrize(
    ("flushed", "status", "harm", "broken"),
    [
        (False, OK, WIPED, False),
        (True, OK, WIPED, False),
        (False, OK, WITHOUT_POWER, False),
        (True, OK, WITHOUT_POWER, True),
        (True, SendStatus.FLUSH_DISK_TIMEOUT, WITHOUT_POWER, False),
    ],
)
def test_a_harm_excuses_what_need_not_have_survived_it(
    flushed: bool, status: SendStatus, harm: str, broken: bool
) -> None:
    ledger = CopyLedger(attrs.evolve(ASYNC, is_flushed=flushed))
    acknowledge(ledger, 0, b"a", status=status)
    ledger.on_harm([1], harm, GROUP)
    found = verdict(ledger, {1: [], 2: [], 3: []})
    assert (bool(found.broken), bool(found.allowed)) == (broken, not broken)


def test_a_harm_excuses_nothing_that_was_sent_after_it() -> None:
    ledger = CopyLedger(ASYNC)
    ledger.on_harm([1], WIPED, GROUP)
    acknowledge(ledger, 0, b"a")
    assert verdict(ledger, {1: [], 2: [], 3: []}).broken == ("orders-0: offset 0, b'a', is lost on broker 1",)


@pytest.mark.parametrize(
    ("status", "harmed", "broken"),
    [
        (OK, [1], True),
        (OK, [1, 2], False),
        (SendStatus.SLAVE_NOT_AVAILABLE, [1], False),
        (SendStatus.FLUSH_SLAVE_TIMEOUT, [1], False),
    ],
)
def test_as_many_slaves_as_were_waited_for_have_a_message(status: SendStatus, harmed: list[int], broken: bool) -> None:
    ledger = CopyLedger(SYNC)
    acknowledge(ledger, 0, b"a", status=status)
    ledger.on_harm(harmed, WIPED, GROUP)
    found = verdict(ledger, {1: [], 2: [], 3: []})
    assert (found.broken == ("orders-0: offset 0, b'a', is on 0 of the 1 slaves that had it",)) is broken
    assert bool(found.allowed) is not broken


def test_what_a_check_has_found_on_a_copy_stays_there() -> None:
    ledger = CopyLedger(ASYNC)
    acknowledge(ledger, 0, b"a")
    assert verdict(ledger, {1: [b"a"], 2: [b"a"], 3: [b"a"]}).valid
    ledger.on_harm([1, 3], WIPED, GROUP)
    assert verdict(ledger, {1: [], 2: [], 3: []}).broken == ("orders-0: offset 0, b'a', is lost on broker 2",)


def test_what_the_master_lacks_and_another_copy_has_is_elsewhere() -> None:
    ledger = CopyLedger(ASYNC)
    acknowledge(ledger, 0, b"a")
    ledger.on_harm([1], WIPED, GROUP)
    found = verdict(ledger, {1: [], 2: [b"a"], 3: []}, diverged=2)
    assert (found.broken, found.allowed) == ((), ())
    assert found.elsewhere == ("orders-0: offset 0, b'a', is not on master 1 but on broker 2",)


def test_copies_that_differ_are_told_with_their_place_unless_they_are_known_to_diverge() -> None:
    copies = {1: [b"a", b"b"], 2: [b"a", b"x"], 3: [b"a", b"b"]}
    assert verdict(CopyLedger(ASYNC), copies).broken == ("orders-0: brokers 1 and 2 differ at offset 1",)
    assert verdict(CopyLedger(ASYNC), {**copies, 3: [b"a"]}, diverged=2).broken == (
        "orders-0: brokers 1 and 3 differ at offset 1",
    )
    assert verdict(CopyLedger(ASYNC), copies, diverged=2).valid


def test_where_nothing_is_compared_every_harm_may_cost_all_copies() -> None:
    ledger = CopyLedger(attrs.evolve(SYNC, compares=False))
    acknowledge(ledger, 0, b"a")
    ledger.on_promoted(GROUP)
    found = verdict(ledger, {1: [b"x"], 2: [b"y"], 3: []}, master=2)
    assert found.broken == ()
    assert found.allowed == (
        "orders-0: offset 0, b'a', is lost as the mode allows: SEND_OK of broker 1, which may have been overwritten",
    )


def test_a_promotion_alone_costs_no_copy() -> None:
    ledger = CopyLedger(SYNC)
    acknowledge(ledger, 0, b"a")
    ledger.on_promoted(GROUP)
    assert len(verdict(ledger, {1: [], 2: [], 3: []}, master=2).broken) == 1


def test_a_master_gives_a_place_once_unless_it_was_harmed_or_is_another() -> None:
    ledger = CopyLedger(ASYNC)
    acknowledge(ledger, 0, b"a")
    acknowledge(ledger, 0, b"b", master=2)
    ledger.on_harm([1], WIPED, GROUP)
    acknowledge(ledger, 0, b"c")
    assert verdict(ledger, {1: [b"c"], 2: [b"b"], 3: [b"c"]}, diverged=2).broken == ()
    acknowledge(ledger, 0, b"d")
    assert verdict(ledger, {1: [b"d"], 2: [b"b"], 3: [b"d"]}, diverged=2).broken[0] == (
        "orders-0: offset 0, b'c', and b'd' were acknowledged at the same place of broker-a"
    )


def test_what_has_left_its_queue_is_expired() -> None:
    ledger = CopyLedger(ASYNC)
    acknowledge(ledger, 0, b"a")
    found = ledger.verdict({"broker-a": GroupCopies(1, {1: {QUEUE: QueueCopy(1)}})})
    assert (found.valid, found.expired) == (True, 1)


def test_a_text_names_some_and_counts_the_others() -> None:
    ledger = CopyLedger(ASYNC)
    for offset in range(7):
        acknowledge(ledger, offset, b"%d" % offset)
    assert str(verdict(ledger, {1: []})).endswith("offset 4, b'4', is lost on broker 1; and 2 more")
