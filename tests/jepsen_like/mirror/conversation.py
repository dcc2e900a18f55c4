"""Golden scripts: a line `> command`, and below it the orders of the decider.

    begin t-0=5 t-1=0                  a mirror of epoch 1 begins at these positions
    fetched t-0 5+3 9+1 next=10 end=12 the source brought records 5 to 7 and 9; all below 10 is known
    groups g t-0=7                     the source's group g reads record 7 next
    appended t-0 100 103               the target appended the batches of the open transaction there
    committed                          the target committed
    show                               positions, lag and records

`python -m tests.jepsen_like.mirror.conversation --rewrite` renews the answers.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import attrs

from jepsen_like.mirror.core import (
    AppendRecords,
    CommitProgress,
    Effect,
    GroupsFetched,
    MirrorCore,
    RecordsAppended,
    RecordsFetched,
    TransactionCommitted,
)
from jepsen_like.mirror.kept import Partition
from jepsen_like.mirror.offset_map import OffsetMap, RecordRun
from tests.golden import renew_script, rewrite

SCRIPTS = Path(__file__).with_name("scripts")
RECORD_BYTES = 1 << 20


@attrs.frozen
class DenseBatch:
    """`count` records of one mebibyte from `base` on."""

    base: int
    count: int

    @property
    def size(self) -> int:
        return self.count * RECORD_BYTES

    @property
    def runs(self) -> tuple[RecordRun, ...]:
        return (RecordRun(self.base, 0, self.count),)

    @property
    def end(self) -> int:
        return self.base + self.count


class Conversation:
    """One decider."""

    def __init__(self) -> None:
        self.core = MirrorCore(1, {})

    def say(self, command: str) -> list[str]:
        """Carries out one command; returns the orders that it leads to."""
        verb, *words = command.split()
        match verb:
            case "begin":
                begun = {
                    at: (offset, OffsetMap.of([RecordRun(offset, 0, 0)])) for at, offset in _offsets(words).items()
                }
                self.core = MirrorCore(1, begun)
                return []
            case "show":
                return self._show()
            case "fetched":
                at, *rest = words
                named = dict(word.split("=") for word in rest if "=" in word)
                batches = tuple(DenseBatch(*map(int, word.split("+"))) for word in rest if "+" in word)
                fetched = RecordsFetched(_partition(at), batches, int(named["next"]), int(named["end"]))
                return list(map(_text, self.core.step(fetched)))
            case "groups":
                group, *rest = words
                return list(map(_text, self.core.step(GroupsFetched({group: _offsets(rest)}))))
            case "appended":
                bases: dict[Partition, list[int]] = {}
                for word in words:
                    if "-" in word:
                        bases[_partition(word)] = []
                    else:
                        bases[list(bases)[-1]].append(int(word))
                event = RecordsAppended({at: tuple(those) for at, those in bases.items()})
                return list(map(_text, self.core.step(event)))
            case _:
                return list(map(_text, self.core.step(TransactionCommitted())))

    def _show(self) -> list[str]:
        wanted = {at: offset for at in self.core.partitions if (offset := self.core.offset_to_fetch(at)) is not None}
        caught_up = ", caught up" if self.core.is_caught_up() else ""
        return [
            f"copied {_name_offsets(self.core.positions)}, fetch {_name_offsets(wanted)}, lag {self.core.lag}{caught_up}"
        ]


def _partition(word: str) -> Partition:
    topic, _, number = word.rpartition("-")
    return topic, int(number)


def _offsets(words: list[str]) -> dict[Partition, int]:
    return {_partition(at): int(offset) for at, offset in (word.split("=") for word in words)}


def _name_offsets(offsets: Mapping[Partition, int]) -> str:
    return " ".join(f"{topic}-{number}={offset}" for (topic, number), offset in offsets.items()) or "-"


def _text(effect: Effect) -> str:
    match effect:
        case AppendRecords(batches=batches):
            parts = [
                f"{topic}-{number} " + " ".join(f"{each.end - each.count}+{each.count}" for each in those)
                for (topic, number), those in batches.items()
            ]
            return "append " + ("; ".join(parts) or "nothing")
        case CommitProgress(points=points, offsets=offsets):
            parts = [
                f"{topic}-{number} to {point.position}"
                + "".join(f" {run.source}>{run.target}+{run.count}" for run in point.runs)
                for (topic, number), point in points.items()
            ]
            groups = [f"{group} {_name_offsets(those)}" for group, those in offsets.items()]
            return f"commit {'; '.join(parts) or '-'} | {'; '.join(groups) or '-'}"


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().say)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
