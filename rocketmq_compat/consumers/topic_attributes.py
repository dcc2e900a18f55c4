"""Attributes of topics (`TopicAttributes`, `AttributeUtil`): checks and changes them. Pure.

A request names them as text, `+message.type=FIFO,-message.type`: `+` sets one, `-` removes it. `message.type` is kept
and shown, as in RocketMQ's broker: only its gRPC proxy demands that messages are of this type. The others would change
the storage of a topic. They are accepted at their default, and otherwise refused.
"""

from collections.abc import Mapping
from typing import Final

from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.remoting.codes import ResponseCode

MESSAGE_TYPE: Final = "message.type"
VALUES: Final[Mapping[str, frozenset[str]]] = {
    MESSAGE_TYPE: frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "reserve.time": frozenset({"-1"}),
}
"""The legal values of each attribute."""
TEXT_MAX: Final = 4096


def changed_attributes(before: Mapping[str, str], text: str | None, *, is_new: bool) -> Mapping[str, str]:
    """Returns the attributes of a topic after a change as `text` has it. Raises `RequestRefused` with SYSTEM_ERROR."""
    attributes = dict(before)
    named: set[str] = set()
    if text is not None and len(text) > TEXT_MAX:
        raise _refuse(f"{len(text)} characters of attributes, at most {TEXT_MAX}")
    for part in (text or "").split(","):
        word = part.strip()
        if not word:
            continue
        sign, name, equals, value = word[0], *word[1:].partition("=")
        if sign not in "+-" or not name or bool(equals) != (sign == "+"):
            raise _refuse(f"{word[:100]!r} is neither +NAME=VALUE nor -NAME")
        if name in named:
            raise _refuse(f"{name[:100]} is named twice")
        if name not in VALUES:
            raise _refuse(f"unsupported key: {name[:100]}")
        named.add(name)
        if sign == "+":
            if value not in VALUES[name]:
                raise _refuse(f"{name} can be {' or '.join(sorted(VALUES[name]))} here, not {value[:100]}")
            attributes[name] = value
        elif is_new:
            raise _refuse(f"only add attribute is supported while creating topic. key: {name}")
        elif attributes.pop(name, None) is None:
            raise _refuse(f"attempt to delete a nonexistent key: {name}")
    return attributes


def _refuse(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"attributes: {reason}")
