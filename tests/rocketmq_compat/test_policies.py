"""ACL 2.0 as decisions: who a user is, what each policy allows, and which entry decides."""

from typing import Any

import attrs
import pytest

from rocketmq_compat.acls import Credentials
from rocketmq_compat.policies import AuthChangeRefused, AuthRefused, AuthRules, Entry, needs_of
from rocketmq_compat.remoting.bodies import (
    AclInfo,
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    MessageQueue,
    PolicyEntryInfo,
    PolicyInfo,
    SubscriptionData,
    SubscriptionGroupConfig,
    UserInfo,
)
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command

ALICE = Credentials("alice", "alice's password")
HOST, CLUSTER = "10.1.2.3", "DefaultCluster"
SEND = Command(RequestCode.SEND_MESSAGE, ext={"topic": "orders"}, body=b"m")


def entry(resource: str, *actions: str, decision: str = "Allow", ips: tuple[str, ...] | None = None) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource=resource, actions=actions, source_ips=ips, decision=decision)


def acl(*entries: PolicyEntryInfo, kind: str | None = None, subject: str = "User:alice") -> AclInfo:
    return AclInfo(subject=subject, policies=(PolicyInfo(policy_type=kind, entries=entries),))


def rules_with(*acls: AclInfo, **user: Any) -> AuthRules:
    rules = AuthRules().create_user(UserInfo(username="alice", password="alice's password", **user))
    for each in acls:
        rules = rules.with_acl(each)
    return rules


def refusal(rules: AuthRules, command: Command = SEND, *, by: Credentials = ALICE, host: str = HOST) -> str:
    """The reason of a refusal; empty if the request is served."""
    try:
        rules.check(by.sign(command), host, CLUSTER)
    except AuthRefused as refused:
        return str(refused)
    return ""


# -------------------------------------------------------------------- who it is


def test_a_user_is_known_by_name_password_and_status() -> None:
    super_user = rules_with(user_type="Super")
    assert refusal(super_user) == ""
    assert refusal(super_user, by=attrs.evolve(ALICE, secret_key="wrong")) == "check signature failed."
    assert refusal(super_user, by=attrs.evolve(ALICE, access_key="bob")) == "User:bob is not found."
    with pytest.raises(AuthRefused, match="username cannot be null"):
        super_user.check(SEND, HOST, CLUSTER)
    with pytest.raises(AuthRefused, match="check signature failed"):
        super_user.check(attrs.evolve(ALICE.sign(SEND), body=b"another"), HOST, CLUSTER)
    disabled = super_user.update_user(UserInfo(username="alice", user_status="disable"))
    assert refusal(disabled) == "User:alice is disabled."


def test_without_authorization_each_user_may_do_everything() -> None:
    assert rules_with().check(ALICE.sign(SEND), HOST, CLUSTER, authorizes=False).username == "alice"
    assert refusal(rules_with()) == (
        "User:alice has no permission to access Topic:orders from 10.1.2.3, no matched policies."
    )


# -------------------------------------------------------------------- which entry decides


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([entry("Topic:orders", "Pub")], True),
        ([entry("Topic:orders", "All")], True),
        ([entry("Topic:orders", "Sub")], False),
        ([entry("Topic:order", "Pub")], False),
        ([entry("Topic:ord*", "Pub")], True),
        ([entry("Topic:x*", "Pub")], False),
        ([entry("Topic:*", "Pub")], True),
        ([entry("Group:orders", "Pub")], False),
        ([entry("*", "Pub")], True),
        ([entry("Topic:orders", "Pub", decision="Deny"), entry("Topic:ord*", "Pub")], False),
        ([entry("Topic:orders", "Pub"), entry("Topic:ord*", "Pub", decision="Deny")], True),
        ([entry("Topic:orde*", "Pub"), entry("Topic:ord*", "Pub", decision="Deny")], True),
        ([entry("Topic:orde*", "Pub", decision="Deny"), entry("Topic:ord*", "Pub")], False),
        ([entry("Topic:ord*", "Pub"), entry("Topic:*", "Pub", decision="Deny")], True),
        ([entry("Topic:*", "Pub"), entry("*", "Pub", decision="Deny")], True),
        ([entry("Topic:orders", "Pub", ips=("10.1.0.0/16",))], True),
        ([entry("Topic:orders", "Pub", ips=("10.2.0.0/16", "10.1.2.3"))], True),
        ([entry("Topic:orders", "Pub", ips=("10.2.0.0/16", "::1"))], False),
    ],
)
def test_the_most_specific_entry_that_fits_decides(entries: list[PolicyEntryInfo], allowed: bool) -> None:
    for given in (entries, entries[::-1]):
        assert (refusal(rules_with(acl(*given))) == "") is allowed


