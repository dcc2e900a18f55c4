"""Imports a name of a package when it is asked for, so that importing the package alone is quick."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lazy(package: "dict[str, Any]") -> tuple[object, object]:
    """Returns `__getattr__` and `__dir__` for a package with these globals.

    Its `_MODULES` gives, by module, the names to import from there, with blanks between them.
    """
    name = package["__name__"]
    homes = {each: module for module, names in package["_MODULES"].items() for each in names.split()}

    def get(attribute: str) -> object:
        from importlib import import_module

        if attribute not in homes:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = package[attribute] = getattr(import_module(homes[attribute]), attribute)
        return value

    return get, lambda: sorted({*package, *homes})
