"""The commands for clients in other languages, in order, and the output that each has to show.

kcat is librdkafka's tool, in the version of the distribution; the others are Kafka's own console tools and a Java
program.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

JAVA_CLIENT = Path(__file__).with_name("ForeignClient.java")
TOOLS = "org.apache.kafka.tools"
RECORDS = 200
PERFORMANCE_RECORDS = 20_000
LINES = "".join(f"key{number}:value {number}\n" for number in range(RECORDS))


@attrs.frozen
class ForeignStep:
    """One command."""

    name: str
    command: tuple[str, ...]
    shows: str
    """The required output, in words."""
    pattern: str
    """The same as a regular expression for `re.search`, over lines."""
    count: int = 1
    """The least number of matches."""
    given: str = ""
    """Its standard input."""
    lacks: str = ""
    """The forbidden output."""
    status: int = 0
    """The exit status."""

    def is_kept(self, status: int, output: str) -> bool:
        """Returns True if it ended with the status and showed the required output."""
        found = len(re.findall(self.pattern, output, re.MULTILINE))
        return (
            status == self.status
            and found >= self.count
            and not (self.lacks and re.search(self.lacks, output, re.MULTILINE))
        )


@attrs.frozen
class ForeignPlan:
    """The addresses of the brokers, and the names that this run uses."""

    bootstrap: str
    topic: str
    classpath: str
    directory: Path
    """For files that a tool wants to read."""

    def tool(self, name: str, *arguments: str) -> tuple[str, ...]:
        """A console tool; a JVM that compiles little starts faster."""
        jvm = ("java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", self.classpath)
        return (*jvm, name, "--bootstrap-server", self.bootstrap, *arguments)


def steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Yields every step; later ones need what earlier ones made."""
    yield from topic_steps(plan)
    yield from kcat_steps(plan)
    yield from console_steps(plan)
    yield from group_steps(plan)
    yield from quorum_steps(plan)
    yield from admin_steps(plan)
    yield from move_steps(plan)
    yield ForeignStep(
        "Java clients",
        (
            "java",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            plan.classpath,
            str(JAVA_CLIENT),
            plan.bootstrap,
            f"{plan.topic}-java",
        ),
        "25 promises kept, none broken",
        r"^kept: ",
        count=25,
        lacks=r"^BROKEN: ",
    )
    yield ForeignStep(
        "kafka-topics --delete",
        plan.tool(f"{TOOLS}.TopicCommand", "--delete", "--topic", plan.topic),
        "no error",
        r"",
        lacks="Error",
    )


