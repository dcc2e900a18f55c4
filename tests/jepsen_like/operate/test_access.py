"""The operator's commands show who they are: by Kafka's properties of clients, and by accounts of RocketMQ."""

import hashlib
import ssl
from pathlib import Path

import pytest
import trio

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster.authority import Authority
from jepsen_like.operate.access import AccessKeys, Login, UnusableAccess, access_of, read_properties
from jepsen_like.systems.kafka.login import LoginRefused, Steps, steps_of
from kafka_compat.model import ScramMechanism
from kafka_compat.sasl.credentials import credential_of
from kafka_compat.sasl.plain import PlainExchange
from kafka_compat.sasl.scram import ScramExchange, ScramUsers
from raft.net.certificates import TlsFiles, UnusableFiles
from tests.rocketmq_compat.broker.pairs import eventually, name_server, running_broker

LOGIN = Login("SCRAM-SHA-512", "alice", "alice's")


def write(directory: Path, text: str) -> Path:
    path = directory / "client.properties"
    path.write_text(text)
    return path


def test_properties_are_read_as_java_does() -> None:
    text = "# a comment\n! another\n\n a=1\nb : two words\nc three\nd=\\\n  4\ne\\:f=a\\=b\\\\\ng\n"
    assert read_properties(text) == {
        "a": "1", "b": "two words", "c": "three", "d": "4", "e:f": "a=b\\", "g": "",
    }  # fmt: skip
    with pytest.raises(UnusableAccess, match="line 2 is not of the form NAME=VALUE"):
        read_properties("a=1\n=2\n")


@pytest.mark.parametrize(
    "text",
    [
        "security.protocol=SASL_SSL\nsasl.mechanisms=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=alice's\n",
        "bootstrap.servers=h:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        ' username="alice" \\\n password="alice\'s";\n',
    ],
)
def test_a_user_is_named_as_librdkafka_and_as_java_do(tmp_path: Path, text: str) -> None:
    access = access_of(None, write(tmp_path, text))
    assert access.login == LOGIN
    assert (access.tls is not None) == ("SASL_SSL" in text)
    assert "alice's" not in repr(access)


def test_an_account_is_named_as_rocketmqs_tools_do(tmp_path: Path) -> None:
    access = access_of(None, write(tmp_path, "accessKey: RocketMQ\nsecretKey: 12345678\n"))
    assert (access.keys, access.login, access.tls) == (AccessKeys("RocketMQ", "12345678"), None, None)


def test_files_of_tls_are_those_of_either_client_and_flags_come_first(tmp_path: Path, authority: Authority) -> None:
    mine, other = authority.files_of("alice"), tmp_path / "none.pem"
    librdkafka = f"ssl.ca.location={authority.certificate}\nssl.certificate.location={mine.certificate}\n"
    java = f"ssl.truststore.location={authority.certificate}\nssl.truststore.type=PEM\n"
    for text in (f"{librdkafka}ssl.key.location={mine.key}\n", f"{java}ssl.keystore.location={mine.keystore}\n"):
        found = access_of(None, write(tmp_path, f"security.protocol=SSL\n{text}")).tls
        assert found is not None
        context = found.of_client()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    loose = access_of(None, write(tmp_path, f"security.protocol=SSL\n{java}ssl.endpoint.identification.algorithm=\n"))
    assert loose.tls is not None
    assert not loose.tls.of_client().check_hostname
    assert access_of(None, write(tmp_path, java)).tls is None, "the protocol decides"
    wrong = write(tmp_path, f"security.protocol=SSL\nssl.ca.location={other}\n")
    with pytest.raises(UnusableFiles, match=r"none\.pem"):
        access_of(None, wrong)
    assert access_of(TlsFiles(authority=str(authority.certificate)), wrong).tls is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("security.protocol=TLS", "security.protocol is TLS"),
        ("sasl.mechanism=PLAIN", "a user needs security.protocol=SASL_SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism is GSSAPI"),
        ("security.protocol=SASL_SSL", "sasl.mechanism is missing"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a", "sasl.username and sasl.password"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x", "sasl.jaas.config is no"),
        ("security.protocol=SSL\nssl.truststore.location=x.jks\nssl.truststore.type=JKS", "ssl.truststore.type is JKS"),
        ("security.protocol=SSL\nssl.key.password=x", "ssl.key.password is not known here"),
        ("sasl.kerberos.service.name=x", "sasl.kerberos.service.name is not known here"),
        ("accessKey=x", "accessKey and secretKey go together"),
    ],
)
def test_properties_that_cannot_be_used_are_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UnusableAccess, match=reason):
        access_of(None, write(tmp_path, text))
    assert execute(["topics", "--cluster", "h:1", "--command-config", str(write(tmp_path, text))]) == ExitStatus.USAGE


