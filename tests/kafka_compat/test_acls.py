"""The rules of Kafka's authorizer, as its own tests state them (AuthorizerTest, StandardAuthorizerTest and
ResourcePatternFilterTest), and as KIP-11, KIP-290 and KIP-679 do.
"""

import random
from typing import Any

import pytest
from attrs import evolve

from kafka_compat.acls import (
    ACLS_MAX,
    CLUSTER_NAME,
    TEXT_MAX,
    VIEWS_MAX,
    Acl,
    AclFilter,
    AclTable,
    Authorizer,
    PatternType,
    Permission,
    ResourceType,
    parse_super_users,
    problem_of,
)
from kafka_compat.protocol.authorized import EVERYTHING, AclOperation

R, W, D, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
ALICE, BOB, HOST = "User:alice", "User:bob", "192.168.1.1"
PERMISSIONS = {"allow": Permission.ALLOW, "deny": Permission.DENY}
KINDS = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER, "txn": ResourceType.TRANSACTIONAL_ID}


def acl(text: str) -> Acl:
    """Reads `allow alice READ topic foo`, with `foo~` for a prefix and `alice@host`."""
    permission, who, operation, kind, name = text.split()
    user, _, host = who.partition("@")
    pattern = PREFIXED if name.endswith("~") else LITERAL
    return Acl(
        KINDS[kind], name.removesuffix("~"), pattern, f"User:{user}", host or "*",
        AclOperation[operation], PERMISSIONS[permission],
    )  # fmt: skip


def authorizer(*texts: str, super_users: str = "", allows_if_none: bool = False) -> Authorizer:
    table = AclTable()
    for text in texts:
        table.add(acl(text))
    return Authorizer(table, parse_super_users(super_users), allows_if_none)


CASES = [
    # testTopicAcl: many rules on one topic
    ("allow alice READ topic t", "alice READ topic t", True),
    ("allow alice READ topic t", "bob READ topic t", False),
    ("allow alice READ topic t", "alice WRITE topic t", False),
    ("allow alice READ topic t", "alice READ topic u", False),
    ("allow alice READ topic t", "alice READ group t", False),
    ("allow alice@10.0.0.1 READ topic t", "alice READ topic t", False),
    ("allow alice@192.168.1.1 READ topic t", "alice READ topic t", True),
    ("allow alice ALL topic t", "alice ALTER_CONFIGS topic t", True),
    # testDenyTakesPrecedence, testWildCardAcls
    ("allow * ALL topic t; deny alice ALL topic t", "alice READ topic t", False),
    ("allow * ALL topic t; deny alice ALL topic t", "bob READ topic t", True),
    ("allow alice READ topic *; deny alice READ topic t", "alice READ topic t", False),
    ("allow alice READ topic t; deny * READ topic *", "alice READ topic t", False),
    ("allow alice READ topic t; deny alice@10.0.0.1 READ topic t", "alice READ topic t", True),
    ("allow * READ topic *", "bob READ topic anything", True),
    # testImplicationsOfAllow, testImplicationsOfDeny
    ("allow alice READ topic t", "alice DESCRIBE topic t", True),
    ("allow alice WRITE topic t", "alice DESCRIBE topic t", True),
    ("allow alice DELETE topic t", "alice DESCRIBE topic t", True),
    ("allow alice ALTER topic t", "alice DESCRIBE topic t", True),
    ("allow alice CREATE topic t", "alice DESCRIBE topic t", False),
    ("allow alice ALTER_CONFIGS topic t", "alice DESCRIBE_CONFIGS topic t", True),
    ("allow alice ALTER_CONFIGS topic t", "alice DESCRIBE topic t", False),
    ("allow alice DESCRIBE topic t", "alice READ topic t", False),
    ("allow alice ALL topic t; deny alice DESCRIBE topic t", "alice READ topic t", True),
    ("allow alice READ topic t; deny alice DESCRIBE topic t", "alice DESCRIBE topic t", False),
    ("allow * ALL topic t; deny alice READ topic t", "alice DESCRIBE topic t", True),
    ("allow * ALL topic t; deny alice ALL topic t", "alice DESCRIBE topic t", False),
    # testDeleteAclOnPrefixedResource and its neighbours: KIP-290
    ("allow alice READ topic foo~", "alice READ topic foobar", True),
    ("allow alice READ topic foo~", "alice READ topic foo", True),
    ("allow alice READ topic foo~", "alice READ topic fo", False),
    ("allow alice READ topic foo~", "alice READ topic Foo", False),
    ("allow alice READ topic foo", "alice READ topic foobar", False),
    ("allow alice ALL topic foo~; deny alice ALL topic foobar", "alice READ topic foobar", False),
    ("allow alice ALL topic foobar; deny alice ALL topic foo~", "alice READ topic foobar", False),
    ("allow alice ALL topic foo~; deny alice ALL topic foob~", "alice READ topic fooba", False),
    ("allow alice READ topic a~; allow alice WRITE topic ab~", "alice READ topic abc", True),
    ("allow alice READ topic *~", "alice READ topic foo", False),
    # the cluster, and transactional ids
    (f"allow alice CREATE cluster {CLUSTER_NAME}", f"alice CREATE cluster {CLUSTER_NAME}", True),
    (f"allow alice CREATE cluster {CLUSTER_NAME}", "alice CREATE topic t", False),
    ("allow alice WRITE txn x~", "alice WRITE txn xy", True),
]  # fmt: skip


