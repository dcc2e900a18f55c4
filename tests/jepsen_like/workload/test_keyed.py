"""Keyed records carry an id that their bytes prove."""

import pytest

from jepsen_like.history.keyed_values import is_deletion, key_of, keyed_value
from jepsen_like.workload.keyed import decode_keyed, encode_keyed
from jepsen_like.workload.payload import DAMAGED


@pytest.mark.parametrize("deletes", [False, True])
def test_a_record_comes_back_with_its_key_and_whether_it_deletes(deletes: bool) -> None:
    value = keyed_value(7, 12_345, is_deletion=deletes)
    assert (key_of(value), is_deletion(value)) == (12_345, int(deletes))
    key, content, headers = encode_keyed(value, 100)
    assert (content is None) == deletes
    assert decode_keyed(key, content, headers) == (value, True)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_record_of_another_key_or_value_is_damaged(deletes: bool) -> None:
    key, content, headers = encode_keyed(keyed_value(7, 3, is_deletion=deletes), 100)
    other = b"" if content is None else content[:-1] + b"x"
    for damaged in ((b"key-4", content, headers), (key, other, headers), (key, content, []), (None, content, headers)):
        value, is_whole = decode_keyed(*damaged)
        assert not is_whole
        assert value >= DAMAGED
