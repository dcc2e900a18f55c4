"""The port of the simulator: what a system brings so that it can be simulated, shrunk, replayed and searched."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs

from jepsen_like.simulation.kernel.explorer import Explorer
from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.kernel.scenario import ScenarioFormat
from jepsen_like.simulation.kernel.swarm import Knobs
from jepsen_like.simulation.kernel.tracing import Observer
from jepsen_like.simulation.kernel.world import SimulatedWorld

K = TypeVar("K", bound=Knobs)


@attrs.frozen(kw_only=True)
class SystemModel(Generic[K]):
    """One system under simulation. Its parts are found by import, so that other processes can play its seeds."""

    name: str
    """The name that `--system` takes."""
    draw: Callable[[int], K]
    """The knobs of a seed, drawn from streams of that seed alone."""
    calm: K
    """Fair weather: no fault, no loss, no clients. Scenarios are written as what differs from it."""
    world: Callable[..., SimulatedWorld[K]]
    """A class of worlds, or a function that chooses one by knobs; its audits call `SimulatedWorld.report`."""
    floors: Mapping[str, int]
    """The least counts of every 1,000 seeds, by the names that `SimulatedWorld.totals` counts."""
    columns: str
    """The heading of what `SimulatedWorld.state_of` returns."""
    scope: str
    """The scope that is searched unless another is asked for."""
    read_scope: Callable[[str], Any]
    """The scope that a command line describes; raises `ValueError` for one that makes no sense."""
    explorer: Callable[[Any], Explorer[Any, Any]]
    """A search of a scope, with its own invariants and audits."""

    @property
    def scenarios(self) -> ScenarioFormat[K]:
        """The format in which its worlds are written down."""
        return ScenarioFormat(self.name, self.calm)

    def play(self, seed: int, *, stop_at_first: bool = True, observer: Observer | None = None) -> SeedResult:
        """The world of `seed`, played once."""
        return self.world(self.draw(seed), stop_at_first=stop_at_first, observer=observer).run()
