"""The bodies of a run's messages: values as text, for the C++ client's C interface ends a body at a zero byte."""

from jepsen_like.workload.payload import DAMAGED, decode_value, encode_value


def body_of(value: int, size: int) -> bytes:
    """A message of `size` bytes, at least 16."""
    return encode_value(value, size // 2).hex().encode()


def value_of(body: bytes) -> tuple[int, bool]:
    """Returns the value of a message, and if its bytes are whole; else it is a value that no client can have sent."""
    try:
        return decode_value(bytes.fromhex(body.decode("ascii")))
    except ValueError:
        return DAMAGED + decode_value(body)[0] % DAMAGED, False
