"""Requests of every API and version of the Kafka port with values that a client should not send, and frames that are damaged.

They are made from the tables of the protocol: a random value for each field, drawn from what is hostile to its type and name.
Nothing here can undo what a healthy client was promised: its topic is only ever read.
"""

import math
import random
import struct
from collections.abc import Collection
from typing import Any

import attrs

from kafka_compat.controller import commands as c
from kafka_compat.coordinator.subscription import Assignment, EmbeddedPartitions, Subscription
from kafka_compat.model import TopicPartition
from kafka_compat.protocol import schema
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.controller import CONTROLLER_COMMAND
from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, encode_batch_header
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.errors import CannotEncode
from kafka_compat.protocol.registry import APIS, BROKER_APIS
from kafka_compat.protocol.schema import NO_UUID, NamedField, rows
from kafka_compat.records import encode_records, encode_varint
from raft.net.decoder import Buffer
from tests.fuzz.wire import CLIENT_REQUESTS, PEER_MESSAGES, damaged_frame
from tests.kafka_compat.packers import PACKERS

CLUSTER = "fuzz"
HEALTHY, TARGET = "healthy-records", "fuzz-target"
READS = (1, 2, 3, 23, 75)
"""APIs that only read, so that they may name the healthy topic."""
ALL: dict[int, Api[Any, Any]] = {**APIS, **BROKER_APIS}
VERSIONS = [(api, version) for _, api in sorted(ALL.items()) for version in api.versions]
TOPICS = ["", ".", "..", "/", "../../escaped", "a/b", "t" * 249, "t" * 250, "é" * 64, "a\0b", "__consumer_offsets"]
TEXTS = [
    "",
    "g",
    "group",
    "x" * 5_000,
    "é" * 300,
    "-1",
    "retention.ms",
    "cleanup.policy",
    "range",
    "consumer",
    "x" * 40_000,
]
BAD_SETTINGS = [
    ("segment.bytes", "garbage"),
    ("min.insync.replicas", "-1"),
    ("retention.ms", ""),
    ("message.max.bytes", "9" * 5_000),
    ("no.such.setting", "1"),
    ("unclean.leader.election.enable", "perhaps"),
]
OF_CONFIGS, OF_GROUPS = (33, 44), (11, 12, 13, 14, 68, 69)
"""APIs whose names are of settings, and APIs of members of groups."""
THROTTLES = [f"{role}.replication.throttled.{what}" for role in ("leader", "follower") for what in ("rate", "replicas")]
THROTTLE_VALUES = ["*", "", "none", "0:1", "0:1,1:2", "0:1:2", "0", "-1", "1048576", "9" * 40, "0:1," * 5_000]
FEATURES = ["metadata.version", "transaction.version", "group.version", "eligible.leader.replicas.version", "", "x"]
EXPRESSIONS = [
    "",
    "t.*",
    "[^t]+",
    "(",
    "[",
    "(a|b)*c",
    "((a{900}){900}){900}",
    "(x*)*" * 200,
    r"\p{Greek}",
    "|" * 5_000,
]
BASE_MS = 1_700_000_000_000
NO_MEMBER = ("member_id", "generation_id", "generation_id_or_member_epoch")
REPEATED, REPEATED_SHARE, REPEATED_BYTES_MAX = 1_000, 0.02, 1_000
"""The entries of an array are repeated so often, in this share of the requests, if a request is not longer."""
COUNTS = [-1, 2**31 - 1, -(2**31), 2**31 - 2, 65_536]


@attrs.frozen
class FuzzedFrame:
    """Bytes to send; `whole` if they are exactly one frame of Kafka's wire, whose header begins with what is stated."""

    data: bytes = attrs.field(repr=lambda data: f"{data[:200]!r} of {len(data)} bytes")
    flaw: str

    @property
    def native(self) -> bool:
        """True if the connection becomes one of the raft wire: its first byte after the length is 1."""
        return self.flaw == "native" or self.data[4:5] == b"\x01"

    @property
    def whole(self) -> bool:
        """True if the broker need not wait for more, and gets no frame after it."""
        return not self.native and len(self.data) >= 4 and struct.unpack_from(">i", self.data)[0] == len(self.data) - 4

    @property
    def key(self) -> int:
        """The API, -1 where the header is cut."""
        return int(struct.unpack_from(">h", self.data, 4)[0]) if len(self.data) >= 12 else -1

    @property
    def version(self) -> int:
        """Of the request."""
        return int(struct.unpack_from(">h", self.data, 6)[0]) if len(self.data) >= 12 else -1

    @property
    def correlation_id(self) -> int:
        """Of the request."""
        return int(struct.unpack_from(">i", self.data, 8)[0]) if len(self.data) >= 12 else -1

    @property
    def reaches_decoder(self) -> bool:
        """True if the API and the version are served, so that the message itself is looked at."""
        return self.whole and self.key in ALL and self.version in ALL[self.key].versions


