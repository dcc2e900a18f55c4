"""RocketMQ's ACL 1.0: signatures, the file of accounts, and the decision, by the rules of PlainPermissionManager,
PlainAccessResource and RemoteAddressStrategyFactory (4.9.4).
"""

import contextlib
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_compat.acl_file import InvalidAclFile, read_rules
from rocketmq_compat.acls import (
    ADMIN_CODES,
    AclRefused,
    AclRules,
    Addresses,
    Credentials,
    Perm,
    needed_by,
    signature_of,
    signed_bytes,
)
from rocketmq_compat.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command, Serialization, decode, encode

FILE = """
# accounts of a test
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.1-7   # the office

accounts:
  - accessKey: RocketMQ
    secretKey: '12345678'
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
      - topicD=PUB|DENY
    groupPerms: [groupA=DENY, groupB=PUB|SUB]

  - accessKey: rocketmq2
    secretKey: "12345678"
    whiteRemoteAddress: 192.168.1.*
    # an administrator
    admin: true
"""
RULES = read_rules(FILE)
USER, ADMIN = Credentials("RocketMQ", "12345678"), Credentials("rocketmq2", "12345678")
HOST = "127.0.0.1"


# ---------------------------------------------------------------- signatures

VECTORS = [
    # by `openssl dgst -sha1 -hmac SECRET -binary | base64`
    (b"RocketMQ", "12345678", "IUc8rrO/0gDch8CjObLQsW2rsiA="),
    (b"accessKeyvalueAvalueBtokbody-bytes", "s\u00e9cret78", "3GdZcxqVlld3KsTtD+sWWkNiUWU="),
]


@pytest.mark.parametrize(("content", "secret", "signature"), VECTORS)
def test_a_signature_is_an_hmac_in_base64(content: bytes, secret: str, signature: str) -> None:
    assert signature_of(content, secret) == signature


def test_a_signature_covers_the_values_in_the_order_of_names_and_the_body() -> None:
    command = Command(10, ext={"b": "valueB", "a": "valueA"}, body=b"body-bytes")
    signed = Credentials("accessKey", "s\u00e9cret78", "tok").sign(command)
    # AccessKey < SecurityToken < a < b, as Java sorts
    assert signed_bytes(signed) == b"accessKeytokvalueAvalueBbody-bytes"
    assert signed.ext["Signature"] == signature_of(b"accessKeytokvalueAvalueBbody-bytes", "s\u00e9cret78")
    assert "SecurityToken" not in USER.sign(command).ext
    assert command.ext == {"b": "valueB", "a": "valueA"}


def test_older_clients_add_a_field_after_they_have_signed() -> None:
    ext = {"topic": "t", "_UNIQUE_KEY_QUERY": "true"}
    assert signed_bytes(Command(12, ext=ext, version=399)) == b"t"
    assert signed_bytes(Command(12, ext=ext, version=401)) == b"truet"


@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_signed_request_is_admitted_after_its_frame(serialization: Serialization) -> None:
    command = Command(10, ext={"topic": "topicB", "flag": "0"}, body=bytes(range(256)), serialization=serialization)
    frame = b"".join(map(bytes, encode(USER.sign(command))))
    assert RULES.check(decode(frame[4:]), HOST) == "RocketMQ"


@given(st.dictionaries(st.text("abAB", min_size=1), st.text(max_size=5), max_size=4), st.binary(max_size=20), st.data())
def test_no_change_of_a_signed_request_is_admitted(ext: dict[str, str], body: bytes, data: st.DataObject) -> None:
    signed = ADMIN.sign(Command(34, ext=ext, body=body))
    RULES.check(attrs.evolve(signed, body=body), HOST)
    changed = data.draw(st.sampled_from(["body", "value", "more", "signature", "none"]))
    bad_ext = dict(signed.ext)
    match changed:
        case "body":
            signed = attrs.evolve(signed, body=body + b"x")
        case "value":
            name = data.draw(st.sampled_from(sorted(set(bad_ext) - {"AccessKey", "Signature"}) or ["x"]))
            bad_ext[name] = bad_ext.get(name, "") + "x"
        case "more":
            bad_ext["zz"] = "x"
        case "signature":
            bad_ext["Signature"] = bad_ext["Signature"][:-2] + "a="
        case _:
            del bad_ext["Signature"]
    bad = attrs.evolve(signed, ext=bad_ext)
    if bad.ext.get("Signature") == ADMIN.sign(attrs.evolve(bad, ext={**bad.ext})).ext["Signature"]:
        return
    with pytest.raises(AclRefused, match="Check signature failed for accessKey=rocketmq2"):
        RULES.check(bad, HOST)


