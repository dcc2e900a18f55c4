"""Every decoded field takes effect: a handler reads it, or it stands in a table with a reason."""

import ast
import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

from rocketmq_compat.remoting import bodies, headers
from rocketmq_compat.remoting.headers.fields import ExtHeader
from rocketmq_compat.remoting.json_body import JsonBody
from rocketmq_compat.remoting.without_effect import WITHOUT_EFFECT

PACKAGE = Path(bodies.__file__).parents[1]
READING = ("read", "read_v2", "decode", "of")


@cache
def sources() -> tuple[str, ...]:
    """The text of every module that is not a table of the protocol."""
    tables = ("bodies.py", "without_effect.py")
    paths = (path for path in PACKAGE.rglob("*.py") if path.parent.name != "headers" and path.name not in tables)
    return tuple(path.read_text() for path in paths)


@cache
def attributes(text: str) -> frozenset[str]:
    """Those that a module reads or sets."""
    return frozenset(node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute))


def classes() -> Iterator[type[Any]]:
    for module in pkgutil.iter_modules(headers.__path__):
        loaded = importlib.import_module(f"{headers.__name__}.{module.name}")
        for _, cls in inspect.getmembers(loaded, inspect.isclass):
            if issubclass(cls, ExtHeader) and cls.__module__ == loaded.__name__ and attrs.has(cls):
                yield cls
    for _, cls in inspect.getmembers(bodies, inspect.isclass):
        if issubclass(cls, JsonBody) and cls.__module__ == bodies.__name__:
            yield cls


def parts(hint: Any) -> Iterator[type[Any]]:
    """The bodies inside of a type."""
    if isinstance(hint, type) and issubclass(hint, JsonBody):
        yield hint
    for argument in typing.get_args(hint):
        yield from parts(argument)


def find_decoded() -> list[type[Any]]:
    """The classes that something decodes, and the bodies inside of them."""
    found: dict[type[Any], None] = {}
    waiting = [
        cls for cls in classes() if any(f"{cls.__name__}.{how}(" in text for text in sources() for how in READING)
    ]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = None
            hints = typing.get_type_hints(each)
            waiting += [inner for field in attrs.fields(each) for inner in parts(hints[field.name])]
    return sorted(found, key=lambda each: each.__name__)


def looked_at(each: type[Any]) -> frozenset[str]:
    """Returns the attributes that may be read as its own.

    For a header, only modules that name it count. A body may be passed on, so that all modules count.
    """
    read = [text for text in sources() if issubclass(each, JsonBody) or each.__name__ in text]
    return frozenset().union(*map(attributes, read))


@pytest.mark.parametrize("each", find_decoded(), ids=lambda each: each.__name__)
def test_a_field_is_looked_at_or_stands_in_the_table(each: type[Any]) -> None:
    ignored = {field.name for field in attrs.fields(each)} - looked_at(each)
    assert ignored <= WITHOUT_EFFECT.get(each.__name__, {}).keys()


def test_the_table_names_fields_that_are_decoded() -> None:
    known = {each.__name__: {field.name for field in attrs.fields(each)} for each in find_decoded()}
    for name, fields in WITHOUT_EFFECT.items():
        assert fields.keys() <= known[name], name
        assert all(fields.values())
