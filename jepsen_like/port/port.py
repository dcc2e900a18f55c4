"""The port of a system: everything that the harness needs to know of it, and the only place where it asks.

Everything that names a product's role, setting, leader, error or file lives behind `System`: which processes there are and
how each is started, what their output means, who leads what, how clients talk to it, how its settings change what it
promises, what a fault may cost. A new system is one package with a `System`, registered in `registry`.

Terms: a *scope* is what has a leader of its own (a raft group, a partition, a controller); an *object* is what a history is
about (a log, a register), numbered from 0; a *mode* is a replication with its settings, of which the promises are made.
"""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import attrs

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule
from jepsen_like.port.answers import Answers
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.observations import Observation
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address, Network, text_of
from jepsen_like.port.witness import Witness
from jepsen_like.workload.load import LoadPlan, RunningLoad
from jepsen_like.workload.recorder import Recorder

Scope = str

# -------------------------------------------------------------------- errors


@attrs.define
class NotServing(Exception):
    """The cluster did not reach the state that was waited for."""

    what: str

    def __str__(self) -> str:
        return self.what


@attrs.define
class WrongMode(Exception):
    """A setting, a replication or their combination that the system refuses; the text tells what to give instead."""

    reason: str

    def __str__(self) -> str:
        return self.reason


# -------------------------------------------------------------------- processes


@attrs.frozen
class Member:
    """One process of a cluster. Ids are unique in a run and are those of histories and faults."""

    id: int
    role: str
    """The kind of the process: "node", "broker", "nameserver"."""
    holds_data: bool = True
    """True if it holds copies of records: faults choose their targets among these."""

    @property
    def name(self) -> str:
        """As people read it."""
        return f"n{self.id}"


@attrs.frozen
class TlsPaths:
    """The files of one side of TLS, as PEM."""

    authority: Path
    """Checks the other side's certificate."""
    certificate: Path
    key: Path
    keystore: Path
    """Key and certificate in one."""


class SecretSteps(Protocol):
    """Replaces the secret in a file while processes use it, in three steps."""

    def add(self, file: Path) -> None:
        """Have a second secret accepted, too."""

    def turn(self, file: Path) -> None:
        """Have processes prove themselves by the second one, and accept the first."""

    def drop(self, file: Path) -> None:
        """Have only the one accepted by which processes prove themselves."""


@attrs.frozen(kw_only=True)
class RunningCluster:
    """A cluster that runs already, and belongs to others."""

    servers: tuple[Address, ...]
    """The addresses to begin with; one that answers will do."""
    properties: Path | None = None
    """A file of client properties: who asks, and how connections are secured."""


@attrs.define
class LogPart:
    """The part of a log that is the run's, where others append to the same log. Offsets of its history begin with 0."""

    begin: int = 0
    end: int | None = None
    """Exclusive; None until all of the run has been read in the end."""


@attrs.frozen
class Access:
    """The way into a cluster for the clients of the harness."""

    cluster_id: str
    secret: Path | None = None
    """The file by which its processes know each other, where the system has one (`System.keep_secret`)."""
    tls: TlsPaths | None = None
    """A client's files, where the cluster speaks TLS."""
    further: Mapping[str, Mapping[int, Address]] = {}
    """The addresses of the further ports of each member by name, past the faults."""
    target: RunningCluster | None = None
    """The cluster of others that is tested, if it is one."""
    part: LogPart = attrs.field(factory=LogPart)
    """The part of a log of others that control and load of such a run agree on."""


@attrs.frozen(kw_only=True)
class FurtherPort:
    """A port of one process in addition to the one for its clients. `peers` is where it reaches the same port of each other one."""

    listen: Address
    peers: Mapping[int, Address]