@pytest.mark.parametrize(("acls", "question", "right"), CASES, ids=[f"{a} ? {q}" for a, q, _ in CASES])
def test_an_acl_decides_as_kafkas_authorizer(acls: str, question: str, right: bool) -> None:
    user, operation, kind, name = question.split()
    decider = authorizer(*acls.split("; "))
    assert decider.allows(f"User:{user}", HOST, AclOperation[operation], KINDS[kind], name) is right


@pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1"])
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_may_be_written_in_full_as_java_does_or_in_short(written: str, host: str) -> None:
    decider = authorizer(f"allow alice@{written} READ topic t")
    assert decider.allows(ALICE, host, R, TOPIC, "t")
    assert not decider.allows(ALICE, "::2", R, TOPIC, "t")


def test_a_super_user_may_do_everything_whatever_is_denied() -> None:
    decider = authorizer("deny * ALL topic *", super_users="User:alice; User:CN=admin, O=x")
    assert decider.operations(ALICE, HOST, TOPIC, "t") == EVERYTHING
    assert decider.allows("User:CN=admin, O=x", HOST, R, TOPIC, "t")
    assert not decider.allows("Group:alice", HOST, R, TOPIC, "t")
    assert not decider.allows(BOB, HOST, R, TOPIC, "t")


def test_a_resource_without_any_acl_is_open_where_a_setting_allows_it() -> None:
    decider = authorizer("allow alice READ topic t", "allow alice READ topic p~", allows_if_none=True)
    assert decider.allows(BOB, HOST, W, TOPIC, "u")
    assert decider.allows(BOB, HOST, R, GROUP, "t"), "an ACL on a topic leaves groups open"
    assert not decider.allows(BOB, HOST, R, TOPIC, "t"), "an ACL of another principal counts"
    assert not decider.allows(BOB, HOST, R, TOPIC, "pq")
    assert not authorizer().allows(BOB, HOST, R, TOPIC, "u")
    assert not authorizer("allow alice READ topic *", allows_if_none=True).allows(BOB, HOST, R, TOPIC, "u")


def test_a_change_of_the_acls_counts_at_once() -> None:
    decider = authorizer()
    rule, denial = acl("allow alice READ topic t"), acl("deny alice READ topic t")
    for step, right in ((decider.acls.add, True), (decider.acls.remove, False)):
        step(rule)
        assert decider.allows(ALICE, HOST, R, TOPIC, "t") is right
    decider.acls.replace([rule, denial])
    assert not decider.allows(ALICE, HOST, R, TOPIC, "t")
    decider.acls.remove(denial)
    assert decider.allows(ALICE, HOST, R, TOPIC, "t")