def number(bits: int, rng: random.Random) -> int:
    """An end of the range, a small number or any."""
    last = 2 ** (bits - 1)
    choice = rng.random()
    if choice < 0.5:
        return rng.choice([0, 0, 0, 1, 1, -1, 2, 3])
    return rng.choice([-last, last - 1, -2]) if choice < 0.75 else rng.randrange(-last, last)


def batch(rng: random.Random) -> bytes:
    """One batch, right or wrong in one of many ways."""
    if rng.random() < 0.6:
        return whole_batch(rng)
    body = rng.randbytes(rng.choice([0, 1, 20, 300]))
    count = rng.choice([1, 1, 1, 2, 0, -1, 2**31 - 1])
    attributes = rng.choice([0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 48, 0x7FFF, -1])
    header = BatchHeader(
        number(64, rng), 0, number(32, rng), 2, 0, attributes,
        rng.choice([count - 1, count - 1, 0, -1, 2**31 - 1]) if count > -1 else -1,
        number(64, rng), number(64, rng), rng.choice([-1, -1, number(64, rng)]), number(16, rng), number(32, rng), count,
    )  # fmt: skip
    return encode_batch_header(header, body) + body


def whole_batch(rng: random.Random) -> bytes:
    """A batch whose header is right, with records in some codec; of half of them a byte or a few are another, or are missing."""
    count = rng.choice([1, 1, 2, 5, 70, 300])
    fields = [None, b"", b"k", b"v" * 70, bytes(9_000 if count < 10 else 20)]
    times = [rng.choice([0, 0, 1, 100, 9_000, -5, 2**33]) for _ in range(count)]
    content = [(rng.choice(fields), rng.choice(fields)) for _ in range(count)]
    body = encode_records(content, [BASE_MS + each for each in times])[HEADER_BYTES:]
    body = damage_bytes(body, rng) if rng.random() < 0.3 else body
    codec, packed = rng.choice([*PACKERS.values()])(body)
    packed = damage_bytes(packed, rng) if rng.random() < 0.3 else packed
    newest = rng.choice([BASE_MS + max(times), -1, number(64, rng)])
    base = BASE_MS + times[0]
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, base, newest, -1, -1, -1, count)
    return encode_batch_header(header, packed) + packed


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Returns the content with some bytes changed, put in or left out."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 3])):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at:at] = rng.choice(
                    [b"\0", b"\x80\0", b"\xff" * 5, encode_varint(2**31 - 1), encode_varint(-(2**31))]
                )
            case 2 if len(changed) > 1:
                del changed[at]
            case _:
                changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(changed)


def records(rng: random.Random) -> bytes:
    """A record set as Produce has it."""
    data = bytearray(batch(rng))
    match rng.randrange(10):
        case 0:
            del data[rng.randrange(len(data)) :]
        case 1:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 2:
            struct.pack_into(">i", data, 8, rng.choice([*COUNTS, 0, 48, 49, len(data) - 11, len(data) - 13]))
        case 3:
            data += batch(rng)
        case 4:
            data[16] = rng.choice([0, 1, 3, 255])
        case 5:
            data = bytearray(rng.choice([b"", rng.randbytes(100), bytes(1_200_000)]))
        case _:
            pass
    return bytes(data)


def text(name: str, key: int, rng: random.Random) -> str:
    """A text for a field of that name."""
    if name == "cluster_id":
        return rng.choice([CLUSTER, "another", ""])
    if key in OF_CONFIGS and name in ("name", "value"):
        return rng.choice(THROTTLES if name == "name" else THROTTLE_VALUES) if rng.random() < 0.7 else rng.choice(TEXTS)
    if key in OF_CONFIGS and name == "resource_name":
        return rng.choice(["1", "", "2", "01", TARGET, TARGET, "absent", rng.choice(TEXTS)])
    if name == "feature":
        return rng.choice(FEATURES)
    if name == "subscribed_topic_regex":
        return rng.choice(EXPRESSIONS)
    if key in OF_GROUPS and name in ("group_id", "protocol_type", "member_id") and rng.random() < 0.7:
        return {"group_id": rng.choice("gh"), "protocol_type": "consumer"}.get(name) or rng.choice(["", "m", "n"])
    if "topic" in name or name == "name":
        choice = rng.random()
        if choice < 0.5:
            return HEALTHY if key in READS and rng.random() < 0.3 else TARGET
        return rng.choice(TOPICS) if choice < 0.9 else rng.choice(TEXTS)
    return rng.choice(TEXTS)


