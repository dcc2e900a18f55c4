"""The faces: the modules whose names a user may rely on.

`faces.txt` is the promise: each name of each face with its kind. A change of it is a change for users, and shows in a
review. `python -m tests.house.faces` writes it again.
"""

import ast
import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("faces.txt")
LAZY = ("raft", "log", "raft.two_topics", "kafka_compat", "rocketmq_compat", "jepsen_like", "jepsen_like.testing")
"""Packages that import a name when it is asked for."""
FACES = (*LAZY, "raft.aio", "raft.sync", "jepsen_like.testing.aio")
PACKAGES = tuple(face for face in FACES if "." not in face)
FROM_FACE = re.compile(rf"^ *from (?:{'|'.join(LAZY)}) import", re.MULTILINE)


def list_faces() -> str:
    """Returns the text that `faces.txt` is to have."""
    lines: list[str] = []
    for face in sorted(FACES):
        module = importlib.import_module(face)
        lines += [face, *(f"    {name}: {kind_of(getattr(module, name))}" for name in module.__all__), ""]
    return "\n".join(lines)


def kind_of(value: object) -> str:
    """Returns the kind of thing that a name of a face stands for."""
    match value:
        case type() if value.__module__ == "builtins":
            return "type"
        case type() if issubclass(value, BaseException):
            return "error"
        case type() if issubclass(value, enum.Enum):
            return "enum"
        case type() if Protocol in value.__bases__:
            return "protocol"
        case type() if inspect.isabstract(value):
            return "abstract class"
        case type():
            return "class"
        case _ if inspect.isfunction(value):
            return "function"
        case _ if type(value).__module__ in ("types", "typing", "collections.abc") and hasattr(value, "__args__"):
            return "type"
        case _:
            return "value"


def imports_of(face: str) -> dict[str, str]:
    """Returns the module of each name that type checkers find in a lazy face."""
    (block,) = (
        node for node in source_of(face).body if isinstance(node, ast.If) and "not" not in ast.unparse(node.test)
    )
    return {
        alias.asname or alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def getter_of(face: str) -> str:
    """Returns the source of the functions by which a lazy face imports its names."""
    (block,) = (node for node in source_of(face).body if isinstance(node, ast.If) and "not" in ast.unparse(node.test))
    return ast.unparse(block)


def source_of(face: str) -> ast.Module:
    """Returns the parsed `__init__.py` of a package."""
    return ast.parse(ROOT.joinpath(*face.split("."), "__init__.py").read_text())


def complaints() -> list[str]:
    """Returns what makes a lazy face unreliable: names stated differently or hidden, and uses of it by the product."""
    found: list[str] = []
    for face in LAZY:
        imports = imports_of(face)
        modules: dict[str, str] = ast.literal_eval(_find_assignment(face, "_MODULES"))
        loaded = {name: module for module, names in modules.items() for name in names.split()}
        public: list[str] = ast.literal_eval(_find_assignment(face, "__all__"))
        found += [
            f"{face}: {name} differs between the imports for type checkers, `_MODULES` and `__all__`"
            for name in sorted({*imports, *loaded, *public})
            if imports.get(name) != loaded.get(name) or name not in public
        ]
        found += [f"{face}: the module {name} hides a name" for name in sorted({*public} & submodules(face))]
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        if FROM_FACE.search(text := path.read_text()):
            found += [
                f"{path.relative_to(ROOT)}:1: import {name} from its module; {module} is for programs around ours"
                for module, name in names_used(ast.parse(text))
                if module in LAZY and name is not None and name not in submodules(module)
            ]
    return found


def _find_assignment(face: str, name: str) -> ast.expr:
    """Returns the expression that the module of a face assigns to a name."""
    (value,) = (
        node.value
        for node in source_of(face).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return value


def submodules(face: str) -> set[str]:
    """Returns the names of what lies in a package: importing one sets it as an attribute of the package."""
    folder = ROOT.joinpath(*face.split("."))
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}


def examples_of(face: str) -> list[str]:
    """Returns the indented programs in the docstring of a face."""
    module: ModuleType = importlib.import_module(face)
    found = re.findall(r"(?:^(?:    .*)?\n)+", inspect.cleandoc(module.__doc__ or "") + "\n", re.MULTILINE)
    programs = ("\n".join(line[4:] for line in block.splitlines()) for block in found)
    return [program for program in programs if "import" in program]


def names_used(code: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yields each module of ours that is imported, with the name taken from there; None for the module itself."""
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.partition(".")[0] in PACKAGES)


if __name__ == "__main__":
    LIST.write_text(list_faces())
    sys.stdout.write(f"{LIST.relative_to(ROOT)} is written: read its diff\n")
