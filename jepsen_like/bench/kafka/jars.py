"""The files that Apache Kafka's brokers and console tools are made of.

`jars.lock` has what `mvn dependency:list` names for `kafka_2.13` and `kafka-tools`, without Connect and its web server,
and with a logger.
"""

from jepsen_like.bench.jars import JarSet, locked_jars

KAFKA_VERSION = "4.3.1"
APACHE_KAFKA = JarSet(
    "Apache Kafka",
    "apache-kafka",
    KAFKA_VERSION,
    locked_jars("jepsen_like.bench.kafka"),
    command="quorumlog bench kafka --fetch-apache",
)
