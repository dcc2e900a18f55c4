"""Requests of every code of RocketMQ's ports with values that a client should not send, and frames that are damaged.

They are made from the tables of headers and from examples of bodies; what is written on the wire is written here. Nothing here can undo what a
healthy client was promised: its topic and its broker's name are only ever read, and no settings are changed that it depends on.
"""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

import attrs

from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.headers import (
    auth,
    clients,
    copying,
    divergence,
    offsets,
    pulling,
    routes,
    sending,
    topics,
)
from rocketmq_compat.remoting.headers.fields import plan
from tests.fuzz import unserved_headers

BROKER_NAME, CLUSTER = "fuzzed-broker", "fuzzed-cluster"
HEALTHY, TARGET, WAITED, QUIET = "healthy-messages", "fuzz-target", "fuzz-waited", "fuzz-quiet"
"""Topics: of the healthy client, of the frames, of pulls that wait, and one whose settings no frame changes."""
MESSAGE_BYTES_MAX = 256 * 1024
"""The limit of the broker under test; it keeps the disk small."""
SENDS = (10, 310, 320, 324, 325, 36)
PULLS = (11, 361)
READS = (11, 12, 14, 29, 30, 31, 32, 33, 105, 351, 361)
"""Requests that only read, so that they may name the healthy topic."""
LETTERS = (310, 320, 325)
"""Requests whose fields are named by one letter."""

BROKER: dict[int, Any] = {
    **dict.fromkeys((10, 310, 320, 324, 325), sending.SendMessageRequestHeader),
    **dict.fromkeys(PULLS, pulling.PullMessageRequestHeader),
    12: pulling.QueryMessageRequestHeader,
    13: offsets.QueueRequestHeader,
    14: offsets.QueryConsumerOffsetRequestHeader,
    15: offsets.UpdateConsumerOffsetRequestHeader,
    17: topics.CreateTopicRequestHeader,
    29: offsets.SearchOffsetRequestHeader,
    **dict.fromkeys((30, 31, 32), offsets.QueueRequestHeader),
    33: pulling.ViewMessageRequestHeader,
    35: clients.UnregisterClientRequestHeader,
    36: sending.ConsumerSendMsgBackRequestHeader,
    37: unserved_headers.EndTransactionRequestHeader,
    **dict.fromkeys((38, 203), clients.ConsumerGroupRequestHeader),
    204: clients.ProducerGroupRequestHeader,
    **dict.fromkeys((202, 215, 300, 351), topics.TopicRequestHeader),
    207: topics.DeleteSubscriptionGroupRequestHeader,
    208: topics.GetConsumeStatsRequestHeader,
    222: unserved_headers.ResetOffsetRequestHeader,
    223: unserved_headers.GetConsumerStatusRequestHeader,
    303: unserved_headers.QueryConsumeTimeSpanRequestHeader,
    307: unserved_headers.GetConsumerRunningInfoRequestHeader,
    309: unserved_headers.ConsumeMessageDirectlyRequestHeader,
    343: topics.GroupRequestHeader,
    352: topics.GroupRequestHeader,
    **dict.fromkeys((3001, 3002, 3003, 3004), auth.UserRequestHeader),
    3005: auth.ListUsersRequestHeader,
    **dict.fromkeys((3006, 3007, 3009), auth.AclRequestHeader),
    3008: auth.DeleteAclRequestHeader,
    3010: auth.ListAclsRequestHeader,
    51_901: copying.CopyCommitLogRequestHeader,
    51_902: divergence.DecideDivergenceRequestHeader,
    **dict.fromkeys((18, 21, 25, 26, 28, 34, 41, 42, 43, 45, 46, 200, 201, 305, 345, 907), None),
}
NAMES: dict[int, Any] = {
    100: routes.PutKvConfigRequestHeader,
    **dict.fromkeys((101, 102), routes.KvConfigRequestHeader),
    **dict.fromkeys((103, 104, 322, 904), routes.RegisterBrokerRequestHeader),
    105: routes.GetRouteInfoRequestHeader,
    **dict.fromkeys((205, 327), routes.BrokerNameRequestHeader),
    216: routes.NamesrvTopicRequestHeader,
    217: topics.TopicRequestHeader,
    219: routes.GetKvListRequestHeader,
    224: routes.GetTopicsByClusterRequestHeader,
    901: routes.BrokerMemberGroupRequestHeader,
    **dict.fromkeys((106, 206, 304, 311, 312, 313, 318, 319, 51_903), None),
}
assert set(BROKER) | set(NAMES) >= {*map(int, RequestCode)} - {39, 40, 220, 221, 326}, "a request is not fuzzed"

