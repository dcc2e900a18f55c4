"""The files that Apache RocketMQ's name server and brokers are made of.

`jars.lock` has what `mvn dependency:list` names for `rocketmq-broker` and `rocketmq-namesrv`, without native libraries,
codecs that nothing here speaks, and annotations.
"""

from jepsen_like.bench.jars import JarSet, locked_jars

ROCKETMQ_VERSION = "5.5.0"
APACHE_ROCKETMQ = JarSet(
    "Apache RocketMQ",
    "apache-rocketmq",
    ROCKETMQ_VERSION,
    locked_jars("jepsen_like.bench.rocketmq"),
    command="quorumlog bench rocketmq --fetch-apache",
)
