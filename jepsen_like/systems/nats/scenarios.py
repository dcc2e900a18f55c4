"""The scenarios of NATS: findings that others have published, each with what ends it."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial
from jepsen_like.systems.nats.settings import ALWAYS

POWER_OF_ALL: Final = (Fault(1, "power", Target.ALL, at_s=8.0, hold_s=1.0, seed=1),)
VERSIONS: Final = ("2.12.1", "2.15.2")


def _trials(version: str) -> tuple[Trial, Trial]:
    named = f"version={version}"
    return (
        Trial(name=named, settings=(named,), faults=POWER_OF_ALL, shows=Shows.LOSS),
        Trial(
            name=f"{named}, sync_interval={ALWAYS}",
            settings=(named, f"sync_interval={ALWAYS}"),
            faults=POWER_OF_ALL,
            shows=Shows.NO_LOSS,
        ),
    )


SCENARIOS: Final = (
    NamedScenario(
        name="nats-power-cut",
        story=(
            "The power of all three servers fails at once. By default JetStream flushes every two minutes, and acknowledges before. So it "
            "loses what it had acknowledged, as Jepsen reported of 2.12.1; where each message is flushed first, it loses nothing."
        ),
        workload="log",
        duration_s=20.0,
        trials=tuple(trial for version in VERSIONS for trial in _trials(version)),
    ),
)
