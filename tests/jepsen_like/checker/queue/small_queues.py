"""Random small histories of one partition: made by a correct log, its consumers and a group, then damaged where asked.

Times are small integers, so that many are equal.
"""

import random
from collections.abc import Mapping

import attrs

from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome
from tests.jepsen_like.checker.queue.queue_oracle import Fault, Held, Log

GROUP = 4
FINAL_READER = 90
END_OF_LOAD = 60
MEMBERS = (20, 21, 22)


@attrs.define
class Small:
    """A history in the order recorded, and the final logs."""

    ops: list[Op]
    logs: dict[int, Log]
    held: Held
    faults: list[Fault] = attrs.field(factory=list)


class _Correct:
    """A log and everyone who uses it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rows: list[tuple[int, Op]] = []
        self.log: list[tuple[int, int, int]] = []
        """Value, epoch, and when it was appended."""

    def record(self, at: int, **fields: object) -> None:
        values = {"type": Outcome.OK, "t_inv": at, "t_ret": at, **fields}
        self.rows.append((at, Op(**values)))  # type: ignore[arg-type]

    def produce(self) -> None:
        rng = self.rng
        moments = sorted(rng.randrange(END_OF_LOAD) for _ in range(rng.randrange(14)))
        last: dict[int, int] = {}
        for value, moment in enumerate(moments, start=1):
            producer = rng.randrange(10, 14)
            begin = max(moment - rng.randrange(6), last.get(producer, -1) + 1)
            moment = max(begin, self.log[-1][2] if self.log else 0, moment)
            last[producer] = moment
            end = moment + rng.randrange(6)
            epoch = 1 + moment // 25
            outcome = rng.choices([Outcome.OK, Outcome.INFO, Outcome.FAIL], [8, 2, 1])[0]
            fields = {"f": Action.SEND, "a": value, "process": producer, "t_inv": begin, "type": outcome, "node": epoch}
            if outcome is Outcome.OK or (outcome is Outcome.INFO and rng.random() < 0.6):
                offset = len(self.log)
                self.log.append((value, epoch, moment))
                if outcome is Outcome.OK:
                    fields |= {"offset": offset, "epoch": rng.choice([epoch, NONE])}
            self.record(end, **{**fields, "t_ret": NEVER if outcome is Outcome.INFO else end})

    def visible(self, moment: int) -> int:
        return sum(at <= moment for _, _, at in self.log)

    def consume(self, process: int, position: int, since: int, until: int) -> tuple[int, int]:
        """Poll on for a while. Returns the position and the time."""
        now = since
        while now < until and self.rng.random() < 0.85:
            looked, back = now + self.rng.randrange(3), 0
            back = looked + self.rng.randrange(3)
            end = min(self.visible(looked), position + self.rng.randint(1, 4))
            for offset in range(position, end):
                value, _, _ = self.log[offset]
                self.record(
                    back, f=Action.POLL, a=value, offset=offset, process=process, t_inv=now, count=end - position
                )
            position = max(position, end)
            now = back + self.rng.randrange(8)
        return position, now

    def read_alone(self) -> None:
        since = self.rng.randrange(15)
        self.record(since, f=Action.ASSIGN, process=30, offset=0)
        position, now = self.consume(30, 0, since, END_OF_LOAD)
        if self.rng.random() < 0.5:
            target = self.rng.randint(0, position)
            self.record(now, f=Action.SEEK, process=30, offset=target)
            self.consume(30, target, now, END_OF_LOAD)

    def share(self, *, tells_generation: bool) -> None:
        committed, now = NONE, self.rng.randrange(20)
        for generation in range(1, self.rng.randint(1, 5)):
            member = self.rng.choice(MEMBERS)
            told = generation if tells_generation else NONE
            of_group = {"a": GROUP, "b": told, "process": member}
            self.record(now, f=Action.ASSIGN, **of_group)
            if self.rng.random() < 0.5:
                self.record(now + 1, f=Action.COMMITTED, a=GROUP, process=member, offset=committed, t_inv=now)
                now += 1
            position = max(committed, 0)
            for _ in range(self.rng.randrange(3)):
                position, now = self.consume(member, position, now, now + 12)
                outcome = self.rng.choices([Outcome.OK, Outcome.INFO, Outcome.FAIL], [6, 1, 1])[0]
                if outcome is Outcome.OK or (outcome is Outcome.INFO and self.rng.random() < 0.5):
                    committed = position
                ended = now + 1
                self.record(
                    ended,
                    f=Action.COMMIT,
                    offset=position,
                    t_inv=now,
                    type=outcome,
                    **(of_group | {"t_ret": NEVER if outcome is Outcome.INFO else ended}),
                )
                now = ended + 1
            self.record(now, f=Action.REVOKE, **of_group)
            now += self.rng.randint(1, 5)

    def read_at_the_end(self, start: int) -> None:
        now = 2 * END_OF_LOAD + 100
        self.record(now, f=Action.TAIL, b=1, process=FINAL_READER, offset=len(self.log), seen=start)
        for offset in range(start, len(self.log)):
            self.record(
                now + 2, f=Action.POLL, a=self.log[offset][0], offset=offset, process=FINAL_READER, t_inv=now + 1
            )


def clean(rng: random.Random) -> Small:
    """A history in which nothing is wrong."""
    made = _Correct(rng)
    made.produce()
    made.read_alone()
    made.share(tells_generation=rng.random() < 0.5)
    start = rng.choice((0, 0, rng.randint(0, len(made.log))))
    has_final = rng.random() < 0.7
    if has_final:
        made.read_at_the_end(start)
    logs: dict[int, Log] = {}
    for node in (1, 2, 3) if rng.random() < 0.7 else ():
        first = rng.randint(0, start)
        logs[node] = (first, [(value, epoch) for value, epoch, _ in made.log[first:]])
    held = Held(ordered=rng.random() < 0.5, doubles=rng.random() < 0.3, acks=rng.choice(("all", "1")))
    held.expelled_after = rng.choice((0, 12))
    made.rows.sort(key=lambda row: row[0])
    return Small([op for _, op in made.rows], logs, held)


def make_damaged(rng: random.Random) -> Small:
    """Makes a history, changes a few things at random, and adds faults that may explain some of it."""
    small = clean(rng)
    ops = small.ops
    for _ in range(rng.randint(1, 4)):
        if ops:
            _change(rng, ops)
    if rng.random() < 0.3:
        _cut(rng, small)
    for node in list(small.logs):
        if rng.random() < 0.3:
            _change_log(rng, small.logs, node)
    for _ in range(rng.randrange(3) if rng.random() < 0.5 else 0):
        begun = rng.randrange(END_OF_LOAD)
        small.faults.append(
            Fault(
                since=begun - rng.choice((10, 100)),
                begun=begun,
                injected=begun + rng.randrange(10),
                node=rng.choice((None, 1, 2)),
                epoch_max=rng.choice((None, 1)),
                reads=rng.random() < 0.5,
                commits=rng.random() < 0.5,
                tail=rng.random() < 0.7,
            )
        )
    return small


def _cut(rng: random.Random, small: Small) -> None:
    """Lose the end of the log, everywhere."""
    end = rng.randrange(6)
    small.ops[:] = [
        attrs.evolve(op, offset=min(op.offset, end)) if op.f is Action.TAIL else op
        for op in small.ops
        if not (op.f is Action.POLL and op.process == FINAL_READER and op.offset >= end)
    ]
    small.logs.update(
        {node: (min(first, end), records[: max(0, end - first)]) for node, (first, records) in small.logs.items()}
    )


def _change(rng: random.Random, ops: list[Op]) -> None:
    at = rng.randrange(len(ops))
    op = ops[at]
    match rng.randrange(8):
        case 0:
            del ops[at]
        case 1:
            ops[at] = attrs.evolve(op, offset=max(0, op.offset + rng.randint(-3, 3)))
        case 2:
            value = rng.randint(1, 18)
            if op.f in (Action.SEND, Action.POLL):
                ops[at] = attrs.evolve(op, a=NONE if op.f is Action.POLL and rng.random() < 0.1 else value)
        case 3:
            moved = rng.randint(-12, 12)
            ops[at] = attrs.evolve(op, t_inv=op.t_inv + moved, t_ret=NEVER if op.t_ret == NEVER else op.t_ret + moved)
        case 4:
            other = rng.randrange(len(ops))
            ops[at], ops[other] = ops[other], op
        case 5:
            ops.insert(rng.randrange(len(ops) + 1), op)
        case 6:
            if op.f in (Action.ASSIGN, Action.COMMIT, Action.REVOKE):
                ops[at] = attrs.evolve(op, b=rng.choice((NONE, 1, 2, 3)), process=rng.choice(MEMBERS))
            elif op.f is Action.SEND:
                ops[at] = attrs.evolve(op, process=rng.randrange(10, 12))
        case _:
            if op.f in (Action.SEND, Action.COMMIT):
                outcome = rng.choice(list(Outcome))
                ended = NEVER if outcome is Outcome.INFO else op.t_inv + 3
                ops[at] = attrs.evolve(op, type=outcome, t_ret=ended)


def _change_log(rng: random.Random, logs: dict[int, Log], node: int) -> None:
    first, records = logs[node]
    if not records or rng.random() < 0.2:
        del logs[node]
        return
    at = rng.randrange(len(records))
    match rng.randrange(3):
        case 0:
            logs[node] = (first, records[:at])
        case 1:
            records[at] = (rng.randint(1, 18), records[at][1])
        case _:
            records[at] = (records[at][0], rng.randint(1, 4))


def values_of(logs: Mapping[int, Log]) -> set[int]:
    """All that final logs contain."""
    return {value for _, records in logs.values() for value, _ in records}
