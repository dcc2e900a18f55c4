"""Frames by hand, as clients write them; what is read leniently; and what damage may do: one error, never another."""

import contextlib
import json
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.net.decoder import BodyDecoder
from raft.net.errors import WireError
from rocketmq_compat.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import MalformedFrame, UnencodableCommand
from rocketmq_compat.remoting.frame import (
    ANSWER_HEADER_BYTES_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    IS_ONEWAY,
    IS_RESPONSE,
    Command,
    Serialization,
    decode,
    encode,
)


def encode_frame(command: Command) -> bytes:
    return b"".join(encode(command))


def with_header(header: bytes, *, serialization: int = 0, body: bytes = b"") -> bytes:
    """A frame without its length."""
    return struct.pack("!I", serialization << 24 | len(header)) + header + body


def from_json(**fields: object) -> Command:
    return decode(with_header(json.dumps({"code": 1, **fields}).encode()))


# Bytes by hand

ROUTE_REQUEST = (
    b'{"code":105,"extFields":{"topic":"TBW102"},"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":401}'
)
BINARY_ANSWER = bytes.fromhex(
    "0011 00 0191 00000007 00000001"  # code 17, Java, version 401, opaque 7, an answer
    "00000004 6e6f6e65"  # remark "none"
    "0000000a 0002 6964 00000002 6162"  # ext: id = ab
)


def test_a_json_frame_has_the_bytes_of_the_protocol() -> None:
    command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, 7, {"topic": "TBW102"}, b"BODY")
    expected = struct.pack("!II", 4 + len(ROUTE_REQUEST) + 4, len(ROUTE_REQUEST)) + ROUTE_REQUEST + b"BODY"
    assert encode_frame(command) == expected
    assert decode(expected[4:]) == command


def test_a_binary_frame_has_the_bytes_of_the_protocol() -> None:
    request = Command(105, 7, serialization=Serialization.ROCKETMQ)
    answer = request.answer(ResponseCode.TOPIC_NOT_EXIST, ext={"id": "ab"}, remark="none", body=b"x")
    expected = struct.pack("!II", 4 + len(BINARY_ANSWER) + 1, 1 << 24 | len(BINARY_ANSWER)) + BINARY_ANSWER + b"x"
    assert encode_frame(answer) == expected
    assert decode(expected[4:]) == answer


@pytest.mark.parametrize("serialization", Serialization)
def test_an_answer_has_the_serialization_and_the_opaque_of_its_request(serialization: Serialization) -> None:
    request = decode(encode_frame(Command(11, -5, serialization=serialization))[4:])
    answer = decode(encode_frame(request.answer(ResponseCode.PULL_NOT_FOUND))[4:])
    assert (answer.serialization, answer.opaque, answer.is_response) == (serialization, -5, True)
    assert not request.is_response


def test_a_body_in_pieces_leaves_as_they_are() -> None:
    first, second = bytes(10), memoryview(bytes(20))
    pieces = encode(Command(11, 1, body=first, more=(second, b"")))
    assert pieces[1] is first
    assert pieces[2] is second
    assert len(pieces) == 3
    (frame,) = BodyDecoder(FRAME_BYTES_MAX).feed(b"".join(pieces))
    assert decode(frame).body == bytes(30)


# What clients write


def test_a_request_of_the_cpp_client_is_read() -> None:
    header = (
        b'{"code":11,"extFields":{"consumerGroup":"g","queueId":0,"queueOffset":12,"topic":"t"},"flag":0,'
        b'"language":"CPP","opaque":3,"serializeTypeCurrentRPC":"JSON","version":63}\n'
    )
    ext = {"consumerGroup": "g", "queueId": "0", "queueOffset": "12", "topic": "t"}
    assert decode(with_header(header)) == Command(11, 3, ext, language=LanguageCode.CPP, version=63)


def test_ext_values_that_are_no_texts_are_read_as_java_would_write_them() -> None:
    ext = from_json(extFields={"n": 12, "t": True, "f": False, "none": None, "s": "x", "o": {"a": [1]}}).ext
    assert ext == {"n": "12", "t": "true", "f": "false", "s": "x", "o": '{"a":[1]}'}


@pytest.mark.parametrize("ext", [None, {}])
def test_a_header_without_fields_is_read(ext: object) -> None:
    assert from_json(extFields=ext).ext == {}
    assert from_json() == Command(1, version=0, language=LanguageCode.OTHER)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("CPP", LanguageCode.CPP),
        ("NODE_JS", 13),
        ("COBOL", LanguageCode.OTHER),
        (0, 0),
        (77, 77),
        (255, 255),
        (256, 7),
        (-1, 7),
        ([], 7),
    ],
)
def test_a_language_that_is_not_known_is_no_error(written: object, read: int) -> None:
    assert from_json(language=written).language == read


