"""A second model for the simulator, as small as one can be: a register with a primary and a backup.

The primary (n1) takes writes, numbers them and sends copies; the backup (n2) keeps the newest and answers; a write is
acknowledged when the backup has it. Promise R1: what was acknowledged stays on the backup. The planted bug: a backup that
takes older copies, too, as they come.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import attrs

from jepsen_like.simulation.kernel.explorer import BrokenPromise, Explorer
from jepsen_like.simulation.kernel.model import SystemModel
from jepsen_like.simulation.kernel.network import SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, Knobs, PlannedFault, draw_faults
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.kernel.world import SimulatedWorld

PRIMARY, BACKUP = 1, 2
RESEND_S = 0.1


class Copied(NamedTuple):
    """To the backup: a write; to the primary: that it is there."""

    version: int


@attrs.frozen
class Pair:
    """Both replicas, and what the primary has acknowledged: all of it by version. The decider; it owns nothing else."""

    primary: int = 0
    backup: int = 0
    acknowledged: int = 0

    def write(self) -> tuple["Pair", Copied]:
        """One more write at the primary, and the copy that it sends."""
        written = attrs.evolve(self, primary=self.primary + 1)
        return written, Copied(written.primary)

    def receive(self, node: int, message: Copied, *, takes_older: bool) -> tuple["Pair", Copied | None]:
        """A message arrives at `node`; the answer, if there is one."""
        if node == PRIMARY:
            return attrs.evolve(self, acknowledged=max(self.acknowledged, message.version)), None
        newest = message.version if takes_older else max(self.backup, message.version)
        return attrs.evolve(self, backup=newest), Copied(message.version)

    def find_violation(self) -> str:
        """Returns the promise that is broken, in words; empty if all hold."""
        lost = self.acknowledged > self.backup
        return f"R1: write {self.acknowledged} was acknowledged, the backup has {self.backup}" if lost else ""


@attrs.frozen(kw_only=True)
class PairKnobs(Knobs):
    """The choices of a seed."""

    write_every_s: float = 0.05


PAIR_CALM = PairKnobs(
    seed=0,
    nodes=2,
    safety_s=1.0,
    delay_s=0.01,
    delay_s_spread=0.2,
    loss=0.0,
    duplicate=0.0,
    fifo=True,
    clients=0,
    faults=(),
)


def draw_pair(seed: int) -> PairKnobs:
    """The world of `seed`."""
    rng = stream(seed, "pair")
    return attrs.evolve(
        PAIR_CALM,
        seed=seed,
        delay_s_spread=rng.choice((0.2, 3.0)),
        loss=rng.choice((0.0, 0.1)),
        duplicate=rng.choice((0.0, 0.1)),
        fifo=rng.random() < 0.5,
        clients=rng.randint(1, 3),
        faults=draw_faults(seed, 1.0, (FaultKind.ISOLATE, FaultKind.RESET)),
    )


class PairWorld(SimulatedWorld[PairKnobs]):
    """Primary, backup and the wire between them."""

    takes_older = False

    def build(self) -> None:
        self.network: SimulatedNetwork[int, Copied] = SimulatedNetwork(self.knobs, [PRIMARY, BACKUP], self.post)
        self.pair = Pair()
        self._considered = Counter[int]()

    def begin(self) -> None:
        for client in range(1, self.knobs.clients + 1):
            self.schedule(0.0, self._write, client)
        for fault in self.knobs.faults:
            self.schedule(fault.at_s, self._strike, fault)
        self.schedule(RESEND_S, self._resend)

    def _strike(self, fault: PlannedFault) -> None:
        self.note(fault.kind.value)
        self.counts[fault.kind.value] += 1
        if fault.kind is FaultKind.RESET:
            self.network.reset((PRIMARY, BACKUP))
        else:
            self.network.cut([(PRIMARY, BACKUP)], holds=True)
            self.schedule(self.now + 0.1, self._rejoin)

    def _rejoin(self) -> None:
        self.network.heal(self.now, [(PRIMARY, BACKUP)])

    def _write(self, client: int) -> None:
        if self.healed:
            return
        self._considered[client] += 1
        self.schedule(self.now + self.knobs.write_every_s, self._write, client)
        if (client, self._considered[client]) not in self.knobs.unasked:
            self.requests += 1
            self.counts["writes"] += 1
            self.pair, copy = self.pair.write()
            self._end_step(PRIMARY, f"write {copy.version}")
            self.network.transmit(self.now, (PRIMARY, BACKUP), copy)

    def _resend(self) -> None:
        if self.pair.acknowledged < self.pair.primary:
            self.network.transmit(self.now, (PRIMARY, BACKUP), Copied(self.pair.primary))
        self.schedule(self.now + RESEND_S, self._resend)

    def deliver(self, sender: int, to: int, message: Copied) -> None:
        self.pair, answer = self.pair.receive(to, message, takes_older=self.takes_older)
        self._end_step(to, f"n{sender}: {message.version}")
        if answer is not None:
            self.network.transmit(self.now, (to, sender), answer)

    def _end_step(self, node: int, event: str) -> None:
        self.steps += 1
        if self.observer is not None:
            self.observer(TraceEvent(self.now, f"n{node}", event, self.state_of(node)))
        if broken := self.pair.find_violation():
            self.report("R1", BACKUP, broken)

    def end_faults(self) -> None:
        """Only the network has faults."""

    def open_conditions(self) -> Sequence[str]:
        return [] if self.pair.acknowledged == self.pair.primary else ["a write is not acknowledged"]

    def judge(self) -> None:
        if not self.violations and self.pair.backup != self.pair.primary:
            self.report("R-diverged", BACKUP, f"ends with {self.pair}")

    def totals(self) -> Counter[str]:
        return self.counts + self.network.counts + Counter(acknowledged=self.pair.acknowledged)

    def outcome(self) -> Iterator[object]:
        yield attrs.astuple(self.pair)

    def all_requests(self) -> Sequence[tuple[int, int]]:
        return [(client, number) for client, most in self._considered.items() for number in range(1, most + 1)]

    def state_of(self, node: int) -> str:
        return f"{self.pair.primary:>7} {self.pair.backup:>6} {self.pair.acknowledged:>12}"


class BrokenPairWorld(PairWorld):
    """With the bug."""

    takes_older = True


@attrs.frozen
class PairScope:
    """The bound of a search: the number of writes."""

    writes: int = 3

    def __str__(self) -> str:
        return f"writes={self.writes}"


def read_pair_scope(text: str) -> PairScope:
    """`writes=N`."""
    return PairScope(int(text.removeprefix("writes=")))


class PairState(NamedTuple):
    """The pair, the messages under way, and how many writes may still come."""

    pair: Pair
    under_way: tuple[tuple[int, Copied], ...]
    writes: int


class PairExplorer(Explorer[PairState, tuple[int, Copied]]):
    """Every order of writes and deliveries; a message that is never delivered is lost."""

    takes_older = False
    WRITE = (0, Copied(0))

    def __init__(self, scope: PairScope) -> None:
        super().__init__()
        self.scope = scope

    def starts(self) -> list[PairState]:
        return [PairState(Pair(), (), self.scope.writes)]

    def possible(self, state: PairState) -> Iterator[tuple[int, Copied]]:
        if state.writes:
            yield self.WRITE
        yield from dict.fromkeys(state.under_way)

    def after(self, state: PairState, action: tuple[int, Copied]) -> PairState:
        under_way, (node, message) = list(state.under_way), action
        if action == self.WRITE:
            pair, copy = state.pair.write()
            under_way.append((BACKUP, copy))
        else:
            under_way.remove(action)
            pair, answer = state.pair.receive(node, message, takes_older=self.takes_older)
            under_way += [(PRIMARY, answer)] if answer is not None else []
        if broken := pair.find_violation():
            raise BrokenPromise(broken)
        return PairState(pair, tuple(sorted(under_way)), state.writes - (action == self.WRITE))

    def key(self, state: PairState) -> int:
        return hash(state)

    def words(self, action: tuple[int, Copied]) -> str:
        return "write" if action == self.WRITE else f"deliver {action[1].version} to n{action[0]}"


class BrokenPairExplorer(PairExplorer):
    """With the bug."""

    takes_older = True


PAIR: SystemModel[PairKnobs] = SystemModel(
    name="pair",
    draw=draw_pair,
    calm=PAIR_CALM,
    world=PairWorld,
    floors={"writes": 10_000, "acknowledged": 10_000, "isolate": 100, "reset": 100, "messages_lost": 500},
    columns=f"{'primary':>7} {'backup':>6} {'acknowledged':>12}",
    scope="writes=3",
    read_scope=read_pair_scope,
    explorer=PairExplorer,
)
BROKEN_PAIR: SystemModel[PairKnobs] = attrs.evolve(PAIR, world=BrokenPairWorld, explorer=BrokenPairExplorer)
