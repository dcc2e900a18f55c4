"""A CRC is as good from parts as from the whole."""

import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from raft.net.crc import join_crcs


@given(st.binary(), st.binary(), st.integers(1, 5000))
@example(b"", b"", 1)
@example(b"a", b"", 1)
@example(b"", b"a", 1)
@example(b"a", b"b", 2**19 + 13)
def test_the_crc_of_a_whole_and_of_a_rest_follow_from_the_others(first: bytes, other: bytes, times: int) -> None:
    other *= times
    whole = crc32c.crc32c(first + other)
    assert join_crcs(crc32c.crc32c(first), crc32c.crc32c(other), len(other)) == whole
    assert join_crcs(crc32c.crc32c(first), whole, len(other)) == crc32c.crc32c(other)