# ---------------------------------------------------------------- decisions


def request(code: int, **ext: str) -> Command:
    return Command(code, ext=ext)


def refusal(command: Command, *, by: Credentials | None = USER, host: str = HOST, rules: AclRules = RULES) -> str:
    """The reason of a refusal; empty if the request is admitted."""
    try:
        rules.check(command if by is None else by.sign(command), host)
    except AclRefused as refused:
        return str(refused).removeprefix("org.apache.rocketmq.acl.common.AclException: ")
    return ""


SEND, SEND_V2, PULL = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
NO = "No default permission for "
CASES: list[tuple[Command, str]] = [
    (request(SEND, topic="topicB"), ""),
    (request(SEND, topic="topicA"), NO + "topic:topicA"),
    (request(SEND, topic="topicC"), NO + "topic:topicC"),
    (request(SEND, topic="topicD"), NO + "topic:topicD"),
    (request(SEND, topic="other"), NO + "topic:other"),
    (request(SEND_V2, b="topicB"), ""),
    (request(SEND_V2, b="topicA"), NO + "topic:topicA"),
    (request(RequestCode.SEND_BATCH_MESSAGE, b="topicC"), NO + "topic:topicC"),
    (request(SEND, topic="%RETRY%groupB"), ""),
    (request(SEND, topic="%RETRY%groupA"), NO + "group:groupA"),
    (request(SEND, topic="RMQ_SYS_TRACE_TOPIC"), ""),
    (request(PULL, topic="RMQ_SYS_TRACE_TOPIC", consumerGroup="g"), NO + "topic:RMQ_SYS_TRACE_TOPIC"),
    (request(PULL, topic="topicC", consumerGroup="groupB"), ""),
    (request(PULL, topic="topicC", consumerGroup="new"), ""),
    (request(PULL, topic="topicC", consumerGroup="groupA"), NO + "group:groupA"),
    (request(PULL, topic="topicA", consumerGroup="groupB"), NO + "topic:topicA"),
    (request(RequestCode.LITE_PULL_MESSAGE, topic="topicA", consumerGroup="g"), NO + "topic:topicA"),
    (request(RequestCode.QUERY_MESSAGE, topic="topicA"), NO + "topic:topicA"),
    (request(RequestCode.CONSUMER_SEND_MSG_BACK, group="groupA"), NO + "group:groupA"),
    (request(RequestCode.CONSUMER_SEND_MSG_BACK, group="groupB", originTopic="topicC"), NO + "topic:topicC"),
    (request(RequestCode.CONSUMER_SEND_MSG_BACK, group="groupB", originTopic="topicB"), ""),
    (request(RequestCode.UNREGISTER_CLIENT, clientID="c", consumerGroup="groupA"), NO + "group:groupA"),
    (request(RequestCode.UNREGISTER_CLIENT, clientID="c", producerGroup="p"), ""),
    (request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="groupA"), NO + "group:groupA"),
    (request(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="groupB", topic="topicA"), NO + "topic:topicA"),
    (request(RequestCode.GET_MAX_OFFSET, topic="topicA"), ""),
    (
        request(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="topicB"),
        "Need admin permission for request code=17, but accessKey=RocketMQ is not",
    ),
]