def test_a_language_without_a_name_is_written_as_other() -> None:
    assert decode(encode_frame(Command(1, language=77))[4:]).language == LanguageCode.OTHER
    assert decode(encode_frame(Command(1, language=77, serialization=Serialization.ROCKETMQ))[4:]).language == 77


def test_a_flag_tells_answers_and_oneway_requests() -> None:
    assert Command(1, flag=IS_ONEWAY).is_oneway
    assert not Command(1, flag=IS_ONEWAY).is_response
    assert Command(1, flag=IS_RESPONSE).is_response
    assert not Command(1, flag=IS_RESPONSE).is_oneway


@pytest.mark.parametrize(
    ("opaque", "is_read"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_a_number_has_32_bits(opaque: int, is_read: bool) -> None:
    if is_read:
        assert from_json(opaque=opaque).opaque == opaque
    else:
        with pytest.raises(MalformedFrame, match="opaque is no number"):
            from_json(opaque=opaque)


# Round trips

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTS = st.integers(-(2**31), 2**31 - 1)
COMMANDS = st.builds(
    Command,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=INTS,
    ext=st.dictionaries(TEXTS, TEXTS, max_size=5),
    body=st.binary(max_size=40),
    remark=st.none() | TEXTS.filter(bool),
    flag=INTS,
    language=st.sampled_from(LanguageCode),
    version=st.integers(0, 2**15 - 1),
    serialization=st.sampled_from(Serialization),
)


@given(st.lists(COMMANDS, max_size=4), st.randoms(use_true_random=False))
def test_commands_survive_any_cut_of_the_stream(commands: list[Command], rng: random.Random) -> None:
    stream = b"".join(map(encode_frame, commands))
    decoder = BodyDecoder(FRAME_BYTES_MAX)
    read: list[Command] = []
    while stream:
        cut = rng.randint(1, len(stream))
        read += map(decode, decoder.feed(stream[:cut]))
        stream = stream[cut:]
    assert read == commands
    assert decoder.failure is None
    assert decoder.pending_bytes == 0


# Damage


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        pytest.param(b"\0\0\0", "has no room", id="too short"),
        pytest.param(struct.pack("!I", 9) + b"{}", "a header of 9 bytes", id="header longer than the frame"),
        pytest.param(with_header(b"{}", serialization=2), "serialization 2", id="unknown serialization"),
        pytest.param(with_header(b"{"), "no JSON", id="torn JSON"),
        pytest.param(with_header(b"\xff"), "no JSON", id="no UTF-8"),
        pytest.param(with_header(b"[" * 100_000), "no JSON", id="nested without end"),
        pytest.param(with_header(b"[]"), "no JSON object", id="no object"),
        pytest.param(with_header(b"{}"), "code is no number", id="no code"),
        pytest.param(with_header(b'{"code":4294967296}'), "code is no number", id="code too large"),
        pytest.param(with_header(b'{"code":1,"opaque":true}'), "opaque is no number", id="opaque is no number"),
        pytest.param(with_header(b'{"code":1,"version":1e999}'), "version is no number", id="infinite version"),
        pytest.param(with_header(b'{"code":' + b"9" * 5000 + b"}"), "no JSON", id="a very long number"),
        pytest.param(with_header(b'{"code":1,"remark":1}'), "remark is no text", id="remark is no text"),
        pytest.param(with_header(b'{"code":1,"extFields":[1]}'), "extFields is no", id="ext is no object"),
        pytest.param(with_header(b'{"code":1,"extFields":{"a":"\\ud800"}}'), "surrogate", id="half a character"),
        pytest.param(with_header(b"", serialization=1), "not whole", id="empty binary header"),
        pytest.param(with_header(BINARY_ANSWER[:-1], serialization=1), "ext of 10 bytes", id="torn ext"),
        pytest.param(
            with_header(BINARY_ANSWER.replace(b"\0\0\0\x02ab", b"\xff\xff\xff\xffab"), serialization=1),
            "ext field of -1 bytes",
            id="negative length",
        ),
        pytest.param(
            with_header(BINARY_ANSWER.replace(b"\0\x02id", b"\0\x08id"), serialization=1),
            "name has 8 bytes",
            id="a name longer than all fields",
        ),
        pytest.param(
            with_header(BINARY_ANSWER.replace(b"none", b"\xff\xff\xff\xff"), serialization=1),
            "not whole",
            id="binary remark that is no UTF-8",
        ),
    ],
)
def test_what_is_no_frame_is_refused_with_its_reason(frame: bytes, complaint: str) -> None:
    with pytest.raises(MalformedFrame, match=complaint):
        decode(frame)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [(b"\0\0\0\x04none", "a remark of -1"), (b"\0\0\0\x0a\0\x02id", "ext of -1"), (b"\0\x02id", "name has -1")],
)
def test_a_negative_length_is_refused(field: bytes, complaint: str) -> None:
    negative = field.replace(b"\0\0\0\x04", b"\xff" * 4).replace(b"\0\0\0\x0a", b"\xff" * 4)
    if negative == field:
        negative = field.replace(b"\0\x02", b"\xff\xff")
    with pytest.raises(MalformedFrame, match=complaint):
        decode(with_header(BINARY_ANSWER.replace(field, negative), serialization=1))


