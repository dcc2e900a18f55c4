"""The Kafka settings that take effect here, by Kafka's own names: type, default, bounds and meaning. Pure.

A broker setting is given with `--set`; `dynamic` ones can be altered while brokers run (IncrementalAlterConfigs). A
topic setting that a topic does not override comes from the broker settings in `synonyms`, in this order. A name of
Kafka's without effect here is refused, because a setting that is silently ignored is a false promise; see
`NOT_HONOURED`.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from kafka_compat.stored_form import CODECS, PRODUCER

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Sends consumers to a replica in their own rack (KIP-392)."""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class ConfigKind(enum.IntEnum):
    """The type of a value, with the number it has in DescribeConfigs (KIP-226)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@frozen
class Synonym:
    """A broker setting that stands for a topic's: a value of it times `factor` is one of the topic's."""

    name: str
    factor: int = 1


@frozen
class ConfigKey:
    """One setting. A number lies between `least` and `most`; a value is one of `choices`, unless they are empty.

    `default` is written as a user would write it, or is None. `hint` follows a refusal of other choices.
    """

    name: str
    kind: ConfigKind
    default: str | None
    doc: str
    least: int = 0
    most: int = LONG_MAX
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    synonyms: tuple[Synonym, ...] = ()
    hint: str = ""


def _int(
    name: str, default: int | None, doc: str, *, least: int = 0, most: int = INT_MAX, dynamic: bool = False
) -> ConfigKey:
    written = None if default is None else str(default)
    return ConfigKey(name, ConfigKind.INT, written, doc, least, most, dynamic=dynamic)


def _long(name: str, default: int | None, doc: str, *, least: int = 0, dynamic: bool = False) -> ConfigKey:
    written = None if default is None else str(default)
    return ConfigKey(name, ConfigKind.LONG, written, doc, least, LONG_MAX, dynamic=dynamic)


def _flag(name: str, default: str, doc: str, *, dynamic: bool = False) -> ConfigKey:
    return ConfigKey(name, ConfigKind.BOOLEAN, default, doc, dynamic=dynamic)


def _choice(
    name: str, choices: Sequence[str], doc: str, *, kind: ConfigKind = ConfigKind.STRING, dynamic: bool = False
) -> ConfigKey:
    return ConfigKey(name, kind, choices[0], doc, choices=tuple(choices), dynamic=dynamic)


def _optional(name: str, doc: str, kind: ConfigKind = ConfigKind.STRING) -> ConfigKey:
    return ConfigKey(name, kind, None, doc)


def _define_fixed(name: str, kind: ConfigKind, default: str, doc: str, hint: str = "") -> ConfigKey:
    """Returns a Kafka setting that is served only at its default, so that tools which name it work."""
    return ConfigKey(name, kind, default, doc, least=-2, choices=(default,), dynamic=True, hint=hint)


def _table(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    table = {each.name: each for each in keys}
    assert len(table) == len(keys), "a setting is in the table twice"
    return table


def _names(text: str) -> list[str]:
    return text.split()


SILENCE_TIMEOUT: Final = "broker.silence.timeout.ms"

FLUSH: Final = "flush"
PAGE_CACHE: Final = "page-cache"
BEFORE_ACK: Final = "before-ack"

CREATE_TIME: Final = "CreateTime"
APPEND_TIME: Final = "LogAppendTime"

DELETE: Final = "delete"
COMPACT: Final = "compact"

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SASL_MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
DEFAULT_PROTOCOL_MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's name of the one authorizer."""

_FLUSH_HINT: Final = " To wait for the disk, start the brokers with flush=before-ack."

