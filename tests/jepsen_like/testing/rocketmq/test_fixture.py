"""The fixtures for RocketMQ, used as a user's test would use them."""

import asyncio
import threading
from collections.abc import Callable

import pytest
import trio

from jepsen_like.port.port import WrongMode
from jepsen_like.testing.faulty import WaitedTooLong
from jepsen_like.testing.rocketmq.producer import SendFailed
from jepsen_like.testing.rocketmq.sync import LocalRocketMq, RocketMqProcesses
from rocketmq_compat.replication.acks import SendStatus

FLUSHED = {"flushDiskType": "SYNC_FLUSH"}


def send(cluster: LocalRocketMq | RocketMqProcesses, *bodies: bytes) -> list[SendStatus]:
    """Sends to one queue."""
    with cluster.producer() as producer:
        return [producer.send("orders", body, broker_name="broker-a", queue_id=0).status for body in bodies]


def sends_in_vain(cluster: LocalRocketMq, within_s: float = 0.2) -> SendFailed:
    with cluster.producer() as producer, pytest.raises(SendFailed) as failed:
        producer.send("orders", b"in vain", within_s=within_s)
    return failed.value


def by_kill(cluster: LocalRocketMq, broker: int) -> None:
    cluster.kill(broker)


def by_pause(cluster: LocalRocketMq, broker: int) -> None:
    cluster.pause(broker)


def by_power(cluster: LocalRocketMq, broker: int) -> None:
    cluster.power(broker)


def by_isolation(cluster: LocalRocketMq, broker: int) -> None:
    cluster.isolate(broker)


def by_stop(cluster: LocalRocketMq, broker: int) -> None:
    cluster.stop(broker)


@pytest.mark.rocketmq_cluster(properties=FLUSHED)
@pytest.mark.parametrize("fault", [by_kill, by_pause, by_power, by_isolation, by_stop])
def test_a_master_that_is_gone_takes_nothing_and_comes_back_with_all(
    rocketmq_cluster: LocalRocketMq, fault: Callable[[LocalRocketMq, int], None]
) -> None:
    cluster = rocketmq_cluster
    assert send(cluster, b"one") == [SendStatus.SEND_OK]
    place = cluster.master()
    assert (place.name, place.node) == ("broker-a", 1)
    fault(cluster, place.node)
    assert sends_in_vain(cluster).definite is (fault not in (by_pause, by_isolation, by_power))
    with pytest.raises(WaitedTooLong):
        cluster.master(within_s=0.05)
    cluster.heal()
    cluster.start()
    assert cluster.master() == place
    assert send(cluster, b"two") == [SendStatus.SEND_OK]
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged, verdict.compared) == (True, 2, 1), str(verdict)


@pytest.mark.rocketmq_cluster(sync=True, slaves=2)
def test_a_slave_that_an_operator_promotes_has_all_and_the_others_follow_it(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one", b"two")
    assert cluster.check().valid
    assert cluster.promote(3) == 1
    assert cluster.master().node == 3
    assert send(cluster, b"three") == [SendStatus.SEND_OK]
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, 3)
    assert not verdict.elsewhere
    with pytest.raises(ValueError, match="broker 3 is the master already"):
        cluster.promote(3)
    with pytest.raises(ValueError, match="node 4 is no broker"):
        cluster.promote(cluster.name_server)


def test_the_tail_that_an_asynchronous_master_had_alone_is_named_once_it_is_wiped(
    rocketmq_cluster: LocalRocketMq,
) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    assert cluster.check().valid
    cluster.partition([1], [2])
    send(cluster, b"two")  # the ways between both are cut, so the slave does not have it
    cluster.wipe(1)
    cluster.heal()
    cluster.promote(2)
    send(cluster, b"other")
    verdict = cluster.check()
    assert verdict.valid
    assert verdict.allowed == (
        "orders-0: offset 1, b'two', is lost as the mode allows: SEND_OK of broker 1, which was wiped",
    )
    assert verdict.elsewhere == ()


