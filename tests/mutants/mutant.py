"""A deliberate bug, and its way into a process without ever being in the product.

A mutant names a module and the lines of its source to replace; an import hook compiles the module from the changed text.
Each old text must occur exactly once, so a mutant whose place has moved fails loudly instead of testing nothing.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

import attrs

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 10

HAPPY_PATH = (
    "tests/mutants/test_happy_path.py",
    "tests/log/test_segmented_log.py::test_what_was_appended_is_read_back",
    "tests/log/test_segmented_log.py::test_an_empty_log_holds_nothing",
    "tests/log/test_recovery.py::test_a_new_directory_is_an_empty_log_and_nothing_to_report",
    "tests/raft/test_log_view.py",
    "tests/raft/test_rules.py::test_the_window_is_bounded_in_messages_and_in_bytes",
)
"""The happy path: what a programmer would run after a careless change, and see green."""


class MutantMisplaced(Exception):
    """The source no longer has the text that this mutant replaces, or has it more than once."""


@attrs.frozen
class Edit:
    """One piece of source text and what stands there instead; whole lines without the last line break."""

    old: str
    new: str


@attrs.frozen(kw_only=True)
class Mutant:
    """One deliberate bug.

    `oracles` are those expected to kill it; any other oracle but a crash may do it too. `judge` is a name of
    `judges.JUDGES`.
    """

    name: str
    bug: str
    module: str
    edits: Sequence[Edit]
    oracles: Sequence[str]
    judge: str = "simulation"
    explored: bool = False
    """True if the exhaustive search of its first scope must find it as well."""
    happy: Sequence[str] = HAPPY_PATH

    @property
    def path(self) -> Path:
        """The source file that it changes."""
        return ROOT.joinpath(*self.module.split(".")).with_suffix(".py")

    def apply(self, source: str) -> str:
        """The source with the bug in it; `MutantMisplaced` if it does not fit."""
        for edit in self.edits:
            if source.count(edit.old) != 1:
                found = source.count(edit.old)
                raise MutantMisplaced(f"{self.name}: {self.module} has {found} times, not once: {edit.old!r}")
            source = source.replace(edit.old, edit.new)
        return source

    def lines_changed(self) -> int:
        """Returns the number of lines that it adds or that it removes, whichever is larger."""
        return sum(max(len(edit.old.splitlines()), len(edit.new.splitlines())) for edit in self.edits)


def plant(
    name: str,
    bug: str,
    module: str,
    old: str,
    new: str,
    *,
    oracles: Sequence[str],
    judge: str = "simulation",
    explored: bool = False,
    happy: Sequence[str] = HAPPY_PATH,
) -> Mutant:
    """Returns a bug at one place, where `new` stands instead of `old`."""
    return Mutant(
        name=name,
        bug=bug,
        module=module,
        edits=[Edit(old, new)],
        oracles=oracles,
        judge=judge,
        explored=explored,
        happy=happy,
    )


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text; the byte code of the true module is neither read nor written."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module with the bug in it."""
        source = Path(self.path).read_text()
        return compile(self.mutant.apply(source), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The changed module, and nothing else."""
        if fullname != self._mutant.module:
            return None
        loader = _Loader(fullname, str(self._mutant.path))
        loader.mutant = self._mutant
        return importlib.util.spec_from_file_location(fullname, self._mutant.path, loader=loader)


def install(mutant: Mutant) -> None:
    """Let this process import the changed module; it must not have imported the true one yet."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))
