"""`quorumlog mirror` and `quorumlog switch` as processes: killed, restarted, and read by an operator."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.mirror.command import advice_of, sentence_of
from jepsen_like.mirror.plan import LinkEnd, MirrorPlan
from jepsen_like.mirror.switching import LeftBehind, Switched, SwitchPlan
from tests.jepsen_like.mirror.kafka.clusters import TwoClusters, open_two, produce, until, values_in

PLAN = MirrorPlan(LinkEnd((("a", 1),)), LinkEnd((("b", 2),)))


def words_of(two: TwoClusters, verb: str, *words: str) -> list[str]:
    return [verb, "--from", two.a.bootstrap_servers, "--to", two.b.bootstrap_servers, "--json", *words]


async def call(two: TwoClusters, *words: str) -> int:
    """Run a command in a thread of this process; returns its exit status."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(execute, words_of(two, *words))


def read_rows(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def make_values(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.cluster
async def test_a_killed_process_goes_on_and_an_operator_switches_and_returns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with open_two() as two:
        await produce(two.a, make_values(0, 20))
        rule = await two.b.answer("EndTxn", delay=3600, times=None, call=2)
        process = [sys.executable, "-m", "jepsen_like.cli"]
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, stdout=subprocess.DEVNULL, check=False)
            killed = await nursery.start(run, [*process, *words_of(two, "mirror")])
            await until(lambda: bool(rule.done))
            killed.kill()
        await two.b.undo(rule)
        with trio.fail_after(60):
            words = words_of(two, "mirror", "--until-caught-up")
            done = await trio.run_process([*process, *words], capture_stdout=True, check=False)
        events = read_rows(done.stdout.decode())
        assert done.returncode == ExitStatus.VALID
        assert [events[0]["event"], events[-1]["why"]] == ["open", "caught-up"]
        assert await values_in(two.b) == make_values(0, 20)

        await produce(two.a, make_values(20, 2))
        assert await call(two, "mirror", "--status") == ExitStatus.VALID
        rows = read_rows(capsys.readouterr().out)
        assert (rows[0]["lag"], rows[-1]["epoch"]) == (2, 1)
        assert await call(two, "switch") == ExitStatus.VALID
        rows = read_rows(capsys.readouterr().out)
        assert (rows[-1]["lost"], rows[-1]["epoch"]) == (0, 2)
        assert await call(two, "switch") == ExitStatus.NOT_DONE
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "was cut before (epoch 2); nothing was changed" in printed.err

        await produce(two.b, make_values(22, 1))
        assert await call(two, "switch", "--back") == ExitStatus.VALID
        assert read_rows(capsys.readouterr().out)[-1]["epoch"] == 4
        assert await values_in(two.a) == make_values(0, 23)


def advise(lost: int | None, **settings: Any) -> str:
    left = (LeftBehind(("t", 0), 5, None if lost is None else 5 + lost, lost),)
    return " / ".join(advice_of(Switched(2, left, 1.0), SwitchPlan(PLAN, **settings)))


def test_advice_after_a_switch_states_what_is_certain_and_the_next_command() -> None:
    assert "every record that the source acknowledged is in the target" in advise(0)
    assert "3 records of the source are not in the target" in advise(3)
    assert "the source does not answer for all partitions" in advise(None)
    assert "quorumlog mirror --from b:2 --to a:1" in advise(0)
    assert "still OPEN" in advise(0, fences=False)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"event": "progress", "records": 5, "lag_records": None}, "5 records copied, lag unknown"),
        ({"event": "progress", "records": 5, "lag_records": 2, "source": "x"}, "lag 2 offsets; the source: x"),
        ({"event": "skipped", "partition": "t-0", "from": 1, "to": 4}, "retention removed 1 to 4"),
        ({"event": "broken", "why": "a broker is silent"}, "a broker is silent; trying again"),
    ],
)
def test_events_are_told_in_words(event: dict[str, Any], words: str) -> None:
    assert words in sentence_of(event)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["mirror", "--from", "a:1", "--to", "a:1"], "a mirror needs two clusters"),
        (["switch", "--from", "a:1", "--to", "b:1", "--diverged", "keep"], "--diverged is for --back"),
        (
            ["mirror", "--from", "a:1", "--to", "b:1", "--system", "rocketmq", "--diverged", "recreate"],
            "--diverged recreate is for Kafka",
        ),
    ],
)
def test_wrong_command_lines_start_nothing(
    words: Sequence[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(words) == ExitStatus.USAGE
    assert complaint in capsys.readouterr().err