def scalar(row: NamedField, key: int, rng: random.Random) -> Any:
    """A value of a field that is no message."""
    of = row.field.of
    sizes = {id(schema.INT8): 8, id(schema.INT16): 16, id(schema.INT32): 32, id(schema.INT64): 64}
    if row.name == "acks":
        return rng.choice([-1, 0, 1, 1, -1, 2, -2])
    if row.name in ("partition", "partition_index", "index", "partition_indexes") and rng.random() < 0.6:
        return 0
    if key not in OF_GROUPS and row.name in NO_MEMBER and rng.random() < 0.6:
        return "" if of is schema.STRING else -1  # so that commits need no member
    if row.name == "group_instance_id" and rng.random() < 0.6:
        return None
    if row.name == "broker_id" and key in BROKER_APIS:
        return rng.choice([0, -1, 2, 99, 2**31 - 1])
    if id(of) in sizes:
        return number(sizes[id(of)], rng)
    if of is schema.FLOAT64:
        return rng.choice([0.0, -1.0, 1024.5, 1e300, math.inf, math.nan])
    if of is schema.BOOL:
        return rng.random() < 0.5
    if of is schema.UUID:
        return rng.choice([NO_UUID, rng.randbytes(16)])
    if of is schema.STRING:
        return text(row.name, key, rng)
    if of is schema.RECORDS:
        return records(rng)
    assert of is schema.BYTES, row
    if key == CONTROLLER_COMMAND.key and rng.random() < 0.8:
        return c.encode_command(absurd_command(rng))
    if key in OF_GROUPS and rng.random() < 0.7:
        return embedded_protocol(rng)
    return rng.randbytes(rng.choice([0, 1, 30, 3_000]))


def embedded_protocol(rng: random.Random) -> bytes:
    """A subscription or an assignment of a consumer, right or almost."""
    version, names = (
        rng.choice([0, 1, 2, 3, 3, 9]),
        [rng.choice([TARGET, TARGET, "absent", ""]) for _ in range(rng.randrange(3))],
    )
    partitions = tuple(number(32, rng) for _ in range(rng.randrange(4)))
    owned = tuple(EmbeddedPartitions(topic=name, partitions=partitions) for name in names)
    made: Subscription | Assignment = Assignment(assigned=owned)
    if rng.random() < 0.7:
        made = Subscription(topics=tuple(names), owned=owned if version else ())
    out: list[Buffer] = [struct.pack(">h", version)]
    wire_of(type(made), min(version, 3), False).write(out, made)
    whole = b"".join(out)
    return damage_bytes(whole, rng) if rng.random() < 0.2 else whole


def absurd_command(rng: random.Random) -> c.Command:
    """A command of the controller that decodes and makes no sense; none of them touches broker 1 or the healthy topic."""
    stranger = rng.choice([0, 2, 99, 2**31 - 1])
    epoch, count = rng.choice([0, 1, 2**62]), rng.choice([*COUNTS, 0, 1, 10_001])
    setting = rng.choice(BAD_SETTINGS)
    new_id = rng.choice([NO_UUID, rng.randbytes(16)])
    assignment = rng.choice([(), ((0, ()),), ((0, (1, 1)),), ((5, (1,)),), ((0, (99,)),), ((0, (1,)), (0, (1,)))])
    partition = TopicPartition(rng.choice(["absent", TARGET]), rng.choice([-1, 7, 2**31 - 1]))
    resource = c.ResourceName(rng.choice(list(c.ResourceKind)), rng.choice(["", "1", "99", TARGET, "absent", "01"]))
    isr = tuple(c.ProposedMember(rng.choice([1, 99]), epoch) for _ in range(rng.randrange(3)))
    commands: list[c.Command] = [
        c.RegisterBroker(stranger, rng.randbytes(16), rng.choice(["", "h", "x" * 9_000]), 65_535),
        c.UnfenceBroker(stranger, epoch),
        c.FenceBroker(stranger, epoch),
        c.BeginShutdown(stranger, epoch),
        c.AllocateProducerIds(stranger, epoch),
        c.AlterPartition(stranger, epoch, (c.IsrChange(new_id, 0, 2**31 - 1, 0, isr),)),
        c.ElectLeaders(rng.choice(list(c.ElectionType)), (partition,)),
        c.CreateTopics((c.NewTopic(rng.choice(TOPICS), new_id, count, count, assignment, (setting,)),)),
        c.DeleteTopics((c.TopicReference("absent"), c.TopicReference(None, None), c.TopicReference("t", new_id))),
        c.CreatePartitions((c.MorePartitions(rng.choice(["absent", TARGET]), count, ((),)),)),
        c.AlterConfigs((c.ResourceChange(resource, (c.ConfigSetting(*setting),)),)),
        c.AlterReassignments((c.Reassignment(*partition, rng.choice([None, (), (99,), (1, 1), (-1,)])),), epoch > 0),
    ]
    return rng.choice(commands)