ANY_CASES = [
    # testAuthorizeByResourceType*: KIP-679
    ("allow alice WRITE topic t", True),
    ("allow alice ALL topic t", True),
    ("allow alice READ topic t", False),
    ("allow alice WRITE group g", False),
    ("allow bob WRITE topic t", False),
    ("allow alice@10.0.0.1 WRITE topic t", False),
    ("allow * WRITE topic t~", True),
    ("allow alice WRITE topic *", True),
    ("allow alice WRITE topic t; deny alice WRITE topic t", False),
    ("allow alice WRITE topic t; deny alice WRITE topic *", False),
    ("allow alice WRITE topic *; deny alice WRITE topic *", False),
    ("allow alice WRITE topic *; deny alice WRITE topic t", True),
    ("allow alice WRITE topic *; deny alice WRITE topic h~", True),
    ("allow alice WRITE topic tu; deny alice WRITE topic t~", False),
    ("allow alice WRITE topic tu~; deny alice WRITE topic t~", False),
    ("allow alice WRITE topic t~; deny alice WRITE topic tu~", True),
    ("allow alice WRITE topic t~; deny alice WRITE topic t", True),
    ("allow alice WRITE topic t; allow alice WRITE topic u; deny alice ALL topic t", True),
    ("allow alice WRITE topic t; deny bob WRITE topic *", True),
    ("allow alice WRITE topic t; deny alice READ topic *", True),
]


@pytest.mark.parametrize(("acls", "right"), ANY_CASES, ids=[each for each, _ in ANY_CASES])
def test_a_right_to_some_resource_is_found_as_kafka_finds_it(acls: str, right: bool) -> None:
    assert authorizer(*acls.split("; ")).allows_any(ALICE, HOST, W, TOPIC) is right


def test_a_super_user_and_an_open_cluster_have_a_right_to_some_resource() -> None:
    assert authorizer("deny * ALL topic *", super_users=ALICE).allows_any(ALICE, HOST, W, TOPIC)
    assert authorizer(allows_if_none=True).allows_any(ALICE, HOST, W, TOPIC)


def test_a_view_agrees_with_a_naive_reading_of_all_acls() -> None:
    rng = random.Random(7)
    names, operations = ["a", "ab", "abc", "b", "*"], [R, W, D, ALL, AclOperation.ALTER_CONFIGS]
    for _ in range(150):
        drawn = {
            Acl(TOPIC, rng.choice(names), rng.choice([LITERAL, PREFIXED]), rng.choice([ALICE, "User:*"]),
                rng.choice(["*", HOST, "10.0.0.1"]), rng.choice(operations), rng.choice(list(PERMISSIONS.values())))
            for _ in range(rng.randrange(5))
        }  # fmt: skip
        table = AclTable()
        for each in drawn:
            table.add(each)
        decider = Authorizer(table)
        for name in ("a", "ab", "abcd", "b", "c"):
            for asked in (R, W, D, AclOperation.DESCRIBE_CONFIGS, AclOperation.CREATE):
                assert decider.allows(ALICE, HOST, asked, TOPIC, name) is naive(drawn, asked, name), (
                    drawn,
                    asked,
                    name,
                )


def naive(acls: set[Acl], asked: AclOperation, name: str) -> bool:
    """StandardAuthorizerData.findResult over all ACLs, one after the other."""
    implying = {D: {D, R, W, AclOperation.DELETE, AclOperation.ALTER}}.get(asked, {asked})
    if asked is AclOperation.DESCRIBE_CONFIGS:
        implying = {asked, AclOperation.ALTER_CONFIGS}
    matching = [
        each
        for each in acls
        if each.host in ("*", HOST)
        and (name.startswith(each.name) if each.pattern is PREFIXED else each.name in (name, "*"))
    ]
    if any(each.permission is Permission.DENY and each.operation in (ALL, asked) for each in matching):
        return False
    return any(each.permission is Permission.ALLOW and each.operation in (ALL, *implying) for each in matching)


# ---------------------------------------------------------------- filters

