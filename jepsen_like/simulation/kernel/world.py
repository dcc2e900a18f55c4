"""One seed, one world: a heap of events in virtual time, pumped until the world has settled or a promise is broken.

Nothing here sleeps, threads or asks the real time. Two phases: in the first the faults of the seed strike; then all of
them end, and the system must settle within a bound (V-liveness). What lives in the world, how faults strike it and what
must hold is the model's; its invariants and audits `report` what they find.

With `stop_at_first` false a world goes on after a violation, so that the power of different oracles can be compared;
with `stop_at` it ends at the first violation that this oracle sees.
"""

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from jepsen_like.simulation.kernel.findings import CRASH, NODE_ERRORS, OracleViolation, SeedResult
from jepsen_like.simulation.kernel.network import Parcel, SimulatedNetwork
from jepsen_like.simulation.kernel.swarm import Knobs
from jepsen_like.simulation.kernel.tracing import Observer, TraceEvent

STEPS_MAX = 10_000
STEPS_PER_REQUEST_MAX = 40
"""A cap on the steps of all nodes together: a broken node may answer messages with messages without end (V-storm).

Sound worlds need about a thousand, and 20 to 30 for each request where the network reorders nearly everything.
"""
HEAL_S_MAX = 120.0
"""A healed world settles within this time, in virtual seconds."""
POLL_S = 0.02
VIOLATIONS_MAX = 40

K = TypeVar("K", bound=Knobs)


class _Stop(Exception):
    """The first violation was found, and one is enough."""


class SimulatedWorld(ABC, Generic[K]):
    """A system and everything around it; `run` plays it once.

    A model makes `network` in `build`, and adds each node's decision to `steps` and each client's to `requests`.
    """

    network: SimulatedNetwork[Any, Any]

    def __init__(
        self,
        knobs: K,
        *,
        stop_at_first: bool = True,
        stop_at: str | None = None,
        steps_max: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.knobs = knobs
        self.now = 0.0
        self.steps = 0
        self.requests = 0
        self.healed = False
        self.finished = False
        self.counts: Counter[str] = Counter()
        self.violations: list[OracleViolation] = []
        self.observer = observer
        self._stop_at_first = stop_at_first
        self._stop_at = stop_at
        self._steps_max = steps_max
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._posted = 0
        self.build()

    # ---------------------------------------------------------------- what a model implements

    @abstractmethod
    def build(self) -> None:
        """Make all that lives in the world, and the network between it; nothing happens yet."""

    @abstractmethod
    def begin(self) -> None:
        """Start the nodes, the clients and the planned faults, by `schedule`."""

    @abstractmethod
    def deliver(self, sender: Any, to: Any, message: Any) -> None:
        """Let a message arrive that the network has carried."""

    @abstractmethod
    def end_faults(self) -> None:
        """End every fault but those of the network, which have ended; the world is `healed` from here on."""

    @abstractmethod
    def open_conditions(self) -> Iterable[str]:
        """The conditions, in words, that a healed world must still meet to be settled; empty once it is."""

    @abstractmethod
    def judge(self) -> None:
        """Report what is wrong at the end."""

    @abstractmethod
    def totals(self) -> Counter[str]:
        """The counts of all events; floors are held against them."""

    @abstractmethod
    def outcome(self) -> Iterator[object]:
        """The results of the world, as values of a stable `repr`: the fingerprint of the seed is made of them."""

    @abstractmethod
    def all_requests(self) -> Sequence[tuple[int, int]]:
        """(client, number) of all requests that the clients came to, left out or not."""

    @abstractmethod
    def state_of(self, node: int) -> str:
        """The state of a node in the columns of a trace; 0 is no node in particular."""

    # ---------------------------------------------------------------- the pump

    def run(self) -> SeedResult:
        """Play the whole seed."""
        try:
            self.begin()
            self.schedule(self.knobs.safety_s, self._heal)
            self._pump()
            self.judge()
        except _Stop:
            pass
        except NODE_ERRORS as error:
            # Whatever a node can raise inside a step ends that node; out here it is a bug too, and its seed is named.
            self.violations.append(OracleViolation(CRASH, self.now, 0, f"{type(error).__name__}: {error}"))
        return SeedResult(self.knobs.seed, tuple(self.violations), self.totals(), self.steps, self._fingerprint())

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`; what is scheduled for the same moment happens in this order."""
        self._posted += 1
        heapq.heappush(self._heap, (at, self._posted, action, arguments))

    def post(self, arrival: float, parcel: Parcel[Any, Any]) -> None:
        """Deliver this parcel at `arrival`, if the network still carries it then."""
        self._posted += 1
        heapq.heappush(self._heap, (arrival, self._posted, self._arrives, (parcel,)))

    def _arrives(self, parcel: Parcel[Any, Any]) -> None:
        if self.network.arrives(parcel):
            self.deliver(*parcel.link, parcel.message)

    def _pump(self) -> None:
        heap = self._heap
        always_allowed = STEPS_MAX if self._steps_max is None else self._steps_max
        while heap and not self.finished:
            at, _, action, arguments = heapq.heappop(heap)
            if at > self.now:
                self.now = at
            action(*arguments)
            if self.steps > always_allowed and self.steps > self._steps_allowed:
                self.report("V-storm", 0, f"{self._steps_allowed} steps were not enough")
                return

    @property
    def _steps_allowed(self) -> int:
        return STEPS_MAX + STEPS_PER_REQUEST_MAX * self.requests if self._steps_max is None else self._steps_max

    # ---------------------------------------------------------------- healing

    def _heal(self) -> None:
        """End every fault; from here on the system owes liveness."""
        self.healed = True
        self.note("all faults end")
        self.network.calm(self.now)
        self.end_faults()
        self.schedule(self.now + HEAL_S_MAX, self._out_of_patience)
        self.schedule(self.now + POLL_S, self._poll)

    def _poll(self) -> None:
        if next(iter(self.open_conditions()), None) is not None:
            self.schedule(self.now + POLL_S, self._poll)
        else:
            self.finished = True

    def _out_of_patience(self) -> None:
        self.report("V-liveness", 0, f"{HEAL_S_MAX:.0f} s after the last fault: {', '.join(self.open_conditions())}")
        self.finished = True

    # ---------------------------------------------------------------- findings

    def note(self, text: str, node: int | None = None) -> None:
        """Put a line into the trace: what was done, and to which node if to any."""
        if self.observer is not None:
            name = "" if node is None else f"n{node}"
            self.observer(TraceEvent(self.now, name, text, self.state_of(node or 0)))

    def report(self, oracle: str, node: int, sentence: str) -> None:
        """A promise was broken, at `node` (0: at none in particular); the world may end with it."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(OracleViolation(oracle, self.now, node, sentence))
            self.note(f"VIOLATION {oracle}: {sentence}", node or None)
        if self._stop_at_first or oracle == self._stop_at or len(self.violations) == VIOLATIONS_MAX:
            raise _Stop

    def _fingerprint(self) -> str:
        """The same for the same seed in any process; cheap, so that every seed has one."""
        digest = blake2b(digest_size=8)
        digest.update(repr((self.steps, self.now, sorted(self.totals().items()))).encode())
        for value in self.outcome():
            digest.update(repr(value).encode())
        return digest.hexdigest()