def topic_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Topics are made and shown."""
    tool = f"{TOOLS}.TopicCommand"
    shape = ("--partitions", "3", "--replication-factor", "3")
    yield ForeignStep(
        "kafka-topics --create",
        plan.tool(tool, "--create", "--topic", plan.topic, *shape),
        "created",
        f"^Created topic {plan.topic}",
    )
    yield ForeignStep("kafka-topics --list", plan.tool(tool, "--list"), "the topic", f"^{plan.topic}$")
    yield ForeignStep(
        "kafka-topics --describe",
        plan.tool(tool, "--describe", "--topic", plan.topic),
        "three partitions with three replicas in sync",
        r"Partition: \d\s+Leader: \d\s+Replicas: \d,\d,\d\s+Isr: \d,\d,\d\b",
        count=3,
    )


def kcat_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """The tool of librdkafka."""
    kcat = ("kcat", "-b", plan.bootstrap)
    yield ForeignStep(
        "kcat -L", (*kcat, "-L"), "three brokers and the topic", rf'^ 3 brokers:|topic "{plan.topic}"', count=2
    )
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        yield ForeignStep(
            f"kcat -P -z {codec}",
            (*kcat, "-P", "-t", plan.topic, "-p", "0", "-K", ":", "-z", codec),
            "no error",
            "",
            given=LINES,
            lacks="ERROR|failed",
        )
    yield ForeignStep(
        "kcat -P, acks 1",
        (*kcat, "-P", "-t", plan.topic, "-p", "0", "-K", ":", "-X", "acks=1"),
        "no error",
        "",
        given=LINES,
        lacks="ERROR|failed",
    )
    yield ForeignStep(
        "kcat -C",
        (*kcat, "-C", "-t", plan.topic, "-p", "0", "-o", "beginning", "-e", "-f", "%o %k %s\\n"),
        f"{5 * RECORDS} records to the end of the partition",
        r"^\d+ key\d+ value \d+$",
        count=5 * RECORDS,
    )
    yield ForeignStep(
        "kcat -C -o -3",
        (*kcat, "-C", "-t", plan.topic, "-p", "0", "-o", "-3", "-e", "-f", "%o\\n"),
        "the last three offsets",
        rf"^(?:{'|'.join(str(5 * RECORDS - last) for last in (1, 2, 3))})$",
        count=3,
    )
    yield ForeignStep(
        "kcat -Q by time",
        (*kcat, "-Q", "-t", f"{plan.topic}:0:1000"),
        "offset 0 for a time before all",
        rf"{plan.topic} \[0\] offset 0",
    )
    yield ForeignStep(
        "kcat -G",
        (*kcat, "-G", f"{plan.topic}-kcat", plan.topic, "-c", f"{RECORDS}", "-X", "auto.offset.reset=earliest"),
        f"{RECORDS} records by a group",
        r"^value \d+$",
        count=RECORDS,
    )


def console_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Kafka's console producer, consumer and load."""
    yield ForeignStep(
        "kafka-console-producer",
        plan.tool(
            f"{TOOLS}.ConsoleProducer",
            "--topic",
            plan.topic,
            "--reader-property",
            "parse.key=true",
            "--reader-property",
            "key.separator=:",
            "--compression-codec",
            "zstd",
        ),
        "no error",
        "",
        given=LINES,
        lacks="ERROR|Exception",
    )
    total = 6 * RECORDS
    yield ForeignStep(
        "kafka-console-consumer",
        plan.tool(
            f"{TOOLS}.consumer.ConsoleConsumer",
            "--topic",
            plan.topic,
            "--from-beginning",
            "--max-messages",
            f"{total}",
            "--timeout-ms",
            "20000",
            "--group",
            f"{plan.topic}-console",
            "--formatter-property",
            "print.offset=true",
        ),
        f"{total} records by a group",
        r"^Offset:\d+\tvalue \d+$",
        count=total,
    )
    yield from load_steps(plan)


def load_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Kafka's own load generators."""
    yield ForeignStep(
        "kafka-producer-perf-test",
        plan.tool(
            f"{TOOLS}.ProducerPerformance",
            "--topic",
            plan.topic,
            "--num-records",
            f"{PERFORMANCE_RECORDS}",
            "--throughput",
            "-1",
            "--record-size",
            "100",
        ),
        f"{PERFORMANCE_RECORDS} records sent",
        f"^{PERFORMANCE_RECORDS} records sent, .* records/sec",
        lacks="ERROR|Exception",
    )
    yield ForeignStep(
        "kafka-consumer-perf-test",
        plan.tool(
            f"{TOOLS}.ConsumerPerformance",
            "--topic",
            plan.topic,
            "--num-records",
            f"{PERFORMANCE_RECORDS}",
            "--timeout",
            "20000",
        ),
        "a line of figures",
        r"^\d{4}-\d\d-\d\d .*, \d{5}, ",
        lacks="WARNING: Exiting before consuming",
    )
    yield ForeignStep(
        "kafka-get-offsets",
        plan.tool(f"{TOOLS}.GetOffsetShell", "--topic", plan.topic),
        "the end of each partition",
        rf"^{plan.topic}:\d:\d+$",
        count=3,
    )
    yield ForeignStep(
        "kafka-get-offsets --time earliest",
        plan.tool(f"{TOOLS}.GetOffsetShell", "--topic", plan.topic, "--time", "earliest"),
        "zero for each partition",
        rf"^{plan.topic}:\d:0$",
        count=3,
    )


