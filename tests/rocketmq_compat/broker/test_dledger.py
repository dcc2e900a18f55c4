"""The members of a raft group, from its properties."""

import pytest

from rocketmq_compat.broker.dledger import GroupMembers
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES

RAFT = "enableDLegerCommitLog=true"


def members(*assignments: str) -> GroupMembers | None:
    return GroupMembers.of(Properties.read(BROKER_PROPERTIES, assignments))


def test_a_broker_is_in_no_group_unless_it_is_set_so() -> None:
    assert members("dLegerSelfId=n0", "dLegerPeers=n0-127.0.0.1:1") is None


def test_nodes_are_numbered_alike_in_whatever_order_they_are_written() -> None:
    one = members(RAFT, "dLegerSelfId=n10", "dLegerPeers=n10-127.0.0.1:3;n0-127.0.0.1:1;n2-127.0.0.1:2")
    other = members(RAFT, "dLegerSelfId=n2", "dLegerPeers= n0-127.0.0.1:1; n2-127.0.0.1:2;n10-127.0.0.1:3;")
    assert one == GroupMembers("broker-a", 3, {1: ("127.0.0.1", 1), 2: ("127.0.0.1", 2), 3: ("127.0.0.1", 3)})
    assert other == GroupMembers("broker-a", 2, one.addresses)


def test_a_group_can_have_a_name_of_its_own() -> None:
    found = members(RAFT, "dLegerSelfId=n0", "dLegerPeers=n0-127.0.0.1:1", "dLegerGroup=g")
    assert found is not None
    assert found.group == "g"


@pytest.mark.parametrize(
    "assignments",
    [
        (),
        ("dLegerSelfId=n0",),
        ("dLegerPeers=n0-127.0.0.1:1",),
        ("dLegerSelfId=n1", "dLegerPeers=n0-127.0.0.1:1"),
        ("dLegerSelfId=n0", "dLegerPeers=n0-127.0.0.1"),
        ("dLegerSelfId=n0", "dLegerPeers=127.0.0.1:1"),
        ("dLegerSelfId=n0", "dLegerPeers=n0-127.0.0.1:1;n0-127.0.0.1:2"),
    ],
)
def test_what_makes_no_group_is_refused(assignments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidProperty, match="dLeger"):
        members(RAFT, *assignments)
