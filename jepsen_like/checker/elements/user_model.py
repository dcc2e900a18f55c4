"""Objects whose model is a class of the user's: what it is given, where it comes from, and the search that asks it.

    class Counter:
        initial = 0

        def step(self, state, op):
            match op.f:
                case "add":
                    return state + op.value
                case "read":
                    return state if op.value in (None, state) else None

`step` returns the state after `op` took effect and answered what it answered, or None if it cannot have. States are hashable
and not None. It is asked about every operation that happened, and about those of unknown outcome, which have no answer;
what failed is left out. Two more attributes are optional: `keyed = True` if every value is [key value], so that each key is an
object of its own, and `reads = {"read"}`, the operations that never change the state, of which a search needs to try less.

The class is imported where its module lies; to a worker that does not have it the text of a module travels along.
"""

import functools
import importlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Collection, Hashable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import attrs

from jepsen_like.checker.cycles.levels import HeldTo
from jepsen_like.checker.edn_values import (
    Apart,
    Character,
    EdnList,
    EdnMap,
    EdnSet,
    Keyword,
    Symbol,
    Tagged,
    cut,
    text_of,
)
from jepsen_like.checker.pending import Sequential
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NONE, CallOp, Op, Outcome

VALUES: Final = "values.arrow"
"""In the run directory: what the numbers in its history stand for, a row each."""


class Stepping(Protocol):
    """The protocol that the class of a user keeps."""

    initial: Hashable

    def step(self, state: Any, op: "UserCall") -> Any:
        """See the module."""
        ...


class AskedWho(BaseException):
    """A class asks who did an operation. No error: those of unknown outcome are then told apart by their processes, too."""


@attrs.frozen
class UserCall:
    """An operation as `step` sees it. Lists are tuples; of EDN, values have the types of `edn_values`."""

    f: str
    asked: Any
    """The value of its invocation."""
    answered: Any
    """The value of its `ok`, None if its outcome is unknown."""
    is_known: bool
    _process: int
    _tells_process: bool

    @property
    def process(self) -> int:
        """Returns who did it. Raises `AskedWho` where that is not told."""
        if not self._tells_process:
            raise AskedWho
        return self._process

    @property
    def value(self) -> Any:
        """Returns what was answered, or what was asked where nothing was."""
        return self.answered if self.answered is not None else self.asked


@attrs.frozen
class UserModel:
    """A class of a user, by value: it reaches workers of a cluster as it is."""

    module: str
    name: str
    root: str
    """The place where the module, or its package, is found."""
    text: str
    """Of the module; empty if it lies in a package, which workers need to have."""

    @classmethod
    def of(cls, spec: str) -> "UserModel":
        """Returns the class that `module:Class` names, searched for from the current directory too. Raises `ValueError`."""
        module, _, name = spec.partition(":")
        if not module or not name:
            raise ValueError(f"{spec}: module:Class expected")
        root = str(Path.cwd())
        found = cls(module, name, root, "")
        loaded_class = found.load()
        for needed in ("initial", "step"):
            if not hasattr(loaded_class, needed):
                raise ValueError(f"{spec}: the class has no {needed}")
        file = sys.modules[module].__file__
        alone = "." not in module and file is not None
        return attrs.evolve(found, text=Path(file).read_text() if alone and file is not None else "")

    @property
    def spec(self) -> Path:
        """Returns its name, as the place of an error."""
        return Path(f"{self.module}:{self.name}")

    def load(self) -> Any:
        """Returns the class. Raises `ValueError` if there is none."""
        return _load(self)

    def make(self) -> Stepping:
        """Returns an instance. Raises `UnreadableHistory` if it cannot be made."""
        try:
            instance: Stepping = self.load()()
        except (Exception, SystemExit) as error:
            raise UnreadableHistory(self.spec, f"cannot be made: {error!r}") from error
        return instance

    @property
    def keyed(self) -> bool:
        """Returns whether every value is [key value]. Raises `UnreadableHistory` if the class is not there."""
        try:
            return bool(getattr(self.load(), "keyed", False))
        except ValueError as error:
            raise UnreadableHistory(self.spec, str(error)) from error


@functools.cache
def _load(model: UserModel) -> Any:
    try:
        module = _module(model)
        return getattr(module, model.name)
    except SystemExit as error:  # of a program that does its work when it is imported
        raise ValueError(f"{model.spec}: the module ends the program when it is imported") from error
    except Exception as error:
        raise ValueError(f"{model.spec}: {error}") from error


