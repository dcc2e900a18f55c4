"""Each way to break a transaction, planted in a sound run as its recorder writes it, is found by its name."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NONE, READ_COMMITTED, READ_UNCOMMITTED, ErrorCode, Outcome
from jepsen_like.workload.client_rows import EndRow, FoundRow, PositionRow, TransactionRow
from jepsen_like.workload.transactions import TransactionRecorder

MS = 1_000_000
END = 10_000 * MS
NODES = (1, 2, 3)
FEEDER, SECOND_FEEDER, TRANSFORMER, FOLLOWER, ASKER, FIRST_FINAL = 1, 2, 3, 4, 5, 10
INPUT, LEFT, RIGHT = 0, 1, 2


@attrs.define
class Written:
    """A transaction: records are (partition, value, source), in the order sent, one each millisecond."""

    number: int
    process: int
    outcome: Outcome
    begun_ms: int
    records: list[tuple[int, int, int]]
    position: int = NONE
    commits: bool = True
    """True if its commit was asked for."""

    @property
    def asked_ns(self) -> int:
        return (self.begun_ms + 50) * MS if self.commits else NONE


@attrs.define
class Run:
    """A sound run of three partitions, in which a test changes something before it is written."""

    transactions: list[Written]
    logs: dict[tuple[int, int], list[tuple[int, int, bool]]] = attrs.field(factory=dict)
    """By partition and node: offset, value, and whether it is visible."""
    polls: list[tuple[int, int, list[int], int]] = attrs.field(factory=list)
    """Of read_committed consumers: process, partition, offsets, and when the poll ended, in ms."""
    ends: list[tuple[int, int, int]] = attrs.field(factory=list)
    """Partition, last stable offset, and when it was told, in ms."""
    positions: list[tuple[int, int]] = attrs.field(factory=list)
    """The position of the group, and when it was told, in ms."""
    inits: list[tuple[int, int, int]] = attrs.field(factory=list)
    """Process, transactional id, and when it was taken, in ms."""
    finals: dict[tuple[int, int], list[tuple[int, int]]] = attrs.field(factory=dict)
    """By level and partition: offsets and values of the final read."""

    @classmethod
    def sound(cls) -> "Run":
        ok, fail, unknown = Outcome.OK, Outcome.FAIL, Outcome.INFO
        run = cls(
            [
                Written(1, FEEDER, ok, 100, [(INPUT, 11, NONE), (INPUT, 12, NONE), (LEFT, 13, NONE)]),
                Written(2, FEEDER, fail, 200, [(INPUT, 21, NONE), (RIGHT, 22, NONE)], commits=False),
                Written(3, TRANSFORMER, ok, 300, [(LEFT, 31, 11), (RIGHT, 32, 12)], position=2),
                Written(4, FEEDER, unknown, 400, [(INPUT, 41, NONE), (LEFT, 42, NONE), (RIGHT, 43, NONE)]),
                Written(5, SECOND_FEEDER, ok, 700, [(INPUT, 51, NONE), (RIGHT, 52, NONE)]),
            ]
        )
        offsets = dict.fromkeys((INPUT, LEFT, RIGHT), 0)
        for one in run.transactions:
            is_visible = one.outcome is not fail
            for partition, value, _ in one.records:
                for node in NODES:
                    run.logs.setdefault((partition, node), []).append((offsets[partition], value, is_visible))
                offsets[partition] += 1
            for partition in {each for each, *_ in one.records}:
                offsets[partition] += 1  # the marker
        run.inits = [(FEEDER, 0, 10), (TRANSFORMER, 1, 20), (SECOND_FEEDER, 0, 600)]
        run.polls = [(FOLLOWER, INPUT, [0, 1], 170), (FOLLOWER, INPUT, run.places(INPUT)[2:], 1000)]
        run.ends = [(INPUT, 3, 160), (INPUT, 5, 300)]
        run.positions = [(NONE, 30), (2, 2000)]
        for partition in offsets:
            log = run.logs[partition, 1]
            run.finals[READ_COMMITTED, partition] = [(at, value) for at, value, is_visible in log if is_visible]
            run.finals[READ_UNCOMMITTED, partition] = [(at, value) for at, value, _ in log]
        return run

    def places(self, partition: int) -> list[int]:
        """The offsets of what is visible."""
        return [offset for offset, _, is_visible in self.logs[partition, 1] if is_visible]

    def hide(self, value: int, nodes: Iterable[int] = NODES, *, in_read: bool = True) -> None:
        """Let a record be aborted, or be it already, in these logs and in the final read."""
        self._set(value, nodes, False)
        for partition in (INPUT, LEFT, RIGHT) if in_read else ():
            kept = [each for each in self.finals[READ_COMMITTED, partition] if each[1] != value]
            self.finals[READ_COMMITTED, partition] = kept

    def show(self, value: int) -> None:
        """Let the record of an aborted transaction be visible."""
        self._set(value, NODES, True)
        for partition in (INPUT, LEFT, RIGHT):
            found = [(at, each) for at, each, is_visible in self.logs[partition, 1] if is_visible]
            self.finals[READ_COMMITTED, partition] = found

    def drop(self, value: int) -> None:
        """Let a record be nowhere."""
        for name, log in self.logs.items():
            self.logs[name] = [each for each in log if each[1] != value]
        for level, found in self.finals.items():
            self.finals[level] = [each for each in found if each[1] != value]

    def _set(self, value: int, nodes: Iterable[int], is_visible: bool) -> None:
        for (partition, node), log in self.logs.items():
            if node in nodes:
                self.logs[partition, node] = [
                    (at, each, is_visible if each == value else before) for at, each, before in log
                ]

    def offset_of(self, value: int) -> int:
        return next((at for log in self.logs.values() for at, each, _ in log if each == value), NONE)

    def value_at(self, partition: int, offset: int) -> int:
        return next(value for at, value, _ in self.logs[partition, 1] if at == offset)

    def write(self, directory: Path) -> None:
        with HistoryWriter(directory / "history.parquet") as history:
            recorder = TransactionRecorder(history)
            for process, number, at in self.inits:
                recorder.record_init(number, process=process, t_inv=(at - 5) * MS, t_ret=at * MS)
            for one in self.transactions:
                records = [
                    [partition, value, source, NONE, (one.begun_ms + place) * MS]
                    for place, (partition, value, source) in enumerate(one.records)
                ]
                row = TransactionRow(
                    life=0,
                    transactional_id=0,
                    number=one.number,
                    outcome=one.outcome,
                    error=ErrorCode.NONE,
                    commit_ns=one.asked_ns,
                    t_ret=(one.begun_ms + 60) * MS,
                    records=records,
                    positions=[(INPUT, one.position)] if one.position != NONE else [],
                )
                recorder.record_transaction(row, process=one.process)
            for process, partition, offsets, at in self.polls:
                values = [self.value_at(partition, offset) for offset in offsets]
                found = FoundRow(0, READ_COMMITTED, partition, values, offsets, True, (at - 5) * MS, at * MS)
                recorder.record_found(found, process=process)
            for partition, end, at in self.ends:
                told = EndRow(0, READ_COMMITTED, partition, NONE, end, (at - 5) * MS, at * MS)
                recorder.record_end_of(told, process=ASKER)
            for position, at in self.positions:
                recorder.record_position(PositionRow(INPUT, position, (at - 5) * MS, at * MS), process=ASKER)
            for place, ((level, partition), found_last) in enumerate(self.finals.items()):
                process, values = FIRST_FINAL + place, [value for _, value in found_last]
                offsets = [offset for offset, _ in found_last]
                recorder.record_found(
                    FoundRow(0, level, partition, values, offsets, True, END, END + MS), process=process
                )
                recorder.record_end_of(EndRow(0, level, partition, 0, 99, END + MS, END + MS), process=process)
        with DumpWriter(directory / "dump.parquet") as dump:
            for (partition, node), log in self.logs.items():
                dump.begin(node, 0, partition)
                for offset, value, is_visible in log:
                    dump.record(node, offset, 1, [value if is_visible else NONE - value], obj=partition)

    def judge(self, directory: Path) -> Verdict:
        self.write(directory)
        return check_run(directory, Model.TRANSACTIONS, Engine.LOCAL)


def checks_of(verdict: Verdict) -> set[Check]:
    return {check for check, count in verdict.findings.counts.items() if count}


def test_a_sound_run_is_valid_and_its_transactions_are_counted(tmp_path: Path) -> None:
    verdict = Run.sound().judge(tmp_path)
    assert not checks_of(verdict)
    assert verdict.valid is True
    assert not verdict.not_tested
    assert verdict.as_json()["objects"]["transactions"] == {
        "committed": 3,
        "aborted": 1,
        "unknown": 1,
        "takeovers": 1,
        "torn": 0,
        "aborted_reads": 0,
        "duplicates": 0,
    }


def test_a_transaction_of_unknown_outcome_may_be_there_in_none_of_its_partitions(tmp_path: Path) -> None:
    run = Run.sound()
    for value in (41, 42, 43):
        run.hide(value)
    run.polls.pop()
    verdict = run.judge(tmp_path)
    assert not checks_of(verdict)
    assert verdict.valid is True


def lose_half(run: Run) -> None:
    run.drop(31)


def hide_on_one_node(run: Run) -> None:
    run.hide(52, [3], in_read=False)


def half_of_an_unknown(run: Run) -> None:
    run.hide(42)


def lose_all(run: Run) -> None:
    for value in (31, 32):
        run.drop(value)


def show_aborted(run: Run) -> None:
    run.show(22)


def read_aborted(run: Run) -> None:
    run.polls.append((FOLLOWER + 90, INPUT, [run.offset_of(21)], 280))


def read_open(run: Run) -> None:
    run.polls[0] = (FOLLOWER, INPUT, [0, 1], 140)


def read_what_came_to_nothing(run: Run) -> None:
    for value in (41, 42, 43):
        run.hide(value)


def write_twice(run: Run) -> None:
    for node in NODES:
        run.logs[LEFT, node].append((40, 13, True))
    run.finals[READ_COMMITTED, LEFT].append((40, 13))


def transform_twice(run: Run) -> None:
    run.transactions.append(Written(6, TRANSFORMER, Outcome.OK, 900, [(LEFT, 61, 11)], position=2))
    for node in NODES:
        run.logs[LEFT, node].append((40, 61, True))
    run.finals[READ_COMMITTED, LEFT].append((40, 61))


def skip_an_input(run: Run) -> None:
    run.positions.append((run.offset_of(51), 2100))


def keep_the_position(run: Run) -> None:
    run.positions[-1] = (1, 2000)


def move_the_position_back(run: Run) -> None:
    run.positions += [(3, 2100), (2, 2200)]


def commit_when_fenced(run: Run) -> None:
    run.transactions[3] = attrs.evolve(run.transactions[3], begun_ms=560)


def write_when_fenced(run: Run) -> None:
    """Its transaction came out aborted, and yet a record stands in the logs."""
    run.transactions[1] = attrs.evolve(run.transactions[1], begun_ms=650)
    run.transactions[3] = attrs.evolve(run.transactions[3], begun_ms=200)


def move_the_end_back(run: Run) -> None:
    run.ends.append((INPUT, 4, 400))


def poll_back(run: Run) -> None:
    run.polls.append((FOLLOWER + 90, INPUT, [1, 0], 1200))


def pass_over(run: Run) -> None:
    run.polls[0] = (FOLLOWER, INPUT, [0], 170)


def swap(run: Run) -> None:
    for node in NODES:
        (first, one, _), (second, other, _) = run.logs[INPUT, node][:2]
        run.logs[INPUT, node][:2] = [(first, other, True), (second, one, True)]
    run.finals[READ_COMMITTED, INPUT][:2] = run.finals[READ_UNCOMMITTED, INPUT][:2] = [(0, 12), (1, 11)]


def invent(run: Run) -> None:
    for node in NODES:
        run.logs[RIGHT, node].append((40, 999, True))


def differ(run: Run) -> None:
    (offset, _, _), *_ = run.logs[RIGHT, 2]
    run.logs[RIGHT, 2][0] = (offset, 52, False)


@pytest.mark.parametrize(
    ("plant", "check", "says"),
    [
        (lose_half, Check.TORN, r"transaction 3 of 2 records, committed, is there in part: .* shows 0 of 1; .* 1 of 1"),
        (hide_on_one_node, Check.TORN, "transaction 5 .* partition 2 shows 0 to 1 of 1"),
        (half_of_an_unknown, Check.TORN, "transaction 4 of 3 records, of unknown outcome, is there in part"),
        (lose_all, Check.LOST, "transaction 3 .* committed, was committed, and nothing of it is there"),
        (show_aborted, Check.ABORTED_READ, "transaction 2 .* aborted, certainly did not commit, and is there"),
        (read_aborted, Check.ABORTED_READ, "got 21 at offset 3 of transaction 2, which did not commit"),
        (read_open, Check.DIRTY_READ, "got 11 at offset 0 of transaction 1, whose commit was asked for only later"),
        (read_what_came_to_nothing, Check.ABORTED_READ, "of transaction 4, which did not commit"),
        (write_twice, Check.DUPLICATED, "13 was written once and stands at offsets 0 and 40"),
        (transform_twice, Check.DUPLICATED, "the input 11 at offset 0, .* has two outputs"),
        (skip_an_input, Check.LOST, "the input 41 at offset 5, .* has no output"),
        (keep_the_position, Check.TORN, "the input 12 at offset 1, .* whose transaction did not move the position"),
        (move_the_position_back, Check.COMMIT_REGRESS, "the group was told position 3, and then 2"),
        (commit_when_fenced, Check.FENCED, "transaction 4 .* went on after another producer had taken its"),
        (write_when_fenced, Check.FENCED, "transaction 2 .* went on after another producer had taken its"),
        (move_the_end_back, Check.STABLE_END, "the last stable offset was 5, and then 4"),
        (poll_back, Check.NONMONOTONIC_POLL, "got offset 0 after 1"),
        (pass_over, Check.SKIPPED_POLL, "passed over the committed record at offset 1"),
        (swap, Check.SEND_ORDER, "process 1 sent 11 before 12, which stands before it"),
        (invent, Check.PHANTOM, "the final log of node 1 has 999 at offset 40, which no transaction wrote"),
        (differ, Check.REPLICAS, "one of nodes 1 and 2 alone has"),
        (differ, Check.DIVERGENT_OFFSET, "offset 0 has two values: 22 and 52"),
    ],
)
def test_what_is_planted_is_found(tmp_path: Path, plant: Callable[[Run], None], check: Check, says: str) -> None:
    run = Run.sound()
    plant(run)
    verdict = run.judge(tmp_path)
    assert verdict.valid is False
    assert check in checks_of(verdict)
    sentences = [one.sentence for one in verdict.violations if one.check is check]
    assert any(re.search(says, each) for each in sentences), sentences


@settings(max_examples=12)
@given(st.sets(st.sampled_from([41, 42, 43])), st.sets(st.sampled_from([51, 52])))
def test_a_transaction_is_sound_exactly_if_all_or_nothing_of_it_is_there(
    tmp_path_factory: pytest.TempPathFactory, unknown: set[int], committed: set[int]
) -> None:
    run = Run.sound()
    run.polls.pop()
    for value in unknown | committed:
        run.hide(value)
    verdict = run.judge(tmp_path_factory.mktemp("run"))
    assert (Check.TORN in checks_of(verdict)) == (len(unknown) in (1, 2) or len(committed) == 1)
    assert (Check.LOST in checks_of(verdict)) == (len(committed) == 2)
    assert (verdict.valid is True) == (len(unknown) in (0, 3) and not committed)


def test_partitions_that_nothing_looked_at_in_the_end_leave_a_run_undecided(tmp_path: Path) -> None:
    run = Run.sound()
    run.finals, run.polls = {}, []
    run.write(tmp_path)
    for part in (tmp_path / "dump.parquet").iterdir():
        part.unlink()
    verdict = check_run(tmp_path, Model.TRANSACTIONS, Engine.LOCAL)
    assert verdict.valid is None
    assert "partition 0 has neither a final read nor final logs" in str(verdict.reasons)
