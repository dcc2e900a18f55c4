"""The handshake by which members know each other, as pure steps: what proves something, and that nothing else does."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.trust import (
    ADMIN,
    ANY,
    HANDSHAKE_S,
    INCARNATION_BYTES,
    MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX,
    ROLES,
    Acceptor,
    Admitted,
    Credentials,
    Dialer,
    Secret,
    Untrusted,
)

SECRET = Secret("0123456789abcdef" * 4)
ANOTHER = Secret("another secret, of some other cluster here")


def counting() -> Callable[[int], bytes]:
    """Draws other bytes each time, the same in each test."""
    numbers: Iterator[int] = itertools.count(1)
    return lambda count: next(numbers).to_bytes(count, "big")


DRAW = counting()


def credentials(name: str, *, secret: Secret = SECRET, cluster_id: str = "demo", life: int = 1) -> Credentials:
    incarnation = life.to_bytes(INCARNATION_BYTES, "big")
    return Credentials(secret=secret, cluster_id=cluster_id, name=name, incarnation=incarnation, draw=DRAW)


def converse(
    dialer: Dialer, acceptor: Acceptor, carry: Callable[[int, bytes], bytes] = lambda number, message: message
) -> tuple[list[bytes], Admitted, Admitted]:
    """The messages of a handshake, and who each side holds the other for; `carry` is the way between them."""
    challenge = acceptor.step(0.0, carry(0, dialer.opening))
    claim = dialer.step(carry(1, challenge.reply))
    consent = acceptor.step(0.0, carry(2, claim.reply))
    end = dialer.step(carry(3, consent.reply))
    assert consent.admitted is not None
    assert end.admitted is not None
    assert end.reply == b""
    return [dialer.opening, challenge.reply, claim.reply, consent.reply], end.admitted, consent.admitted


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(dialer=names, acceptor=names, cluster_id=names, wire=names)
def test_members_that_know_the_secret_learn_each_others_names(
    dialer: str, acceptor: str, cluster_id: str, wire: str
) -> None:
    one, two = (credentials(name, cluster_id=cluster_id, life=life) for name, life in ((dialer, 1), (acceptor, 2)))
    messages, seen_by_dialer, seen_by_acceptor = converse(one.dial(wire, acceptor), two.accept(wire, 0.0))
    assert seen_by_dialer == Admitted(acceptor, two.incarnation)
    assert seen_by_acceptor == Admitted(dialer, one.incarnation)
    assert all(len(message) <= MESSAGE_BYTES_MAX for message in messages)
    assert not any(SECRET.text.encode() in message for message in messages)


def test_a_client_dials_whom_it_does_not_know_and_learns_the_name() -> None:
    _, node, client = converse(credentials(ADMIN).dial("raft", ANY), credentials("3").accept("raft", 0.0))
    assert (node.name, client.name) == ("3", ADMIN)


EARLIER, LATER = SECRET, Secret("fedcba9876543210" * 4)
STEPS = (EARLIER, Secret(EARLIER.text, LATER.text), Secret(LATER.text, EARLIER.text), LATER)
"""The contents of a file while one secret takes the place of another."""


@pytest.mark.parametrize("step", range(len(STEPS) - 1))
def test_members_know_each_other_while_a_replacement_of_the_secret_is_at_a_step_or_the_next(step: int) -> None:
    for one, two in itertools.product(STEPS[step : step + 2], repeat=2):
        dialer, acceptor = credentials("1", secret=one), credentials("2", secret=two)
        _, seen, admitted = converse(dialer.dial("raft", "2"), acceptor.accept("raft", 0.0))
        assert (seen.name, admitted.name) == ("2", "1")


@pytest.mark.parametrize(
    ("known", "proven"), [(LATER, EARLIER), (EARLIER, LATER), (STEPS[1], ANOTHER), (LATER, STEPS[1])]
)
def test_a_secret_that_was_dropped_or_not_yet_added_proves_nothing(known: Secret, proven: Secret) -> None:
    dialer, acceptor = credentials("1", secret=proven), credentials("2", secret=known)
    with pytest.raises(Untrusted, match="a wrong proof"):
        converse(dialer.dial("raft", "2"), acceptor.accept("raft", 0.0))


@pytest.mark.parametrize("role", ROLES)
def test_a_client_proves_its_role_with_the_secret_of_the_cluster_or_of_the_role(role: str) -> None:
    for secret in (SECRET, SECRET.of_role(role)):
        dialer, acceptor = (
            credentials(role, secret=secret).dial("raft", ANY),
            credentials("3").accept("raft", 0.0, ROLES),
        )
        _, node, client = converse(dialer, acceptor)
        assert (node.name, client.name) == ("3", role)


@pytest.mark.parametrize("claimed", ["3", *ROLES])
@pytest.mark.parametrize("role", ROLES)
def test_the_secret_of_a_role_proves_that_role_alone(role: str, claimed: str) -> None:
    acceptor = credentials("3").accept("raft", 0.0, ROLES)
    claim = begin(credentials(claimed, secret=SECRET.of_role(role)).dial("raft", ANY), acceptor)
    if claimed == role:
        assert acceptor.step(0.0, claim).admitted is not None
    else:
        with pytest.raises(Untrusted, match="a wrong proof"):
            acceptor.step(0.0, claim)


def test_a_wire_without_roles_admits_administrators_alone() -> None:
    for role in ROLES:
        acceptor = credentials("3").accept("rocketmq", 0.0)
        claim = begin(credentials(role).dial("rocketmq", ANY), acceptor)
        if role == ADMIN:
            assert acceptor.step(0.0, claim).admitted is not None
        else:
            with pytest.raises(Untrusted, match=f"a {role} has no business here"):
                acceptor.step(0.0, claim)


def test_the_secret_of_a_role_makes_no_others_and_shows_nothing_of_the_clusters() -> None:
    made = {role: SECRET.of_role(role) for role in ROLES}
    assert len({each.text for each in (SECRET, *made.values())}) == 1 + len(ROLES)
    assert (
        made["reader"].text == "438d46578aebb61717a1e337fc16ded878e74048e1a9c9b7216e18884562b4b1"
    )  # as every version makes it
    with pytest.raises(ValueError, match="the secret of a reader makes no others"):
        made["reader"].of_role("admin")
    with pytest.raises(ValueError, match="role"):
        SECRET.of_role("owner")


def test_the_secrets_of_roles_are_accepted_as_long_as_those_of_which_they_are_made() -> None:
    earlier, later = SECRET, Secret("f" * 64)
    for secret in (earlier, later):
        dialer = credentials("reader", secret=secret.of_role("reader")).dial("raft", ANY)
        acceptor = credentials("3", secret=Secret(later.text, earlier.text)).accept("raft", 0.0, ROLES)
        assert converse(dialer, acceptor)[2].name == "reader"


def test_the_messages_stay_what_they_are() -> None:
    draw = counting()
    one, two = (
        Credentials(secret=SECRET, cluster_id="demo", name=name, incarnation=bytes(8), draw=draw) for name in "12"
    )
    messages, _, _ = converse(one.dial("raft", "2"), two.accept("raft", 0.0))
    assert [message.hex() for message in messages] == [
        f"01{1:064x}{0:016x}",
        f"02{2:064x}{0:016x}",
        "03ee26373228cc4d2ba23d76948e3a23bad5c560e32ed9aee2706420fe5acdc77201310132",
        "046c48166ad976c656c65d652a9c3a473f0a98323e2e3f30e8ede3a01a46c188010132",
    ]


# -------------------------------------------------------------------- what proves nothing


def begin(dialer: Dialer, acceptor: Acceptor) -> bytes:
    """The claim, after opening and challenge."""
    return dialer.step(acceptor.step(0.0, dialer.opening).reply).reply


@pytest.mark.parametrize(
    "dialer",
    [
        pytest.param(credentials("1", secret=Secret("f" * 64)).dial("raft", "2"), id="another secret"),
        pytest.param(credentials("1", cluster_id="other").dial("raft", "2"), id="another cluster"),
        pytest.param(credentials("1").dial("kafka", "2"), id="another wire"),
        pytest.param(credentials("1").dial("raft", "3"), id="another node dialled"),
    ],
)
def test_a_claim_for_anything_else_is_refused(dialer: Dialer) -> None:
    acceptor = credentials("2").accept("raft", 0.0)
    claim = begin(dialer, acceptor)
    with pytest.raises(Untrusted):
        acceptor.step(0.0, claim)


def test_a_claim_cannot_take_another_name() -> None:
    acceptor = credentials("2").accept("raft", 0.0)
    claim = begin(credentials("1").dial("raft", "2"), acceptor)
    with pytest.raises(Untrusted, match="a wrong proof"):
        acceptor.step(0.0, claim[:-4] + b"\x013" + claim[-2:])


def test_a_recorded_claim_proves_nothing_on_another_connection() -> None:
    dialer, acceptor = credentials("1").dial("raft", "2"), credentials("2").accept("raft", 0.0)
    recorded = begin(dialer, acceptor)
    again = credentials("2").accept("raft", 0.0)
    again.step(0.0, dialer.opening)
    with pytest.raises(Untrusted, match="a wrong proof"):
        again.step(0.0, recorded)


def test_a_recorded_consent_proves_nothing_to_the_next_dial() -> None:
    dialer, acceptor = credentials("1").dial("raft", "2"), credentials("2").accept("raft", 0.0)
    messages, _, _ = converse(dialer, acceptor)
    again = credentials("1").dial("raft", "2")
    again.step(messages[1])
    with pytest.raises(Untrusted, match="a wrong proof"):
        again.step(messages[3])


def test_a_challenge_thrown_back_proves_nothing() -> None:
    """A stranger answers a dialer with the dialer's own messages, or has an acceptor answer another connection to it."""
    dialer = credentials("1").dial("raft", "2")
    with pytest.raises(Untrusted):
        dialer.step(dialer.opening)
    dialer = credentials("1").dial("raft", "1")
    acceptor = credentials("1").accept("raft", 0.0)
    claim = begin(dialer, acceptor)
    with pytest.raises(Untrusted):
        dialer.step(bytes((4,)) + claim[1:33] + b"\x011")


