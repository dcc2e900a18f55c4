"""Frames are taken whole, however they come, and bytes of another form are refused."""

import struct

import pytest

from jepsen_like.systems.zookeeper.wire import (
    Answer,
    NodeData,
    WrongFrame,
    answer_of,
    get_data,
    node_data_of,
    session_of,
    set_data,
    take_frame,
)

STAT = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, 7, 0, 0, 0, 2, 0, 6)


def test_a_frame_is_taken_once_it_is_whole() -> None:
    received = bytearray()
    for byte in b"\0\0\0\x03ab":
        received.append(byte)
        assert take_frame(received) is None
    received += b"c\0\0"
    assert take_frame(received) == b"abc"
    assert received == b"\0\0"


@pytest.mark.parametrize("size", [-1, 1 << 30])
def test_a_frame_of_another_protocol_is_refused(size: int) -> None:
    with pytest.raises(WrongFrame):
        take_frame(bytearray(struct.pack(">i", size)))


def test_requests_name_their_operation_path_and_version() -> None:
    assert get_data(3, "/r1") == b"\0\0\0\x10" + struct.pack(">iii", 3, 4, 3) + b"/r1\0"
    content = struct.pack(">iii", 4, 5, 3) + b"/r1" + struct.pack(">i", 2) + b"17" + struct.pack(">i", -1)
    assert set_data(4, "/r1", b"17") == struct.pack(">i", len(content)) + content
    assert set_data(4, "/r1", b"17", 9).endswith(struct.pack(">i", 9))


def test_an_answer_has_its_request_its_error_and_its_body() -> None:
    assert answer_of(struct.pack(">iqi", 3, 99, -103) + b"rest") == Answer(3, -103, b"rest")
    with pytest.raises(WrongFrame):
        answer_of(b"short")


def test_data_comes_with_its_version() -> None:
    assert node_data_of(struct.pack(">i", 2) + b"17" + STAT) == NodeData(b"17", 7)
    assert node_data_of(struct.pack(">i", -1) + STAT) == NodeData(b"", 7)


@pytest.mark.parametrize("body", [b"", struct.pack(">i", 2) + b"17", struct.pack(">i", 5) + b"17" + STAT])
def test_data_that_is_cut_short_is_refused(body: bytes) -> None:
    with pytest.raises(WrongFrame):
        node_data_of(body)


def test_a_session_that_was_refused_has_no_id() -> None:
    assert session_of(struct.pack(">iiq", 0, 4000, 0x10)) == 0x10
    assert session_of(struct.pack(">iiq", 0, 0, 0)) == 0
