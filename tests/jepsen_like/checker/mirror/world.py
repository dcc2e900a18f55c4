"""Two clusters, a mirror and a switch as a small model: it writes the history that a rehearsal would, and counts for itself.

A log is a list of places, and a place is a value, or `MARKER` where a transaction of the mirror ended. So offsets differ.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine, MirrorCounts, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NONE, Action, Op, Outcome

A, B = 1, 2
MARKER = -2
GROUPS = (7, 8)
PRODUCERS = (1, 2)
MS = 1_000_000


@attrs.define
class Mirror:
    """A link from one cluster to another: how far it has copied, and where it has put each place of its source."""

    source: int
    target: int
    epoch: int
    position: int
    moved: dict[int, int] = attrs.field(factory=dict)


@attrs.define
class Reader:
    """A group: where it is, what it has committed, and the position that the mirror has translated last."""

    group: int
    process: int
    at: int = 0
    committed: int = 0
    got: dict[int, int] = attrs.field(factory=dict)
    """By value the cluster that it was got from first."""
    kept: int = 0
    """The position that it had committed at the primary when the mirror copied last."""


@attrs.define
class Partition:
    """One partition in both clusters, and the operations on it."""

    number: int
    rng: random.Random
    values: Callable[[], int]
    now: Callable[[], int]
    ops: list[Op] = attrs.field(factory=list)
    logs: dict[int, list[int]] = attrs.field(factory=lambda: {A: [], B: []})
    primary: int = A
    counts: MirrorCounts = attrs.field(factory=MirrorCounts)
    acked: dict[int, int] = attrs.field(factory=dict)
    """By value its offset in the cluster that acknowledged it, in this term."""
    mirror: Mirror = attrs.field(factory=lambda: Mirror(A, B, 1, 0))
    readers: list[Reader] = attrs.field(factory=list)
    behind: dict[int, set[int]] = attrs.field(factory=dict)
    """By group: the values that it had committed at the old primary."""

    def __attrs_post_init__(self) -> None:
        for group in GROUPS:
            self.readers.append(Reader(group, 100 + 10 * group))
            self._assign(self.readers[-1])

    def add(self, f: Action, **fields: Any) -> Op:
        begun = self.now()
        op = Op(f=f, **{"type": Outcome.OK, "object": self.number, "t_inv": begun, "t_ret": self.now(), **fields})
        self.ops.append(op)
        return op

    def send(self, outcome: Outcome = Outcome.OK, *, arrives: bool = True, cluster: int = NONE) -> int:
        """Send one record to the primary, or to another cluster."""
        where, value = self.primary if cluster == NONE else cluster, self.values()
        log = self.logs[where]
        offset = len(log) if outcome is Outcome.OK else NONE
        self.add(Action.SEND, type=outcome, a=value, offset=offset, node=where, process=self.rng.choice(PRODUCERS))
        if arrives and outcome is not Outcome.FAIL:
            log.append(value)
        if outcome is Outcome.OK and where == self.primary:
            self.acked[value] = offset
        return value

    def copy(self, count: int) -> None:
        """Copy so many places of the source in one transaction, with the positions of the groups."""
        link = self.mirror
        source, target = self.logs[link.source], self.logs[link.target]
        for place in range(link.position, min(link.position + count, len(source))):
            if source[place] != MARKER:
                link.moved[place] = len(target)
                target.append(source[place])
            link.position = place + 1
        target.append(MARKER)
        for reader in self.readers:
            reader.kept = reader.committed

    def poll(self, reader: Reader, count: int) -> None:
        """Give a group so many places from its position on."""
        log = self.logs[self.primary]
        places = [place for place in range(reader.at, min(reader.at + count, len(log))) if log[place] != MARKER]
        begun, ended = self.now(), self.now()
        for place in places:
            about: dict[str, Any] = {"a": log[place], "b": reader.group, "offset": place, "node": self.primary}
            times: dict[str, Any] = {"t_inv": begun, "t_ret": ended, "process": reader.process, "object": self.number}
            self.ops.append(Op(f=Action.POLL, type=Outcome.OK, count=len(places), **about, **times))
            if reader.got.setdefault(log[place], self.primary) != self.primary:
                self.counts = self.counts.plus(MirrorCounts(read_again=1))
                if log[place] in self.behind.get(reader.group, set()):
                    self.counts = self.counts.plus(MirrorCounts(committed_again=1))
        reader.at = max(reader.at, min(reader.at + count, len(log)))

    def commit(self, reader: Reader) -> None:
        """Commit a group's position."""
        reader.committed = reader.at
        self.add(Action.COMMIT, a=reader.group, offset=reader.at, node=self.primary, process=reader.process)

    def _assign(self, reader: Reader) -> None:
        reader.process += 1
        about = {"a": reader.group, "offset": reader.at, "node": self.primary, "process": reader.process}
        self.add(Action.ASSIGN, **about)

    def switch(self) -> None:
        """Fence the link, move the groups, and make the target the primary."""
        link = self.mirror
        end = len(self.logs[link.target])
        lost = [value for value, offset in self.acked.items() if offset >= link.position]
        self.counts = self.counts.plus(MirrorCounts(switches=1, acked=len(self.acked), lag=len(lost), lost=len(lost)))
        about = {"node": link.source, "b": link.target, "epoch": link.epoch}
        self.add(Action.SWITCH, offset=link.position, seen=end, **about)
        self.acked = {}
        old = self.logs[link.source]
        self.primary = link.target
        for reader in self.readers:
            self.behind[reader.group] = {value for value in old[: reader.committed] if value != MARKER}
            reader.at = 0
            if reader.kept:
                reader.at = min((at for place, at in link.moved.items() if place >= reader.kept), default=end)
                about = {"a": reader.group, "b": link.source, "node": link.target}
                self.add(Action.TRANSLATE, offset=reader.at, **about)
            reader.committed, reader.kept = reader.at, 0
            self._assign(reader)

    def link_back(self, *, recreates: bool) -> None:
        """Open the link back: it goes on behind the tail that the other cluster has left, or begins again from nothing."""
        link = self.mirror
        back = Mirror(link.target, link.source, link.epoch + 2, len(self.logs[link.target]))
        if recreates:
            self.logs[link.source] = []
            back.position = 0
        else:
            # What the first link has copied is there already.
            back.moved = {at: place for place, at in link.moved.items()}
            back.position = max(back.moved, default=-1) + 1
        self.mirror = back