def test_custom_entries_come_before_default_ones_and_a_denial_is_named() -> None:
    default = acl(entry("Topic:*", "Pub"), kind="Default")
    assert refusal(rules_with(default)) == ""
    assert refusal(rules_with(default, acl(entry("Topic:*", "Pub", decision="Deny")))).endswith("the decision is deny.")
    assert refusal(rules_with(default, acl(entry("Topic:*", "Sub", decision="Deny")))) == ""


# -------------------------------------------------------------------- what a request needs


def needs(code: int, body: bytes = b"", **ext: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.kind, each.name, each.actions) for each in needs_of(Command(code, ext=ext, body=body), CLUSTER)]


HEARTBEAT = HeartbeatData(
    client_id="c",
    consumer_data_set=(
        ConsumerData(
            group_name="g", subscription_data_set=(SubscriptionData(topic="t"), SubscriptionData(topic="%RETRY%g"))
        ),
    ),
)
LOCK = LockBatchRequestBody(
    consumer_group="g",
    client_id="c",
    mq_set=frozenset({MessageQueue(broker_name="b", queue_id=0, topic=topic) for topic in ("t", "%RETRY%g")}),
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (needs(RequestCode.SEND_MESSAGE_V2, b="t"), [("Topic", "t", ("Pub",))]),
        (needs(RequestCode.SEND_MESSAGE_V2, b="%RETRY%g"), [("Group", "g", ("Sub",))]),
        (needs(RequestCode.CONSUMER_SEND_MSG_BACK, group="g"), [("Group", "g", ("Sub",))]),
        (
            needs(RequestCode.PULL_MESSAGE, topic="t", consumerGroup="g"),
            [("Topic", "t", ("Sub",)), ("Group", "g", ("Sub",))],
        ),
        (needs(RequestCode.PULL_MESSAGE, topic="%RETRY%g", consumerGroup="g"), [("Group", "g", ("Sub",))]),
        (
            needs(RequestCode.UPDATE_CONSUMER_OFFSET, topic="t", consumerGroup="g"),
            [("Topic", "t", ("Sub", "Update")), ("Group", "g", ("Sub", "Update"))],
        ),
        (needs(RequestCode.HEART_BEAT, HEARTBEAT.encode()), [("Group", "g", ("Sub",)), ("Topic", "t", ("Sub",))]),
        (needs(RequestCode.LOCK_BATCH_MQ, LOCK.encode()), [("Group", "g", ("Sub",)), ("Topic", "t", ("Sub",))]),
        (needs(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="t"), [("Topic", "t", ("Create",))]),
        (needs(RequestCode.DELETE_TOPIC_IN_BROKER, topic="t"), [("Topic", "t", ("Delete",))]),
        (
            needs(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, topic="t", group="g"),
            [("Topic", "t", ("Update",)), ("Group", "g", ("Update",))],
        ),
        (
            needs(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, SubscriptionGroupConfig(group_name="g").encode()),
            [("Group", "g", ("Create",))],
        ),
        (needs(RequestCode.GET_BROKER_CONFIG), [("Cluster", CLUSTER, ("Get", "List"))]),
        (needs(RequestCode.UPDATE_BROKER_CONFIG), [("Cluster", CLUSTER, ("Update",))]),
        (needs(RequestCode.AUTH_LIST_USER), [("Cluster", CLUSTER, ("Get", "List"))]),
        (needs(RequestCode.AUTH_CREATE_USER), [("Cluster", CLUSTER, ("Update",))]),
        (needs(RequestCode.DECIDE_DIVERGENCE), [("Cluster", CLUSTER, ("Update",))]),
        (needs(4711), [("Cluster", CLUSTER, ("Update",))]),
    ],
)
def test_a_request_needs_its_topics_and_groups_or_the_cluster(found: object, expected: object) -> None:
    assert found == expected


