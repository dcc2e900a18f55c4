"""A process that serves reports its end in one line and by a status, with the reason that it has at that time."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio

from log.errors import DirectoryLocked, NoSpace, StorageFailed
from raft import process as process_module
from raft.process import EventWriter, ServerProcess


@pytest.fixture
def end_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str, str]]:
    """Runs a process that ends with an error. Returns its status, or the error if it is raised; the reason told; and its stderr."""
    monkeypatch.setattr(process_module, "tame_garbage_collection", lambda: None)  # this process lives on

    def end(error: Exception, *, started: bool) -> tuple[Any, str, str]:
        process = ServerProcess(name="server", listen=("127.0.0.1", 7), directory="d", tell=EventWriter())

        async def fail() -> None:
            raise error

        async def serve() -> None:
            process.started = started
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)

        try:
            process.run(serve, lambda error: "explained" if isinstance(error, KeyError) else None)
        except SystemExit as exit_:
            how: Any = exit_.code
        except Exception as raised:  # noqa: BLE001 - which one it is, is what the tests ask
            how = raised
        else:
            raise AssertionError("the process did not end")
        out, err = capsys.readouterr()
        told = json.loads(out.splitlines()[-1])
        assert told["event"] == "failed"
        return how, told["reason"], err

    return end


@pytest.mark.parametrize(
    ("error", "started", "reason"),
    [
        (OSError(98, "Address already in use"), False, "cannot listen on 127.0.0.1:7: Address already in use"),
        (StorageFailed("mkdir", "d", "denied"), False, "cannot use --data d: mkdir of d failed: denied"),
        (StorageFailed("sync", "d/1", "rotten"), True, "sync of d/1 failed: rotten; the server stops"),
        (NoSpace("write", "d/1"), True, "free some space"),
        (DirectoryLocked("d"), False, "choose another --data"),
        (KeyError("known to the system"), True, "explained"),
    ],
)
def test_what_the_environment_does_not_allow_has_status_4_and_one_line(
    end_process: Callable[..., tuple[Any, str, str]], error: Exception, started: bool, reason: str
) -> None:
    how, told, err = end_process(error, started=started)
    assert how == 4
    assert reason in told
    assert err == f"quorumlog server: {told}\n"


def test_a_socket_that_fails_after_the_start_is_not_taken_for_a_busy_port(
    end_process: Callable[..., tuple[Any, str, str]],
) -> None:
    error = OSError(24, "Too many open files")
    how, told, _ = end_process(error, started=True)
    assert how is error
    assert told == "OSError: [Errno 24] Too many open files"


def test_a_broken_invariant_has_status_1_and_its_traceback(end_process: Callable[..., tuple[Any, str, str]]) -> None:
    how, told, err = end_process(AssertionError("two leaders"), started=True)
    assert (how, told) == (1, "broken invariant: two leaders")
    assert "Traceback" in err


def test_an_event_has_the_time_of_the_wall_clock_in_utc_besides_the_monotonic_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = datetime.now(UTC)
    EventWriter()("started", node=1)
    event = json.loads(capsys.readouterr().out)
    assert event["time"].endswith("Z")
    told = datetime.fromisoformat(event["time"])
    assert before - timedelta(milliseconds=1) <= told <= datetime.now(UTC)
    assert (event["event"], event["node"]) == ("started", 1)
    assert isinstance(event["t_ns"], int)
