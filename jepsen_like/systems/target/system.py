"""The part of an adapter that is the same for every cluster that others run: nothing of it is started or read here."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar

from jepsen_like.port.answers import Answers
from jepsen_like.port.observations import Observation
from jepsen_like.port.port import Control, NotServing, ProcessPlan, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address, Network, text_of
from jepsen_like.systems.foreign.exchange import NotAnswered

T = TypeVar("T")
OURS_BEGINS: Final = "quorumlog-"
"""The names of all that runs make in clusters of others."""


class TargetSystem(System):
    """A system whose processes belong to others; it comes before the adapter of ours among the bases of a class."""

    networks: ClassVar[tuple[Network, ...]] = tuple(Network)
    further_ports: ClassVar[tuple[str, ...]] = ()
    scenarios: ClassVar[tuple[NamedScenario, ...]] = ()
    fault_settings: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def lacking(self) -> str | None:
        """No program of it is needed here."""
        return None

    def command(self, plan: ProcessPlan) -> list[str]:
        """No process of it is started here."""
        raise AssertionError("a cluster of others starts by itself")

    def observe(self, event: Mapping[str, Any]) -> Observation | None:
        """No process of it is read here."""
        return None

    def answers(self, control: Control) -> Answers | None:
        """Nothing of ours lies before it."""
        return None


def name_of(cluster_id: str) -> str:
    """Returns the name of what a run makes in a cluster of others."""
    return f"{OURS_BEGINS}{cluster_id}"


SERVERS: Final = "--bootstrap-servers"


async def first_answer(addresses: Iterable[Address], ask: Callable[[Address], Awaitable[T]], whom: str = SERVERS) -> T:
    """Returns the answer of the first that has one. Raises `NotServing` with the reasons of all, each a `NotAnswered`."""
    why: dict[Address, str] = {}
    for address in addresses:
        try:
            return await ask(address)
        except NotAnswered as error:
            why[address] = str(error)
    raise none_answers(why, whom)


def none_answers(why: Mapping[Address, str], whom: str = SERVERS) -> NotServing:
    """Returns the error of a cluster none of whose addresses answers, with the reason of each."""
    told = "; ".join(f"{text_of(address)}: {reason}" for address, reason in why.items())
    return NotServing(f"none of {whom} answers; {told}")
