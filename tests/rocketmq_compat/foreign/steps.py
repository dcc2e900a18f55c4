"""The commands for clients in other languages, in order, and the output that each has to show."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.rocketmq_compat.foreign.cluster import PAIRS, RAFT_GROUP

JAVA_CLIENT: Final = Path(__file__).with_name("ForeignClient.java")
JAVASCRIPT_CLIENT: Final = Path(__file__).with_name("foreign_client.js")
TOOL: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
CLUSTER: Final = "DefaultCluster"
QUEUES: Final = 4
JAVA, JAVASCRIPT = "java", "node"


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
    lacks: str = r"Exception|^BROKEN: "
    """The forbidden output."""
    kills: str = ""
    """The name of the brokers whose master is killed when it prints `now`."""

    @property
    def needs_node(self) -> bool:
        """True if it is a program in JavaScript."""
        return self.command[0] == JAVASCRIPT

    def is_kept(self, status: int, output: str) -> bool:
        """Returns True if it ended well and showed the required output."""
        found = len(re.findall(self.pattern, output, re.MULTILINE))
        return status == 0 and found >= self.count and not re.search(self.lacks, output, re.MULTILINE)


@attrs.frozen
class ForeignPlan:
    """The address of the name server, and the names that this run uses."""

    names: str
    topic: str
    classpath: str
    home: Path = Path()
    """The tool looks here for `conf/tools.yml`, the keys of its account."""

    def java(self, *arguments: str) -> tuple[str, ...]:
        """A JVM that compiles little starts faster."""
        return (JAVA, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", self.classpath, *arguments)

    def tool(self, name: str, *arguments: str) -> tuple[str, ...]:
        """A command of mqadmin."""
        return self.java(f"-Drocketmq.home.dir={self.home}", TOOL, name, "-n", self.names, *arguments)

    def topic_made(self, topic: str) -> ForeignStep:
        """It has as many queues at each master."""
        command = self.tool("updateTopic", "-c", CLUSTER, "-t", topic, "-r", f"{QUEUES}", "-w", f"{QUEUES}")
        return ForeignStep(
            f"mqadmin updateTopic {topic}", command, "created at each master", r"^create topic to .* success"
        )

    def programs(self, mode: str, topic: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The programs of both languages, with names for tables; each has a topic of its own."""
        yield "Java", self.java(str(JAVA_CLIENT), mode, self.names, f"{topic}-java")
        yield "JavaScript", (JAVASCRIPT, str(JAVASCRIPT_CLIENT), mode, self.names, f"{topic}-node")


PROMISES: Final = {
    ("Java", "forms"): 40,
    ("JavaScript", "forms"): 9,
    ("Java", "failover"): 4,
    ("JavaScript", "failover"): 3,
}


def program_steps(plan: ForeignPlan, mode: str, topic: str, kills: str = "") -> Iterator[ForeignStep]:
    """The program of each language, and its topic."""
    for language, command in plan.programs(mode, topic):
        yield plan.topic_made(command[-1])
        count = PROMISES[language, mode]
        name = f"{language}, master of {kills} killed" if kills else f"{language}, every form"
        yield ForeignStep(name, command, f"{count} promises kept, none broken", r"^kept: ", count=count, kills=kills)


