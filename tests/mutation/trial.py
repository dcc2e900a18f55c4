"""One mutation on trial: a forked process loads the changed module and runs its tests and oracles.

The parent has loaded everything and asked the oracles once; the child puts the change in place and asks again.
"""

import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType

import attrs

from tests.mutants.mutant import ROOT
from tests.mutation.modules import Subject
from tests.mutation.mutator import Mutation

SURVIVED, KILLED = 0, 1
PROJECT = frozenset({"raft", "log", "jepsen_like", "kafka_compat", "rocketmq_compat", "tests"})


class End(enum.Enum):
    """The end of a trial."""

    SURVIVED = "survived"
    KILLED = "killed"
    TIMEOUT = "timeout"


@attrs.frozen
class Outcome:
    """The fate of one mutation, and the seconds of its trial."""

    mutation: Mutation
    end: End
    seconds: float


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the given text; byte code is neither read nor written."""

    text: str

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed module."""
        return compile(self.text, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The changed module, and nothing else."""
        if fullname != self._mutation.module:
            return None
        file = ROOT.joinpath(*fullname.split(".")).with_suffix(".py")
        loader = _Loader(fullname, str(file))
        loader.text = self._mutation.source
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


def warm_up(subject: Subject) -> str | None:
    """Load all that the oracles of `subject` need, by asking them; what they find although nothing is changed."""
    for oracle in (*subject.quick, *subject.oracles):
        if (found := oracle()) is not None:
            return found
    return None


def outcomes(work: Sequence[tuple[Subject, Mutation]], jobs: int) -> Iterator[Outcome]:
    """Try all, `jobs` at a time, in no particular order."""
    running: dict[int, tuple[int, Subject, Mutation, float]] = {}  # by pidfd
    waiting = iter(work)
    try:
        while True:
            while len(running) < jobs and (following := next(waiting, None)) is not None:
                subject, mutation = following
                pid = _fork(lambda subject=subject, mutation=mutation: _trial(subject, mutation))  # type: ignore[misc]
                running[os.pidfd_open(pid)] = (pid, subject, mutation, time.monotonic())
            if not running:
                return
            ready, _, _ = select.select(list(running), [], [], 1.0)
            now = time.monotonic()
            for watch, (pid, subject, _, begun) in running.items():
                # Processor time is bounded in the child; this is for one that waits for something that never comes.
                if watch not in ready and now - begun > 4 * subject.seconds_max:
                    os.kill(pid, signal.SIGKILL)
            for watch in ready:
                pid, _, mutation, begun = running.pop(watch)
                os.close(watch)
                yield Outcome(mutation, _ending(os.waitpid(pid, 0)[1]), now - begun)
    finally:
        for watch, (pid, *_) in running.items():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(watch)


def _ending(status: int) -> End:
    if os.WIFSIGNALED(status):
        return End.TIMEOUT
    return End.SURVIVED if os.WEXITSTATUS(status) == SURVIVED else End.KILLED


def _fork(child: Callable[[], int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = KILLED
    try:
        status = child()
    except BaseException:  # noqa: BLE001 - whatever a broken module raises, it was noticed
        status = KILLED
    finally:
        os._exit(status)


def _trial(subject: Subject, mutation: Mutation) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    seconds = int(subject.seconds_max)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    put_in_place(mutation)
    return examine(subject)


def put_in_place(mutation: Mutation) -> None:
    """Let this process go on with the changed module.

    A change within a function goes into that function as it is, wherever it was handed to. For any other, all of the
    project is forgotten, so that the next import takes the changed module and everything that uses it is made again.
    """
    if mutation.is_in_body:
        path = str(ROOT.joinpath(*mutation.module.split(".")).with_suffix(".py"))
        codes = dict(_codes_in(compile(mutation.source, path, "exec")))
        for function in _functions_of(sys.modules[mutation.module]):
            function.__code__ = codes[function.__code__.co_qualname]
        return
    for name in list(sys.modules):
        if name.partition(".")[0] in PROJECT and not name.startswith(("tests.mutation", "tests.mutants")):
            del sys.modules[name]
    sys.meta_path.insert(0, _Finder(mutation))


def _codes_in(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const.co_qualname, const
            yield from _codes_in(const)


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Every function that was written in `module`, those of its classes too; none that attrs made."""
    for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
        for each in vars(owner).values():
            for found in (
                each,
                getattr(each, "__func__", None),
                getattr(each, "fget", None),
                getattr(each, "func", None),
            ):
                if isinstance(found, FunctionType) and found.__code__.co_filename == module.__file__:
                    yield found


def examine(subject: Subject) -> int:
    """Run the tests and oracles of `subject` on whatever is importable here: `SURVIVED` or `KILLED`."""
    import pytest

    # Plain assertions: what rewrites them minds that the project is loaded already.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    with contextlib.chdir(ROOT):
        if any(oracle() is not None for oracle in subject.quick):
            return KILLED
        if pytest.main([*options, *subject.tests]) != pytest.ExitCode.OK:
            return KILLED
        for oracle in subject.oracles:
            if oracle() is not None:
                return KILLED
    return SURVIVED
