"""Random messages of any API and version, made from the tables, and the readings of the same bytes by two other
implementations.
"""

import datetime
import functools
import io
import uuid
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kafka_compat.protocol import schema
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.registry import APIS
from kafka_compat.protocol.schema import Field, NamedField, rows

with warnings.catch_warnings():  # it reads its schemas by a way that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin as kafka_admin
    import kafka.protocol.consumer as kafka_consumer
    import kafka.protocol.metadata as kafka_metadata
    import kafka.protocol.producer as kafka_producer
    import kafka.protocol.sasl as kafka_sasl

VERSIONS = [(api, version) for _, api in sorted(APIS.items()) for version in api.versions]
NAMES = [f"{api.name}-{version}" for api, version in VERSIONS]
IN_KAFKA_PYTHON = [(api, version) for api, version in VERSIONS if api.key not in (64, 68, 69)]
"""All but UnregisterBroker and the APIs of KIP-848, which kafka-python does not have."""
NAMES_IN_KAFKA_PYTHON = [f"{api.name}-{version}" for api, version in IN_KAFKA_PYTHON]
"""Ids for parametrised tests."""


def both(api: Api[Any, Any]) -> tuple[Any, Any]:
    """The classes of an API."""
    return api.request, api.response


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIME_S_MAX = 4_102_444_800
"""The year 2100. kio reads times as `datetime`, by way of a float, so whole seconds are what it can be held to."""
TIMES = frozenset({"log_append_time_ms", "timestamp", "commit_timestamp", "retention_time_ms"})
STARTS = frozenset({"transaction_start_time_ms"})
"""Times that kio reads without a place for none."""
DURATIONS = frozenset({"session_lifetime_ms"})


def draw_signed(bits: int) -> st.SearchStrategy[int]:
    """Numbers of a width, its ends often."""
    last = 2 ** (bits - 1)
    return st.sampled_from([-last, -1, 0, 1, last - 1]) | st.integers(-last, last - 1)


KINDS: Mapping[int, st.SearchStrategy[Any]] = {
    id(schema.BOOL): st.booleans(),
    id(schema.INT8): draw_signed(8),
    id(schema.INT16): draw_signed(16),
    id(schema.INT32): draw_signed(32),
    id(schema.INT64): draw_signed(64),
    id(schema.UINT16): st.integers(0, 2**16 - 1),
    id(schema.FLOAT64): st.floats(allow_nan=False),
    id(schema.UUID): st.sampled_from([schema.NO_UUID, bytes(range(16))]) | st.binary(min_size=16, max_size=16),
    id(schema.STRING): st.sampled_from(["", "a", "é" * 64, "t" * 127, "t" * 128, "t" * 300]) | st.text(max_size=8),
    id(schema.BYTES): st.binary(max_size=12) | st.just(bytes(range(200))),
    id(schema.RECORDS): st.binary(max_size=12) | st.just(bytes(20_000)),
}


@functools.cache
def messages(cls: Any, version: int) -> st.SearchStrategy[Any]:
    """Messages of a class, with what its version can carry."""
    fields = {row.name: values(row, version) for row in rows(cls) if version in row.field.versions}
    return st.builds(cls, **fields)


def values(row: NamedField, version: int) -> st.SearchStrategy[Any]:
    """Values of one field."""
    field = row.field
    some: st.SearchStrategy[Any]
    if isinstance(field.of, type):
        some = messages(field.of, version)
    elif row.name.endswith("error_code"):
        some = st.sampled_from(list(map(int, KafkaErrorCode)))
    elif row.name in TIMES:
        some = st.just(-1) | st.integers(0, TIME_S_MAX).map(lambda seconds: seconds * 1000)
    elif row.name in STARTS:
        some = st.integers(0, TIME_S_MAX).map(lambda seconds: seconds * 1000)
    elif row.name in DURATIONS:
        some = st.integers(0, 2**31 - 1)
    else:
        some = KINDS[id(field.of)]
    if field.is_array:
        some = st.lists(some, max_size=3).map(tuple)
    if version in field.nullable:
        some = st.none() | some
    if field.tag is not None:
        some = st.just(field.default) | some
    return some


def encode(cls: type, api: Api[Any, Any], version: int, message: Any) -> bytes:
    """The bytes of a message alone, without header and length."""
    out: list[bytes | memoryview] = []
    wire_of(cls, version, version in api.flexible).write(out, message)
    return b"".join(out)


def decode(cls: type, api: Api[Any, Any], version: int, data: bytes) -> Any:
    """The message in all of `data`."""
    message, end = wire_of(cls, version, version in api.flexible).read(memoryview(data), 0)
    assert end == len(data)
    return message


