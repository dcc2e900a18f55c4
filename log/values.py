"""Values: attrs classes that are frozen for the type checker, but not at run time.

A frozen attrs class costs three times as much to make as one that is not, and a node makes a dozen of them for every
message. So the type checker, which sees all of this code, forbids changes; at run time nothing does.
"""

import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

import attrs

ValueT = TypeVar("ValueT")

if TYPE_CHECKING:
    from attrs import frozen
else:
    frozen = functools.partial(attrs.define, unsafe_hash=True)

__all__ = ["frozen"]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(attrs.field,))
class ValueType(type):
    """Makes a value with keyword arguments of each class whose base has this metaclass."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        """Returns the class."""
        cls = super().__new__(mcs, name, bases, namespace)
        # attrs makes the class again for its slots, by this metaclass too.
        return cls if not bases or "__attrs_attrs__" in namespace else frozen(cls, kw_only=True)


def evolve(value: ValueT, **changes: Any) -> ValueT:
    """Returns a value like this one with some fields changed."""
    kind: Any = type(value)
    return cast(
        ValueT, kind(**{each: getattr(value, each) for each in _names_of(kind) if each not in changes}, **changes)
    )


@functools.cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))
