"""All programs of others that `quorumlog fetch` brings. Of several versions of a name the first is meant by it alone.

The locks lie next to this module. That of Apache Kafka has what `mvn dependency:list` names for `kafka_2.13` and
`kafka-tools`, without Connect and its web server, and with a logger. That of Apache RocketMQ has what it names for
`rocketmq-broker` and `rocketmq-namesrv`, without native libraries, codecs that nothing here speaks, and annotations.
"""

from typing import Final

from jepsen_like.systems.archives.archive import Archive
from jepsen_like.systems.archives.go import GoProgram
from jepsen_like.systems.archives.jars import JarSet

APACHE_KAFKA: Final = JarSet.read_lock("Apache Kafka", "apache-kafka", "4.3.1")
APACHE_ROCKETMQS: Final = tuple(
    JarSet.read_lock("Apache RocketMQ", "apache-rocketmq", version) for version in ("5.5.0", "5.1.4")
)
APACHE_ROCKETMQ: Final = APACHE_ROCKETMQS[0]
ZOOKEEPER: Final = JarSet.read_lock("Apache ZooKeeper", "zookeeper", "3.9.5")
NATS_SERVERS: Final = tuple(
    GoProgram("NATS", "nats-server", version, package="github.com/nats-io/nats-server/v2")
    for version in ("2.15.2", "2.12.1")
)
ETCDS: Final = tuple(
    GoProgram("etcd", "etcd", version, package="go.etcd.io/etcd/server/v3") for version in ("3.7.3", "3.5.2", "3.5.4")
)
ARCHIVES: Final[tuple[Archive, ...]] = (APACHE_KAFKA, *APACHE_ROCKETMQS, ZOOKEEPER, *NATS_SERVERS, *ETCDS)


def apache_rocketmq(version: str) -> JarSet:
    """Returns Apache RocketMQ in this version. Raises `KeyError`."""
    return {each.version: each for each in APACHE_ROCKETMQS}[version]


def etcd(version: str) -> GoProgram:
    """Returns etcd in this version. Raises `KeyError`."""
    return {each.version: each for each in ETCDS}[version]


def nats_server(version: str) -> GoProgram:
    """Returns the server of NATS in this version. Raises `KeyError`."""
    return {each.version: each for each in NATS_SERVERS}[version]


def archives_by_name() -> dict[str, Archive]:
    """Returns all of them by their names with the version; of each name the first also by the name alone."""
    first = {archive.name: archive for archive in reversed(ARCHIVES)}
    return {**{archive.full_name: archive for archive in ARCHIVES}, **first}