@pytest.mark.parametrize(("command", "reason"), CASES, ids=[f"{c.code}-{n}" for n, (c, _) in enumerate(CASES)])
def test_an_account_may_do_what_its_permissions_say(command: Command, reason: str) -> None:
    assert refusal(command) == reason
    assert refusal(command, by=ADMIN) == "", "an administrator without permissions of its own may do everything"


def test_a_heartbeat_needs_its_groups_and_subscriptions() -> None:
    def heartbeat(group: str, topic: str) -> Command:
        subscription = SubscriptionData(topic=topic, sub_string="*")
        consumer = ConsumerData(group_name=group, subscription_data_set=(subscription,))
        return Command(
            RequestCode.HEART_BEAT, body=HeartbeatData(client_id="c", consumer_data_set=(consumer,)).encode()
        )

    assert refusal(heartbeat("groupB", "topicC")) == ""
    assert refusal(heartbeat("groupB", "%RETRY%groupB")) == ""
    assert refusal(heartbeat("groupA", "topicC")) == NO + "group:groupA"
    assert refusal(heartbeat("groupB", "topicA")) == NO + "topic:topicA"
    assert list(needed_by(heartbeat("groupB", "topicC"))) == [("%RETRY%groupB", Perm.SUB), ("topicC", Perm.SUB)]


def test_who_has_no_account_is_refused_in_rocketmqs_words() -> None:
    command = request(SEND, topic="topicB")
    assert refusal(command, by=None) == "No accessKey is configured"
    assert refusal(command, by=Credentials("nobody7", "12345678")) == "No acl config for nobody7"
    assert refusal(command, by=Credentials("RocketMQ", "wrong678")) == "Check signature failed for accessKey=RocketMQ"


def test_addresses_that_are_trusted_need_no_account_or_no_signature() -> None:
    command = request(SEND, topic="topicA")
    assert refusal(command, by=None, host="10.10.103.200") == ""
    assert refusal(command, by=None, host="192.168.0.7") == ""
    assert refusal(command, by=None, host="192.168.0.8") == "No accessKey is configured"
    unsigned = request(SEND, topic="topicA", AccessKey="rocketmq2")
    assert refusal(unsigned, by=None, host="192.168.1.9") == ""
    assert refusal(unsigned, by=None) == "Check signature failed for accessKey=rocketmq2"


def test_an_administrator_with_permissions_of_its_own_has_these() -> None:
    account = attrs.evolve(RULES.accounts["rocketmq2"], perms={"topicA": Perm.PUB}, default_topic_perm=Perm.SUB)
    rules = AclRules({"rocketmq2": account})
    assert refusal(request(SEND, topic="topicA"), by=ADMIN, rules=rules) == ""
    assert refusal(request(SEND, topic="x"), by=ADMIN, rules=rules) == NO + "topic:x"
    assert refusal(request(RequestCode.UPDATE_BROKER_CONFIG), by=ADMIN, rules=rules) == ""


def test_every_request_that_changes_the_broker_for_all_needs_an_administrator() -> None:
    assert {17, 18, 25, 200, 207, 215, RequestCode.COPY_COMMIT_LOG, RequestCode.DECIDE_DIVERGENCE} <= ADMIN_CODES


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [], [HOST, "::1"]),
        ("*", [HOST, "::1"], []),
        ("*.*.*.*", [HOST], []),
        ("127.0.0.1", [HOST], ["127.0.0.2", "no address"]),
        ("127.0.0.1,127.0.0.3", [HOST, "127.0.0.3"], ["127.0.0.2"]),
        ("127.0.0.{1,3}", [HOST, "127.0.0.3"], ["127.0.0.2"]),
        ("127.0.0.{1,3},10.0.0.*", ["127.0.0.3", "10.0.0.255"], ["10.0.1.0"]),
        ("10.1-2.*.5", ["10.1.9.5", "10.2.0.5"], ["10.3.9.5", "10.1.9.6"]),
        ("2001:db8::1", ["2001:0DB8:0:0:0:0:0:1", "[2001:db8::1]"], ["2001:db8::2", HOST]),
    ],
)
def test_addresses_are_those_of_rocketmq(text: str, matching: list[str], others: list[str]) -> None:
    addresses = Addresses.parse(text)
    assert all(map(addresses.match, matching))
    assert not any(map(addresses.match, others))