def test_what_only_a_former_master_has_is_copied_back_by_the_new_one(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    assert cluster.check().valid
    cluster.partition([1], [2])
    send(cluster, b"two")
    cluster.promote(2)
    verdict = cluster.check()
    assert (verdict.valid, verdict.allowed, verdict.elsewhere) == (True, (), ())


def test_what_only_a_former_master_has_is_told_and_not_lost(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    assert cluster.check().valid
    cluster.partition([1], [2])
    send(cluster, b"two")
    cluster.promote(2)
    send(cluster, b"three")
    verdict = cluster.check()
    assert (verdict.valid, verdict.allowed) == (True, ())
    assert verdict.elsewhere == ("orders-0: offset 1, b'two', is not on master 2 but on broker 1",)
    refused = sends_in_vain(cluster)
    assert (refused.definite, "an operator must decide" in str(refused)) == (True, True)


def test_a_wiped_master_copies_back_what_its_slave_has(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    assert cluster.check().valid
    cluster.wipe(1)
    verdict = cluster.check()
    assert (verdict.valid, verdict.allowed, verdict.elsewhere) == (True, (), ())
    assert send(cluster, b"two") == [SendStatus.SEND_OK]
    assert cluster.check().elsewhere == ()


@pytest.mark.rocketmq_cluster(slaves=0)
def test_an_attempt_that_begins_just_before_the_deadline_has_an_outcome(rocketmq_cluster: LocalRocketMq) -> None:
    with rocketmq_cluster.producer() as producer:
        assert producer.send("orders", b"one", within_s=0.0).status is SendStatus.SEND_OK


@pytest.mark.rocketmq_cluster(slaves=0)
def test_what_was_not_flushed_may_go_with_the_power(rocketmq_cluster: LocalRocketMq) -> None:
    send(rocketmq_cluster, b"one")
    rocketmq_cluster.power(1)
    verdict = rocketmq_cluster.check()
    assert verdict.valid
    assert verdict.allowed == (
        "orders-0: offset 0, b'one', is lost as the mode allows: SEND_OK of broker 1, which lost its power",
    )


@pytest.mark.rocketmq_cluster(sync=True, properties={"slaveTimeout": 50})
def test_a_status_that_promises_less_than_the_mode_is_held_to_less(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    cluster.cut(1, 2)
    assert send(cluster, b"one") == [SendStatus.FLUSH_SLAVE_TIMEOUT]
    cluster.wipe(1)
    verdict = cluster.check()
    assert (verdict.valid, len(verdict.allowed)) == (True, 1)


def test_a_cut_to_the_name_server_keeps_a_broker_from_registering(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    cluster.cut(2, cluster.name_server)
    cluster.kill(2)
    cluster.start(2)
    with pytest.raises(WaitedTooLong, match="the name server knows"):
        cluster.wait_until_serving(within_s=0.5)
    cluster.heal()
    cluster.wait_until_serving()


def test_without_a_name_server_no_master_is_found_and_nothing_is_lost(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    cluster.kill(cluster.name_server)
    assert sends_in_vain(cluster).definite
    cluster.start()
    cluster.wait_until_serving()
    send(cluster, b"two")


@pytest.mark.rocketmq_cluster(pairs=2, slaves=1)
def test_of_two_pairs_one_goes_on_without_the_other(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    assert cluster.brokers == (1, 2, 3, 4)
    assert (cluster.master("broker-b").node, cluster.name_server) == (3, 5)
    with cluster.producer() as producer:
        for name in ("broker-a", "broker-b"):  # as in RocketMQ, a topic is at first where its first message went
            producer.send("orders", name.encode(), broker_name=name)
        sent, names = 2, set[str]()
        while len(names) < 2:  # it registers with its new topic
            names.add(producer.send("orders", b"%d" % sent, keys=f"k{sent}", tag="t").broker_name)
            sent += 1
        cluster.kill(1)
        for number in range(4):
            assert producer.send("orders", b"more %d" % number).broker_name == "broker-b"
    cluster.promote(2)
    assert send(cluster, b"again") == [SendStatus.SEND_OK]
    assert cluster.check().acknowledged == sent + 5


def test_asyncio(rocketmq_cluster: LocalRocketMq) -> None:
    async def main() -> list[SendStatus]:
        await asyncio.to_thread(rocketmq_cluster.master)
        return await asyncio.to_thread(send, rocketmq_cluster, b"one")

    assert asyncio.run(main()) == [SendStatus.SEND_OK]


async def test_trio(rocketmq_cluster: LocalRocketMq) -> None:
    assert await trio.to_thread.run_sync(send, rocketmq_cluster, b"one") == [SendStatus.SEND_OK]
    assert (await trio.to_thread.run_sync(rocketmq_cluster.master)).node in rocketmq_cluster.brokers


@pytest.mark.rocketmq_cluster(check=False)
def test_a_message_that_was_told_as_acknowledged_and_is_not_there_breaks_the_promise(
    rocketmq_cluster: LocalRocketMq,
) -> None:
    rocketmq_cluster.note_acknowledged("orders", 3, 7, b"never sent")
    verdict = rocketmq_cluster.check()
    assert verdict.broken == ("orders-3: offset 7, b'never sent', is lost on broker 1",)
    assert not verdict.valid


def test_the_events_of_brokers_and_name_server_are_in_the_story(rocketmq_cluster: LocalRocketMq) -> None:
    told = [(each.node, each.event) for each in rocketmq_cluster.events()]
    assert {(1, "serving"), (2, "serving"), (3, "broker_registered")} <= set(told)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"flushDiskTipe": "SYNC_FLUSH"}, "Did you mean flushDiskType"),
        ({"brokerRole": "SLAVE"}, "brokerRole follows from"),
        ({"slaveReadEnable": False}, "slaveReadEnable is not for a cluster of a test"),
    ],
)
def test_properties_that_cannot_be_are_refused(properties: dict[str, object], said: str) -> None:
    with pytest.raises(WrongMode, match=said), LocalRocketMq.open(properties=properties):
        pass


@pytest.mark.parametrize(("pairs", "slaves"), [(0, 1), (27, 1), (1, -1)])
def test_impossible_numbers_of_brokers_are_refused(pairs: int, slaves: int) -> None:
    with pytest.raises(ValueError, match="1 to 26 masters"), LocalRocketMq.open(pairs=pairs, slaves=slaves):
        pass


@pytest.mark.campaign
def test_two_workers_have_clusters_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_own(rocketmq_cluster, number):
            with rocketmq_cluster.producer() as producer:
                assert producer.send("orders", b"one").queue_offset == 0
    """)
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=2)


def test_a_loss_and_a_wrong_marker_fail_a_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("""
        import pytest

        def test_own(rocketmq_cluster):
            with rocketmq_cluster.producer() as producer:
                assert producer.send("orders", b"one").queue_offset == 0

        def test_loss(rocketmq_cluster):
            rocketmq_cluster.note_acknowledged("orders", 0, 0, b"never sent")

        @pytest.mark.rocketmq_cluster(slave=2)
        def test_marker(rocketmq_cluster):
            pass
    """)
    result = pytester.runpytest_inprocess("-p", "jepsen_like.testing.plugin")
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "*offset 0, b'never sent', is lost on broker 1*",
            "*the marker rocketmq_cluster takes *, not 'slave'; did you mean slaves?*",
        ]
    )


def test_nothing_is_left_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with LocalRocketMq.open() as cluster:
        cluster.pause(1)
    assert {thread.name for thread in threading.enumerate()} <= before


@pytest.mark.rocketmq_cluster(properties=FLUSHED)
def test_a_former_master_without_power_stays_so_when_another_is_promoted(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    send(cluster, b"one")
    assert cluster.check().valid
    cluster.power(1)
    cluster.promote(2)
    assert "killed" not in [each.event for each in cluster.events()]
    assert send(cluster, b"two") == [SendStatus.SEND_OK]


@pytest.mark.cluster
@pytest.mark.rocketmq_cluster(sync=True)
def test_processes_can_be_killed_and_promoted(rocketmq_processes: RocketMqProcesses) -> None:
    cluster = rocketmq_processes
    assert send(cluster, b"one") == [SendStatus.SEND_OK]
    cluster.partition([1], [2])
    assert send(cluster, b"of the master alone") == [SendStatus.FLUSH_SLAVE_TIMEOUT]
    cluster.kill(1)
    cluster.promote(2, within_s=30)  # before the heal: what waits on a cut way then finds no one
    cluster.heal()
    cluster.wipe(1)
    cluster.start(1)
    cluster.wait_until_serving(within_s=30)
    assert send(cluster, b"two") == [SendStatus.SEND_OK]
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged, verdict.elsewhere, len(verdict.allowed)) == (True, 3, (), 1)


@pytest.mark.rocketmq_cluster(tls=True, properties=FLUSHED)
def test_a_pair_with_tls_serves_and_its_slave_follows(rocketmq_cluster: LocalRocketMq) -> None:
    cluster = rocketmq_cluster
    assert send(cluster, b"one") == [SendStatus.SEND_OK]
    cluster.kill(1)
    cluster.start(1)
    cluster.wait_until_serving()
    assert send(cluster, b"two") == [SendStatus.SEND_OK]
    assert cluster.tls is not None
