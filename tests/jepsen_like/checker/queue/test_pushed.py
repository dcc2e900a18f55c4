"""Each kind of violation of consumers that are pushed to, planted in a history as its recorder writes it, is found by name and nothing else is."""

import json
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, ErrorCode, Outcome
from jepsen_like.workload.queue_recorder import QueueRecorder

S = 1_000_000_000
MS = S // 1000
KEYS = 4
COUNT = 12
QUEUES = 2
GROUP = 0
FIRST, SECOND, NEWCOMER, LOOKER, SENDER = 11, 12, 13, 30, 1


def value_of(key: int, number: int) -> int:
    return (number + 1) * KEYS + key


def sent_at(number: int) -> int:
    return number * 100 * MS


@attrs.define
class Run:
    """Keys 0 and 1 are sent to queues of their own, one message each 100 ms, and given to two members 10 ms later."""

    recorder: QueueRecorder
    given: dict[int, list[tuple[int, int, int]]]
    """By queue: value, begin of the listener, member; by offset."""
    looks: dict[int, list[tuple[int, int]]]
    """By queue: position and time."""
    logs: dict[int, list[int]]
    more: list[Callable[[], None]] = attrs.field(factory=list)
    orderly: bool = True

    def write(self) -> None:
        for queue, values in self.logs.items():
            for number, value in enumerate(values):
                if value % KEYS >= QUEUES:
                    continue  # its sender knows better
                at = sent_at(value // KEYS - 1)
                self.recorder.record_send(
                    value, partition=queue, offset=number, process=SENDER, t_inv=at, t_ret=at + 5 * MS
                )
            for value, at, member in self.given[queue]:
                self.give(queue, value, at, member)
            for position, at in self.looks[queue]:
                self.look(queue, position, at)
        for each in self.more:
            each()

    def give(self, queue: int, value: int, at: int, member: int = FIRST, *, takes: int = 5 * MS) -> None:
        offset = self.logs[queue].index(value)
        values, offsets = array("q", [value]), array("q", [offset])
        self.recorder.record_poll(
            values, offsets, partition=queue, process=member, t_inv=at, t_ret=at + takes, group=GROUP
        )

    def look(self, queue: int, position: int, at: int) -> None:
        about = {"partition": queue, "process": LOOKER, "t_inv": at, "t_ret": at + MS}
        self.recorder.position_read(position, group=GROUP, **about)

    def joins(self, at: int) -> None:
        self.recorder.record_assignment(range(QUEUES), process=NEWCOMER, t_ns=at, group=GROUP)


def sound_run(recorder: QueueRecorder) -> Run:
    logs = {queue: [value_of(queue, number) for number in range(COUNT)] for queue in range(QUEUES)}
    given = {
        queue: [(value, sent_at(number) + 10 * MS, FIRST + queue) for number, value in enumerate(values)]
        for queue, values in logs.items()
    }
    looks = {queue: [(number, sent_at(number)) for number in range(COUNT)] for queue in range(QUEUES)}
    return Run(recorder, given, looks, logs)


def nothing(run: Run) -> None:
    """As it is."""


def one_was_never_given(run: Run) -> None:
    del run.given[1][-1]


def one_was_given_again(run: Run) -> None:
    run.more.append(lambda: run.give(1, value_of(1, 3), 3 * S, SECOND))


def a_position_before_it_was_given(run: Run) -> None:
    run.looks[1].append((COUNT, sent_at(COUNT - 1) + 5 * MS))


def a_position_goes_back(run: Run) -> None:
    """Long after its members began."""
    run.looks[1] += [(COUNT, 20 * S), (4, 21 * S)]


def it_goes_back_to_where_another_began(run: Run) -> None:
    a_position_goes_back(run)
    run.more.append(lambda: run.joins(sent_at(4) + 20 * MS))
    run.more.append(lambda: run.give(1, value_of(1, 4), 19 * S, NEWCOMER))


def it_goes_back_behind_where_another_began(run: Run) -> None:
    it_goes_back_to_where_another_began(run)
    run.looks[1][-1] = (3, 21 * S)


def it_goes_back_long_after_another_began(run: Run) -> None:
    it_goes_back_to_where_another_began(run)
    run.looks[1][-2:] = [(COUNT, 40 * S), (4, 41 * S)]


def another_began_before_the_position(run: Run) -> None:
    run.more.append(lambda: run.joins(sent_at(6) + 20 * MS))
    run.more.append(lambda: run.give(1, value_of(1, 4), 2 * S, NEWCOMER))


def two_at_once(run: Run) -> None:
    run.more.append(lambda: run.give(1, value_of(1, 5), sent_at(6) + 12 * MS, FIRST))


def a_later_one_of_a_key_first(run: Run) -> None:
    value, _, member = run.given[1][4]
    run.given[1][4] = (value, sent_at(5) + 20 * MS, member)
    run.looks[1].clear()


def a_later_one_behind_an_unknown_first(run: Run) -> None:
    """A message of unknown outcome may be stored at any later time, and binds nothing."""
    late = value_of(2, 0)
    run.logs[1].append(late)
    run.given[1].append((late, 5 * S, SECOND))
    run.recorder.not_sent(
        late, Outcome.INFO, ErrorCode.TIMEOUT, partition=1, process=2, t_inv=sent_at(0), t_ret=sent_at(0) + MS
    )


PLANTS: tuple[tuple[Callable[[Run], None], Check | None], ...] = (
    (nothing, None),
    (one_was_given_again, None),
    (it_goes_back_to_where_another_began, None),
    (one_was_never_given, Check.UNDELIVERED),
    (a_position_before_it_was_given, Check.COMMIT_AHEAD),
    (a_position_goes_back, Check.COMMIT_REGRESS),
    (it_goes_back_behind_where_another_began, Check.COMMIT_REGRESS),
    (it_goes_back_long_after_another_began, Check.COMMIT_REGRESS),
    (another_began_before_the_position, Check.COMMIT_REGRESS),
    (two_at_once, Check.TWO_OWNERS),
    (a_later_one_of_a_key_first, Check.KEY_ORDER),
)


def judge_plants(
    directory: Path, plants: Sequence[Callable[[Run], None]], allowances: Sequence[Allowance] = (), **queue: Any
) -> Verdict:
    said = {"pushed": True, "orderly": True, "keys": KEYS, "groups": {str(GROUP): "readers"}, **queue}
    (directory / "test.json").write_text(json.dumps({"nodes": 1, "queue": said}))
    with HistoryWriter(directory / "history.parquet") as history:
        run = sound_run(QueueRecorder(history))
        for plant in plants:
            plant(run)
        run.write()
    with DumpWriter(directory / "dump.parquet") as writer:
        for queue_, values in run.logs.items():
            writer.begin(1, 0, queue_)
            writer.record(1, 0, 0, values, obj=queue_)
        writer.dumped_ns = 10 * S
    return check_run(directory, Model.QUEUE, Engine.LOCAL, allowances=allowances)


@pytest.mark.parametrize(("plant", "check"), PLANTS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_what_was_planted_is_found_and_nothing_else(
    plant: Callable[[Run], None], check: Check | None, tmp_path: Path
) -> None:
    verdict = judge_plants(tmp_path, [plant])
    assert {*verdict.findings.counts} == ({check} if check else set()), verdict.violations
    assert verdict.valid is (check is None)
    assert verdict.findings.lost_acked == 0


def test_what_comes_again_is_counted(tmp_path: Path) -> None:
    verdict = judge_plants(tmp_path, [one_was_given_again])
    assert (verdict.findings.given, verdict.findings.given_again) == (QUEUES * COUNT, 1)


def the_next_owner_begins_during_the_last_message(run: Run) -> None:
    run.more.append(lambda: run.give(1, value_of(1, COUNT - 1), sent_at(COUNT - 1) + 12 * MS, NEWCOMER))


@pytest.mark.parametrize("unlocks_early", [True, False])
def test_the_last_message_of_an_owner_is_told_where_clients_unlock_early(unlocks_early: bool, tmp_path: Path) -> None:
    verdict = judge_plants(tmp_path, [the_next_owner_begins_during_the_last_message], unlocks_early=unlocks_early)
    assert verdict.valid is unlocks_early
    assert [one.check for one in verdict.findings.tolerated] == [Check.TWO_OWNERS] * unlocks_early


def test_an_owner_that_goes_on_has_not_given_up(tmp_path: Path) -> None:
    assert judge_plants(tmp_path, [two_at_once], unlocks_early=True).findings.counts == {Check.TWO_OWNERS: 1}


def fault(begun: int, ended: int, *, rewinds_ns: int = NONE, unlocks_ns: int = NONE) -> Allowance:
    return Allowance(
        fault=7,
        kind="kill",
        promise="in memory",
        since_ns=-NEVER,
        begun_ns=begun,
        injected_ns=ended,
        may_cost_records=False,
        rewinds_ns=rewinds_ns,
        unlocks_ns=unlocks_ns,
    )


@pytest.mark.parametrize(
    ("plant", "allowance", "check"),
    [
        (two_at_once, fault(0, 100 * MS, unlocks_ns=S), Check.TWO_OWNERS),
        (a_position_goes_back, fault(sent_at(6), S, rewinds_ns=200 * MS), Check.COMMIT_REGRESS),
    ],
)
def test_what_a_fault_explains_is_told_with_it_and_is_no_violation(
    plant: Callable[[Run], None], allowance: Allowance, check: Check, tmp_path: Path
) -> None:
    verdict = judge_plants(tmp_path, [plant], [allowance])
    assert verdict.valid is True
    (told,) = verdict.findings.tolerated
    assert (told.check, told.fault, told.count) == (check, 7, 1)
    assert "in memory" in verdict.checks[str(check)]["reason"]


@pytest.mark.parametrize(
    ("plant", "allowance", "check"),
    [
        (two_at_once, fault(0, 100 * MS, unlocks_ns=200 * MS), Check.TWO_OWNERS),
        (two_at_once, fault(0, 100 * MS, rewinds_ns=S), Check.TWO_OWNERS),
        (a_position_goes_back, fault(sent_at(6), S, rewinds_ns=50 * MS), Check.COMMIT_REGRESS),
        (a_position_goes_back, fault(sent_at(6), S, unlocks_ns=NEVER), Check.COMMIT_REGRESS),
        (one_was_never_given, fault(0, 5 * S, rewinds_ns=NEVER, unlocks_ns=NEVER), Check.UNDELIVERED),
    ],
)
def test_what_a_fault_does_not_explain_is_a_violation(
    plant: Callable[[Run], None], allowance: Allowance, check: Check, tmp_path: Path
) -> None:
    verdict = judge_plants(tmp_path, [plant], [allowance])
    assert {*verdict.findings.counts} == {check}
    assert not verdict.findings.tolerated


def a_key_that_moved(run: Run) -> None:
    """Its message 5 goes to the other queue, and is given before message 4."""
    moved = run.logs[1].pop(5)
    run.logs[0].insert(6, moved)
    (value, at, _) = run.given[1].pop(5)
    run.given[0].append((value, at, FIRST))
    run.given[1][4] = (value_of(1, 4), at + S, SECOND)
    run.given[1][5:] = [(value, at + 2 * S, SECOND) for value, at, _ in run.given[1][5:]]
    run.looks = {queue: [] for queue in run.looks}


@pytest.mark.parametrize("keys_move", [True, False])
def test_an_inversion_over_a_move_is_told_where_keys_may_move(keys_move: bool, tmp_path: Path) -> None:
    verdict = judge_plants(tmp_path, [a_key_that_moved], keys_move=keys_move)
    if keys_move:
        assert verdict.valid is True
        assert [one.check for one in verdict.findings.tolerated] == [Check.KEY_ORDER]
    else:
        assert verdict.findings.counts[Check.KEY_ORDER] == 1


def test_a_message_of_unknown_outcome_binds_no_order(tmp_path: Path) -> None:
    assert judge_plants(tmp_path, [a_later_one_behind_an_unknown_first]).valid is True


def test_within_one_queue_nothing_may_move(tmp_path: Path) -> None:
    assert judge_plants(tmp_path, [a_later_one_of_a_key_first], keys_move=True).findings.counts == {Check.KEY_ORDER: 1}
