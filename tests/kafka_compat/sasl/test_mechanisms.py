"""The server's side of PLAIN and SCRAM: who is let in, as whom, and what all others are told."""

import base64
import hashlib
import hmac
import random

import attrs
import pytest

from kafka_compat.broker.caller import Answer
from kafka_compat.model import ScramCredential, ScramMechanism
from kafka_compat.sasl.credentials import credential_of
from kafka_compat.sasl.plain import PlainExchange
from kafka_compat.sasl.refused import SaslRefused
from kafka_compat.sasl.scram import ITERATIONS, MESSAGE_BYTES_MAX, ScramExchange, ScramUsers

SHA_256, SHA_512 = ScramMechanism
BOTH = pytest.mark.parametrize("mechanism", ScramMechanism)
NONCE = "servernonce"


def credential(mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 5) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


def users(*known: tuple[str, ScramMechanism, ScramCredential], nonce: str = NONCE) -> ScramUsers:
    table = {(user, mechanism): found for user, mechanism, found in known}
    return ScramUsers(lambda user, mechanism: table.get((user, mechanism)), b"secret", lambda: nonce)


@attrs.define
class ScramClient:
    """A client as RFC 5802 describes it."""

    mechanism: ScramMechanism
    user: str
    password: str
    header: str = "n,,"
    first: str = ""
    signature: bytes = b""

    def begin(self, nonce: str = "clientnonce") -> bytes:
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        self.first = f"n={name},r={nonce}"
        return (self.header + self.first).encode()

    def finish(self, challenge: bytes, nonce: str | None = None) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        name = self.mechanism.hash_name
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(name, self.password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        bare = f"c={base64.b64encode(self.header.encode()).decode()},r={nonce or fields['r']}"
        message = f"{self.first},{challenge.decode()},{bare}".encode()
        signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self.signature = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()


def exchange(server: ScramExchange, client: ScramClient) -> Answer:
    challenge = server.step(0.0, client.begin())
    assert challenge.identity is None
    return server.step(0.0, client.finish(challenge.message))


def told_by(server: ScramExchange | PlainExchange, *messages: bytes) -> str:
    """Returns what the client is told when the last message is refused."""
    for message in messages[:-1]:
        server.step(0.0, message)
    with pytest.raises(SaslRefused) as refused:
        server.step(0.0, messages[-1])
    return refused.value.told


# -------------------------------------------------------------------- SCRAM


def test_the_example_of_rfc_7677_is_the_conversation_word_for_word() -> None:
    known = credential(SHA_256, "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    server = ScramExchange(SHA_256, users(("user", SHA_256, known), nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
    assert server.step(0.0, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").message == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    answer = server.step(0.0, final)
    assert answer.message == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert answer.identity is not None
    assert (answer.identity.principal, answer.identity.member) == ("User:user", None)


@BOTH
@pytest.mark.parametrize("user", ["alice", "a,b=c", "Ålice ❤"])
def test_who_knows_the_password_is_let_in_and_gets_the_brokers_own_proof(mechanism: ScramMechanism, user: str) -> None:
    server = ScramExchange(mechanism, users((user, mechanism, credential(mechanism, "pass"))))
    client = ScramClient(mechanism, user, "pass")
    answer = exchange(server, client)
    assert answer.message == b"v=" + base64.b64encode(client.signature)
    assert answer.identity is not None
    assert answer.identity.principal == f"User:{user}"


@BOTH
def test_a_wrong_password_and_a_user_that_does_not_exist_are_refused_alike_and_at_the_end(
    mechanism: ScramMechanism,
) -> None:
    known = users(("alice", mechanism, credential(mechanism, "pass")))
    told = set()
    for user, password in (("alice", "Pass"), ("alice", ""), ("bob", "pass")):
        with pytest.raises(SaslRefused) as refused:
            exchange(ScramExchange(mechanism, known), ScramClient(mechanism, user, password))
        told.add(refused.value.told)
    assert told == {
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism.sasl_name
    }


def test_a_user_that_does_not_exist_has_the_same_salt_each_time_and_another_has_another() -> None:
    first = [
        ScramExchange(SHA_256, users()).step(0.0, ScramClient(SHA_256, user, "").begin()).message for user in "aab"
    ]
    assert first[0] == first[1] != first[2]
    assert f",i={ITERATIONS}".encode() in first[0]


def test_a_credential_of_one_mechanism_is_none_of_the_other() -> None:
    server = ScramExchange(SHA_512, users(("alice", SHA_256, credential(SHA_256, "pass"))))
    with pytest.raises(SaslRefused):
        exchange(server, ScramClient(SHA_512, "alice", "pass"))


@BOTH
def test_a_client_that_repeats_its_nonce_is_let_in_as_kafka_does(mechanism: ScramMechanism) -> None:
    """As librdkafka did before 2.6.1."""
    server = ScramExchange(mechanism, users(("alice", mechanism, credential(mechanism, "pencil"))))
    client = ScramClient(mechanism, "alice", "pencil")
    challenge = server.step(0, client.begin()).message
    final = client.finish(challenge, nonce=f"clientnonceclientnonce{NONCE}")
    assert server.step(0, final).identity is not None


def test_a_conversation_of_another_time_header_or_nonce_proves_nothing() -> None:
    known = ("alice", SHA_256, credential(SHA_256, "pass"))
    client = ScramClient(SHA_256, "alice", "pass")
    recorded = (client.begin(), client.finish(ScramExchange(SHA_256, users(known)).step(0.0, client.begin()).message))
    assert "invalid credentials" in told_by(ScramExchange(SHA_256, users(known, nonce="other")), *recorded)
    bound = recorded[1].replace(b"c=biws", b"c=" + base64.b64encode(b"y,,"))
    assert "invalid credentials" in told_by(ScramExchange(SHA_256, users(known)), recorded[0], bound)


def test_to_act_for_another_is_refused_and_for_oneself_is_not() -> None:
    known = users(("alice", SHA_256, credential(SHA_256, "pass")))
    assert exchange(ScramExchange(SHA_256, known), ScramClient(SHA_256, "alice", "pass", "n,a=alice,")).identity
    other = ScramClient(SHA_256, "alice", "pass", "n,a=bob,")
    assert "different from username" in told_by(ScramExchange(SHA_256, known), other.begin())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=,r=x",
        b"n,,n=a",
        b"y,,n=a,r=x",
        b"p=tls-unique,,n=a,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=a,r=",
        b"n,,n=a,r=x,tokenauth=true",
        b"n,,m=1,n=a,r=x",
        b"\xff",
        b"n,,n=" + b"a" * MESSAGE_BYTES_MAX + b",r=x",
    ],
)
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    assert told_by(ScramExchange(SHA_256, users()), message) == "Authentication failed"


def test_damaged_messages_are_refused_and_never_more_than_that() -> None:
    rng = random.Random(5)
    known = users(("alice", SHA_256, credential(SHA_256, "pass")))
    for _ in range(300):
        server, client = ScramExchange(SHA_256, known), ScramClient(SHA_256, "alice", "pass")
        messages = [client.begin()]
        messages.append(client.finish(ScramExchange(SHA_256, known).step(0.0, messages[0]).message))
        damaged = rng.randrange(2)  # of the last digit of base64 not all bits count
        bent = bytearray(messages[damaged])
        bent[rng.randrange(len(bent) - 2)] ^= 1 << rng.randrange(8)
        messages[damaged] = bytes(bent)
        answer = None
        try:
            for message in messages:
                answer = server.step(0.0, message)
        except SaslRefused:
            continue
        assert answer is not None
        assert answer.identity is None, bytes(bent)


# -------------------------------------------------------------------- PLAIN


def test_plain_holds_a_password_against_the_credentials_of_scram() -> None:
    for known in (SHA_256, SHA_512):
        server = PlainExchange(users(("alice", known, credential(known, "pass"))))
        for message in (b"\0alice\0pass", b"alice\0alice\0pass"):
            answer = server.step(0.0, message)
            assert answer.message == b""
            assert answer.identity is not None
            assert answer.identity.principal == "User:alice"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0Pass", "Authentication failed: Invalid username or password"),
        (b"\0bob\0pass", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0pass",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0\0pass", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0pass", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0pass\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\xff\0\0", "Authentication failed"),
        (b"\0alice\0" + b"x" * 5000, "Authentication failed"),
    ],
)
def test_plain_refuses_all_else_in_kafkas_words(message: bytes, told: str) -> None:
    server = PlainExchange(users(("alice", SHA_512, credential(SHA_512, "pass"))))
    assert told_by(server, message) == told


def test_plain_takes_as_long_for_a_user_that_does_not_exist() -> None:
    tried: list[ScramCredential] = []

    def fits(mechanism: ScramMechanism, known: ScramCredential, password: str) -> bool:
        tried.append(known)
        return False

    server = PlainExchange(users(), fits)
    told_by(server, b"\0nobody\0pass")
    assert [known.iterations for known in tried] == [ITERATIONS]