PATTERNS = [
    # ResourcePatternFilterTest
    (LITERAL, "foo", "allow alice READ topic foo", True),
    (LITERAL, "foo", "allow alice READ topic foo~", False),
    (LITERAL, "foo", "allow alice READ topic *", False),
    (LITERAL, "*", "allow alice READ topic *", True),
    (LITERAL, None, "allow alice READ topic foo", True),
    (LITERAL, None, "allow alice READ topic foo~", False),
    (PREFIXED, "foo", "allow alice READ topic foo~", True),
    (PREFIXED, "foobar", "allow alice READ topic foo~", False),
    (PREFIXED, "foo", "allow alice READ topic foo", False),
    (ANY, "foo", "allow alice READ topic foo~", True),
    (ANY, "foobar", "allow alice READ topic foo~", False),
    (ANY, "foo", "allow alice READ topic *", False),
    (ANY, None, "allow alice READ topic foo~", True),
    (MATCH, "foobar", "allow alice READ topic foo~", True),
    (MATCH, "foo", "allow alice READ topic foo~", True),
    (MATCH, "fo", "allow alice READ topic foo~", False),
    (MATCH, "foo", "allow alice READ topic foo", True),
    (MATCH, "foo", "allow alice READ topic *", True),
    (MATCH, "foo", "allow alice READ topic bar", False),
    (MATCH, None, "allow alice READ topic bar", True),
]


@pytest.mark.parametrize(("pattern", "name", "text", "right"), PATTERNS)
def test_a_filter_selects_patterns_as_in_kafka(pattern: PatternType, name: str | None, text: str, right: bool) -> None:
    table = AclTable()
    table.add(acl(text))
    for kind, principal, host in ((TOPIC, ALICE, "*"), (ResourceType.ANY, None, None)):
        wanted = AclFilter(kind, name, pattern, principal, host, AclOperation.ANY, Permission.ANY)
        assert bool(table.select(wanted)) is right


def test_a_filter_that_leaves_nothing_open_selects_one_acl() -> None:
    table = AclTable()
    rule, other = acl("allow alice READ topic t"), acl("allow alice WRITE topic t")
    for each in (rule, other):
        table.add(each)
    exact = AclFilter(TOPIC, "t", LITERAL, ALICE, "*", R, Permission.ALLOW)
    assert exact.only == rule
    assert table.select(exact) == [rule]
    assert table.select(AclFilter(TOPIC, "t", LITERAL, ALICE, "*", D, Permission.ALLOW)) == []
    assert table.select(AclFilter(GROUP, None, ANY, None, None, AclOperation.ANY, Permission.ANY)) == []
    assert table.select(AclFilter(TOPIC, None, ANY, None, None, AclOperation.ANY, Permission.ANY)) == [rule, other]
    assert table.select(AclFilter(TOPIC, None, ANY, None, None, AclOperation.ANY, Permission.DENY)) == []
    assert AclFilter(TOPIC, None, PatternType.UNKNOWN, None, None, AclOperation.ANY, Permission.ANY).has_unknown


# ---------------------------------------------------------------- what cannot be made, and bounds


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": ResourceType.ANY}, "Invalid resourceType ANY"),
        ({"pattern": MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.UNKNOWN}, "Invalid operation UNKNOWN"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"name": ""}, "Resource name should not be empty"),
        ({"kind": CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "no colon is present"),
        ({"host": ""}, "Host should not be empty"),
        ({"principal": "User:" + "x" * TEXT_MAX}, "at most 500 characters"),
        ({}, None),
    ],
)
def test_an_acl_that_kafka_refuses_is_refused_here(change: dict[str, Any], words: str | None) -> None:
    rule = Acl(TOPIC, "t", LITERAL, ALICE, "*", R, Permission.ALLOW)
    problem = problem_of(evolve(rule, **change))
    assert problem is None if words is None else words in (problem or "")


def test_what_is_kept_at_hand_is_bounded_and_right_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_compat.acls.NAMES_MAX", 10)
    decider = authorizer("allow * READ topic a~", "deny * READ topic ab")
    for number in range(VIEWS_MAX + 5):
        assert decider.allows(f"User:{number}", HOST, R, TOPIC, "ac")
        assert not decider.allows(f"User:{number}", HOST, R, TOPIC, "ab")
    assert len(decider._views) == VIEWS_MAX
    assert sum(len(names) for view in decider._views.values() for names in view.known) <= 10
    assert ACLS_MAX * TEXT_MAX * 3 < 16 * 2**20


def test_super_users_are_read_and_a_wrong_one_is_refused() -> None:
    assert parse_super_users(" User:a;User:b ; ") == {"User:a", "User:b"}
    with pytest.raises(ValueError, match="no principal"):
        parse_super_users("alice")