def pair_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Against two masters with a slave each."""
    yield from program_steps(plan, "forms", plan.topic)
    yield from admin_steps(plan, f"{plan.topic}-java")
    yield from program_steps(plan, "failover", f"{plan.topic}-pairs", kills=PAIRS[0])


def admin_steps(plan: ForeignPlan, topic: str) -> Iterator[ForeignStep]:
    """Yields the console tool's commands about a topic that the Java program has used; the topic is deleted in
    the end.
    """
    both = len(PAIRS)
    shown = ("-t", topic)
    every: tuple[tuple[str, tuple[str, ...], str, str, int], ...] = (
        ("topicList", (), "the topic", f"^{topic}$", 1),
        ("clusterList", (), "two masters and two slaves", rf"^{CLUSTER} +broker-[ab] +[01] ", 2 * both),
        ("topicRoute", shown, "both names of brokers", r'"brokerName":"broker-[ab]"', both),
        ("topicClusterList", shown, "the cluster", f"^{CLUSTER}$", 1),
        ("topicStatus", shown, "the ends of all queues", r"^broker-[ab] +\d +0 +[1-9]", both * QUEUES),
        (
            "consumerProgress",
            ("-g", f"{topic}-all"),
            "how far each queue is consumed",
            rf"^{topic} +broker-[ab] +\d",
            8,
        ),
        ("queryMsgByKey", (*shown, "-k", "key-sync-3"), "one message", r"^[0-9A-F]{32,} +\d +\d+", 1),
        (
            "queryMsgByOffset",
            (*shown, "-b", PAIRS[0], "-i", "0", "-o", "0"),
            "the message",
            r"^OffsetID: +[0-9A-F]{32,}",
            1,
        ),
        ("printMsg", shown, "messages with bodies", r"^MSGID: .* BODY: (?:sync|batch)-\d+", 2 * QUEUES),
        ("sendMessage", (*shown, "-p", "by the tool", "-c", "Tool"), "acknowledged", r"^broker-[ab] +\d +SEND_OK", 1),
        (
            "updateTopicPerm",
            ("-c", CLUSTER, *shown, "-p", "4"),
            "changed at each master",
            "^update topic perm .* success",
            both,
        ),
        (
            "updateSubGroup",
            ("-c", CLUSTER, "-g", f"{topic}-new", "-q", "2"),
            "made",
            "^create subscription group .* success",
            both,
        ),
        ("getConsumerConfig", ("-g", f"{topic}-new"), "as it was made", r"^retryQueueNums += +2", both),
        ("wipeWritePerm", ("-b", PAIRS[0]), "no more writing", "^wipe write perm .* OK", 1),
        ("addWritePerm", ("-b", PAIRS[0]), "writing again", "^add write perm .* OK", 1),
        ("updateKvConfig", ("-s", "space", "-k", "key", "-v", "value"), "stored", "success", 1),
        ("getNamesrvConfig", (), "its settings", r"^listenPort +=", 1),
        (
            "deleteTopic",
            ("-c", CLUSTER, *shown),
            "deleted in brokers and name server",
            "^delete topic .* success",
            both,
        ),
    )
    for name, arguments, shows, pattern, count in every:
        yield ForeignStep(f"mqadmin {name}", plan.tool(name, *arguments), shows, pattern, count=count)


def group_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Against three brokers that elect their master."""
    yield from program_steps(plan, "failover", f"{plan.topic}-raft", kills=RAFT_GROUP)


def guarded_steps(plan: ForeignPlan) -> Iterator[ForeignStep]:
    """Against a broker with users and policies, as its first user."""
    of_all, alice = ("-c", CLUSTER), ("-s", "User:alice")
    user, resource = ("-u", "alice"), ("-r", "Topic:orders*")
    every: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
        ("createUser", (*user, "-p", "alice-password", "-t", "Normal"), "made", "^create user to .* success"),
        ("listUser", (), "both users", "^alice +alice-password +Normal +enable"),
        (
            "createAcl",
            (*alice, *resource, "-a", "Pub,Sub", "-d", "Allow", "-i", "127.0.0.1"),
            "made",
            "^create acl to .* success",
        ),
        ("getAcl", alice, "the entry", r"^User:alice +Custom +Topic:orders\* +\[Pub, Sub\] +\[127.0.0.1\] +Allow"),
        ("updateAcl", (*alice, *resource, "-a", "Pub", "-d", "Deny"), "changed", "^update acl to .* success"),
        ("listAcl", alice, "the changed entry", r"^User:alice +Custom +Topic:orders\* +\[Pub\] .* Deny"),
        ("updateUser", (*user, "-s", "disable"), "changed", "^update user to .* success"),
        ("getUser", user, "disabled", "^alice .* disable"),
        ("deleteAcl", (*alice, *resource), "deleted", "^delete acl to .* success"),
        ("deleteUser", user, "deleted", "^delete user to .* success"),
        ("updateTopic", ("-t", "orders"), "made, by an account that may", "^create topic to .* success"),
    )
    for name, arguments, shows, pattern in every:
        yield ForeignStep(f"mqadmin {name}, as a user", plan.tool(name, *of_all, *arguments), shows, pattern)
    stranger = attrs.evolve(plan, home=Path("/nonexistent")).tool("updateTopic", *of_all, "-t", "more")
    yield ForeignStep(
        "mqadmin updateTopic, as no user",
        stranger,
        "no permission",
        "CODE: 16 +DESC: username cannot be null",
        lacks="success",
    )
