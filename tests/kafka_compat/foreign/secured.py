"""Kafka's console tools and kcat over SASL_SSL: how they log in, and what they show of a wrong password and a denial.

`python -m tests.kafka_compat.foreign.secured`. One of our brokers, with certificates of its own.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import click

from jepsen_like.cluster.authority import Authority
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from tests.kafka_compat.clients.secured import WITHIN_S, make_alice, serve
from tests.kafka_compat.foreign.__main__ import SHOWN, run
from tests.kafka_compat.foreign.steps import TOOLS, ForeignPlan, ForeignStep

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
GRANTED, DENIED = "granted", "denied"
INVALID = "invalid credentials with SASL mechanism SCRAM-SHA-512"


@attrs.frozen
class SecuredPlan:
    """The tools as alice, and as anyone on the listener without SASL."""

    alice: ForeignPlan
    anyone: ForeignPlan
    authority: Path

    def config(self, mechanism: str, login: str) -> str:
        """Returns the file of a client's properties."""
        path = self.alice.directory / f"{mechanism}-{abs(hash(login))}.properties"
        path.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.authority}\n"
            f"sasl.mechanism={mechanism}\nsasl.jaas.config={login};\n"
        )
        return str(path)

    def kcat(self, topic: str, *flags: str, password: str = "alice's") -> tuple[str, ...]:
        """Returns a command of kcat over SASL_SSL."""
        security = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": password,
        }
        named = [word for name, value in security.items() for word in ("-X", f"{name}={value}")]
        return ("kcat", "-b", self.alice.bootstrap, "-t", topic, *named, *flags)


def user(module: str, password: str = "alice's") -> str:
    """Returns the login of alice, as JAAS writes it."""
    return f'{module} required username="alice" password="{password}"'


def steps(plan: SecuredPlan) -> Iterator[ForeignStep]:
    """Yields every step, in order."""
    topics, acls = f"{TOOLS}.TopicCommand", "org.apache.kafka.tools.AclCommand"
    scram = plan.config("SCRAM-SHA-512", user(SCRAM))
    for topic in (GRANTED, DENIED):
        command = plan.alice.tool(topics, "--create", "--topic", topic, "--command-config", scram)
        yield ForeignStep(f"kafka-topics --create {topic}", command, "created", f"^Created topic {topic}")
    for topic, principal in ((GRANTED, "User:alice"), (DENIED, "User:bob")):
        rule = ("--add", "--allow-principal", principal, "--operation", "All", "--topic", topic)
        yield ForeignStep(f"kafka-acls {topic}", plan.anyone.tool(acls, *rule), "added", "(?i)adding acls")
    logins = {
        "PLAIN": user(PLAIN),
        "SCRAM-SHA-256": user(SCRAM),
        "SCRAM-SHA-512": user(SCRAM),
        "OAUTHBEARER": f'{BEARER} required unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope=",logs"',
    }
    for mechanism, login in logins.items():
        command = plan.alice.tool(topics, "--list", "--command-config", plan.config(mechanism, login))
        yield ForeignStep(
            f"kafka-topics, {mechanism}", command, "the topic that alice may see", f"^{GRANTED}$", lacks=f"^{DENIED}$"
        )
    wrong = plan.config("SCRAM-SHA-512", user(SCRAM, "wrong"))
    command = plan.alice.tool(topics, "--list", "--command-config", wrong)
    shows = "Kafka's error of authentication"
    yield ForeignStep(
        "kafka-topics, wrong password", command, shows, f"SaslAuthenticationException.*{INVALID}", status=1
    )
    produce = (f"{TOOLS}.ConsoleProducer", "--command-config", scram, "--topic")
    yield ForeignStep(
        "kafka-console-producer", plan.alice.tool(*produce, GRANTED), "no error", "", given="one\n", lacks="Exception"
    )
    yield ForeignStep(
        "kafka-console-producer, denied",
        plan.alice.tool(*produce, DENIED),
        "Kafka's error of the topic",
        "TopicAuthorizationException: Not authorized to access topics: \\[denied\\]",
        given="one\n",
    )
    consume = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000", "--command-config", scram)
    command = plan.alice.tool(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", GRANTED, *consume)
    yield ForeignStep("kafka-console-consumer", command, "the record", "^one$")
    yield from kcat_steps(plan)


def kcat_steps(plan: SecuredPlan) -> Iterator[ForeignStep]:
    """Yields those of librdkafka's tool."""
    yield ForeignStep("kcat -P", plan.kcat(GRANTED, "-P"), "no error", "", given="two\n", lacks="ERROR|failed")
    yield ForeignStep("kcat -C", plan.kcat(GRANTED, "-C", "-e"), "both records", "^(?:one|two)$", count=2)
    yield ForeignStep(
        "kcat, wrong password",
        plan.kcat(GRANTED, "-C", "-e", "-m", "5", password="wrong"),
        "Kafka's error of authentication",
        INVALID,
        status=1,
    )
    yield ForeignStep(
        "kcat, denied",
        plan.kcat(DENIED, "-C", "-e"),
        "Kafka's error of the topic",
        "(?i)topic authorization failed",
        status=1,
    )


@click.command()
@click.option("--only", default="", help="A part of the names of the steps to run, behind those that make topics.")
def main(only: str) -> None:
    """Run the steps; status 1 if one of them does not show what it has to."""
    broken = 0
    with tempfile.TemporaryDirectory(prefix="foreign-secured-") as home:
        authority = Authority.at(Path(home) / "authority")
        thread, broker = serve(authority.issue_node("server").keystore, authority)
        try:
            make_alice(broker)
            jars = APACHE_KAFKA.classpath()
            alice = ForeignPlan(broker.bootstrap("SASL_SSL"), GRANTED, jars, Path(home))
            anyone = ForeignPlan(broker.bootstrap("PLAINTEXT"), GRANTED, jars, Path(home))
            for step in steps(SecuredPlan(alice, anyone, authority.certificate)):
                if only not in step.name and not step.name.startswith(("kafka-topics --create", "kafka-acls")):
                    continue
                kept, output = run(step)
                sys.stdout.write(f"{'pass' if kept else 'FAIL'}  {step.name}: {step.shows}\n")
                sys.stdout.flush()
                if not kept:
                    broken += 1
                    sys.stderr.write(f"{output[-SHOWN:]}\n")
        finally:
            thread.close().result(WITHIN_S)
            thread.join()
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