def test_what_is_just_within_the_bounds_passes() -> None:
    assert (FRAME_BYTES_MAX, HEADER_BYTES_MAX) == (16_777_212, 262_144)
    header = b'{"code":1}'
    assert decode(with_header(header + b" " * (HEADER_BYTES_MAX - len(header)))).code == 1
    room = FRAME_BYTES_MAX - sum(map(len, encode(Command(1)))) + 4
    assert sum(map(len, encode(Command(1, body=bytes(room))))) == FRAME_BYTES_MAX + 4
    with pytest.raises(UnencodableCommand):
        encode(Command(1, body=bytes(room), more=(b"x",)))
    fitting = HEADER_BYTES_MAX - len(encode(Command(1, ext={"a": ""}))[0]) + 8
    assert encode(Command(1, ext={"a": "x" * fitting}))
    with pytest.raises(UnencodableCommand):
        encode(Command(1, ext={"a": "x" * (fitting + 1)}))


def test_a_header_over_the_bound_is_refused_in_both_directions() -> None:
    with pytest.raises(MalformedFrame, match="a header of"):
        decode(with_header(b" " * (HEADER_BYTES_MAX + 1)))
    with pytest.raises(UnencodableCommand, match="a header of"):
        encode(Command(1, ext={"a": "x" * HEADER_BYTES_MAX}))
    with pytest.raises(UnencodableCommand, match="in a frame of"):
        encode(Command(1, body=bytes(FRAME_BYTES_MAX)))


@pytest.mark.parametrize("serialization", list(Serialization))
def test_an_answer_may_have_a_header_that_a_request_may_not(serialization: Serialization) -> None:
    ids = "0" * (33 * 65_536)
    frame = encode_frame(Command(310, 7, serialization=serialization).answer(0, ext={"msgId": ids}))[4:]
    assert decode(frame, ANSWER_HEADER_BYTES_MAX).ext["msgId"] == ids
    with pytest.raises(MalformedFrame, match="a header of"):
        decode(frame)


@pytest.mark.parametrize(
    "command",
    [
        Command(40_000, serialization=Serialization.ROCKETMQ),
        Command(1, opaque=2**31, serialization=Serialization.ROCKETMQ),
        Command(1, remark="\ud800"),
        Command(1, ext={"a": "\ud800"}, serialization=Serialization.ROCKETMQ),
        Command(1, ext={"x" * 40_000: "a"}, serialization=Serialization.ROCKETMQ),
    ],
)
def test_what_has_no_place_in_a_header_is_not_sent(command: Command) -> None:
    with pytest.raises(UnencodableCommand):
        encode(command)


def test_random_and_mutated_frames_raise_nothing_but_the_error_of_the_codec() -> None:
    rng = random.Random(7)
    samples = [
        encode_frame(
            Command(
                310, 3, {"a": "group", "i": "KEYS\x01k\x02", "e": "4"}, b"body", "remark", serialization=serialization
            )
        )
        for serialization in Serialization
    ]
    decoded = 0
    for number in range(6_000):
        frame = bytearray(rng.choice(samples) if number % 3 else rng.randbytes(rng.randint(0, 60)))
        for _ in range(rng.randint(1, 3)):
            if frame:
                at = rng.randrange(len(frame))
                match rng.randrange(3):
                    case 0:
                        frame[at] = rng.randrange(256)
                    case 1:
                        del frame[at : at + rng.randint(1, 9)]
                    case _:
                        frame[at:at] = rng.randbytes(rng.randint(1, 9))
        decoder = BodyDecoder(FRAME_BYTES_MAX)
        with contextlib.suppress(WireError):
            for content in (*decoder.feed(bytes(frame)), bytes(frame[4:])):
                command = decode(content)
                assert decode(encode_frame(command)[4:]) == command
                decoded += 1
    assert decoded > 250
