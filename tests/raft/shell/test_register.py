"""The register machine against a dictionary, and nonsense refused before and after it reached the log."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.errors import InvalidRequest
from raft.register import RegisterMachine

keys = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b"]), st.sampled_from([b"a", b"b"]))
operands = st.one_of(st.none(), st.integers(0, 3))


def apply(machine: RegisterMachine, *command: object) -> Any:
    return msgpack.unpackb(machine.apply(1, msgpack.packb(command)))


def query(machine: RegisterMachine, key: object) -> Any:
    return msgpack.unpackb(machine.query(msgpack.packb(["r", key])))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("w"), keys, operands),
            st.tuples(st.just("c"), keys, operands, operands),
            st.tuples(st.just("r"), keys),
        ),
        max_size=30,
    )
)
def test_it_behaves_like_a_dictionary(commands: list[tuple[Any, ...]]) -> None:
    machine = RegisterMachine()
    model: dict[Any, Any] = {}
    for command in commands:
        match command:
            case ("w", key, value):
                assert apply(machine, *command) is None
                model[key] = value
            case ("c", key, expected, new):
                seen = model.get(key)
                assert apply(machine, *command) == [seen == expected, seen]
                if seen == expected:
                    model[key] = new
            case ("r", key):
                assert query(machine, key) == model.get(key)
            case _:
                raise AssertionError(command)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(msgpack.packb([]), id="an empty array"),
        pytest.param(msgpack.packb(["x", 1, 2]), id="an unknown name"),
        pytest.param(msgpack.packb(["w", 1]), id="too few operands"),
        pytest.param(msgpack.packb(["w", [1], 2]), id="a key that is an array"),
        pytest.param(msgpack.packb(["w", True, 2]), id="a key that is a boolean"),
        pytest.param(msgpack.packb(["w", 1, 2.5]), id="a value that is a float"),
        pytest.param(msgpack.packb(["w", 1, True]), id="a value that is a boolean"),
        pytest.param(msgpack.packb([["w"], 1, 2]), id="a name that is an array"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(command: bytes) -> None:
    machine = RegisterMachine()
    with pytest.raises(InvalidRequest):
        machine.check(command, read_only=False)
    with pytest.raises(InvalidRequest):
        machine.apply(1, command)
    assert machine == RegisterMachine()


def test_a_query_is_no_command_and_a_command_is_no_query() -> None:
    machine = RegisterMachine()
    with pytest.raises(InvalidRequest):
        machine.check(msgpack.packb(["r", 1]), read_only=False)
    with pytest.raises(InvalidRequest):
        machine.query(msgpack.packb(["w", 1, 2]))


values = st.one_of(st.integers(-(2**63), 2**64 - 1), st.text(max_size=5), st.binary(max_size=5))


@given(st.dictionaries(st.one_of(keys, values), values, max_size=20), st.dictionaries(keys, values, max_size=3))
def test_a_machine_restored_from_a_snapshot_answers_as_the_one_it_was_taken_of(
    written: dict[Any, Any], before: dict[Any, Any]
) -> None:
    machine, restored = RegisterMachine(), RegisterMachine()
    for key, value in written.items():
        apply(machine, "w", key, value)
    for key, value in before.items():
        apply(restored, "w", key, value)
    restored.restore(machine.snapshot())
    assert restored == machine
    for key in [*written, *before, 1, "a", b"a", -1]:
        assert query(restored, key) == query(machine, key) == written.get(key)


def test_keys_of_different_kinds_stay_apart_in_a_snapshot() -> None:
    machine, restored = RegisterMachine(), RegisterMachine()
    for key in (1, "1", b"1", "", b"", 0, -1, 2**64 - 1, -(2**63)):
        apply(machine, "w", key, repr(key))
    restored.restore(machine.snapshot())
    for key in (1, "1", b"1", "", b"", 0, -1, 2**64 - 1, -(2**63)):
        assert query(restored, key) == repr(key)


def test_what_was_deleted_is_in_no_snapshot() -> None:
    machine = RegisterMachine()
    apply(machine, "w", "a", 1)
    apply(machine, "w", "a", None)
    assert machine.snapshot() == RegisterMachine().snapshot()
