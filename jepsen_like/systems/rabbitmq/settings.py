"""The settings of a RabbitMQ cluster, as `--set` takes them."""

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from jepsen_like.port.port import WrongMode

E = TypeVar("E", bound=enum.StrEnum)
_SECONDS: Final = re.compile(r"[1-9]\d{0,3}")


class QueueType(enum.StrEnum):
    """The ways in which a queue is copied to all nodes."""

    QUORUM = "quorum"
    """A quorum queue, whose copies agree by Raft."""
    MIRRORED = "mirrored"
    """A classic queue with a mirror on each node, by a policy."""


class PartitionHandling(enum.StrEnum):
    """The reaction of nodes to others that they no longer see, by the names of `rabbitmq.conf`."""

    PAUSE_MINORITY = "pause_minority"
    AUTOHEAL = "autoheal"
    IGNORE = "ignore"


@attrs.frozen(kw_only=True)
class RabbitSettings:
    """The settings of every node, and of the queue."""

    queue_type: QueueType = QueueType.QUORUM
    cluster_partition_handling: PartitionHandling = PartitionHandling.PAUSE_MINORITY
    net_ticktime: int = 60
    """Seconds after which a node gives up another one that is silent. Quorum queues elect a leader without it."""

    @classmethod
    def of(cls, words: Sequence[str]) -> "RabbitSettings":
        """From `name=value`. Raises `WrongMode`."""
        return cls.of_json(dict(word.partition("=")[::2] for word in words))

    @classmethod
    def of_json(cls, shown: Mapping[str, Any]) -> "RabbitSettings":
        """From the settings of a test.json. Raises `WrongMode`."""
        names = [field.name for field in attrs.fields(cls)]
        for name in shown:
            if name not in names:
                raise WrongMode(f"--set: no {name!r} in rabbitmq; there are {', '.join(names)}")
        values = cls()
        ticks = str(shown.get("net_ticktime", values.net_ticktime))
        if not _SECONDS.fullmatch(ticks):
            raise WrongMode(f"--set: net_ticktime is a number of seconds, not {ticks!r}")
        return cls(
            net_ticktime=int(ticks),
            queue_type=_read(QueueType, "queue_type", shown, values.queue_type),
            cluster_partition_handling=_read(
                PartitionHandling, "cluster_partition_handling", shown, values.cluster_partition_handling
            ),
        )


def _read(kind: type[E], name: str, shown: Mapping[str, Any], default: E) -> E:
    given = str(shown.get(name, default))
    if given not in list(kind):
        raise WrongMode(f"--set: {name} is one of {', '.join(kind)}, not {given!r}")
    return kind(given)