BROKER_KEYS: Final = _table(
    _choice(
        FLUSH,
        (PAGE_CACHE, BEFORE_ACK),
        "What an acknowledgement waits for on each replica: page-cache, as in Kafka, or before-ack, once the batch is on its disk. "
        "Not a setting of Kafka's.",
    ),
    # Topics
    _int("num.partitions", 1, "Partitions of a topic that is made without a count.", least=1),
    _int("default.replication.factor", 1, "Replicas of a topic that is made without a count.", least=1),
    _flag("auto.create.topics.enable", "true", "Whether asking for a topic's metadata makes it."),
    _flag("delete.topic.enable", "true", "Whether topics can be deleted."),
    _int(
        "min.insync.replicas",
        1,
        "In-sync replicas that a produce with acks=all needs; with fewer it is refused.",
        least=1,
        dynamic=True,
    ),
    _flag(
        "unclean.leader.election.enable",
        "false",
        "Whether a replica that is not in sync may lead when none is left; records may be lost.",
        dynamic=True,
    ),
    _int(
        "eligible.leader.replicas.version",
        1,
        "1: who leaves an ISR may lead until the leader goes on without it (KIP-966). 0: only the last member of an ISR may.",
        most=1,
    ),
    _int("message.max.bytes", 1_048_588, "The largest record batch that is accepted, in bytes.", dynamic=True),
    _choice(
        "compression.type",
        (PRODUCER, *CODECS),
        "The codec in which batches are stored; producer: as they were sent.",
        dynamic=True,
    ),
    ConfigKey(
        "compression.gzip.level",
        ConfigKind.INT,
        "-1",
        "The level of gzip where brokers compress; -1 is zlib's default.",
        least=-1,
        choices=("-1", *map(str, range(1, 10))),
        dynamic=True,
    ),
    _int("compression.lz4.level", 9, "The level of LZ4 where brokers compress.", least=1, most=17, dynamic=True),
    _int(
        "compression.zstd.level", 3, "The level of zstd where brokers compress.", least=-131_072, most=22, dynamic=True
    ),
    _choice(
        "log.message.timestamp.type",
        (CREATE_TIME, APPEND_TIME),
        "Whose time records have: the producer's, or that of the leader when it appends them.",
        dynamic=True,
    ),
    _long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        "How much older than the leader's clock a record may be; an older one is refused.",
        dynamic=True,
    ),
    _long(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "How far ahead of the leader's clock a record may be; one farther ahead is refused.",
        dynamic=True,
    ),
    # Logs
    _int("log.segment.bytes", 1 << 30, "A segment of a log ends before it would be longer.", least=4096, dynamic=True),
    _long("log.roll.ms", None, "A segment ends when it is older; unset: log.roll.hours.", least=1, dynamic=True),
    _int("log.roll.hours", 168, "A segment ends when it is older.", least=1),
    _long(
        "log.retention.ms",
        None,
        "How long records are kept; -1 = always; unset: log.retention.minutes.",
        least=-1,
        dynamic=True,
    ),
    _int(
        "log.retention.minutes", None, "How long records are kept; -1 = always; unset: log.retention.hours.", least=-1
    ),
    _int("log.retention.hours", 168, "How long records are kept; -1 = always.", least=-1),
    _long("log.retention.bytes", -1, "How much of each partition is kept; -1 = everything.", least=-1, dynamic=True),
    _long(
        "log.retention.check.interval.ms", 300_000, "How often segments are looked at, whether they may go.", least=1
    ),
    _choice(
        "log.cleanup.policy",
        (DELETE, COMPACT),
        "delete: old segments go; compact: the newest record of each key stays; both, or neither.",
        kind=ConfigKind.LIST,
        dynamic=True,
    ),
    _long("log.cleaner.delete.retention.ms", 86_400_000, "How long compaction keeps a deletion.", dynamic=True),
    _long(
        "log.cleaner.backoff.ms", 15_000, "How often logs are looked at, whether compaction is worth it.", dynamic=True
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        ConfigKind.DOUBLE,
        "0.5",
        "Compaction is due with a greater share of bytes that it has not looked at.",
        dynamic=True,
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, "Compaction spares segments with a younger record.", dynamic=True),
    _long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        "Compaction is due for an older record, whatever its share.",
        least=1,
        dynamic=True,
    ),
    _define_fixed(
        "log.flush.interval.messages",
        ConfigKind.LONG,
        str(LONG_MAX),
        "No count of records forces a flush.",
        _FLUSH_HINT,
    ),
    _define_fixed(
        "log.flush.scheduler.interval.ms", ConfigKind.LONG, str(LONG_MAX), "No time forces a flush.", _FLUSH_HINT
    ),
    _define_fixed("log.index.interval.bytes", ConfigKind.INT, "4096", "Without effect: each batch is indexed."),
    _define_fixed(
        "log.index.size.max.bytes", ConfigKind.INT, "10485760", "Without effect: indexes grow with their segments."
    ),
    _define_fixed("log.local.retention.bytes", ConfigKind.LONG, "-2", "All that is kept is on the brokers' disks."),
    _define_fixed("log.local.retention.ms", ConfigKind.LONG, "-2", "All that is kept is on the brokers' disks."),
    _define_fixed("log.preallocate", ConfigKind.BOOLEAN, "false", "Segments grow as they are written."),
    _define_fixed("log.roll.jitter.hours", ConfigKind.INT, "0", "Segments end at their age exactly."),
    _define_fixed(
        "log.segment.delete.delay.ms", ConfigKind.LONG, "60000", "Without effect: files go with the next flush."
    ),
    # Replication
    _long(
        "replica.lag.time.max.ms",
        30_000,
        "A replica that has not caught up for so long leaves the in-sync set.",
        least=1,
    ),
    _int("replica.fetch.wait.max.ms", 500, "How long a follower's fetch waits at the leader for records."),
    _int("replica.fetch.max.bytes", 1_048_576, "Bytes of one partition in a follower's fetch."),
    _int("replica.fetch.response.max.bytes", 10_485_760, "Bytes of all partitions in a follower's fetch."),
    _int("replica.fetch.backoff.ms", 1_000, "How long a follower waits after an error of one partition."),
    _int("replica.socket.timeout.ms", 30_000, "How long a follower waits for the answer to a fetch.", least=1),
    _long(
        "leader.replication.throttled.rate",
        LONG_MAX,
        "Bytes a second that this broker gives to throttled replicas out of sync.",
        least=1,
        dynamic=True,
    ),
    _long(
        "follower.replication.throttled.rate",
        LONG_MAX,
        "Bytes a second that this broker fetches for its throttled replicas out of sync.",
        least=1,
        dynamic=True,
    ),
    _long(
        "replica.high.watermark.checkpoint.interval.ms", 5_000, "How often the high watermarks are written.", least=1
    ),
    _flag("auto.leader.rebalance.enable", "true", "Whether leadership goes back to the preferred replica on its own."),
    _long("leader.imbalance.check.interval.seconds", 300, "How often that is looked at.", least=1),
    # Brokers
    _int("broker.session.timeout.ms", 9_000, "A broker without a heartbeat for so long is fenced.", least=1),
    _int("broker.heartbeat.interval.ms", 2_000, "How often a broker sends a heartbeat.", least=1),
    _int(
        SILENCE_TIMEOUT,
        3_000,
        "A leader without a heartbeat for so long is fenced if all its followers in sync wait for its answers, and two brokers or "
        "more miss it. Heartbeats come three times in it at least. At broker.session.timeout.ms or more, the session alone counts. "
        "Not a setting of Kafka's.",
        least=1,
    ),
    _int(
        "controller.quorum.election.timeout.ms",
        1_000,
        "How long a silent controller is trusted; each broker waits between it and twice as long before it campaigns.",
        least=50,
        most=HOUR_MS,
    ),
    ConfigKey(
        "replica.selector.class",
        ConfigKind.STRING,
        None,
        "The choice of the replica that a consumer with a rack reads from; without one, the leader.",
        choices=(RACK_AWARE, "org.apache.kafka.common.replica.LeaderSelector"),
    ),
    ConfigKey("broker.rack", ConfigKind.STRING, None, "The rack of this broker, for the placement of replicas."),
    _flag("controlled.shutdown.enable", "true", "Whether a broker hands its leaderships over before it ends."),
    # Listeners
    _optional(
        "listeners", "NAME://HOST:PORT for each listener, separated by commas; unset: one at --listen.", ConfigKind.LIST
    ),
    _optional(
        "advertised.listeners", "The addresses that clients are given, where they differ, likewise.", ConfigKind.LIST
    ),
    ConfigKey(
        "listener.security.protocol.map",
        ConfigKind.STRING,
        DEFAULT_PROTOCOL_MAP,
        "NAME:PROTOCOL for each name of a listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    _optional("inter.broker.listener.name", "The listener by which brokers reach each other."),
    ConfigKey(
        "security.inter.broker.protocol",
        ConfigKind.STRING,
        None,
        "The same by its protocol, where that is its name.",
        choices=("PLAINTEXT", "SSL"),
    ),
    _optional(
        "ssl.keystore.location",
        "The file with this broker's certificate and its key, as PEM; looked at again while it runs.",
    ),
    _choice("ssl.keystore.type", ("PEM",), "The format of that file."),
    _optional("ssl.truststore.location", "The certificates of authorities that are trusted, as PEM; likewise."),
    _choice("ssl.truststore.type", ("PEM",), "The format of that file."),
    _choice("ssl.client.auth", ("none", "requested", "required"), "Whether clients must have a certificate."),
    _choice(
        "ssl.endpoint.identification.algorithm",
        ("https", ""),
        "https: the certificate of a dialled broker must name the host; empty: any name will do.",
    ),
    # Authentication
    ConfigKey(
        "sasl.enabled.mechanisms",
        ConfigKind.LIST,
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "The mechanisms of listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Passwords are those of SCRAM users.",
    ),
    _flag(
        "sasl.plain.without.tls",
        "false",
        "Whether SASL_PLAINTEXT listeners serve PLAIN, which shows passwords to the network. Not a setting of Kafka's.",
    ),
    _flag(
        "sasl.oauthbearer.unsecured",
        "false",
        "Whether OAUTHBEARER is served, with unsigned tokens: a client is then whom it says it is. For tests. Not a setting of Kafka's.",
    ),
    ConfigKey("sasl.oauthbearer.sub.claim.name", ConfigKind.STRING, "sub", "The claim of a token that names its user."),
    ConfigKey("sasl.oauthbearer.scope.claim.name", ConfigKind.STRING, "scope", "The claim that has a token's scopes."),
    ConfigKey(
        "sasl.oauthbearer.required.scope",
        ConfigKind.STRING,
        "",
        "The scopes that a token must have, with spaces between. Not a setting of Kafka's.",
    ),
    _int(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clocks of brokers and of those who issue tokens may differ.",
    ),
    _long("connections.max.reauth.ms", 0, "How long a client may go on without proving again who it is; 0 = always."),
    # Authorization
    _choice(
        "authorizer.class.name",
        ("", STANDARD_AUTHORIZER),
        "Empty: everyone may do everything. Otherwise the cluster's ACLs decide.",
    ),
    ConfigKey(
        "super.users",
        ConfigKind.STRING,
        "",
        "Principals that may do everything, as Type:name, separated by semicolons: User:admin;User:CN=ops.",
    ),
    _flag("allow.everyone.if.no.acl.found", "false", "Whether a resource that no ACL matches is open to everyone."),
    # Connections and fetches
    _int("socket.request.max.bytes", 104_857_600, "The largest request that is read, in bytes.", least=1),
    _int("max.connections", INT_MAX, "Connections of clients at the same time."),
    _int("max.connections.per.ip", INT_MAX, "Those of one address; brokers do not count.", least=1),
    _int("max.connection.creation.rate", INT_MAX, "Connections accepted in a second; more of them wait.", least=1),
    _long(
        "queued.max.request.bytes",
        -1,
        "The total of what all connections hold, answers as well, a quarter of it for brokers; -1 = an eighth of the memory, 256 MiB or more.",
        least=-1,
    ),
    _long("connections.max.idle.ms", 600_000, "A connection that is idle for so long is closed; -1 = never.", least=-1),
    _int("fetch.max.bytes", 57_671_680, "Bytes in the answer to a fetch.", least=1024),
    _int("max.incremental.fetch.session.cache.slots", 1_000, "Fetch sessions that are kept (KIP-227)."),
    # Producers
    _int(
        "producer.id.expiration.ms",
        86_400_000,
        "A producer id that appended nothing for so long is forgotten.",
        least=1,
        dynamic=True,
    ),
    # Groups
    _int("group.initial.rebalance.delay.ms", 3_000, "How long an empty group waits for more members after the first."),
    _int("group.min.session.timeout.ms", 6_000, "The shortest session timeout that a member may have."),
    _int("group.max.session.timeout.ms", 1_800_000, "The longest session timeout that a member may have."),
    _int("group.max.size", INT_MAX, "Members of one group.", least=1),
    _int("group.consumer.session.timeout.ms", 45_000, "The session timeout of members by KIP-848.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5_000, "How often members by KIP-848 send heartbeats.", least=1),
    _int("group.consumer.max.size", INT_MAX, "Members of one group by KIP-848.", least=1),
    _int(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How often the topics that match a group's expressions are looked for anew.",
        least=10_000,
    ),
    _int("offset.metadata.max.bytes", 4_096, "The longest text that is kept with a committed offset."),
    _int("offsets.topic.num.partitions", 50, "Partitions of the offsets topic; fixed once it is made.", least=1),
    _int(
        "offsets.topic.replication.factor",
        3,
        "Replicas of the offsets topic; it is not made while there are fewer brokers.",
        least=1,
    ),
    _int("offsets.topic.segment.bytes", 104_857_600, "Segments of the offsets topic.", least=4096),
    _int("offsets.retention.minutes", 10_080, "How long the offsets of an empty group are kept.", least=1),
    _long("offsets.retention.check.interval.ms", 600_000, "How often that is looked at.", least=1),
    _int("offsets.commit.timeout.ms", 5_000, "How long a commit waits for the replicas of the offsets topic.", least=1),
    # Transactions
    _int(
        "transaction.max.timeout.ms", 900_000, "The longest timeout that a transactional producer may ask for.", least=1
    ),
    _int(
        "transaction.state.log.num.partitions",
        50,
        "Partitions of the transactions topic; fixed once it is made.",
        least=1,
    ),
    _int(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of the transactions topic; it is not made while there are fewer brokers.",
        least=1,
    ),
    _int(
        "transaction.state.log.min.isr", 2, "`min.insync.replicas` of the transactions topic when it is made.", least=1
    ),
    _int("transaction.state.log.segment.bytes", 104_857_600, "Segments of the transactions topic.", least=4096),
    _int(
        "transactional.id.expiration.ms",
        604_800_000,
        "A transactional id without a transaction for so long is forgotten.",
        least=1,
    ),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions past their timeout are looked for, which are then aborted.",
        least=1,
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often transactional ids to forget are looked for.",
        least=1,
    ),
    _flag(
        "transaction.partition.verification.enable",
        "true",
        "Whether the first batch of a transaction is verified with its coordinator (KIP-890).",
    ),
)
"""Settings of a broker, by name."""


