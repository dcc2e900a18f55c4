"""Clusters for the tests of programs that use the log, for Trio; `jepsen_like` has the same classes for plain Python.

    import trio
    from jepsen_like.testing import LocalCluster

    async def main() -> None:
        async with LocalCluster.open() as cluster, cluster.client() as client:
            await client.append([b"order 1"])
            await cluster.kill(await cluster.wait_for_leader())
            await client.append([b"order 2"])
            print(await cluster.check())

    trio.run(main)

`aio` has those of raft for asyncio; `plugin` lends all of them to tests, as fixtures of pytest.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

if TYPE_CHECKING:
    from jepsen_like.testing.cluster import LocalCluster, ProcessCluster
    from jepsen_like.testing.faulty import NodeEvent, WaitedTooLong
    from jepsen_like.testing.kafka.cluster import LocalKafka, ProcessKafka
    from jepsen_like.testing.kafka.ledger import KafkaVerdict
    from jepsen_like.testing.ledger import LedgerVerdict
    from jepsen_like.testing.rocketmq.cluster import LocalRocketMq, RocketMqProcesses
    from jepsen_like.testing.rocketmq.ledger import RocketVerdict
    from jepsen_like.testing.rocketmq.producer import SendFailed, SentMessage

__all__ = [
    "KafkaVerdict",
    "LedgerVerdict",
    "LocalCluster",
    "LocalKafka",
    "LocalRocketMq",
    "NodeEvent",
    "ProcessCluster",
    "ProcessKafka",
    "RocketMqProcesses",
    "RocketVerdict",
    "SendFailed",
    "SentMessage",
    "WaitedTooLong",
]

_MODULES = {
    "jepsen_like.testing.cluster": "LocalCluster ProcessCluster",
    "jepsen_like.testing.faulty": "NodeEvent WaitedTooLong",
    "jepsen_like.testing.kafka.cluster": "LocalKafka ProcessKafka",
    "jepsen_like.testing.kafka.ledger": "KafkaVerdict",
    "jepsen_like.testing.ledger": "LedgerVerdict",
    "jepsen_like.testing.rocketmq.cluster": "LocalRocketMq RocketMqProcesses",
    "jepsen_like.testing.rocketmq.ledger": "RocketVerdict",
    "jepsen_like.testing.rocketmq.producer": "SendFailed SentMessage",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    try:
        from log.face import lazy
    except ImportError:  # another package has taken the name of ours; `installation` reports it
        pass
    else:
        __getattr__, __dir__ = lazy(globals())
