"""Groups by KIP-848, by librdkafka with `group.protocol=consumer`: the promises of classic groups hold for them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.kafka_compat.clients import test_groups as classic
from tests.kafka_compat.clients.adapters import Client, Member, number_messages, read_some, until
from tests.kafka_compat.clients.by_confluent import ConfluentClient, ConfluentMember


class NewerProtocol(ConfluentClient):
    """Members that leave sessions and assignments to the brokers."""

    @contextmanager
    def joining(self, group: str, topic: str, *, instance: str | None = None) -> Iterator[Member]:
        settings = {} if instance is None else {"group.instance.id": instance}
        with self._consumer(group, **{"group.protocol": "consumer", **settings}) as consumer:
            consumer.subscribe([topic])
            yield ConfluentMember(consumer, topic)


@pytest.fixture
def newer(bootstrap: str) -> NewerProtocol:
    return NewerProtocol(bootstrap)


def test_members_share_the_partitions_and_take_over_those_of_one_that_leaves(
    newer: NewerProtocol, new_topic: Callable[..., str], group: str
) -> None:
    classic.test_members_share_the_partitions_and_take_over_those_of_one_that_leaves(newer, new_topic, group)


def test_a_member_of_the_other_protocol_takes_over_a_group_without_members(
    newer: NewerProtocol, bootstrap: str, topic: str, group: str
) -> None:
    newer.produce(topic, number_messages(10))
    older = ConfluentClient(bootstrap)
    for client, offset in ((older, 3), (newer, 5), (older, 7)):
        with client.joining(group, topic) as member:
            read_some(member)
            member.commit(0, offset)
            assert member.fetch_committed(0) == offset


def test_a_member_reads_the_topics_that_match_its_expression(
    newer: NewerProtocol, new_topic: Callable[..., str], group: str
) -> None:
    wanted = new_topic(1)
    newer.produce(wanted, number_messages(5))
    with newer.joining(group, f"^{wanted}-none|[{wanted[0]}]{wanted[1:]}$") as member:
        assert [record.offset for record in read_some(member)] == list(range(5))


def test_members_of_a_group_are_replaced_by_those_of_the_other_protocol_one_after_the_other(
    client: Client, newer: NewerProtocol, new_topic: Callable[..., str], group: str
) -> None:
    topic = new_topic(classic.PARTITIONS)
    with ExitStack() as all_members:
        members: list[tuple[Member, ExitStack]] = []

        def settle() -> None:
            until(lambda: classic.are_shared_out([member for member, _ in members]), "assignment of every partition")

        for each in (client, client, newer, newer, client, client):
            ends = all_members.enter_context(ExitStack())
            members.append((ends.enter_context(each.joining(group, topic)), ends))
            settle()
            if len(members) > 2:
                members.pop(0)[1].close()
                settle()