def _list_throttled(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigKind.LIST, "", f"{doc}, as partition:broker, or * for all.", dynamic=True)


def _like(
    name: str, broker_name: str, *more: Synonym, doc: str | None = None, kind: ConfigKind | None = None
) -> ConfigKey:
    """Returns a topic setting with the type, bounds and default of a broker's, or a synonym's default."""
    key = BROKER_KEYS[broker_name]
    default = key.default
    for synonym in more:
        written = BROKER_KEYS[synonym.name].default
        if default is None and written is not None:
            default = str(int(written) * synonym.factor)
    return ConfigKey(
        name,
        kind or key.kind,
        default,
        doc or key.doc,
        key.least,
        key.most,
        key.choices,
        dynamic=True,
        synonyms=(Synonym(broker_name), *more),
        hint=key.hint,
    )


TOPIC_KEYS: Final = _table(
    _like("cleanup.policy", "log.cleanup.policy"),
    _like("compression.gzip.level", "compression.gzip.level"),
    _like("compression.lz4.level", "compression.lz4.level"),
    _like("compression.type", "compression.type"),
    _like("compression.zstd.level", "compression.zstd.level"),
    _like("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _like("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _like("flush.messages", "log.flush.interval.messages"),
    _like("flush.ms", "log.flush.scheduler.interval.ms"),
    _list_throttled(
        "follower.replication.throttled.replicas", "The copies that follower.replication.throttled.rate holds for"
    ),
    _like("index.interval.bytes", "log.index.interval.bytes"),
    _list_throttled(
        "leader.replication.throttled.replicas", "The copies that leader.replication.throttled.rate holds for"
    ),
    _like("local.retention.bytes", "log.local.retention.bytes"),
    _like("local.retention.ms", "log.local.retention.ms"),
    _like("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _like("max.message.bytes", "message.max.bytes"),
    _like("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _like("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _like("message.timestamp.type", "log.message.timestamp.type"),
    _like("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _like("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _like("min.insync.replicas", "min.insync.replicas"),
    _like("preallocate", "log.preallocate"),
    _define_fixed(
        "remote.log.copy.disable", ConfigKind.BOOLEAN, "false", "Without effect: logs are on the brokers' disks alone."
    ),
    _define_fixed("remote.log.delete.on.disable", ConfigKind.BOOLEAN, "false", "Without effect, likewise."),
    _define_fixed("remote.storage.enable", ConfigKind.BOOLEAN, "false", "Logs are on the brokers' disks alone."),
    _like("retention.bytes", "log.retention.bytes"),
    _like(
        "retention.ms",
        "log.retention.ms",
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
        doc="How long records are kept; -1 = always.",
    ),
    _like("segment.bytes", "log.segment.bytes"),
    _like("segment.index.bytes", "log.index.size.max.bytes"),
    _like("segment.jitter.ms", "log.roll.jitter.hours", kind=ConfigKind.LONG),
    _like("segment.ms", "log.roll.ms", Synonym("log.roll.hours", HOUR_MS), doc="A segment ends when it is older."),
    _like("unclean.leader.election.enable", "unclean.leader.election.enable"),
)
"""Settings of a topic, by name."""

GROUP_KEYS: Final = _table(
    evolve(_like("consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"), dynamic=False),
    evolve(_like("consumer.session.timeout.ms", "group.consumer.session.timeout.ms"), dynamic=False),
)
"""Settings of a group by KIP-848, by name. They are those of the brokers, for all groups."""

_OF_CLIENTS: Final = _names(
    "acks enable.idempotence linger.ms batch.size max.in.flight.requests.per.connection retries delivery.timeout.ms isolation.level "
    "auto.offset.reset group.id bootstrap.servers enable.auto.commit"
)
_BY_OPTION: Final = {
    "node.id": "--id",
    "broker.id": "--id",
    "log.dirs": "--data",
    "log.dir": "--data",
    "controller.quorum.voters": "--peer",
    "controller.quorum.bootstrap.servers": "--peer",
}
_KAFKA_ONLY: Final = _names(
    "alter.config.policy.class.name background.threads broker.id.generation.enable client.quota.callback.class "
    "controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms controller.listener.names "
    "create.topic.policy.class.name delegation.token.expiry.time.ms eligible.leader.replicas.enable "
    "group.consumer.assignors group.coordinator.rebalance.protocols "
    "inter.broker.protocol.version leader.imbalance.per.broker.percentage "
    "log.cleaner.dedupe.buffer.size log.cleaner.enable log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second "
    "log.cleaner.threads "
    "log.flush.interval.ms log.flush.offset.checkpoint.interval.ms "
    "log.flush.start.offset.checkpoint.interval.ms log.message.downconversion.enable "
    "log.message.format.version "
    "log.message.timestamp.difference.max.ms log.roll.jitter.ms "
    "max.connections.per.ip.overrides "
    "message.downconversion.enable message.format.version "
    "message.timestamp.difference.max.ms metadata.log.dir metric.reporters metrics.num.samples metrics.recording.level "
    "metrics.sample.window.ms num.io.threads num.network.threads "
    "num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers offsets.load.buffer.size "
    "offsets.topic.compression.codec process.roles producer.id.expiration.check.interval.ms "
    "queued.max.requests quota.window.num quota.window.size.seconds remote.log.storage.system.enable "
    "replica.fetch.min.bytes replica.socket.receive.buffer.bytes request.timeout.ms "
    "sasl.mechanism.inter.broker.protocol "
    "socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes transaction.two.phase.commit.enable "
    "zookeeper.connect"
)

NOT_HONOURED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_KAFKA_ONLY, "is a setting of Kafka that quorumlog does not implement"),
    **dict.fromkeys(_OF_CLIENTS, "is a setting of producers and consumers, not of brokers or topics"),
    **{name: f"is given by the option {option}" for name, option in _BY_OPTION.items()},
    "log.flush.interval.ms": "is a setting of Kafka that quorumlog does not implement: see flush=before-ack",
}
"""Names that are known and refused, each with the rest of its error message."""