def message(cls: Any, key: int, version: int, rng: random.Random) -> Any:
    """A message of a class, with what its version can carry."""
    return cls(**{row.name: value(row, key, version, rng) for row in rows(cls) if version in row.field.versions})


def value(row: NamedField, key: int, version: int, rng: random.Random) -> Any:
    """A value of one field."""
    field = row.field
    if field.tag is not None and rng.random() < 0.5:
        return field.default
    if version in field.nullable and rng.random() < 0.2:
        return None

    def one() -> Any:
        return message(field.of, key, version, rng) if isinstance(field.of, type) else scalar(row, key, rng)

    if field.is_array:
        return tuple(one() for _ in range(rng.choice([0, 1, 1, 1, 2, 3])))
    return one()


def repeat_entries(asked: Any, rng: random.Random) -> Any:
    """Returns the message with the entries of one of its arrays repeated, as no sane client does.

    What a request costs must grow with its size alone: neither with its square, nor with how often it names a thing.
    """
    arrays = [row.name for row in rows(type(asked)) if row.field.is_array and getattr(asked, row.name)]
    if not arrays:
        return asked
    name = rng.choice(arrays)
    return attrs.evolve(asked, **{name: getattr(asked, name) * REPEATED})


def request(rng: random.Random, only: Collection[int]) -> bytearray:
    """A frame with a request that can be decoded, of any API or of those alone."""
    api, version = rng.choice([each for each in VERSIONS if each[0].key in only] if only else VERSIONS)
    if not only and rng.random() < 0.2:
        api = ALL[rng.choice([0, 1, 11, CONTROLLER_COMMAND.key])]
        version = rng.choice(api.versions)
    header = RequestHeader(api.key, version, rng.getrandbits(31), rng.choice([None, "", "fuzz", "c" * 30_000]))
    while True:
        try:
            asked = message(api.request, api.key, version, rng)
            frame = b"".join(api.encode_request(header, asked))
            if rng.random() < REPEATED_SHARE and len(frame) < REPEATED_BYTES_MAX:
                frame = b"".join(api.encode_request(header, repeat_entries(asked, rng)))
            return bytearray(frame)
        except CannotEncode:
            continue  # a text that is too long for a version that is not flexible


def fix_length(data: bytearray) -> bytes:
    """Returns the frame with its length put right."""
    struct.pack_into(">i", data, 0, len(data) - 4)
    return bytes(data)


def fuzzed_frame(rng: random.Random, only: Collection[int] = ()) -> FuzzedFrame:
    """A frame and what is wrong with it; about four in five reach the decoder of an API."""
    choice = rng.random()
    if choice < 0.05:
        data, _ = damaged_frame(PEER_MESSAGES if rng.random() < 0.5 else CLIENT_REQUESTS, rng)
        return FuzzedFrame(data, "native")
    frame = request(rng, only)
    if choice < 0.5:
        return FuzzedFrame(bytes(frame), "values")
    if choice < 0.85:
        return FuzzedFrame(fix_length(mutate_frame(frame, rng)), "mutated")
    match rng.randrange(5):
        case 0:
            struct.pack_into(">h", frame, 6, rng.choice([-1, 99, 2**15 - 1, -(2**15)]))
            return FuzzedFrame(bytes(frame), "version")
        case 1:
            struct.pack_into(">h", frame, 4, rng.choice([4, 5, 7, 24, 68, 250, -1, 2**15 - 1, -(2**15)]))
            return FuzzedFrame(bytes(frame), "key")
        case 2:
            return FuzzedFrame(bytes(frame[: rng.randrange(1, len(frame))]), "partial")
        case 3:
            struct.pack_into(">i", frame, 0, rng.choice([2**31 - 1, 2**30, 104_857_601, -1, -(2**31)]))
            return FuzzedFrame(bytes(frame), "oversized")
        case _:
            return FuzzedFrame(fix_length(bytearray(4) + rng.randbytes(rng.randrange(300))), "noise")


def mutate_frame(frame: bytearray, rng: random.Random) -> bytearray:
    """Returns the frame, changed after the fixed part of its header."""
    at = rng.randrange(12, len(frame))
    match rng.randrange(4):
        case 0:
            for _ in range(rng.choice([1, 1, 4])):
                frame[rng.randrange(12, len(frame))] ^= 1 << rng.randrange(8)
        case 1:
            del frame[at:]
        case 2:
            frame[at:at] = rng.randbytes(rng.randrange(1, 40))
        case _:
            absurd = rng.choice([struct.pack(">i", rng.choice(COUNTS)), b"\xff\xff\xff\xff\x07", b"\xff" * 10, b"\0"])
            frame[at : at + len(absurd)] = absurd
    return frame