def test_a_claim_that_comes_late_is_refused() -> None:
    acceptor = credentials("2").accept("raft", 100.0)
    dialer = credentials("1").dial("raft", "2")
    claim = dialer.step(acceptor.step(100.0, dialer.opening).reply).reply
    with pytest.raises(Untrusted, match="no claim within 5 s"):
        acceptor.step(100.0 + HANDSHAKE_S, claim)


def test_a_handshake_has_one_try() -> None:
    acceptor = credentials("2").accept("raft", 0.0)
    claim = begin(credentials("1").dial("raft", "2"), acceptor)
    for attempt in (claim[:-1], claim):
        with pytest.raises(Untrusted):
            acceptor.step(0.0, attempt)


@given(st.data())
def test_whatever_is_changed_in_a_message_proves_nothing(data: st.DataObject) -> None:
    """Each message in turn is damaged, cut, lengthened or replaced: then no side holds the other for a member."""
    dialer, acceptor = credentials("1").dial("raft", "2"), credentials("2").accept("raft", 0.0)
    struck = data.draw(st.integers(0, 3))

    def carry(number: int, message: bytes) -> bytes:
        if number != struck:
            return message
        changed = data.draw(
            st.one_of(
                st.binary(max_size=MESSAGE_BYTES_MAX + 1),
                st.integers(0, len(message) - 1).map(lambda end: message[:end]),
                st.binary(min_size=1, max_size=8).map(lambda more: message + more),
                st.tuples(st.integers(0, len(message) - 1), st.integers(1, 255)).map(
                    lambda at: message[: at[0]] + bytes((message[at[0]] ^ at[1],)) + message[at[0] + 1 :]
                ),
            ).filter(lambda changed: changed != message)
        )
        return bytes(changed)

    with pytest.raises(Untrusted):
        converse(dialer, acceptor, carry)


# -------------------------------------------------------------------- secrets


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        Secret("password")


def test_a_secret_is_not_shown() -> None:
    assert SECRET.text not in repr(credentials("1"))


def test_a_name_that_does_not_fit_a_message_is_refused_at_once() -> None:
    acceptor = credentials("2").accept("raft", 0.0)
    with pytest.raises(ValueError, match="at most 255 bytes"):
        begin(credentials("1" * (NAME_BYTES_MAX + 1)).dial("raft", "2"), acceptor)