@attrs.define
class Rehearsal:
    """A whole rehearsal, in which a test may change something before it is judged."""

    partitions: list[Partition]
    rng: random.Random
    clock: list[int]

    @classmethod
    def of(cls, seed: "int | random.Random", partitions: int = 1) -> "Rehearsal":
        """Returns one that has not begun."""
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        clock, values = [0], [0]

        def now() -> int:
            clock[0] += 1 + rng.randrange(3)
            return clock[0] * MS

        def value() -> int:
            values[0] += 1
            return values[0]

        return cls([Partition(number, rng, value, now) for number in range(partitions)], rng, clock)

    def load(self, steps: int, *, may_copy: bool = True) -> None:
        """Let clients and the mirror work at random."""
        for _ in range(steps):
            one = self.rng.choice(self.partitions)
            match self.rng.randrange(8):
                case 0 | 1 | 2:
                    one.send()
                case 3:
                    outcome = self.rng.choice([Outcome.INFO, Outcome.FAIL])
                    one.send(outcome, arrives=self.rng.random() < 0.5)
                case 4 if may_copy:
                    one.copy(self.rng.randrange(1, 5))
                case 5 | 6:
                    one.poll(self.rng.choice(one.readers), self.rng.randrange(1, 6))
                case _:
                    one.commit(self.rng.choice(one.readers))

    def lose(self) -> None:
        """A city is lost: the mirror stands still, and the operator switches."""
        for one in self.partitions:
            one.switch()

    def come_back(self, *, recreates: bool) -> None:
        """The city returns, the link back copies everything, and the operator switches back."""
        for one in self.partitions:
            one.link_back(recreates=recreates)
        self.load(30)
        for one in self.partitions:
            one.copy(1 << 20)
            one.switch()

    def read_all(self) -> None:
        """Every group reads to the end."""
        for one in self.partitions:
            for reader in one.readers:
                one.poll(reader, 1 << 20)

    def play(self, steps: int = 60, *, recreates: bool = False) -> "Rehearsal":
        """Play everything: load, loss, load, return, load."""
        self.load(steps)
        self.lose()
        self.load(steps, may_copy=False)
        self.come_back(recreates=recreates)
        self.load(steps // 2, may_copy=False)
        self.read_all()
        return self

    @property
    def counts(self) -> MirrorCounts:
        """Returns the figures as the model counted them."""
        counts = MirrorCounts()
        for one in self.partitions:
            counts = counts.plus(one.counts)
        return counts

    def write(self, directory: Path, *, clusters: tuple[int, ...] = (A, B)) -> None:
        """Write the run as its recorder does."""
        with HistoryWriter(directory / "history.parquet") as history:
            for op in sorted((op for one in self.partitions for op in one.ops), key=lambda op: op.t_ret):
                history.record(op)
        with DumpWriter(directory / "dump.parquet") as dump:
            for one in self.partitions:
                for cluster in clusters:
                    dump.begin(cluster, 0, one.number)
                    for offset, value in enumerate(one.logs[cluster]):
                        if value != MARKER:
                            dump.record(cluster, offset, 1, [value], obj=one.number)
        names = {"clusters": {A: "a", B: "b"}, "groups": {7: "fast", 8: "slow"}}
        (directory / "test.json").write_text(json.dumps({"mirror": names}))

    def judge(self, directory: Path) -> Verdict:
        """Write the run and judge it in this process."""
        self.write(directory)
        return check_run(directory, Model.MIRRORED, Engine.LOCAL)


def lagging() -> Rehearsal:
    """A rehearsal without chance: ten records of which six are copied, and both groups have read them all."""
    run = Rehearsal.of(0)
    (one,) = run.partitions
    for _ in range(6):
        one.send()
    for reader in one.readers:
        one.poll(reader, 4)
        one.commit(reader)
    one.copy(6)
    for _ in range(4):
        one.send()
    for reader in one.readers:
        one.poll(reader, 3)
    run.lose()
    for _ in range(5):
        one.send()
    run.read_all()
    for reader in one.readers:
        one.commit(reader)
    run.come_back(recreates=False)
    run.read_all()
    return run