# -------------------------------------------------------------------- logins


def users() -> ScramUsers:
    def find(user: str, mechanism: ScramMechanism) -> object:
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, b"alice's", b"salt", 7)
        return credential_of(mechanism, b"salt", salted, 7) if user == "al=i,ce" else None

    return ScramUsers(find, b"secret", lambda: "theirs")  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_logs_in_by_scram_and_the_broker_proves_itself(mechanism: ScramMechanism) -> None:
    broker = ScramExchange(mechanism, users())
    steps = steps_of(Login(mechanism.sasl_name, "al=i,ce", "alice's"))
    challenge = broker.step(0, next(steps))
    last = broker.step(0, steps.send(challenge.message))
    assert last.identity is not None
    with pytest.raises(StopIteration):
        steps.send(last.message)


def test_a_user_logs_in_by_plain() -> None:
    answer = PlainExchange(users()).step(0, next(steps_of(Login("PLAIN", "al=i,ce", "alice's"))))
    assert answer.identity is not None


def begin() -> tuple[Steps, bytes]:
    steps = steps_of(LOGIN)
    return steps, next(steps).partition(b",r=")[2]


@pytest.mark.parametrize(
    "challenge", [b"", b"\xff", b"r=other,s=c2FsdA==,i=7", b"r=%s,s=!,i=7", b"r=%s,s=c2FsdA==,i=9999999", b"r=%s,i=7"]
)
def test_a_challenge_that_is_none_ends_a_login(challenge: bytes) -> None:
    steps, nonce = begin()
    with pytest.raises(LoginRefused, match="none of SCRAM"):
        steps.send(challenge.replace(b"%s", nonce + b"theirs"))


def test_a_broker_that_does_not_know_the_password_ends_a_login() -> None:
    steps, nonce = begin()
    steps.send(b"r=" + nonce + b"theirs,s=c2FsdA==,i=7")
    with pytest.raises(LoginRefused, match="does not prove that it knows this user"):
        steps.send(b"v=" + b"A" * 86 + b"==")


# -------------------------------------------------------------------- rocketmq

ACCOUNTS = """
accounts:
  - accessKey: operator
    secretKey: operates
    admin: true
  - accessKey: customer
    secretKey: consumes
"""


async def test_rocketmqs_brokers_serve_an_operator_by_an_account_and_refuse_others_for_certain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    async with (
        name_server() as names,
        running_broker("namesrvAddr={}:{}".format(*names.address), "aclEnable=true", f"aclFile={accounts}") as broker,
    ):
        await eventually(lambda: bool(names.table.cluster_info().broker_addr_table))
        cluster = "{}:{}".format(*names.address)

        async def quorumlog(*words: str, keys: str = "") -> tuple[int, str]:
            flags = ("--command-config", str(write(tmp_path, keys))) if keys else ()
            status = await trio.to_thread.run_sync(execute, [*words, "--cluster", cluster, *flags])
            shown = capsys.readouterr()
            return status, shown.out + shown.err

        operator = "accessKey=operator\nsecretKey=operates\n"
        assert (await quorumlog("topics", "create", "orders", keys=operator))[0] == ExitStatus.VALID
        status, shown = await quorumlog("topics", "describe", "orders", keys=operator)
        assert (status, "refuses" in shown) == (ExitStatus.VALID, False)
        for keys in ("", "accessKey=customer\nsecretKey=consumes\n", operator.replace("operates", "operated")):
            status, shown = await quorumlog("topics", "create", "more", keys=keys)
            assert (status, "give --command-config an account that may" in shown) == (ExitStatus.NOT_DONE, True)
        assert broker.context.topics.get("more") is None
        assert "refuses this account" in (await quorumlog("groups"))[1]
