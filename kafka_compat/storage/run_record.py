"""The record of the process that used a broker's directory last, and of its doubtful copies.

One small file, replaced as a whole at each step of a broker's life. A copy is *doubtful* if it may lack records that it
had, because files are damaged or missing, or a loss of power may have taken unflushed records. Doubts are durable
before a repair hides their cause, and stay until the controller knows them. An end during the opening of logs leaves
every copy doubtful, and so does a missing or damaged record.
"""

import enum
from collections.abc import Mapping
from typing import Final, Self

import attrs

from kafka_compat.storage.checkpoints import encode_checked, read_checked
from log.disk import Disk, replace_file

RUN_NAME: Final = "run"
Key = tuple[bytes, int]
"""Topic id and partition number."""


class Stage(enum.IntEnum):
    """The stage that the process had reached."""

    OPENING = 0
    """Its logs are being opened, and may be repaired."""
    RUNNING = 1
    CLEAN = 2
    """It has ended, and everything is on the disk."""


@attrs.frozen(kw_only=True)
class RunRecord:
    """The newest process of a broker, as its directory records it."""

    stage: Stage
    broker_epoch: int = -1
    """The newest registration that may have served from this directory; -1 before the first."""
    boot: str = ""
    """Names the present start of the machine: while it stays the same, there was no loss of power. Empty if unknown."""
    flushed: bool = True
    """True if everything was flushed before it was acknowledged."""
    everything: str | None = None
    """The reason why every copy is doubtful, or None."""
    doubts: Mapping[Key, str] = attrs.field(factory=dict)
    """The doubtful copies, with their reasons."""

    def with_doubt(self, reason: str | None) -> Self:
        """Returns the record with every copy doubtful, unless `reason` is None; the first reason stays."""
        return self if reason is None or self.everything is not None else attrs.evolve(self, everything=reason)

    def write(self, disk: Disk, directory: str) -> None:
        """Replace the file, durably. Raises `NoSpace` on a full disk, and keeps the old one."""
        rows = [(topic_id, number, reason) for (topic_id, number), reason in self.doubts.items()]
        content = encode_checked(int(self.stage), self.broker_epoch, self.boot, self.flushed, self.everything, rows)
        replace_file(disk, directory, RUN_NAME, content)

    @classmethod
    def read(cls, disk: Disk, directory: str) -> Self | None:
        """Returns the record in a broker's directory, or None if it is missing or damaged."""
        found = read_checked(disk, f"{directory}/{RUN_NAME}")
        if found is None:
            return None
        stage, broker_epoch, boot, flushed, everything, rows = found
        doubts = {(bytes(topic_id), number): reason for topic_id, number, reason in rows}
        return cls(
            stage=Stage(stage),
            broker_epoch=broker_epoch,
            boot=boot,
            flushed=flushed,
            everything=everything,
            doubts=doubts,
        )

    def reason_to_doubt(self, boot: str) -> str | None:
        """Returns the reason why this process leaves every copy doubtful to one that starts now, or None."""
        if self.everything is not None:
            return self.everything
        if self.stage is Stage.OPENING:
            return "the broker ended while it opened its logs"
        if self.stage is Stage.RUNNING and not self.flushed and (not boot or self.boot != boot):
            return "the broker was not stopped, and the machine started again since: a loss of power takes what was not flushed"
        return None
