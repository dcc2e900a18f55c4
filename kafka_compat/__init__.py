"""Brokers for Kafka's unmodified clients, with Kafka's replication by in-sync replicas (ISR).

    import trio
    from kafka_compat import Broker, BrokerPlan, Settings

    async def main() -> None:
        plan = BrokerPlan(
            cluster_id="demo",
            broker_id=1,
            listen=("127.0.0.1", 9092),
            data="data/1",
            settings=Settings.from_assignments(["num.partitions=3"]),
        )
        async with Broker.open(plan) as broker:
            await broker.serving.wait()
            print(broker.address)  # bootstrap.servers of any Kafka client

    trio.run(main)

- `BrokerPlan.peers` has the other brokers of a cluster; `Settings` are Kafka's own names and values, and raise
  `InvalidSetting`.
- `Broker.open` raises `ForeignDirectory` for the directory of another broker, and what `log` and `raft` raise for
  theirs. `BrokerReplaced` ends a broker whose id another process has taken.
- `TwoTopicsProducer` and `TwoTopicsConsumer` are for clients with a topic in each of two clusters.
- `python -m kafka_compat.process` is the broker as a process; `jepsen_like` has clusters for tests.

`protocol` turns bytes into messages and back. Three deciders are pure: `partition` (one replica of one partition),
`controller` (brokers, topics, leaders; a state machine of a raft group inside the brokers) and `coordinator`
(consumer groups and their offsets). `storage` keeps logs on the disk, and `broker` is the shell around all of it.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from kafka_compat.broker.broker import Address, Broker, BrokerPlan
    from kafka_compat.broker.hosting import BrokerReplaced
    from kafka_compat.config import InvalidSetting, Settings
    from kafka_compat.storage.checkpoints import ForeignDirectory
    from kafka_compat.topic_pair import TwoTopicsConsumer, TwoTopicsProducer

__all__ = [
    "Address",
    "Broker",
    "BrokerPlan",
    "BrokerReplaced",
    "ForeignDirectory",
    "InvalidSetting",
    "Settings",
    "TwoTopicsConsumer",
    "TwoTopicsProducer",
]

_MODULES = {
    "kafka_compat.broker.broker": "Address Broker BrokerPlan",
    "kafka_compat.broker.hosting": "BrokerReplaced",
    "kafka_compat.config": "InvalidSetting Settings",
    "kafka_compat.storage.checkpoints": "ForeignDirectory",
    "kafka_compat.topic_pair": "TwoTopicsConsumer TwoTopicsProducer",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