@attrs.frozen(kw_only=True)
class ProcessPlan:
    """One process to be started. All addresses are by member id.

    `peers` is where this process reaches each other one, through the fault network. A system whose processes learn each
    other's addresses from metadata must dial these instead of what the metadata contains, or its links cannot be cut.
    """

    member: Member
    cluster_id: str
    listen: Address
    data: Path
    peers: Mapping[int, Address]
    advertised: Mapping[int, Address]
    """The place where clients reach every member, through the fault network."""
    mode: "Mode"
    promoted: Sequence[int] = ()
    """Whom an operator has let lead, in this order, in a system whose roles are given and never change by themselves."""
    secret: Path | None = None
    """The file by which the processes know each other; given by its path, so that it stands on no command line."""
    tls: TlsPaths | None = None
    """This process's files; with them all connections speak TLS."""
    boot_id: str = ""
    """Of the machine since its power came last; with another one, what was not flushed may be gone."""
    zone: str = ""
    """The zone in which it stands; empty in a cluster without zones."""
    further: Mapping[str, FurtherPort] = {}
    """By the names in `System.further_ports`."""


@attrs.frozen
class Leadership:
    """The leader of a scope, and its epoch."""

    node: int
    epoch: int
    is_own_word: bool = attrs.field(default=False, eq=False)
    """True: the node itself has told the control so, which proves it as well as what the node reports."""


class Control(abc.ABC):
    """The questions that the harness asks the processes of one running cluster, past the fault network."""

    @abc.abstractmethod
    async def leaders(self) -> Mapping[Scope, Leadership]:
        """Returns who leads each scope now; a scope without a leader is missing. Once there is a load, those that it writes to."""

    async def leader_of(self, scope: Scope) -> Leadership | None:
        """Returns who leads this scope now, whether clients write to it or not; None without a leader."""
        return (await self.leaders()).get(scope)

    async def is_serving(self) -> bool:
        """Returns True if the cluster takes clients: after its start, when nothing is broken."""
        return bool(await self.leaders())

    @abc.abstractmethod
    async def goal(self) -> object | None:
        """Returns how far a node must be to hold all that was acknowledged until now; None if that cannot be known at present."""

    @abc.abstractmethod
    async def has_reached(self, node: int, goal: Any) -> bool:
        """Returns True if a node holds everything up to a `goal`."""

    @abc.abstractmethod
    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every node has all; no client may write. Returns each object's end. Raises `NotServing`."""

    @abc.abstractmethod
    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        """Record the log of every node up to `ends` as `settle` returned them. Raises `NotServing`, in a group or not."""

    @abc.abstractmethod
    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """Send a node any request that it answers, on a new connection to `address`. Returns None if it answered, or why it did not."""

    async def prepare(self, mode: "Mode", workload: str, *, within_s: float) -> None:
        """Before the load: make what its clients will write to. Raises `NotServing` if that takes longer."""
        return

    async def copies(self, scope: Scope) -> tuple[int, ...]:
        """Returns the nodes that hold a copy of what a scope's leader has, that node too; none if that is not known now."""
        return ()

    async def in_sync(self, scope: Scope) -> tuple[int, ...]:
        """Returns the copies of a scope on which an acknowledgement waits; none where the system knows no such set, or not now."""
        return ()

    async def successor(self, node: int) -> int | None:
        """Returns whom an operator would let lead in place of this node: the one that holds the most; None without any, or elections."""
        return None

    async def absence(self, node: int) -> str | None:
        """Returns how a process is seen, over the network alone, to take no part; None if it does, or that is not looked at."""
        return None

    async def clear(self) -> str | None:
        """After a run on another owner's cluster: remove what it made. Returns what has to stay, in words.

        Raises `NotServing` if it could not be removed.
        """
        return None

    async def read_through(self, node: int) -> None:
        """Let one node read all that it has on its disk, so that damage is met; as far as it gives it."""
        return


# -------------------------------------------------------------------- modes and promises


