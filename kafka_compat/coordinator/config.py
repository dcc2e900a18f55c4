"""The settings of groups and offsets, under Kafka's names and with its defaults."""

from log.values import frozen


@frozen
class CoordinatorConfig:
    """The settings of a group coordinator. Each is Kafka's broker setting of the same name, but for `groups_max`; times are milliseconds."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    """The time that the first rebalance of an empty group waits for more members; 0 does not wait."""
    group_max_size: int = 2**31 - 1
    """Members of one group; also the bound of member ids that were given out and have not joined yet (KIP-394)."""
    groups_max: int = 10_000
    """Groups of one coordinator, which is one partition of the offsets topic. A bound of memory that Kafka lacks."""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`: the longest metadata of a committed offset, in characters, as Kafka counts it."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """`offsets.retention.minutes`, in ms: for so long offsets outlive the last member of their group (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors of groups by KIP-848; the first is the default."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """The time after which all topics are held against the expressions of a group again, by the rights of then."""
