"""The records that the brokers report to have stored."""

from tests.kafka_compat.clients.by_kafka_python import KafkaAdminClient


def stored_bytes(bootstrap: str, topic: str) -> list[int]:
    """The size of partition 0's log on each broker that has a replica of it (DescribeLogDirs)."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        brokers = admin.describe_log_dirs({topic: [0]})
    finally:
        admin.close()
    return [
        partition["partition_size"]
        for broker in brokers
        for directory in broker["log_dirs"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
    ]