def group_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Groups that the consumers left behind."""
    tool, group = f"{TOOLS}.consumer.group.ConsumerGroupCommand", f"{plan.topic}-console"
    yield ForeignStep("kafka-consumer-groups --list", plan.tool(tool, "--list"), "the group", f"^{group}$")
    yield ForeignStep(
        "kafka-consumer-groups --describe",
        plan.tool(tool, "--describe", "--group", group),
        "offsets and lag of three partitions",
        rf"^{group}\s+{plan.topic}\s+\d\s+\d+\s+\d+\s+\d+\s",
        count=3,
    )
    yield ForeignStep(
        "kafka-consumer-groups --describe --state",
        plan.tool(tool, "--describe", "--group", group, "--state"),
        "an empty group",
        rf"^{group}\s+.*\sEmpty\s+0",
    )
    yield ForeignStep(
        "kafka-consumer-groups --reset-offsets",
        plan.tool(tool, "--reset-offsets", "--group", group, "--topic", plan.topic, "--to-earliest", "--execute"),
        "new offset 0 for three partitions",
        rf"{plan.topic}\s+\d\s+0\s*$",
        count=3,
    )
    yield ForeignStep(
        "kafka-consumer-groups --delete",
        plan.tool(tool, "--delete", "--group", group),
        "deleted",
        "^Deletion of requested consumer groups .* was successful",
    )


def move_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """A partition leaves one broker, and moves to it from another."""
    tool, topic = f"{TOOLS}.reassign.ReassignPartitionsCommand", f"{plan.topic}-reassigned"
    yield ForeignStep(
        "kafka-topics --create, to be reassigned",
        plan.tool(f"{TOOLS}.TopicCommand", "--create", "--topic", topic, "--replica-assignment", "1:2:3"),
        "created",
        f"^Created topic {topic}",
    )
    for name, replicas, throttle in (("fewer", "[1,2]", ()), ("moved", "[3,1]", ("--throttle", "5000000"))):
        wanted = plan.directory / f"{name}.json"
        row = f'{{"topic": "{topic}", "partition": 0, "replicas": {replicas}}}'
        wanted.write_text(f'{{"version": 1, "partitions": [{row}]}}')
        given = ("--reassignment-json-file", str(wanted))
        yield ForeignStep(
            f"kafka-reassign-partitions --execute to {replicas} {' '.join(throttle)}".rstrip(),
            plan.tool(tool, "--execute", *given, *throttle),
            "it is started",
            f"^Successfully started partition reassignment for {topic}-0",
        )
        yield ForeignStep(
            f"kafka-reassign-partitions --verify {replicas}",
            plan.tool(tool, "--verify", *given),
            "it is complete",
            f"^Reassignment of partition {topic}-0 is completed",
            lacks="Error|Exception",
        )
    yield ForeignStep(
        "kafka-configs, throttles afterwards",
        plan.tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", topic),
        "none is left",
        f"^Dynamic configs for topic {topic} are:",
        lacks="throttled",
    )
    yield ForeignStep(
        "kafka-reassign-partitions --list",
        plan.tool(tool, "--list"),
        "nothing moves",
        "^No partition reassignments found",
    )


def quorum_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """The controllers, and settings of what has none here."""
    config, quorum = "kafka.admin.ConfigCommand", f"{TOOLS}.MetadataQuorumCommand"
    yield ForeignStep(
        "kafka-metadata-quorum --status",
        plan.tool(quorum, "describe", "--status"),
        "a leader, and three voters",
        r"^LeaderId:\s+\d$|^CurrentVoters:.*CONTROLLER.*CONTROLLER.*CONTROLLER",
        count=2,
    )
    yield ForeignStep(
        "kafka-metadata-quorum --replication",
        plan.tool(quorum, "describe", "--replication"),
        "a leader and two followers",
        r"(Leader|Follower)\s*$",
        count=3,
    )
    yield ForeignStep(
        "kafka-topics --create, compacted",
        plan.tool(
            f"{TOOLS}.TopicCommand", "--create", "--topic", f"{plan.topic}-compacted",
            "--config", "cleanup.policy=compact,delete", "--config", "min.compaction.lag.ms=10",
        ),
        "created",
        "^Created topic",
    )  # fmt: skip
    for kind in ("users", "clients", "client-metrics"):
        yield ForeignStep(
            f"kafka-configs --describe of {kind}",
            plan.tool(config, "--describe", "--entity-type", kind),
            "none",
            "",
            lacks="Error|Exception",
        )
    yield ForeignStep(
        "kafka-configs, a quota",
        plan.tool(
            config, "--alter", "--entity-type", "clients", "--entity-name", "c",
            "--add-config", "producer_byte_rate=1024",
        ),
        "it is refused",
        "quotas are not implemented",
        status=1,
    )  # fmt: skip
    yield ForeignStep(
        "kafka-configs --describe of a group",
        plan.tool(config, "--describe", "--all", "--entity-type", "groups", "--entity-name", "g"),
        "the session of members",
        r"consumer\.session\.timeout\.ms=45000",
    )
    yield ForeignStep(
        "kafka-features upgrade, to a level in force",
        plan.tool(f"{TOOLS}.FeatureCommand", "upgrade", "--feature", "transaction.version=2"),
        "it is taken",
        r"transaction\.version was upgraded to 2",
    )
    yield ForeignStep(
        "kafka-features downgrade",
        plan.tool(f"{TOOLS}.FeatureCommand", "downgrade", "--feature", "transaction.version=1"),
        "it is refused, with the reason",
        r"these brokers have no other",
        status=1,
    )
    yield ForeignStep(
        "kafka-cluster unregister",
        (*plan.tool(f"{TOOLS}.ClusterTool")[:-2], *("unregister", "--bootstrap-server", plan.bootstrap, "--id", "9")),
        "there is no such broker",
        r"not currently registered",
        status=1,
    )
    yield ForeignStep(
        "kafka-groups --list", plan.tool(f"{TOOLS}.GroupsCommand", "--list"), "no error", "", lacks="Error|Exception"
    )


def admin_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Settings, leaders, disks, versions."""
    entity = ("--entity-type", "topics", "--entity-name", plan.topic)
    config = "kafka.admin.ConfigCommand"
    yield ForeignStep(
        "kafka-configs --alter",
        plan.tool(config, "--alter", *entity, "--add-config", "retention.ms=86400000"),
        "completed",
        f"^Completed updating config for topic {plan.topic}",
    )
    yield ForeignStep(
        "kafka-configs --describe",
        plan.tool(config, "--describe", *entity),
        "the changed setting with where it comes from",
        r"retention.ms=86400000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=86400000",
    )
    yield ForeignStep(
        "kafka-configs --describe --all of a broker",
        plan.tool(config, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"),
        "the broker's own settings",
        r"^\s+min.insync.replicas=2 ",
    )
    yield ForeignStep(
        "kafka-leader-election",
        plan.tool(
            f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred", "--topic", plan.topic, "--partition", "0"
        ),
        "the preferred replica leads already",
        r"Valid replica already elected for partitions|Successfully completed leader election",
    )
    records = plan.directory / "delete.json"
    records.write_text(f'{{"version": 1, "partitions": [{{"topic": "{plan.topic}", "partition": 0, "offset": 10}}]}}')
    yield ForeignStep(
        "kafka-delete-records",
        plan.tool(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(records)),
        "a new first offset",
        rf"partition: {plan.topic}-0\s+low_watermark: 10",
    )
    yield ForeignStep(
        "kafka-log-dirs",
        plan.tool(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", plan.topic),
        "a replica on each broker",
        rf'"{plan.topic}-0"',
        count=1,
    )
    yield ForeignStep("kafka-cluster cluster-id", plan_cluster(plan), "an id", r"^Cluster ID: \S+")
    yield ForeignStep(
        "kafka-broker-api-versions",
        plan.tool(f"{TOOLS}.BrokerApiVersionsCommand"),
        "Produce and Fetch usable on three brokers",
        r"^\s+Produce\(0\): .*\[usable: \d+\]",
        count=3,
    )


def plan_cluster(plan: ForeignPlan) -> tuple[str, ...]:
    """Its flags come behind the subcommand."""
    jvm = ("java", "-XX:TieredStopAtLevel=1", "-cp", plan.classpath)
    return (*jvm, f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", plan.bootstrap)
