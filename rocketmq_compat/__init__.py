"""Brokers and name servers for RocketMQ's unmodified clients, replicated between a master and its slaves, or by raft.

    import trio
    from rocketmq_compat import BROKER_PROPERTIES, Broker, BrokerPlan, NameServer, NameServerPlan, Properties

    def show(event: str, **fields: object) -> None:
        print(event, fields)

    async def main() -> None:
        properties = Properties.read(BROKER_PROPERTIES, ["namesrvAddr=127.0.0.1:9876", "haListenPort=10912"])
        plan = BrokerPlan(listen=("127.0.0.1", 10911), data="store", properties=properties)
        async with (
            NameServer.open(NameServerPlan(listen=("127.0.0.1", 9876)), tell=show),
            Broker.open(plan, tell=show) as broker,
        ):
            await broker.serving.wait()  # from here on 9876 is the name server address of any client

    trio.run(main)

- `Properties` are RocketMQ's own names and values, of brokers (`BROKER_PROPERTIES`) or name servers
  (`NAMESRV_PROPERTIES`); they raise `InvalidProperty`.
- `Broker.open` raises `DamageRead` when it is to be opened again, which repairs its copy; `NameServer.open` raises
  `DamagedKvFile`.
- `TwoTopicsProducer` and `TwoTopicsListener` are for clients with a topic in each of two clusters.
- `python -m rocketmq_compat.process` has both as processes; `jepsen_like` has clusters for tests.

`remoting` turns bytes into commands and back, and carries them. `records`, `config`, `nameserver.routes`,
`replication` and `consumers` are pure. `storage` keeps the commit log and the consume queues on the disk, and
`broker` is the shell around all of it.
"""

TYPE_CHECKING = False  # for type checkers it is True; importing `typing` would take longer than all else here

__distribution__ = "quorumlog"

if TYPE_CHECKING:
    from rocketmq_compat.broker.broker import Address, Broker, BrokerPlan, DamageRead
    from rocketmq_compat.config import InvalidProperty, Properties
    from rocketmq_compat.config_keys import BROKER_PROPERTIES, NAMESRV_PROPERTIES
    from rocketmq_compat.nameserver.kv_file import DamagedKvFile
    from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
    from rocketmq_compat.topic_pair import TwoTopicsListener, TwoTopicsProducer

__all__ = [
    "BROKER_PROPERTIES",
    "NAMESRV_PROPERTIES",
    "Address",
    "Broker",
    "BrokerPlan",
    "DamageRead",
    "DamagedKvFile",
    "InvalidProperty",
    "NameServer",
    "NameServerPlan",
    "Properties",
    "TwoTopicsListener",
    "TwoTopicsProducer",
]

_MODULES = {
    "rocketmq_compat.broker.broker": "Address Broker BrokerPlan DamageRead",
    "rocketmq_compat.config": "InvalidProperty Properties",
    "rocketmq_compat.config_keys": "BROKER_PROPERTIES NAMESRV_PROPERTIES",
    "rocketmq_compat.nameserver.kv_file": "DamagedKvFile",
    "rocketmq_compat.nameserver.server": "NameServer NameServerPlan",
    "rocketmq_compat.topic_pair": "TwoTopicsListener TwoTopicsProducer",
}
"""The names of each module, which is imported when one of them is asked for."""

if not TYPE_CHECKING:
    from log.face import lazy

    __getattr__, __dir__ = lazy(globals())
