"""The figures of a trial of capacity, from its recorded history: what was offered, what was served, and who was overloaded.

Pure: rows of a history and windows of time come in. A message counts as offered when it was sent, as answered if it was
acknowledged in the end, and as served when its acknowledgement came.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.capacity.plan import CapacityTrial, brokers_needed
from jepsen_like.history.ops import Action, Outcome

ANSWERED_MIN: Final = 0.95
"""A broker that answers a smaller share of what it is sent is overloaded."""
WITHIN: Final = 0.1
"""The measured number of brokers may differ so much from the stated one."""
Column = npt.NDArray[np.int64]


@attrs.frozen
class Sends:
    """The messages of a trial: partition, begin, end and outcome of each."""

    partition: Column
    t_inv: Column
    t_ret: Column
    is_ok: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> "Sends":
        """From the columns `f`, `type`, `object`, `t_inv` and `t_ret` of a history."""
        sent = columns["f"] == Action.APPEND
        partition, t_inv, t_ret = (columns[name][sent] for name in ("object", "t_inv", "t_ret"))
        return cls(partition, t_inv, t_ret, columns["type"][sent] == Outcome.OK)


@attrs.frozen(kw_only=True)
class BrokerLoad:
    """One broker: it was offered and served so much in a second, and answered this share of the former."""

    offered_s: float
    served_s: float
    answered: float


@attrs.frozen(kw_only=True)
class WindowFigures:
    """A window of time. Rates are in messages a second, latencies in milliseconds, of what was answered."""

    offered_s: float
    served_s: float
    answered: float
    p50_ms: float | None
    p99_ms: float | None
    brokers: Mapping[int, BrokerLoad]

    @property
    def overloaded(self) -> tuple[int, ...]:
        """The brokers that leave too much unanswered."""
        return tuple(broker for broker, load in sorted(self.brokers.items()) if load.answered < ANSWERED_MIN)


def measure_window(sends: Sends, begin_ns: int, end_ns: int, led_by: Mapping[int, int]) -> WindowFigures:
    """Returns the figures of a window; `led_by` is the leader of each partition in it."""
    seconds = (end_ns - begin_ns) / 1e9
    leader = np.array([led_by[partition] for partition in range(len(led_by))], np.int64)[sends.partition]
    offered = (begin_ns <= sends.t_inv) & (sends.t_inv < end_ns)
    served = sends.is_ok & (begin_ns <= sends.t_ret) & (sends.t_ret < end_ns)
    answered = offered & sends.is_ok
    took_ms = (sends.t_ret - sends.t_inv)[answered] / 1e6

    def load_of(broker: int) -> BrokerLoad:
        mine = leader == broker
        return BrokerLoad(
            offered_s=float((offered & mine).sum() / seconds),
            served_s=float((served & mine).sum() / seconds),
            answered=_share(answered & mine, offered & mine),
        )

    return WindowFigures(
        offered_s=float(offered.sum() / seconds),
        served_s=float(served.sum() / seconds),
        answered=_share(answered, offered),
        p50_ms=float(np.percentile(took_ms, 50)) if len(took_ms) else None,
        p99_ms=float(np.percentile(took_ms, 99)) if len(took_ms) else None,
        brokers={broker: load_of(broker) for broker in sorted(set(led_by.values()))},
    )


def _share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else 1.0


@attrs.frozen(kw_only=True)
class TrialFigures:
    """A trial as it was measured. `limit_s` is the stated capacity of a broker, in messages a second."""

    trial: CapacityTrial
    limit_s: float
    zone_of: Mapping[int, str]
    """The zone of each broker that holds records."""
    before: WindowFigures
    after: WindowFigures
    """At the same load, once the zone was lost."""
    surge: WindowFigures
    """With more than all can serve, to see what those that are left serve in fact."""

    @property
    def worth(self) -> float:
        """The capacity that is left, measured in brokers."""
        return self.surge.served_s / self.limit_s

    @property
    def off(self) -> float:
        """The difference of that from the number that the rule states, as a share of it."""
        return self.worth / self.trial.left - 1

    def missing(self) -> str | None:
        """Why the trial does not show what it is to show; None if it does."""
        if self.before.overloaded:
            return f"before the loss {_names(self.before.overloaded)} left messages unanswered"
        if self.trial.fits and self.after.overloaded:
            return f"after the loss {_names(self.after.overloaded)} left messages unanswered, and the rule says that none does"
        if not self.trial.fits and not self.after.overloaded:
            return "after the loss everything was answered, and the rule says that it cannot be"
        if abs(self.off) > WITHIN:
            return f"{self.trial.left} brokers are left by the rule, and {self.worth:.2f} in fact"
        return None

    def row(self) -> dict[str, Any]:
        """As capacity.json has it."""
        zones = len(self.trial.sizes)
        return {
            "name": self.trial.name,
            "zones": zones,
            "sizes": list(self.trial.sizes),
            "arbiters": self.trial.arbiters,
            "brokers": self.trial.brokers,
            "load": self.trial.needs,
            "demanded": brokers_needed(self.trial.needs, zones),
            "left": self.trial.left,
            "left_measured": round(self.worth, 2),
            "off": round(self.off, 3),
            "fits": self.trial.fits,
            "overloaded": list(self.after.overloaded),
            "limit_s": self.limit_s,
            "zone_of": {str(broker): zone for broker, zone in self.zone_of.items()},
            **{name: _window_row(getattr(self, name)) for name in ("before", "after", "surge")},
            "missing": self.missing(),
        }


def _window_row(window: WindowFigures) -> dict[str, Any]:
    brokers = {str(broker): _round_off(attrs.asdict(load)) for broker, load in window.brokers.items()}
    return _round_off({name: value for name, value in attrs.asdict(window).items() if name != "brokers"}) | {
        "brokers": brokers
    }


def _round_off(figures: Mapping[str, float | None]) -> dict[str, Any]:
    return {name: None if value is None else round(value, 3) for name, value in figures.items()}


def _names(brokers: tuple[int, ...]) -> str:
    return ", ".join(f"n{broker}" for broker in brokers)
