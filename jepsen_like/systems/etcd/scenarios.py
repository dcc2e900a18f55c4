"""The scenarios of etcd: findings that others have published, each with the release that has it and one that has not."""

from typing import Final

from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.scenario import NamedScenario, Shows, Trial

GUARDED: Final = "guarded-register"
"""The workload whose changes take a member a while to apply."""
KILLS: Final = tuple(
    Fault(number, "kill", Target.ALL, at_s=5.0 * number, hold_s=0.3, seed=number) for number in range(1, 6)
)
COMMITS: Final = "backend_batch_interval=100us"


def _trial(version: str, shows: Shows) -> Trial:
    named = f"version={version}"
    return Trial(name=named, settings=(named, COMMITS), faults=KILLS, shows=shows)


SCENARIOS: Final = (
    NamedScenario(
        name="etcd-crash",
        story=(
            "All members are killed under load, five times. Until 3.5.2 a commit of the database could save the index of a change that "
            "was only about to be applied. A member that ends then never applies it, and holds other data than the others for good."
        ),
        workload=GUARDED,
        duration_s=32.0,
        trials=(_trial("3.5.2", Shows.BROKEN), _trial("3.5.4", Shows.NO_LOSS)),
        concurrency=32,
        rate=0.0,
    ),
)
