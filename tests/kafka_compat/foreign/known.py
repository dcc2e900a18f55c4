"""The differences between our answers and Apache Kafka's, with reasons. A key is a pattern for API, request and field.

The first matching pattern counts.
"""

from collections.abc import Mapping
from typing import Final

_LEADERS_ALONE: Final = "consumers fetch from leaders alone (KIP-392 is not implemented)"
_REASON_GIVEN: Final = "the answer says why"
_KAFKAS_OWN: Final = "an error of Kafka's own, where one with a meaning exists"
_BOUNDS: Final = "the bounds of the log are given with the error, which followers need"
_CLUSTER_LEVEL: Final = "with KIP-966 Apache's controller sets min.insync.replicas for the cluster"

KNOWN: Final[Mapping[tuple[str, str, str], str]] = {
    ("ApiVersions", "*", "api_keys*"): "fewer APIs are served; docs/kafka.md has the table",
    ("ApiVersions", "*", "*_features*"): "only what these brokers have; metadata.version has one level",
    ("FindCoordinator", "*", "*node_id"): "the partition of the offsets topic lies on another broker",
    ("FindCoordinator", "*", "*error_message"): _REASON_GIVEN,
    ("Produce", "a stamped batch", "*"): "Apache's leader takes it and changes the times of its records",
    ("Produce", "a transactional batch", "*log_start_offset"): _BOUNDS,
    ("Produce", "*", "*error_message"): _REASON_GIVEN,
    ("Produce", "*", "*record_errors*"): "the record that is wrong is named",
    ("Produce", "*", "*log_start_offset"): _BOUNDS,
    ("Produce", "*", "*error_code"): _KAFKAS_OWN,
    ("Fetch", "of another leader", "*"): _LEADERS_ALONE,
    (
        "Fetch",
        "a last epoch to come",
        "*",
    ): "the answer has the diverging epoch (KIP-595), which tells the client where to go on",
    ("Fetch", "*", "*high_watermark"): _BOUNDS,
    ("Fetch", "*", "*last_stable_offset"): _BOUNDS,
    ("Fetch", "*", "*log_start_offset"): _BOUNDS,
    ("AlterPartitionReassignments", "a cancel of nothing", "*error_message"): _REASON_GIVEN,
    ("CreatePartitions", "*", "*error_message"): _REASON_GIVEN,
    ("CreateTopics", "*", "*configs[min.insync.replicas].config_source"): _CLUSTER_LEVEL,
    ("DescribeConfigs", "*", "*[min.insync.replicas]*"): _CLUSTER_LEVEL,
    ("DescribeConfigs", "of all brokers", "*configs"): _CLUSTER_LEVEL,
    ("DescribeConfigs", "*", "*synonyms*"): "the default is named in the place where it stands, with its own unit",
    ("DescribeConfigs", "*", "*error_message"): _REASON_GIVEN,
    ("IncrementalAlterConfigs", "an operation that is none", "*"): _KAFKAS_OWN,
}


def table() -> str:
    """Returns the differences as a Markdown table."""
    lines = ["| API | request | field | why |", "| --- | --- | --- | --- |"]
    lines += [f"| {api} | {what} | `{field}` | {why} |" for (api, what, field), why in KNOWN.items()]
    return "\n".join(lines) + "\n"