TOPICS = [
    "",
    ".",
    "..",
    "/",
    "../../escaped",
    "a/b",
    "t" * 127,
    "t" * 128,
    "t" * 300,
    "é" * 64,
    "a\0b",
    "%RETRY%g",
    "%DLQ%g",
]
TOPICS += [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "TBW102",
    "%RETRY%" + "g" * 300,
    "a b",
    "a\nb",
    "|",
    "con",
]
GROUPS = ["g", "g", "g", "group", "", "../g", "x" * 120, "x" * 121, "é", "CID_RMQ_SYS_x", "a\0b"]
TEXTS = [
    "",
    "a",
    "*",
    "TagA || TagB",
    "||",
    "a AND b",
    "SQL92",
    "TAG",
    "x" * 5_000,
    "é" * 300,
    "-1",
    "{}",
    "\x01\x02",
    "x" * 40_000,
]
PROPERTIES = [
    "",
    "UNIQ_KEY\1k\2KEYS\1a b c\2",
    "DELAY\x013\2",
    "DELAY\x01-3\2",
    "DELAY\1999999999999999999999\2",
    "DELAY\1x\2",
]
PROPERTIES += [
    "TRAN_MSG\1true\2",
    "WAIT\1false\2",
    "\1\2\1\2",
    "no separator",
    "TAGS\1" + "t" * 300 + "\2",
    "KEYS\1" + "k " * 1_000 + "\2",
]
PROPERTIES += [
    "TIMER_DELAY_MS\0011\2",
    "TIMER_DELAY_SEC\1-9\2",
    "TIMER_DELIVER_MS\1" + "9" * 19 + "\2",
    "TIMER_DELAY_MS\1" + "9" * 5_000 + "\2",
    "TIMER_DELAY_SEC\1\u0663\2",
    "TIMER_OUT_MS\1x\2REAL_TOPIC\1../x\2REAL_QID\1-1\2",
    "TIMER_DEL_UNIQKEY\1k\2TIMER_DELAY_MS\0019\2",
    "REPLY_TO_CLIENT\1fuzzed\2CORRELATION_ID\1c\2",
    "CLUSTER\1\2MSG_REGION\1\2TRACE_ON\1\2",
]
PROPERTIES += ["k\1" + "v" * 33_000 + "\2", "é\1é\2", "DELAY\x013\2k\1a\1b\2", "UNIQ_KEY\1\2KEYS\1\2", "PGROUP\1g\2"]
WRONG: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    -(2**63) - 1,
    10**400,
    "",
    " 7 ",
    "0x7",
    "1e3",
    "NaN",
    "٣",
    [],
    {},
]
WRONG += [[[[]]], {"a": {"b": 1}}, "7" * 5_000, "\0", "true", "maybe"]
COUNTS = [-1, 2**31 - 1, -(2**31), 2**31 - 2, 65_536]
CONFIGS = [
    "",
    "=",
    "a=b",
    "nonsense",
    "brokerRole=SLAVE",
    "listenPort=-5",
    "maxMessageSize=lots",
    "#",
    "=\n=\n",
    "x" * 70_000,
    "\0=\0",
]
ADDRESSES = [
    "127.0.0.1:1",
    "127.0.0.1:2",
    "",
    "nowhere",
    ":",
    "127.0.0.1:99999999",
    "[::1]:1",
    "127.0.0.1:-1",
    "é:1",
    "a" * 300 + ":1",
]

_INNER = struct.Struct(">iIIiI")


@attrs.frozen
class Frame:
    """Bytes to send to a port, and what is wrong with them."""

    data: bytes = attrs.field(repr=lambda data: repr(data[:500]))
    flaw: str

    @property
    def whole(self) -> bool:
        """True if the server need not wait for more, and gets no frame after it."""
        return len(self.data) >= 8 and struct.unpack_from(">I", self.data)[0] == len(self.data) - 4


# Frames


def json_frame(
    code: Any, ext: dict[str, Any], body: bytes = b"", *, opaque: Any = 1, flag: Any = 0, **more: Any
) -> bytes:
    """A frame with a JSON header."""
    header = {
        "code": code,
        "language": "JAVA",
        "version": 401,
        "opaque": opaque,
        "flag": flag,
        "extFields": ext,
        **more,
    }
    return pack_frame(0, json.dumps(header).encode(), body)


