"""Groups of consumers, by every client: they share out partitions, move them when members come and go, and keep
offsets.
"""

from collections.abc import Callable
from contextlib import ExitStack

from tests.kafka_compat.clients.adapters import Client, Member, Received, number_messages, read_some, until, values

PARTITIONS = 4


def are_shared_out(members: list[Member], read: list[Received] | None = None) -> bool:
    """Returns True if every partition has one owner and every member has some, once each has taken part."""
    for member in members:
        got = member.poll()
        if read is not None:
            read += got
    owned = [member.assignment() for member in members]
    return all(owned) and sorted(partition for each in owned for partition in each) == list(range(PARTITIONS))


def test_members_share_the_partitions_and_take_over_those_of_one_that_leaves(
    client: Client, new_topic: Callable[..., str], group: str
) -> None:
    topic = new_topic(PARTITIONS)
    with ExitStack() as open_members, client.joining(group, topic) as stays:
        until(lambda: are_shared_out([stays]), "assignment of everything to one member")
        leaves = open_members.enter_context(client.joining(group, topic))
        until(lambda: are_shared_out([stays, leaves]), "assignment to two members")
        open_members.close()
        until(lambda: are_shared_out([stays]), "assignment of everything to the one that stayed")


def test_a_group_reads_every_partition_once(client: Client, new_topic: Callable[..., str], group: str) -> None:
    topic = new_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        client.produce(topic, number_messages(5, f"p{partition}"), partition=partition)
    read: list[Received] = []
    with client.joining(group, topic) as one, client.joining(group, topic) as other:
        until(
            lambda: are_shared_out([one, other], read) and len({(each.partition, each.offset) for each in read}) == 20,
            "everything read by two members",
        )
    assert {each.value for each in read} == {f"p{p} {n}".encode() for p in range(PARTITIONS) for n in range(5)}


def test_a_new_member_goes_on_where_the_group_committed(client: Client, topic: str, group: str) -> None:
    client.produce(topic, number_messages(10))
    with client.joining(group, topic) as first:
        read_some(first)
        assert first.fetch_committed(0) is None
        first.commit(0, 7, "as far as this")
        assert first.fetch_committed(0) == 7
    with client.joining(group, topic) as second:
        got = read_some(second)
        assert second.fetch_committed(0) == 7
    assert got[0].offset == 7
    assert got[0].value == b"record 7"


def test_groups_do_not_see_each_others_offsets(client: Client, topic: str, group: str) -> None:
    client.produce(topic, number_messages(3))
    with client.joining(group, topic) as one:
        read_some(one)
        one.commit(0, 3)
    with client.joining(f"{group}-other", topic) as other:
        got = read_some(other, 3)
        assert other.fetch_committed(0) is None
    assert values(got) == [b"record 0", b"record 1", b"record 2"]


def test_a_static_member_that_comes_back_has_its_partitions_without_a_rebalance(
    client: Client, new_topic: Callable[..., str], group: str
) -> None:
    topic = new_topic(PARTITIONS)
    with client.joining(group, topic, instance="stays") as stays:
        with client.joining(group, topic, instance="returns") as returns:
            until(lambda: are_shared_out([stays, returns]), "assignment to two members")
            before = stays.assignment(), returns.assignment()
        with client.joining(group, topic, instance="returns") as returns:
            until(
                lambda: bool(stays.poll() or returns.poll() or returns.assignment()),
                "assignment of the returned member",
            )
            assert (stays.assignment(), returns.assignment()) == before