@pytest.mark.parametrize("text", ["127.0.0", "127.0.0.256", "127.0.0.5-2", "a.b.c.d", "127.0.0.{1,x}", "fe80::x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"addr|Only hex|allowed"):
        Addresses.parse(text)


# ---------------------------------------------------------------- the file


def test_the_file_is_read_as_it_is_meant() -> None:
    user, admin = RULES.accounts.values()
    assert (user.admin, admin.admin) == (False, True)
    assert user.perms == {
        "topicA": Perm.DENY,
        "topicB": Perm.PUB | Perm.SUB,
        "topicC": Perm.SUB,
        "topicD": Perm.PUB | Perm.DENY,
        "%RETRY%groupA": Perm.DENY,
        "%RETRY%groupB": Perm.PUB | Perm.SUB,
    }
    assert (user.default_topic_perm, user.default_group_perm) == (Perm.DENY, Perm.SUB)
    assert "12345678" not in repr(RULES), "a secret is not printed"


def test_a_file_without_accounts_admits_nobody() -> None:
    for text in ("", "# nothing\n", "accounts:\n", "globalWhiteRemoteAddresses: []\n"):
        assert refusal(request(SEND, topic="t"), rules=read_rules(text)) == "No acl config for RocketMQ"


ACCOUNT = "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("account:\n- x\n", "line 2: account is not known"),
        ("accounts:\n- accessKey: short\n  secretKey: 12345678\n", "line 2: accessKey and secretKey must be there"),
        ("accounts:\n- accessKey: RocketMQ\n", "longer than 6"),
        (ACCOUNT + "  topicPerm: x\n", "line 4: topicPerm is not known"),
        (ACCOUNT + "  admin: yes\n", "line 4: admin is true or false"),
        (ACCOUNT + "  topicPerms:\n  - a=READ\n", "line 5: 'READ' is no permission"),
        (ACCOUNT + "  topicPerms:\n  - a\n", "line 5: 'a': a permission is written as"),
        (ACCOUNT + "  topicPerms: a=PUB\n", "line 4: topicPerms is a list"),
        (ACCOUNT + "  whiteRemoteAddress: 1.2.3\n", "line 4: '1.2.3' is no address"),
        (ACCOUNT + ACCOUNT.split("\n", 1)[1], "line 4: the accessKey RocketMQ is repeated"),
        (ACCOUNT + "  secretKey: 87654321\n", "line 4: secretKey is there twice"),
        (ACCOUNT + "   admin: true\n", "line 4: the indent fits no line above"),
        (ACCOUNT + "\tadmin: true\n", "line 4: indent with spaces"),
        (ACCOUNT + " " * 65 + "admin: true\n", "line 4: the indent is wider than 64"),
        (ACCOUNT + "  admin: !!python/object true\n", "line 4: '!!python/object true' is YAML that is not read"),
        (ACCOUNT + "  admin: &a true\n", "not read here"),
        (ACCOUNT + "  topicPerms: [a=PUB\n", "a list in brackets ends on its line"),
        (ACCOUNT + "  admin: 'true\n", "a quote is not closed"),
        (ACCOUNT + "  admin true\n", "line 4: 'admin true' is not name: value"),
        ("- a\n", "line 1"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(InvalidAclFile) as caught:
        read_rules(text)
    assert reason in str(caught.value)


@given(st.text(st.sampled_from("ac:- \n#'\"[]{}=|\t1"), max_size=60))
def test_any_text_is_a_file_or_refused(text: str) -> None:
    for whole in (text, ACCOUNT + text):
        with contextlib.suppress(InvalidAclFile):
            read_rules(whole)


@pytest.mark.parametrize("whole", [{"code": 34}])
def test_a_request_without_fields_is_refused(whole: dict[str, Any]) -> None:
    assert refusal(Command(**whole), by=None) == "No accessKey is configured"
