"""A watcher tells each fact once, and the leader is the one of the newest epoch that any process knows."""

import pytest

from jepsen_like.port.observations import Ready, RoleReported
from jepsen_like.port.port import Leadership
from jepsen_like.systems.foreign.watching import Look, Teller, leader_among, observe


def tell(*looks: Look) -> list[object]:
    teller = Teller()
    return [observe(event) for look in looks for event in teller.tell(look)]


def test_a_program_is_ready_once_it_serves() -> None:
    assert tell(Look(serves=False)) == []
    assert tell(Look(serves=False), Look(serves=True), Look(serves=True)) == [Ready()]


def test_a_role_is_told_when_it_or_its_epoch_is_new() -> None:
    looks = [Look(True, {"log": role}) for role in (("follower", 1), ("follower", 1), ("leader", 2), ("leader", 3))]
    roles = [RoleReported("follower", 1, "log"), RoleReported("leader", 2, "log"), RoleReported("leader", 3, "log")]
    assert tell(*looks) == [Ready(), *roles]


@pytest.mark.parametrize(
    ("claims", "leader"),
    [
        ([], None),
        ([(1, "follower", 4)], None),
        ([(1, "leader", 4), (2, "follower", 4)], Leadership(1, 4)),
        ([(1, "leader", 4), (2, "leader", 5)], Leadership(2, 5)),
        ([(1, "leader", 4), (2, "candidate", 5)], None),
    ],
)
def test_nobody_leads_while_a_newer_epoch_has_no_leader(
    claims: list[tuple[int, str, int]], leader: Leadership | None
) -> None:
    found = leader_among(claims)
    assert found == leader
    assert found is None or found.is_own_word