def binary_frame(
    code: int, ext: dict[str, Any], body: bytes = b"", *, opaque: int = 1, flag: int = 0, remark: str = ""
) -> bytes:
    """A frame with a header of RocketMQ's own."""
    fields = b""
    for name, value in ext.items():
        key, content = name.encode(), format_value(value).encode(errors="replace")
        fields += struct.pack(">h", len(key)) + key + struct.pack(">i", len(content)) + content
    told = remark.encode()
    head = struct.pack(">hBhiii", code, 0, 401, opaque, flag, len(told)) + told
    return pack_frame(1, head + struct.pack(">i", len(fields)) + fields, body)


def pack_frame(serialization: int, header: bytes, body: bytes) -> bytes:
    """Returns the frame of a header and a body."""
    return struct.pack(">II", 4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


def format_value(value: Any) -> str:
    """Returns the value of an ext field as text."""
    return value if isinstance(value, str) else json.dumps(value)


# Values


def number(bits: int, rng: random.Random) -> int:
    """An end of the range, a small number or any."""
    last = 2 ** (bits - 1)
    choice = rng.random()
    if choice < 0.5:
        return rng.choice([0, 0, 0, 1, 1, -1, 2, 3, 32])
    return rng.choice([-last, last - 1, -2, last, 100_000]) if choice < 0.75 else rng.randrange(-last, last)


def field_value(name: str, code: int, rng: random.Random) -> Any:
    """A value for an ext field, hostile to its meaning now and then."""
    choice = rng.random()
    if choice < 0.06:
        return rng.choice(WRONG)
    hostile = choice < 0.25
    match name:
        case "topic" | "originTopic" | "defaultTopic":
            if not hostile:
                return HEALTHY if code in READS and rng.random() < 0.2 else TARGET
            return rng.choice(TOPICS)
        case "consumerGroup" | "producerGroup" | "group" | "groupName" | "clientID" | "clientId":
            return rng.choice(GROUPS if hostile else GROUPS[:4])
        case "queueId":
            return str(number(32, rng)) if hostile else "0"
        case "offset" | "queueOffset" | "commitOffset" | "commitLogOffset" | "tranStateTableOffset":
            return str(number(64, rng) if hostile else rng.randrange(0, 40_000))
        case "properties":
            return rng.choice(PROPERTIES) if rng.random() < 0.7 else ""
        case "suspendTimeoutMillis":
            return str(number(64, rng)) if hostile else rng.choice(["0", "1", "5"])
        case "sysFlag":
            return str(number(32, rng) if hostile else rng.randrange(32))
        case "readQueueNums" | "writeQueueNums" | "defaultTopicQueueNums":
            return str(number(32, rng)) if hostile else rng.choice(["1", "4", "8"])
        case "perm":
            return str(number(32, rng)) if hostile else "6"
        case "brokerAddr" | "haServerAddr":
            return rng.choice(ADDRESSES if hostile else ADDRESSES[:2])
        case "brokerName" | "clusterName" | "cluster" | "bname":
            return rng.choice(["", "rogue", "rogue-2", "x" * 300, "é", "../rogue"]) if hostile else "rogue"
        case "brokerId":
            return str(number(64, rng)) if hostile else rng.choice("012")
        case "subscription" | "expressionType" | "topicFilterType" | "key" | "namespace" | "value" | "jstackEnable":
            return rng.choice(TEXTS if hostile else TEXTS[:4])
        case (
            "compressed"
            | "batch"
            | "unitMode"
            | "order"
            | "cleanOffset"
            | "setZeroIfNotFound"
            | "isForce"
            | "_UNIQUE_KEY_QUERY"
        ):
            return rng.choice(["true", "false", "1", "0", "", "True", "maybe"] if hostile else ["true", "false"])
        case _:
            return str(number(rng.choice([32, 64]) if hostile else 16, rng))


def ext_fields(code: int, table: Any, rng: random.Random) -> dict[str, Any]:
    """Ext fields for a request; some are missing, some are not the request's."""
    ext: dict[str, Any] = {}
    if table is not None:
        for letter, field in zip("abcdefghijklmnopqrstuvwxyz", plan(table), strict=False):
            if rng.random() < (0.98 if field.required else 0.5):
                value = field_value(field.name, code, rng)
                ext[letter if code in LETTERS else field.name] = value
    if rng.random() < 0.03:
        ext[rng.choice(["", "é", "x" * 300, "a\0"])] = rng.choice(TEXTS)
    if rng.random() < 0.005:
        ext |= {f"field{each}": "" for each in range(3_000)}
    return ext


# Bodies


def batch(rng: random.Random) -> bytes:
    """The messages of a batch, whose inner lengths may lie."""
    messages = b""
    for _ in range(rng.choice([0, 1, 1, 2, 3, 200])):
        body, properties = rng.randbytes(rng.choice([0, 1, 20, 300])), rng.choice(PROPERTIES[:6]).encode()
        sizes = [_INNER.size + len(body) + 2 + len(properties), len(body), len(properties)]
        if rng.random() < 0.1:
            at = rng.randrange(3)
            sizes[at] = rng.choice([0, max(0, sizes[at] - 1), sizes[at] + 1, 2**31 - 1, 0xFFFF])
        inner = _INNER.pack(min(sizes[0], 2**31 - 1), 0, 0, 0, sizes[1]) + body
        messages += inner + struct.pack(">H", min(sizes[2], 0xFFFF)) + properties
    return messages if rng.random() < 0.9 else messages[: rng.randrange(len(messages) + 1)]


def forged_record(rng: random.Random) -> bytes:
    """Returns bytes that resemble a stored record; a request for an offset in the middle of a message may find them in its body."""
    topic, properties = (
        rng.choice([b"fuzz-target", b"\xff\xfe", b"..", b"t" * 127]),
        rng.choice([b"", b"DELAY\x013\2", b"\xff"]),
    )
    body = rng.randbytes(rng.choice([0, 20]))
    fixed = struct.calcsize(">IIIiiqqiq8sq8siqI")
    size = fixed + len(body) + 1 + len(topic) + 2 + len(properties)
    size = rng.choice([size, size, size - 1, size + 1, 2**31 - 1, 2**32 - 1, fixed])
    magic = rng.choice([0xDAA320A7, 0xDAA320A7, 0xDAA320A7, 0xDAA320A4, 0xDAA320AB])
    head = struct.pack(
        ">IIIiiqqiq8sq8siqI", size, magic, 0, 0, 0, 0, rng.randrange(40_000), rng.choice([0, 16, 32, 8]), 0, bytes(8), 0,
        bytes(8), rng.choice([0, -1, 2**31 - 1]), 0, rng.choice([len(body), len(body), 2**31 - 1]),
    )  # fmt: skip
    return head + body + bytes((len(topic),)) + topic + struct.pack(">H", len(properties)) + properties


def some_json(rng: random.Random) -> Any:
    """A value that should not be where it is."""
    return rng.choice([None, True, -1, 2**64, 1.5, "", "x" * 300, [], {}, [[]], {"a": 1}, [0] * 100, "..", 10**30])


def deform(value: Any, rng: random.Random) -> Any:
    """One place of nested JSON changed in kind, in range or in number."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        changed = {**value, key: deform(value[key], rng)}
        if rng.random() < 0.1:
            del changed[key]
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], deform(value[at], rng), *value[at + 1 :]]
    return some_json(rng)


def _heartbeat(rng: random.Random) -> Any:
    subscriptions = [
        {
            "topic": rng.choice([TARGET, *TOPICS]),
            "subString": rng.choice(TEXTS),
            "subVersion": number(64, rng),
            "tagsSet": [],
            "codeSet": [1],
        }
        for _ in range(rng.choice([0, 1, 2, 50]))
    ]
    consumer = {
        "groupName": rng.choice(GROUPS), "consumeType": rng.choice(["CONSUME_PASSIVELY", "CONSUME_ACTIVELY", 0, 1, 2, ""]),
        "messageModel": rng.choice(["CLUSTERING", "BROADCASTING", 0, 1]), "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions, "unitMode": False,
    }  # fmt: skip
    return {
        "clientID": rng.choice(GROUPS),
        "producerDataSet": [{"groupName": rng.choice(GROUPS)}],
        "consumerDataSet": [consumer],
    }


def _locks(rng: random.Random) -> Any:
    queues = [
        {"brokerName": BROKER_NAME, "queueId": number(32, rng), "topic": rng.choice([TARGET, *TOPICS])}
        for _ in range(3)
    ]
    return {"consumerGroup": rng.choice(GROUPS), "clientId": rng.choice(GROUPS), "mqSet": queues}


def _group(rng: random.Random) -> Any:
    return {
        "groupName": rng.choice(GROUPS),
        "consumeEnable": True,
        "retryQueueNums": number(32, rng),
        "retryMaxTimes": number(32, rng),
    }


def _topics(rng: random.Random) -> Any:
    names = rng.sample(TOPICS, 3)
    configs = {
        name: {"topicName": name, "readQueueNums": number(32, rng), "writeQueueNums": 4, "perm": 6} for name in names
    }
    version = {"stateVersion": number(64, rng), "timestamp": 0, "counter": number(64, rng)}
    return {
        "topicConfigSerializeWrapper": {"topicConfigTable": configs, "dataVersion": version},
        "filterServerList": [],
    }


def _topic_route(rng: random.Random) -> Any:
    data = {"brokerName": rng.choice(["rogue", BROKER_NAME, ""]), "perm": number(32, rng), "topicSysFlag": 0}
    return {"queueDatas": [{**data, "readQueueNums": number(32, rng), "writeQueueNums": number(32, rng)}] * 2}


def _user(rng: random.Random) -> Any:
    return {
        "username": rng.choice(GROUPS),
        "password": rng.choice(TEXTS),
        "userType": rng.choice(["Super", "Normal", "", 1]),
        "userStatus": rng.choice(["enable", "disable", "", None]),
    }


def _acl(rng: random.Random) -> Any:
    entry = {
        "resource": rng.choice(["Topic:*", "Group:" + rng.choice(GROUPS), "Topic:" + rng.choice(TOPICS), "*", ":"]),
        "actions": rng.sample(["Pub", "Sub", "All", "Any", "", "x"], 2),
        "sourceIps": rng.choice([None, [], ["127.0.0.1/33"], ["::/0", "10.0.0.0/8"], ["x" * 300]]),
        "decision": rng.choice(["Allow", "Deny", "", 7]),
    }
    policy = {"policyType": rng.choice(["Custom", "Default", ""]), "entries": [entry] * rng.choice([0, 1, 50])}
    return {"subject": "User:" + rng.choice(GROUPS), "policies": [policy] * rng.choice([0, 1, 3])}


JSON_BODIES: dict[int, Callable[[random.Random], Any]] = {
    34: _heartbeat, 41: _locks, 42: _locks, 200: _group, 103: _topics, 217: _topic_route, 322: lambda rng: {"stateVersion": 0, "counter": number(64, rng)},
    18: lambda rng: {"topicConfigList": [{"topicName": rng.choice(TOPICS)}]}, 46: lambda rng: {"clientId": "c", "group": "g"},
    3001: _user, 3002: _user, 3006: _acl, 3007: _acl,
}  # fmt: skip


def json_text(code: int, rng: random.Random) -> bytes:
    """The JSON body of a request, more or less."""
    value = JSON_BODIES[code](rng)
    choice = rng.random()
    if choice < 0.45:
        value = deform(value, rng)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if choice > 0.85:
        for name in ("queueId", "topic", "groupName", "clientID"):  # keys without quotes, as fastjson may write them
            text = text.replace(f'"{name}":', f"{name}:")
    data = text.encode(errors="replace")
    match rng.randrange(40):
        case 0:
            depth = rng.choice([60, 70, 1_000, 100_000])
            return b"[" * depth + b"]" * depth
        case 1:
            return b'{"clientID":' * rng.choice([100, 20_000])
        case 2:
            return b"{1:2,{queueId:1}:[" + b"1," * rng.choice([10, 50_000])
        case 3:
            return data.replace(b'"', rng.choice([b"'", b"\xff", b'\\"']))
        case 4:
            return b'{"clientID":"\\ud800"}'
        case 5:
            return b""
        case _:
            return data


def body_of(code: int, rng: random.Random) -> bytes:
    """A body for a request."""
    if code in JSON_BODIES:
        return json_text(code, rng)
    match code:
        case 320:
            return batch(rng)
        case 10 | 310:
            return (
                forged_record(rng)
                if rng.random() < 0.4
                else rng.randbytes(rng.choice([0, 1, 30, 300, MESSAGE_BYTES_MAX + 1]))
            )
        case 25 | 318:
            return rng.choice(CONFIGS).encode()
        case _:
            return rng.randbytes(30) if rng.random() < 0.05 else b""


# Whole frames and damaged ones


def request(table: dict[int, Any], rng: random.Random) -> tuple[bytes, int]:
    """A frame that can be decoded, and where its body begins."""
    code = rng.choice(SENDS) if table is BROKER and rng.random() < 0.25 else rng.choice(list(table))
    ext, body = ext_fields(code, table[code], rng), body_of(code, rng)
    flag = rng.choice([2, 1, 3, -1, 2**31 - 1]) if rng.random() < 0.04 else 0
    opaque = rng.choice([0, -1, 2**31 - 1, -(2**31)]) if rng.random() < 0.1 else rng.getrandbits(30)
    if rng.random() < 0.5 and code < 2**15:
        return binary_frame(code, ext, body, opaque=opaque, flag=flag, remark=rng.choice(["", "", "é" * 50])), len(body)
    more: dict[str, Any] = {}
    if rng.random() < 0.05:
        more = rng.choice(
            [
                {"language": 300},
                {"language": "COBOL"},
                {"remark": "r"},
                {"version": -1},
                {"x": [[[]]]},
                {"extFields": None},
            ]
        )
    return json_frame(code, ext, body, opaque=opaque, flag=flag, **more), len(body)


def fuzzed_frame(table: dict[int, Any], rng: random.Random) -> Frame:
    """A frame and what is wrong with it; most reach the handler of their code."""
    frame, body_bytes = request(table, rng)
    choice = rng.random()
    if choice < 0.68:
        return Frame(frame, "values")
    if choice < 0.86:
        return Frame(fix_length(mutate_frame(bytearray(frame), body_bytes, rng)), "mutated")
    return damage_frame(bytearray(frame), rng)


def damage_frame(data: bytearray, rng: random.Random) -> Frame:
    """Returns a frame that most often breaks the framing."""
    match rng.randrange(9):
        case 0:
            return Frame(bytes(data[: rng.randrange(1, len(data))]), "partial")
        case 1:
            struct.pack_into(">I", data, 0, rng.choice([2**32 - 1, 2**31, 2**30, 16 * 2**20 - 3, 0, 1, 3]))
            return Frame(bytes(data), "length")
        case 2:
            struct.pack_into(
                ">I",
                data,
                4,
                rng.choice([0, 1]) << 24 | rng.choice([2**24 - 1, len(data), len(data) - 7, 0, 1, 2**18 + 1]),
            )
            return Frame(bytes(data), "header length")
        case 3:
            data[4] = rng.choice([2, 3, 127, 128, 255])
            return Frame(bytes(data), "serialization")
        case 4:
            return Frame(fix_length(bytearray(4) + rng.randbytes(rng.randrange(4, 300))), "noise")
        case 5:
            code = rng.choice([0, -1, 9, 99, 999, 32_767, -32_768])
            make = binary_frame if rng.random() < 0.5 else json_frame
            return Frame(make(code, {"topic": TARGET}), "code")
        case 6:
            header = rng.choice(
                [
                    b"",
                    b"{",
                    b"[]",
                    b"null",
                    b'{"code":"10"}',
                    b'{"code":1e1}',
                    b'{"code":10,"extFields":[]}',
                    b"\xff\xfe",
                ]
            )
            header = rng.choice(
                [header, b"[" * 100_000, b'{"code":10,"extFields":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"]
            )
            return Frame(pack_frame(0, header, b"body"), "header")
        case 7:
            return Frame(json_frame(10, {"topic": "x" * rng.choice([250_000, 262_000, 300_000])}), "large header")
        case _:
            return Frame(
                json_frame(rng.choice([True, None, 2**31, "10", [10]]), {}, opaque=rng.choice([1, None, 2**31, "1"])),
                "types",
            )


def fix_length(data: bytearray) -> bytes:
    """Returns the frame with its length put right."""
    struct.pack_into(">I", data, 0, len(data) - 4)
    return bytes(data)


def mutate_frame(frame: bytearray, body_bytes: int, rng: random.Random) -> bytearray:
    """Returns the frame, changed behind the length of its header: three times in five in the body, if there is one."""
    first = len(frame) - body_bytes if body_bytes and rng.random() < 0.6 else 8
    at = rng.randrange(first, len(frame))
    match rng.randrange(4):
        case 0:
            for _ in range(rng.choice([1, 1, 4])):
                frame[rng.randrange(first, len(frame))] ^= 1 << rng.randrange(8)
        case 1:
            del frame[at:]
        case 2:
            frame[at:at] = rng.randbytes(rng.randrange(1, 40))
        case _:
            absurd = rng.choice([struct.pack(">i", rng.choice(COUNTS)), b"\xff" * 10, b"\0", b'":', b"}}"])
            frame[at : at + len(absurd)] = absurd
    return frame