# ----------------------------------------------------------------------- kio


def kio_schema(api: Api[Any, Any], cls: type, version: int) -> Any:
    """The class that kio has for a request or response in one version."""
    load: Any = load_request_schema if cls is api.request else load_response_schema
    return load(api.key, version)


def kio_read(kio_class: Any, data: bytes) -> Any:
    """Returns kio's reading of all of `data`."""
    value, size = entity_reader(kio_class)(data, 0)
    assert size == len(data)
    return value


def kio_write(kio_class: Any, value: Any) -> bytes:
    """Returns the bytes that kio writes."""
    with io.BytesIO() as buffer:
        entity_writer(kio_class)(buffer, value)
        return buffer.getvalue()


def from_kio(cls: type, version: int, value: Any) -> Any:
    """The message of ours with the values of kio's."""
    if value is None:
        return None
    fields = {row.name: row.field for row in rows(cls) if version in row.field.versions}
    return cls(**{name: _from_kio(field, version, _kio_field(value, name)) for name, field in fields.items()})


def _kio_field(value: Any, name: str) -> Any:
    return getattr(value, name) if hasattr(value, name) else getattr(value, name.removesuffix("_ms"))


def _from_kio(field: Field, version: int, value: Any) -> Any:
    if field.is_array and value is not None:
        return tuple(_one_from_kio(field, version, each) for each in value)
    return _one_from_kio(field, version, value)


def _one_from_kio(field: Field, version: int, value: Any) -> Any:
    if isinstance(field.of, type):
        return from_kio(field.of, version, value)
    match value:
        case None if field.of is schema.UUID:
            return schema.NO_UUID
        case None if field.of is schema.INT64:
            return -1
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            return (value - EPOCH) // datetime.timedelta(milliseconds=1)
        case uuid.UUID():
            return value.bytes
        case _:
            return value


# -------------------------------------------------------------- kafka-python


def kafka_python_class(cls: type) -> Any:
    """The class that kafka-python has for a request or response, all versions."""
    modules = (kafka_admin, kafka_consumer, kafka_metadata, kafka_producer, kafka_sasl)
    return next(getattr(module, cls.__name__) for module in modules if hasattr(module, cls.__name__))


def to_kafka_python(target: Any, cls: type, version: int, message: Any) -> Any:
    """kafka-python's message with the values of ours; it writes each tagged field that it is given, even a default."""
    fields = {row.name: row.field for row in rows(cls) if version in row.field.versions}
    given = {
        _kafka_python_name(target, name): _to_kafka_python(target, name, field, version, getattr(message, name))
        for name, field in fields.items()
        if field.tag is None or getattr(message, name) != field.default
    }
    return target(version=version, **given)


def _kafka_python_name(target: Any, name: str) -> str:
    """It has a name of its own for what is a set of bits."""
    return name if name in target._struct.fields else "authorized_operations"


def _to_kafka_python(target: Any, name: str, field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field.of, type):
        inner = target._struct.fields[name].data_class
        if field.is_array:
            return [to_kafka_python(inner, field.of, version, each) for each in value]
        return to_kafka_python(inner, field.of, version, value)
    if field.of is schema.UUID:
        return uuid.UUID(bytes=value)
    if _kafka_python_name(target, name) == "authorized_operations":
        return {bit for bit in range(32) if value >> bit & 1}
    return list(value) if field.is_array else value


def from_kafka_python(cls: type, version: int, value: Any) -> Any:
    """The message of ours with the values of kafka-python's."""
    if value is None:
        return None
    fields = {row.name: row.field for row in rows(cls) if version in row.field.versions}
    given = {name: getattr(value, _kafka_python_name(value, name)) for name in fields}
    return cls(**{name: _from_kafka_python(field, version, given[name]) for name, field in fields.items()})


def _from_kafka_python(field: Field, version: int, value: Any) -> Any:
    if value is None and field.tag is not None:
        return field.default
    if isinstance(field.of, type):
        if field.is_array and value is not None:
            return tuple(from_kafka_python(field.of, version, each) for each in value)
        return from_kafka_python(field.of, version, value)
    if field.of is schema.UUID:
        return value.bytes if isinstance(value, uuid.UUID) else schema.NO_UUID
    if isinstance(value, set) or (value is None and field.default == -(2**31)):
        bits = sum(1 << bit for bit in ({31} if value is None else value))
        return bits - 2**32 * (bits >> 31)
    if isinstance(value, Sequence) and field.is_array:
        return tuple(value)
    return value
