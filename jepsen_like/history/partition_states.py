"""Observations of replicated logs during a run: leaders and roles, in-sync replicas, high watermarks, ends.

An `object` is a partition, or the commit log of a group of brokers: then it has rows of the kind ROLE.

One Parquet file, `partitions.parquet` in a run directory, one row per change that a broker reported, in the order seen.
It is for the report and for the attribution of losses; no verdict about a history depends on it alone.
"""

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from jepsen_like.history.files import Rows, UnreadableHistory, read_part, write_part
from jepsen_like.history.ops import NONE

FILE: Final = "partitions.parquet"
STATE_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("t_ns", "q"),
    ("object", "q"),
    ("kind", "b"),
    ("node", "h"),
    ("epoch", "q"),
    ("value", "q"),
)
"""Name and `array` type code of every column, in the order of the file."""
_OLDER_COLUMNS: Final = tuple((name, "i" if name == "epoch" else code) for name, code in STATE_COLUMNS)
"""As files had them when there were only partitions: epochs of RocketMQ's masters do not fit."""
BROKER_MAX: Final = 61
"""The highest id of a broker that a set of replicas can have."""


class StateKind(enum.IntEnum):
    """The changed value (column `kind`)."""

    LEADER = 0
    """`value` is the broker that leads from now on, `NONE` for none; `epoch` its leader epoch."""
    ISR = 1
    """`value` has bit b set for each broker b in the set of in-sync replicas; `epoch` is the leader epoch."""
    HIGH_WATERMARK = 2
    """`value` is the high watermark as `node` has it."""
    END = 3
    """`value` is the end of the log of `node`."""
    UNCLEAN = 4
    """A leader was elected that was not in sync: `value` is that broker, `epoch` its leader epoch."""
    ROLE = 5
    """`node` has the role `value` (0 slave, 1 master, `NONE`: its process has ended) from now on, in `epoch`."""
    ELIGIBLE = 6
    """`value` has bit b set for each broker b that may lead although it is not in sync (KIP-966); `epoch` is the leader epoch."""


def mask_of(brokers: Iterable[int]) -> int:
    """A set of brokers as bits. Raises `ValueError` for an id outside of 0 to `BROKER_MAX`."""
    mask = 0
    for broker in brokers:
        if not 0 <= broker <= BROKER_MAX:
            raise ValueError(f"broker {broker} cannot be told in a set of replicas: ids are 0 to {BROKER_MAX}")
        mask |= 1 << broker
    return mask


def brokers_of(mask: int) -> tuple[int, ...]:
    """The brokers of a set, in order."""
    return tuple(broker for broker in range(BROKER_MAX + 1) if mask >> broker & 1)


class PartitionStates:
    """Gathers rows and writes them at the end; 35 bytes each in memory."""

    def __init__(self) -> None:
        self._rows = Rows(STATE_COLUMNS)

    def __len__(self) -> int:
        return len(self._rows)

    def record(
        self, t_ns: int, partition: int, kind: StateKind, value: int, *, node: int = NONE, epoch: int = NONE
    ) -> None:
        """One change, as it was seen at `t_ns` on the monotonic clock; `node` reported it."""
        row = (t_ns, partition, kind, node, epoch, value)
        for column, of_row in zip(self._rows.arrays, row, strict=True):
            column.append(of_row)

    def write(self, run_directory: Path) -> None:
        """Write `partitions.parquet`. Raises `OSError`."""
        write_part(self._rows.table(), run_directory / FILE)


def read_states(run_directory: Path) -> dict[str, Any] | None:
    """Returns numpy columns by name, in the order seen; None without the file. Raises `UnreadableHistory`."""
    path = run_directory / FILE
    if not path.exists():
        return None
    try:
        table = read_part(path, of=STATE_COLUMNS)
    except UnreadableHistory:
        table = read_part(path, of=_OLDER_COLUMNS)
    return {name: table.column(name).to_numpy() for name, _ in STATE_COLUMNS}
