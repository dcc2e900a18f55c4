"""Which epoch wrote which part of a log: one entry for each epoch that appended something.

Epochs never fall along a log, so one entry where an epoch begins is enough. The cache is derived from frames alone: the
log adds every frame that begins an epoch, and removes what is cut.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs


@attrs.frozen
class EpochStart:
    """`epoch` begins at `first_index`, with the offset `base_offset`."""

    epoch: int
    first_index: int
    base_offset: int


class EpochCache:
    """The epochs of a log in order; iterates as `EpochStart`."""

    __slots__ = ("_indexes", "_starts")

    def __init__(self) -> None:
        self._starts: list[EpochStart] = []
        self._indexes: list[int] = []

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        return "".join(f"{start.epoch}@{start.first_index} " for start in self._starts).strip() or "empty"

    @property
    def last_epoch(self) -> int:
        """The newest epoch; 0 if there is none."""
        return self._starts[-1].epoch if self._starts else 0

    def note(self, epoch: int, index: int, base_offset: int) -> None:
        """A frame of `epoch` was appended at `index`; only the first of an epoch counts."""
        if not self._starts or epoch != self.last_epoch:
            assert not self._starts or epoch > self.last_epoch, f"epoch {epoch} after {self.last_epoch}"
            self._starts.append(EpochStart(epoch, index, base_offset))
            self._indexes.append(index)

    def cut(self, index: int) -> None:
        """Remove everything from `index` on."""
        keep = bisect_left(self._indexes, index)
        del self._starts[keep:]
        del self._indexes[keep:]

    def trim(self, first_index: int, base_offset: int) -> None:
        """Remove everything before `first_index`. What is left of its epoch begins with that index and this offset."""
        keep = bisect_right(self._indexes, first_index) - 1
        if keep < 0:
            return
        del self._starts[:keep]
        del self._indexes[:keep]
        self._starts[0] = EpochStart(self._starts[0].epoch, first_index, base_offset)
        self._indexes[0] = first_index

    def at(self, index: int) -> int:
        """Returns the epoch of an index that the log holds; 0 before the first."""
        slot = bisect_right(self._indexes, index) - 1
        return self._starts[slot].epoch if slot >= 0 else 0

    def end_of(self, epoch: int, end_index: int) -> tuple[int, int] | None:
        """Returns the newest epoch not above `epoch`, and the index after its last: where the next one begins, or the
        log ends.

        Returns None if the log holds no such epoch. Replicas ask this to find where their log diverges from the
        leader's (KIP-101, KIP-279).
        """
        slot = bisect_right(self._starts, epoch, key=lambda start: start.epoch) - 1
        if slot < 0:
            return None
        following = slot + 1
        return self._starts[slot].epoch, self._indexes[following] if following < len(self._indexes) else end_index
