"""Answers in JSON are taken, and all else is no answer."""

import pytest

from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.json_http import decode, encode


def test_a_body_makes_a_request_a_post() -> None:
    assert encode(("h", 1), "/p").startswith(b"GET /p HTTP/1.0\r\nHost: h:1\r\n")
    posted = encode(("h", 1), "/p", {"a": 1})
    assert posted.startswith(b"POST /p HTTP/1.0\r\n")
    assert posted.endswith(b'Content-Length: 8\r\n\r\n{"a": 1}')


def test_the_content_of_an_answer_is_its_json() -> None:
    assert decode(b'HTTP/1.1 200 OK\r\nA: b\r\n\r\n{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\n\r\nwords", b"HTTP/1.1 503 No\r\n\r\n{}", b"nonsense", b"HTTP/1.1 200 OK\r\n"]
)
def test_all_else_is_no_answer(answer: bytes) -> None:
    with pytest.raises(NotAnswered):
        decode(answer)
