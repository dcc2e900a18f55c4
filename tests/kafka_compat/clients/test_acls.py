"""Access control lists by unmodified clients: made, seen and deleted, and what a denied topic or group is to each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError as AiokafkaGroupFailed
from aiokafka.errors import TopicAuthorizationFailedError as AiokafkaTopicFailed
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType
from kafka.admin import ResourcePattern as PythonPattern
from kafka.admin import ResourcePatternFilter as PythonPatternFilter
from kafka.admin import ResourceType as PythonResourceType
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.kafka_compat.clients.adapters import PATIENCE_S, Client, number_messages, read_some, until, values
from tests.kafka_compat.clients.by_kafka_python import KafkaAdminClient
from tests.kafka_compat.clients.conftest import new_name

pytestmark = [pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")]

LITERAL, PREFIXED, MATCH = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED, ResourcePatternType.MATCH
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ANONYMOUS, EVERYONE = "User:ANONYMOUS", "User:*"
TOPIC_ERRORS = (TopicAuthorizationFailedError, AiokafkaTopicFailed)
GROUP_ERRORS = (GroupAuthorizationFailedError, AiokafkaGroupFailed)


def rule(kind: Any, name: str, who: str, operation: Any, permission: Any, pattern: Any = LITERAL) -> AclBinding:
    return AclBinding(kind, name, pattern, who, "*", operation, permission)


def create(admin: AdminClient, *acls: AclBinding) -> None:
    for answer in admin.create_acls(list(acls)).values():
        answer.result(PATIENCE_S)


def delete_all(admin: AdminClient, kind: Any, name: str) -> list[AclBinding]:
    wanted = AclBindingFilter(kind, name, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    (answer,) = admin.delete_acls([wanted]).values()
    return list(answer.result(PATIENCE_S))


@contextmanager
def denying(admin: AdminClient, kind: Any, name: str, operation: Any) -> Iterator[None]:
    """Everyone may do everything with this resource, but an unknown client this one operation."""
    create(admin, rule(kind, name, EVERYONE, AclOperation.ALL, ALLOW), rule(kind, name, ANONYMOUS, operation, DENY))
    try:
        yield
    finally:
        delete_all(admin, kind, name)


def has_failed(ask: Callable[[], object], code: int, errors: tuple[type[Exception], ...]) -> bool:
    """Returns True if a client was refused with this error, in its library's own form, and False if it was served."""
    try:
        ask()
    except KafkaException as error:
        if error.args[0].code() != code:
            raise
        return True
    except errors:
        return True
    return False


# -------------------------------------------------------------------- administration


def test_confluent_makes_sees_and_deletes_acls(cluster: KafkaCluster) -> None:
    admin, name = cluster.admin, new_name("secret")
    exact = rule(TOPIC, name, "User:alice", AclOperation.READ, ALLOW)
    prefixed = rule(TOPIC, name[:-1], "User:bob", AclOperation.WRITE, DENY, PREFIXED)
    create(admin, exact, prefixed)
    create(admin, exact)

    def describe(pattern: Any) -> list[AclBinding]:
        wanted = AclBindingFilter(TOPIC, name, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY)
        found: list[AclBinding] = admin.describe_acls(wanted).result(PATIENCE_S)
        return found

    until(lambda: len(describe(MATCH)) == 2, "ACLs at every broker")
    assert describe(LITERAL) == [exact]
    assert set(describe(MATCH)) == {exact, prefixed}
    assert delete_all(admin, TOPIC, name) == [exact]
    assert delete_all(admin, TOPIC, name[:-1]) == [prefixed]
    until(lambda: describe(MATCH) == [], "end of the ACLs at every broker")


def test_confluent_is_told_why_an_acl_is_wrong(cluster: KafkaCluster) -> None:
    wrong = rule(TOPIC, "t", "alice", AclOperation.READ, ALLOW)
    (answer,) = cluster.admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException) as caught:
        answer.result(PATIENCE_S)
    assert caught.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "no colon" in caught.value.args[0].str()


def test_kafka_python_makes_sees_and_deletes_acls(bootstrap: str) -> None:
    admin, name = KafkaAdminClient(bootstrap_servers=bootstrap), new_name("secret")
    wanted = ACL(
        "User:alice", "10.0.0.1", ACLOperation.READ, ACLPermissionType.ALLOW,
        PythonPattern(PythonResourceType.GROUP, name, ACLResourcePatternType.PREFIXED),
    )  # fmt: skip
    alike = ACLFilter(
        None, None, ACLOperation.ANY, ACLPermissionType.ANY,
        PythonPatternFilter(PythonResourceType.ANY, name, ACLResourcePatternType.ANY),
    )  # fmt: skip
    try:
        made = admin.create_acls([wanted])
        assert made["succeeded"] == [wanted]
        until(lambda: admin.describe_acls(alike)[0] == [wanted], "ACL at every broker")
        ((_, deleted, _),) = admin.delete_acls([alike])
        assert deleted == [wanted]
        until(lambda: admin.describe_acls(alike)[0] == [], "end of the ACL at every broker")
    finally:
        admin.close()


# -------------------------------------------------------------------- producers and consumers


def test_a_producer_that_may_not_write_gets_kafkas_error_and_then_may_again(
    client: Client, cluster: KafkaCluster, topic: str
) -> None:
    messages = number_messages(1)
    client.produce(topic, messages)
    failed = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with denying(cluster.admin, TOPIC, topic, AclOperation.WRITE):
        until(lambda: has_failed(lambda: client.produce(topic, messages), failed, TOPIC_ERRORS), "refusal")
        end = client.bounds(topic)[1]
        assert has_failed(lambda: client.produce(topic, messages), failed, TOPIC_ERRORS)
        assert client.bounds(topic)[1] == end, "nothing was appended"
    until(lambda: not has_failed(lambda: client.produce(topic, messages), failed, TOPIC_ERRORS), "right to write")


def test_a_consumer_that_may_not_read_gets_kafkas_error(client: Client, cluster: KafkaCluster, topic: str) -> None:
    messages = number_messages(2)
    client.produce(topic, messages)
    failed = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with denying(cluster.admin, TOPIC, topic, AclOperation.READ):
        until(lambda: has_failed(lambda: client.consume(topic, 2), failed, TOPIC_ERRORS), "refusal")
        client.produce(topic, messages)
    until(lambda: not has_failed(lambda: client.consume(topic, 2), failed, TOPIC_ERRORS), "right to read")
    assert values(client.consume(topic, 2)) == values_of(messages)


def values_of(messages: Any) -> list[bytes]:
    return [message.value for message in messages]


def test_a_member_of_a_group_that_it_may_not_read_gets_kafkas_error(
    client: Client, cluster: KafkaCluster, topic: str, group: str
) -> None:
    client.produce(topic, number_messages(1))

    def join() -> None:
        with client.joining(group, topic) as member:
            read_some(member)

    with denying(cluster.admin, GROUP, group, AclOperation.READ):
        until(lambda: has_failed(join, KafkaError.GROUP_AUTHORIZATION_FAILED, GROUP_ERRORS), "refusal")
