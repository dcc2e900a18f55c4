"""Methods that serve requests, each marked with the keys that it serves."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

MethodT = TypeVar("MethodT", bound=Callable[..., None])


def serves(*keys: int) -> Callable[[MethodT], MethodT]:
    """Returns a decorator that marks a method as the handler of the requests with these keys."""

    def mark(method: MethodT) -> MethodT:
        method.serves = keys  # type: ignore[attr-defined]  # a function holds any attribute
        return method

    return mark


def marked_handlers(*served: object) -> Iterator[tuple[int, Callable[[Any], None]]]:
    """Yields the keys and the handlers of these objects."""
    for each in served:
        for name, method in vars(type(each)).items():
            yield from ((key, getattr(each, name)) for key in getattr(method, "serves", ()))
