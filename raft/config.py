"""The core's settings, as a value that cannot be wrong."""

import enum
import math
from typing import Any, Self

import attrs
from attrs.validators import and_, ge, gt

MIB = 1024 * 1024


def of_declared_types(_: type, fields: list["attrs.Attribute[Any]"]) -> list["attrs.Attribute[Any]"]:
    """Returns the fields, as a transformer of attrs: each raises `TypeError` for values of other types.

    A number of seconds may be whole, but must be finite.
    """
    return [field.evolve(validator=and_(*filter(None, (_check_type, field.validator)))) for field in fields]


def _check_type(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    kind = field.type
    assert isinstance(kind, type), "settings have plain types"
    if kind is float:
        is_right = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
    else:
        is_right = type(value) is kind
    if not is_right:
        known = f", one of {', '.join(map(str, kind))}" if issubclass(kind, enum.Enum) else ""
        raise TypeError(f"{field.name} is of type {kind.__name__}{known}; not {value!r}")


@attrs.frozen(kw_only=True, field_transformer=of_declared_types)
class RaftConfig:
    """Timeouts in seconds, sizes in bytes.

    Raises `ValueError` if the settings do not fit each other, `TypeError` for one of another type.
    """

    heartbeat_s: float = attrs.field(default=0.1, validator=gt(0))
    """An idle leader sends heartbeats this often. A smaller value finds lost messages sooner and costs idle CPU."""
    election_timeout_s_min: float = attrs.field(default=1.0, validator=gt(0))
    """A silent leader is trusted this long.

    Smaller recovers sooner from a paused or cut-off leader (a killed one closes its connections), but a slow disk or a
    busy machine then looks dead: the default holds where ten processes want each two cores.
    """
    election_timeout_s_max: float = attrs.field(default=2.0, validator=gt(0))
    """Each wait is drawn between min and max, so that two candidates seldom collide (paper section 9.3)."""
    append_bytes_max: int = attrs.field(default=MIB, validator=gt(0))
    """The most that one AppendEntries carries, unless a single entry is larger."""
    inflight_messages_max: int = attrs.field(default=8, validator=ge(1))
    """Unacknowledged AppendEntries to one peer.

    Few are better on a fast network: they leave time for batches to grow.
    """
    inflight_bytes_max: int = attrs.field(default=8 * MIB, validator=gt(0))
    """Unacknowledged bytes to one peer."""
    uncommitted_bytes_max: int = attrs.field(default=64 * MIB, validator=gt(0))
    """Bytes a leader holds without commit before it refuses more: the bound in a minority partition."""
    snapshot_part_bytes_max: int = attrs.field(default=MIB // 8, validator=gt(0))
    """A snapshot goes to a peer in parts of this size, one at a time.

    Larger ones are faster, and hold up heartbeats on slow links.
    """
    cache_bytes_max: int = attrs.field(default=64 * MIB, validator=gt(0))
    """Newest durable entries kept in memory for followers that keep up; older ones are loaded from the log."""

    @classmethod
    def of_election_timeout(cls, seconds: float) -> Self:
        """Returns the settings for waits of `seconds` to twice as long, and heartbeats often enough for them."""
        return cls(
            heartbeat_s=min(0.1, seconds / 5), election_timeout_s_min=seconds, election_timeout_s_max=2 * seconds
        )

    def __attrs_post_init__(self) -> None:
        if not 2 * self.heartbeat_s <= self.election_timeout_s_min < self.election_timeout_s_max:
            raise ValueError("need 2 * heartbeat_s <= election_timeout_s_min < election_timeout_s_max")
        if self.append_bytes_max > self.inflight_bytes_max:
            raise ValueError("need append_bytes_max <= inflight_bytes_max")