class FaultSeen(Protocol):
    """The facts about a fault that tell whether it may have cost a record."""

    @property
    def id(self) -> int:
        """Its number in the run."""

    @property
    def kind(self) -> str:
        """The name of a kind of fault."""

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes it hit."""

    @property
    def copies(self) -> int:
        """The most copies of one scope among these nodes; 0 where that is unknown, and all may be."""

    @property
    def harmed(self) -> Sequence[int]:
        """Of these the nodes whose disks have lost something."""

    @property
    def begun_ns(self) -> int:
        """On the monotonic clock, like the times of a history."""

    @property
    def injected_ns(self) -> int:
        """Returns when it was complete."""

    @property
    def ended_ns(self) -> int:
        """Returns when all was undone."""


class Mode(abc.ABC):
    """A replication with its settings: what a run is held to."""

    replication: str
    settings: Mapping[str, Any]
    """The effective settings, as test.json holds them."""

    @property
    @abc.abstractmethod
    def acks_are_durable(self) -> bool:
        """Returns True if nothing is acknowledged, and no vote given, before it is on disk."""

    @abc.abstractmethod
    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        """Returns why a run of this mode under these faults could not be judged; None if it can."""

    def keep_rule(self, kinds: Iterable[str]) -> KeepRule:
        """Returns what may leave a log by retention; by default nothing."""
        return KeepRule()

    @abc.abstractmethod
    def promise(self, kinds: Iterable[str]) -> str:
        """Returns what is promised under these faults, in one sentence."""

    @abc.abstractmethod
    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        """The faults that may have cost records which this mode had acknowledged, and how far back each may reach."""

    @property
    def may_hold_alone(self) -> bool:
        """Returns True if something may be acknowledged that one node alone holds, for a while at least."""
        return False

    def survives(self, kind: str) -> bool:
        """Returns True if a fault of this kind costs nothing that was acknowledged, if the nodes that it does not hit hold all of it."""
        return True

    def on(self, nodes: int) -> "Mode":
        """The mode of a cluster with so many nodes. Raises `WrongMode` if it cannot have so many."""
        return self

    def groups(self, nodes: Sequence[int]) -> Sequence[Sequence[int]]:
        """The nodes by what they hold copies of; nodes of two groups have nothing in common."""
        return (nodes,)

    @abc.abstractmethod
    def spare(self, nodes: int) -> int:
        """Returns how many of a group of `nodes` may be down, or may have lost what they held, while the mode still serves and keeps all."""


# -------------------------------------------------------------------- the system


class System(abc.ABC):
    """One system. Stateless; the state of a run is in its cluster."""

    name: ClassVar[str]
    """As `--system` names it."""
    replications: ClassVar[tuple[str, ...]]
    """As `--replication` names them; the first is the default."""
    replicates_like: ClassVar[Mapping[str, str]] = {}
    """By what another system calls a way to replicate: the name of the same way here."""
    workloads: ClassVar[Mapping[str, Model]]
    """The operations that clients can do, and the model that checks them; the first is the default."""
    serves: ClassVar[Mapping[str, str]]
    """By kind of fault: when the system serves again, or still does, in words."""
    member_role: ClassVar[str] = "node"
    """The kind of its processes, if they are all alike."""
    networks: ClassVar[tuple[Network, ...]] = tuple(Network)
    """The networks in which all that its processes send each other can be cut; the first is the default."""
    further_ports: ClassVar[tuple[str, ...]] = ()
    """The names of the ports that each process has in addition to the one for clients; a cut link cuts all of them."""
    fault_settings: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By kind of fault: settings `name=value` without which it would find little to break; the user's own come first."""
    standing_settings: ClassVar[tuple[str, ...]] = ()
    """Settings `name=value` of a cluster that `up` keeps: a run's times are short, so that much happens between two faults."""
    files: ClassVar[LogFiles]
    """Which of its files can be damaged, and how it ends when it meets damage."""
    refused: ClassVar[Mapping[str, str]] = {}
    """By kind of fault: why it is not done to this system."""
    own_scope: ClassVar[Scope | None] = None
    """The scope that clients do not write to, if there is one."""
    kept_by_wipe: ClassVar[tuple[str, ...]] = ()
    """Names in the data directory that lie on another disk than the data, so that `wipe` leaves them."""
    scenarios: ClassVar[tuple[NamedScenario, ...]] = ()
    """The scenarios that `quorumlog scenario` shows of it."""
    recovers_in_s: ClassVar[float] = 0.0
    """The time that it may take to serve again after a fault, beyond that which each kind of fault is given."""
    slower_by_s: ClassVar[float] = 0.0
    """The time that its processes may take to start, and to end, beyond that which ours need on a busy machine."""
    ends_by_majority: ClassVar[bool] = False
    """True if a process that is asked to end first asks a majority, and so may wait for minutes where there is none."""
    clients_need_secret: ClassVar[bool] = False
    """True if the secret of the cluster admits its clients as well as its processes."""

    def lacking(self) -> str | None:
        """Returns what is not installed here that a run or `up` needs, and what to do, in one line; None if all is there."""
        return None

    def address_line(self, addresses: Mapping[int, Address]) -> str:
        """Returns what a client needs to reach the cluster, as `name=value`: the line that `up` prints.

        `addresses` are those of the members that hold no data, if there are any: the entrances of the cluster; else all.
        """
        return "nodes=" + ",".join(text_of(address) for _, address in sorted(addresses.items()))

    async def find_members(self, target: RunningCluster) -> Mapping[int, Address]:
        """Returns the processes of a cluster that runs already, by id. Raises `NotServing`; `WrongMode` for a wrong file."""
        raise WrongMode(f"{self.name} has no --target")

    @abc.abstractmethod
    def configure(self, words: Sequence[str], replication: str) -> Mode:
        """The mode of `name=value` settings. Raises `WrongMode`."""

    @abc.abstractmethod
    def mode_of(self, test: Mapping[str, Any]) -> Mode:
        """The mode that a test.json describes. Raises `KeyError`, `TypeError` or `ValueError` for one of an older version."""

    def members(self, nodes: int) -> tuple[Member, ...]:
        """The processes of a cluster with this many nodes, in the order in which they are started."""
        return tuple(Member(node, self.member_role) for node in range(1, nodes + 1))

    def members_in_zones(self, nodes: int, zones: int) -> tuple[Member, ...]:
        """The same of a cluster in so many zones: of what holds no data there may be one in each."""
        return self.members(nodes)

    def keep_secret(self, directory: Path) -> Path | None:
        """Returns the file by which the processes of the cluster in `directory` know each other, made if it is missing.

        None for a system without any.
        """
        return None

    def secret_steps(self) -> SecretSteps | None:
        """Returns how the secret in that file is replaced; None for a system without one."""
        return None

    @abc.abstractmethod
    def command(self, plan: ProcessPlan) -> list[str]:
        """The argument vector of one process, in this interpreter or another program."""

    @abc.abstractmethod
    def observe(self, event: Mapping[str, Any]) -> Observation | None:
        """Returns what one JSON line on the standard output of a process means to the harness; None for nothing.

        Raises `KeyError` or `ValueError` for a line that is not what it seems to be.
        """

    @abc.abstractmethod
    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """Returns the control that asks the running processes. `direct` leads past the faults; `can_answer`: neither ended nor paused."""

    def answers(self, control: Control) -> Answers | None:
        """Returns a proxy that answers on request; None if there is none for this system."""
        return None

    def witness(self, control: Control, mode: Mode, access: Access, nodes: Iterable[int]) -> Witness | None:
        """Returns what checks the cluster of these nodes on request; None if this system has no such check."""
        return None

    def recorder(self, workload: str, history: HistoryWriter) -> Recorder:
        """Returns what the load records with."""
        return Recorder(history)

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Returns what test.json contains in addition, for the check of this workload."""
        return {}

    def keep_states(self, directory: Path, workload: str) -> None:
        """After a run: write `partitions.parquet` into its directory, from what its nodes have told, if there is anything to tell."""
        return

    @abc.abstractmethod
    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RunningLoad:
        """Clients at work on a cluster; `addresses` lead through the fault network.

        The engine of `workload.load` serves systems whose clients are written here, in Trio. A load may as well drive
        processes of its own; it then records with the same `Recorder` what they report.
        """
