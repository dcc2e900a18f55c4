"""Makes a reader and a writer of a schema table, once for each message class and version.

One `struct` call reads or writes neighbouring fields of fixed size, together with the defaults of fields that the
version lacks. Every other field takes one call. In flexible versions a section of tagged fields ends each message:
unknown tags are skipped, and a known one must fill exactly the bytes that it announces.
"""

import enum
import functools
import itertools
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from kafka_compat.protocol import primitives
from kafka_compat.protocol.errors import CannotEncode, MalformedMessage
from kafka_compat.protocol.primitives import Read, Wire, Write, encoded_uvarint, read_uvarint
from kafka_compat.protocol.schema import Field, Kind, NamedField, rows
from log.values import frozen
from raft.net.decoder import Buffer

NULL = b"\xff"
PRESENT = b"\x01"
NO_TAGS = b"\x00"


@frozen
class ReadStep:
    """Reads one field with `read`, or several of fixed size (or none, with constant values) with `unpack`."""

    names: tuple[str, ...]
    unpack: Callable[[memoryview, int], Sequence[Any]] | None
    size: int
    read: Read


@frozen
class TaggedField:
    """A tagged field of one version."""

    name: str
    tag: int
    place: int
    """Its place among all tagged fields of the class, also of other versions."""
    default: Any
    wire: Wire


@functools.cache
def wire_of(cls: type, version: int, flexible: bool) -> Wire:
    """Returns how messages of a class lie in bytes in one version of their API."""
    untagged = [row for row in rows(cls) if row.field.tag is None]
    tagged = [row for row in rows(cls) if row.field.tag is not None]
    wires = {row.name: field_wire(row.field, version, flexible) for row in rows(cls) if version in row.field.versions}
    tags = [
        TaggedField(row.name, row.field.tag, place, row.field.default, wires[row.name])
        for place, row in enumerate(tagged)
        if row.name in wires and row.field.tag is not None
    ]
    if tags and not flexible:
        raise TypeError(f"{cls.__name__} has tagged fields in version {version}, which is not flexible")
    least = sum(wires[row.name].least for row in untagged if row.name in wires) + flexible
    defaults = tuple(row.field.default for row in tagged)
    read_tags = tags_reader(tags, defaults) if flexible else None
    write_tags = tags_writer(tags) if flexible else None
    read = message_reader(cls, read_steps(untagged, wires), defaults, read_tags)
    return Wire(read, message_writer(write_steps(untagged, wires), write_tags), least)


def field_wire(field: Field, version: int, flexible: bool) -> Wire:
    """Returns how a field lies in bytes in one version of its API."""
    nullable = version in field.nullable
    if field.is_array:
        element = field.of.wire(flexible, False) if isinstance(field.of, Kind) else wire_of(field.of, version, flexible)
        return primitives.array(element, compact=flexible, nullable=nullable)
    if isinstance(field.of, Kind):
        return field.of.wire(flexible, nullable)
    wire = wire_of(field.of, version, flexible)
    return nullable_message(wire) if nullable else wire


def nullable_message(wire: Wire) -> Wire:
    """Returns the wire of a message that may be null: a byte below 0 stands for null, another precedes the message."""

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        if buffer[position] >= 0x80:
            return None, position + 1
        return wire.read(buffer, position + 1)

    def write(out: list[Buffer], value: Any) -> None:
        if value is None:
            out.append(NULL)
        else:
            out.append(PRESENT)
            wire.write(out, value)

    return Wire(read, write, 1)


class _Kind(enum.Enum):
    """The size of a field in one version."""

    FIXED = enum.auto()
    VARYING = enum.auto()
    ABSENT = enum.auto()


def _kind_of(wire: Wire | None) -> _Kind:
    if wire is None:
        return _Kind.ABSENT
    return _Kind.FIXED if wire.code else _Kind.VARYING


# ------------------------------------------------------------------- reading


def read_steps(untagged: Sequence[NamedField], wires: dict[str, Wire]) -> list[ReadStep]:
    """Returns the steps that give the value of each untagged field, in order."""
    steps: list[ReadStep] = []
    for kind, group in itertools.groupby(untagged, lambda row: _kind_of(wires.get(row.name))):
        fields = list(group)
        names = tuple(row.name for row in fields)
        match kind:
            case _Kind.FIXED:
                layout = struct.Struct(">" + "".join(wires[name].code for name in names))
                steps.append(ReadStep(names, layout.unpack_from, layout.size, _no_read))
            case _Kind.ABSENT:
                steps.append(ReadStep(names, _constant(tuple(row.field.default for row in fields)), 0, _no_read))
            case _Kind.VARYING:
                steps += [ReadStep((name,), None, 0, wires[name].read) for name in names]
    return steps


def _no_read(buffer: memoryview, position: int) -> tuple[Any, int]:
    raise NotImplementedError


def _constant(values: tuple[Any, ...]) -> Callable[[memoryview, int], Sequence[Any]]:
    return lambda buffer, position: values


def message_reader(cls: type, steps: Sequence[ReadStep], defaults: tuple[Any, ...], read_tags: Read | None) -> Read:
    """Returns the reader of a message: its untagged fields, then the section of tagged ones, if the version has it."""
    plan = tuple((step.unpack, step.size, step.read) for step in steps)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        try:
            for unpack, size, read_one in plan:
                if unpack is None:
                    value, position = read_one(buffer, position)
                    values.append(value)
                else:
                    values += unpack(buffer, position)
                    position += size
            if read_tags is None:
                values += defaults
            elif buffer[position]:
                more, position = read_tags(buffer, position)
                values += more
            else:
                values += defaults
                position += 1
        except MalformedMessage as error:
            name = failed_field(steps, values)
            if name:
                error.within(name)
            raise
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            detail = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "the message ends within the field"
            raise MalformedMessage(detail, failed_field(steps, values), position) from None
        return cls(*values), position

    return read


