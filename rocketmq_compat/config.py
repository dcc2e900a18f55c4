"""Properties of brokers and name servers: parses and checks names and values, and finds the value that holds. Pure.

They are given as `name=value`, on the command line or in a file as RocketMQ's own (`broker.conf`). The tables are in
`config_keys.py`.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, Self

import attrs

from rocketmq_compat.config_keys import (
    BROKER_PROPERTIES,
    INT_MAX,
    LONG_MAX,
    NAMESRV_PROPERTIES,
    NOT_HONOURED,
    RENAMED,
    PropertyKey,
    PropertyKind,
)

VALUE_CHARACTERS_MAX: Final = 1024


@attrs.define
class InvalidProperty(Exception):
    """A property that is refused. `detail` is a whole sentence for the user."""

    name: str
    detail: str

    def __str__(self) -> str:
        return self.detail


def assignments_of(text: str) -> list[str]:
    """Returns the `name=value` lines of a properties file, without comments and blank lines."""
    lines = (each.strip() for each in text.splitlines())
    return [each for each in lines if each and each[0] not in "#!"]


def checked_value(name: str, value: str, keys: Mapping[str, PropertyKey]) -> tuple[str, str]:
    """Returns name and value in their normal form.

    Raises `InvalidProperty` for an unsupported name, and for a bad value.
    """
    key = _find_key(RENAMED.get(name, name), keys)
    value = value.strip()
    if len(value) > VALUE_CHARACTERS_MAX:
        raise InvalidProperty(key.name, f"the value of {key.name} is longer than {VALUE_CHARACTERS_MAX} characters.")
    match key.kind:
        case PropertyKind.BOOLEAN:
            value = value.lower()
            if value not in ("true", "false"):
                raise InvalidProperty(key.name, f"{key.name}={value} is neither true nor false.")
        case PropertyKind.NUMBER:
            value = str(_number(key, value))
        case PropertyKind.TEXT:
            if key.choices and value not in key.choices:
                raise InvalidProperty(
                    key.name, f"{key.name}={value} is not implemented: it can be {' or '.join(key.choices)}."
                )
    return key.name, value


def _find_key(name: str, keys: Mapping[str, PropertyKey]) -> PropertyKey:
    key = keys.get(name)
    if key is not None:
        return key
    scope, other, of_other = (
        ("broker", NAMESRV_PROPERTIES, "name server")
        if keys is BROKER_PROPERTIES
        else ("name server", BROKER_PROPERTIES, "broker")
    )
    if name in other:
        raise InvalidProperty(name, f"{name} is a property of the {of_other}, not of the {scope}.")
    if name in NOT_HONOURED:
        raise InvalidProperty(name, f"{name} {NOT_HONOURED[name]}.")
    near = difflib.get_close_matches(name[:100], keys, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InvalidProperty(name, f"{name[:100]} is no {scope} property that is known.{hint}")


def _number(key: PropertyKey, value: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        raise InvalidProperty(key.name, f"{key.name}={value} is no whole number.")
    number = int(value)
    if not key.least <= number <= key.most:
        most = {INT_MAX: "2^31-1", LONG_MAX: "2^63-1"}.get(key.most, str(key.most))
        raise InvalidProperty(key.name, f"{key.name}={value} is out of range: it can be {key.least} to {most}.")
    return number


@attrs.frozen
class Properties:
    """The properties of one process. `written` are the given values, checked; create it with `read`."""

    keys: Mapping[str, PropertyKey]
    written: Mapping[str, str] = attrs.field(factory=dict)
    _values: Mapping[str, str | None] = attrs.field(init=False, eq=False, repr=False)

    @_values.default
    def _all_values(self) -> Mapping[str, str | None]:
        return {name: key.default for name, key in self.keys.items()} | dict(self.written)

    @classmethod
    def read(cls, keys: Mapping[str, PropertyKey], assignments: Iterable[str] = ()) -> Self:
        """Returns the properties of `name=value` texts; the last of a name counts.

        Raises `InvalidProperty` for the first bad one.
        """
        return cls(keys).with_assignments(assignments)

    def with_assignments(self, assignments: Iterable[str], *, running: bool = False) -> Self:
        """Returns these with others.

        Raises `InvalidProperty` as `read` does, and for one that cannot change in a `running` process.
        """
        written = dict(self.written)
        for text in assignments:
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise InvalidProperty(name, f"{text[:100]!r} is no property: write name=value.")
            name, value = checked_value(name.strip(), value, self.keys)
            if running and not self.keys[name].updatable and value != self.text(name):
                raise InvalidProperty(name, f"{name} cannot be changed while the process runs: give it when it starts.")
            written[name] = value
        return attrs.evolve(self, written=written)

    def text(self, name: str) -> str | None:
        """Returns the value that holds, or None. Raises `KeyError` for a name that is not in the table."""
        return self._values[name]

    def words(self, name: str) -> str:
        """Returns a value that is there. Raises `KeyError` as `text` does."""
        value = self._values[name]
        assert value is not None, f"{name} has no value"
        return value

    def number(self, name: str) -> int:
        """Returns a value that is a number. Raises `KeyError` as `text` does."""
        return int(self.words(name))

    def seconds(self, name: str) -> float:
        """Returns a value in ms as seconds."""
        return self.number(name) / 1000

    def flag(self, name: str) -> bool:
        """Returns a value that is true or false."""
        return self.words(name) == "true"

    def file_text(self) -> str:
        """Returns all values as the text of a properties file, for GET_BROKER_CONFIG and GET_NAMESRV_CONFIG."""
        values = ((name, self.text(name)) for name in sorted(self.keys))
        return "".join(f"{name}={value}\n" for name, value in values if value is not None)