def _module(model: UserModel) -> ModuleType:
    if Path(model.root).is_dir():
        if model.root not in sys.path:
            sys.path.insert(0, model.root)
        try:
            return importlib.import_module(model.module)
        except ModuleNotFoundError as error:
            if not model.text or error.name != model.module:
                raise
    if not model.text:
        raise ModuleNotFoundError(f"no module {model.module} on this machine")
    with tempfile.TemporaryDirectory(prefix="quorumlog-model-") as place:
        file = Path(place) / f"{model.module}.py"
        file.write_text(model.text)
        spec = importlib.util.spec_from_file_location(model.module, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[model.module] = module
        spec.loader.exec_module(module)
        return module


def encode(value: Any) -> str:
    """Returns a value as JSON in which each type has a letter of its own."""
    return json.dumps(_tag(value))


_PARTS: Final[dict[str, type[Any]]] = {"s": EdnSet, "p": EdnList, "l": tuple}
_TEXTS: Final[dict[str, type[Any]]] = {"k": Keyword, "y": Symbol, "c": Character, "d": Decimal, "r": Fraction}


def _tag(value: Any) -> Any:
    match value:
        case EdnSet() | EdnList():
            return ["s" if isinstance(value, EdnSet) else "p", *map(_tag, value)]
        case list() | tuple():
            return ["l", *map(_tag, value)]
        case dict():
            kind = "e" if isinstance(value, EdnMap) else "m"
            return [kind, *([_tag(key), _tag(each)] for key, each in value.items())]
        case Apart():
            return _tag(value.value)
        case Keyword() | Symbol():
            return ["k" if isinstance(value, Keyword) else "y", value.name]
        case Character():
            return ["c", value.char]
        case Decimal() | Fraction():
            return ["d" if isinstance(value, Decimal) else "r", str(value)]
        case Tagged():
            return ["t", value.tag, _tag(value.value), _tag(value.same)]
        case _:
            return value


def decode(text: str) -> Any:
    """Returns the value of `encode`, with tuples for lists."""
    return _untag(json.loads(text))


def _untag(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *inside = value
    if kind in _PARTS:
        return _PARTS[kind](map(_untag, inside))
    if kind in _TEXTS:
        return _TEXTS[kind](inside[0])
    if kind == "t":
        return Tagged(inside[0], _untag(inside[1]), _untag(inside[2]))
    pairs = [(_untag(key), _untag(each)) for key, each in inside]
    return EdnMap.of(pairs) if kind == "e" else dict(pairs)


class AskedClass(Sequential):
    """A class of the user's as the search asks it, which is told the processes of operations or not."""

    def __init__(self, of_class: UserModel, *, tells_process: bool) -> None:
        """Raises `UnreadableHistory` for a class that is none."""
        self._model = of_class.make()
        self._spec = of_class.spec
        self._tells_process = tells_process
        try:
            reads = getattr(self._model, "reads", ())
            self._reads: Collection[str] = frozenset([reads] if isinstance(reads, str) else reads)
            self.initial: Hashable = self._model.initial
            hash(self.initial)
        except Exception as error:
            raise UnreadableHistory(self._spec, f"has no initial state, or reads, that will do: {error!r}") from error
        if self.initial is None:
            raise UnreadableHistory(self._spec, "its initial state is None, which stands for what cannot have happened")

    def step(self, state: Hashable, op: Op) -> Hashable | None:
        """See `Sequential`. Raises `UnreadableHistory` for what the class raises, and `AskedWho`."""
        assert isinstance(op, CallOp)
        try:
            after: Hashable | None = self._model.step(state, op.call)
            hash(after)
        except (Exception, SystemExit) as error:
            raise UnreadableHistory(
                self._spec, f"step({cut(repr(state))}, {op.words}) raised {cut(repr(error))}"
            ) from error
        return after

    def changes(self, op: Op) -> bool:
        """See `Sequential`."""
        assert isinstance(op, CallOp)
        return op.call.f not in self._reads

    def effect(self, op: Op) -> Hashable:
        """See `Sequential`."""
        return op.seen, op.a, op.process if self._tells_process else NONE


def call_of(op: Op, values: dict[int, Any], *, tells_process: bool) -> CallOp:
    """Returns an operation of a history with the values that its numbers stand for."""
    known = op.type is Outcome.OK
    call = UserCall(str(values[op.seen]), values[op.a], values[op.b], known, op.process, tells_process)
    words = call.f if call.asked is None else f"{call.f} of {cut(text_of(call.asked))}"
    if call.is_known and call.answered != call.asked:
        words += f" that was answered {cut(text_of(call.answered))}"
    fields = {field.name: getattr(op, field.name) for field in attrs.fields(Op)}
    return CallOp(**fields, words=words, call=call)


AnyModel = Model | UserModel | HeldTo
"""The models that a history can be checked against."""