def failed_field(steps: Sequence[ReadStep], values: Sequence[Any]) -> str:
    """Returns the name of the field at which reading ended, or of the first of several read together.

    Returns an empty name for the tag section.
    """
    done = 0
    for step in steps:
        if done == len(values):
            return step.names[0]
        done += len(step.names)
    return ""


def tags_reader(tags: Sequence[TaggedField], defaults: tuple[Any, ...]) -> Read:
    """Returns the reader of a tag section, which gives the values of all tagged fields of the class."""
    known = {field.tag: field for field in tags}

    def read(buffer: memoryview, position: int) -> tuple[list[Any], int]:
        values = list(defaults)
        start = position
        count, position = read_uvarint(buffer, position)
        if 2 * count > len(buffer) - position:
            raise MalformedMessage(f"{count} tags announced, {len(buffer) - position} bytes left", offset=start)
        last = -1
        for _ in range(count):
            start = position
            tag, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
            if tag <= last:
                raise MalformedMessage(f"tag {tag} follows tag {last}", offset=start)
            last = tag
            end = position + size
            if end > len(buffer):
                raise primitives.too_long(size, len(buffer) - position, start)
            field = known.get(tag)
            if field is not None:
                values[field.place] = read_tagged(field, buffer, position, end)
            position = end
        return values, position

    return read


def read_tagged(field: TaggedField, buffer: memoryview, start: int, end: int) -> Any:
    """Returns the value of a tagged field that takes the bytes from `start` up to `end`.

    Raises `MalformedMessage` for another size.
    """
    try:
        value, position = field.wire.read(buffer, start)
    except MalformedMessage as error:
        error.within(field.name)
        raise
    except (struct.error, IndexError):
        raise MalformedMessage("the message ends within the field", field.name, start) from None
    except UnicodeDecodeError:
        raise MalformedMessage("not UTF-8", field.name, start) from None
    if position != end:
        raise MalformedMessage(f"{position - start} bytes long, {end - start} announced", field.name, start)
    return value


# ------------------------------------------------------------------- writing

WriteStep = tuple[tuple[str, ...], Callable[[list[Buffer], Any], None]]
"""The fields that a step writes, and the step, which takes the message."""


def write_steps(untagged: Sequence[NamedField], wires: dict[str, Wire]) -> list[WriteStep]:
    """Returns the steps that write the untagged fields of the version, in order."""
    steps: list[WriteStep] = []
    present = [row.name for row in untagged if row.name in wires]
    for kind, group in itertools.groupby(present, lambda name: _kind_of(wires[name])):
        names = tuple(group)
        if kind is _Kind.FIXED:
            steps.append((names, _packing(names, ">" + "".join(wires[name].code for name in names))))
        else:
            steps += [((name,), _writing(name, wires[name].write)) for name in names]
    return steps


def _packing(names: tuple[str, ...], layout: str) -> Callable[[list[Buffer], Any], None]:
    pack = struct.Struct(layout).pack
    get = operator.attrgetter(*names)
    if len(names) == 1:
        return lambda out, message: out.append(pack(get(message)))
    return lambda out, message: out.append(pack(*get(message)))


def _writing(name: str, write: Write) -> Callable[[list[Buffer], Any], None]:
    get = operator.attrgetter(name)
    return lambda out, message: write(out, get(message))


def message_writer(steps: Sequence[WriteStep], write_tags: Write | None) -> Write:
    """Returns the writer of a message, with the section of tagged fields if the version has it."""
    plan = tuple(step for _, step in steps)

    def write(out: list[Buffer], message: Any) -> None:
        number = 0
        try:
            for number, step in enumerate(plan):  # noqa: B007 - for the error
                step(out, message)
        except CannotEncode as error:
            error.within(steps[number][0][0])
            raise
        except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
            raise CannotEncode(str(error), ", ".join(steps[number][0])) from error
        if write_tags is not None:
            write_tags(out, message)

    return write


def tags_writer(tags: Sequence[TaggedField]) -> Write:
    """Returns the writer of a tag section; a field that has its default is left out."""
    if not tags:
        return lambda out, message: out.append(NO_TAGS)
    get = operator.attrgetter(*(field.name for field in tags))
    get_all = get if len(tags) > 1 else lambda message: (get(message),)

    def write(out: list[Buffer], message: Any) -> None:
        present: list[Buffer] = []
        count = 0
        for field, value in zip(tags, get_all(message), strict=True):
            if value is field.default or value == field.default:
                continue
            body: list[Buffer] = []
            try:
                field.wire.write(body, value)
            except CannotEncode as error:
                error.within(field.name)
                raise
            except (struct.error, AttributeError, TypeError, UnicodeEncodeError) as error:
                raise CannotEncode(str(error), field.name) from error
            present += (encoded_uvarint(field.tag), encoded_uvarint(sum(map(len, body))), *body)
            count += 1
        if count:
            out.append(encoded_uvarint(count))
            out += present
        else:
            out.append(NO_TAGS)

    return write