# -------------------------------------------------------------------- changes


def test_users_are_made_changed_and_deleted_with_their_policies() -> None:
    rules = rules_with(acl(entry("Topic:orders", "Pub")))
    with pytest.raises(AuthChangeRefused, match="The user is existed"):
        rules.create_user(UserInfo(username="alice", password="p"))
    for bad in (UserInfo(password="p"), UserInfo(username=" ", password="p"), UserInfo(username="b", password=" ")):
        with pytest.raises(AuthChangeRefused, match="can not be blank"):
            rules.create_user(bad)
    with pytest.raises(AuthChangeRefused, match="The user is not exist"):
        rules.update_user(UserInfo(username="bob", password="p"))
    changed = rules.update_user(UserInfo(username="alice", password="new"))
    assert (changed.users["alice"].password, changed.users["alice"].is_super) == ("new", False)
    assert rules.delete_user("alice") == AuthRules()


def test_an_entry_takes_the_place_of_the_one_for_the_same_resource() -> None:
    rules = rules_with(acl(entry("Topic:a", "Pub"), entry("Topic:b*", "Sub")), acl(entry("Topic:a", "Sub")))
    shown = rules.acl("alice")
    assert shown == AclInfo(
        subject="User:alice",
        policies=(PolicyInfo(policy_type="Custom", entries=(entry("Topic:a", "Sub"), entry("Topic:b*", "Sub"))),),
    )
    left = rules.without_acl("User:alice", None, "Topic:a")
    assert left.acl("alice") == acl(entry("Topic:b*", "Sub"), kind="Custom")
    assert left.without_acl("User:alice", "Custom", "Topic:b*").acl("alice") is None
    assert rules.without_acl("User:alice", None, None).policies == {}
    assert rules.acl("alice", "Topic:b") == acl(entry("Topic:b*", "Sub"), kind="Custom")


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (acl(entry("Topic:a", "Pub"), subject="User:bob"), "The subject of User:bob is not exist"),
        (acl(entry("Topic:a", "Pub"), subject="Role:a"), "The subject type is null"),
        (AclInfo(subject="User:alice"), "The policies is empty"),
        (acl(), "The policy entries is empty"),
        (acl(entry("Topic:a", "Pub"), kind="Odd"), "The policy type is illegal"),
        (acl(entry("Topic:a")), "The actions is empty"),
        (acl(entry("Topic:a", "Any")), "The actions can not be Any"),
        (acl(entry("Topic:a", "Fly")), "The action is unknown"),
        (acl(entry("", "Pub")), "The resource is null"),
        (acl(entry("Thing:a", "Pub")), "The resource type is null"),
        (acl(entry("Topic:a", "Pub", ips=("10.1.2",))), "The source ip is invalid"),
        (acl(entry("Topic:a", "Pub", ips=(" ",))), "The source ip is empty"),
        (acl(entry("Topic:a", "Pub", decision="Maybe")), "The decision is null or illegal"),
    ],
)
def test_a_policy_that_is_none_is_refused_in_rocketmqs_words(info: AclInfo, reason: str) -> None:
    rules = rules_with()
    with pytest.raises(AuthChangeRefused, match=reason):
        rules.with_acl(info)


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:a", "Group:a*", "Cluster:c"])
def test_a_resource_is_written_as_it_was_read(text: str) -> None:
    assert Entry.of(entry(text, "Get")).resource == text
