"""Faults on demand: what `quorumlog fault` asks of the cluster that `quorumlog up` keeps running, over a socket in its directory.

One request a connection: one JSON line each way. `{"do": "status"}`, `{"do": "leaders", "scope": ""}`, `{"do": "heal"}`, or
`{"do": "fault", "kind": "kill", "target": "leader", "nodes": [], "scope": "", "hold_s": null}`. A fault holds until `heal`, or for
`hold_s`. `{"do": "answer", "words": {"api": "EndTxn", "error": "NOT_COORDINATOR"}}` and `{"do": "undo"}` are for answers on request;
`{"do": "acknowledge", "records": [...]}`, `{"do": "forget"}` and `{"do": "check", "within_s": 30}` for the check. `desk_http` serves the same.

An answer has `told`, lines for people, and what programs want of it; or `error`. With `usage` the request made no sense, with `late` the
cluster did not get there in time, with `failed` the reason is here.
"""

import contextlib
import json
import logging
import math
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.fault_network import FaultNetwork
from jepsen_like.cluster.machine import Need
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.cluster.process import NodeProcess
from jepsen_like.nemesis.kind import NemesisKind, Seen, Withheld
from jepsen_like.nemesis.links import LinkKind
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import ResolvedTarget, Target, both_ways
from jepsen_like.nemesis.zones import InZone
from jepsen_like.port.answers import Answers, WrongAnswer
from jepsen_like.port.port import Leadership, NotServing, Scope
from jepsen_like.port.witness import TooMuchReported, Witness, WrongReport

logger = logging.getLogger(__name__)

SOCKET: Final = "control.sock"
LINE_BYTES_MAX: Final = 64 * 1024
LEADER_WITHIN_S: Final = 5.0
POLL_S: Final = 0.05
CHECK_WITHIN_S: Final = 30.0
CHECK_WITHIN_S_MAX: Final = 600.0
BROKEN_SHOWN_MAX: Final = 100
REQUESTS: Final = ("status", "leaders", "fault", "heal", "answer", "undo", "acknowledge", "forget", "check")


class FaultRefused(Exception):
    """A fault that cannot be done to this cluster, or not now; the text tells why."""


class WrongWish(FaultRefused):
    """A request that makes no sense; the text gives the reason and what there is."""


@attrs.frozen
class FaultWish:
    """The request to break something. Named `nodes` come before the `target`; no `scope`: one that is led."""

    kind: str
    target: str = Target.LEADER
    nodes: Sequence[int] = ()
    scope: Scope = ""
    hold_s: float | None = None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "FaultWish":
        """From the wire. Raises `WrongWish` for one that makes no sense."""
        require_known(request, "kind", "target", "nodes", "scope", "hold_s")
        try:
            hold_s, nodes = request.get("hold_s"), request.get("nodes", ())
            if isinstance(nodes, str):
                raise ValueError(f"nodes is {nodes!r}, and a list of numbers is needed")
            wish = cls(
                str(request["kind"]),
                str(request.get("target") or Target.LEADER),
                tuple(int(node) for node in nodes),
                str(request.get("scope") or ""),
                None if hold_s is None else float(hold_s),
            )
            Target(wish.target)
        except KeyError as missing:
            raise WrongWish(f"not a fault: {missing.args[0]} is missing") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise WrongWish(f"not a fault: {error}") from None
        if wish.hold_s is not None and not 0 <= wish.hold_s < math.inf:
            raise WrongWish(f"not a fault: it cannot hold for {wish.hold_s:g} s")
        return wish


def require_known(request: Mapping[str, Any], *names: str) -> None:
    """Raises `WrongWish` for a request with a field of another name: what it wants would not be done."""
    if unknown := request.keys() - {"do", *names}:
        raise WrongWish(f"there is no {min(unknown)} here; there are {', '.join(names) or 'no fields'}")


@attrs.define(eq=False)
class _Holding:
    kind: NemesisKind
    hit: ResolvedTarget
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_undone: trio.Event = attrs.field(factory=trio.Event)


class FaultDesk:
    """Breaks one cluster by request, one request at a time. `on_news` is told every line that the requester is told."""

    def __init__(
        self,
        cluster: Cluster,
        nursery: trio.Nursery,
        needs: frozenset[Need],
        on_news: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._cluster = cluster
        self._nursery = nursery
        self._needs = needs
        self._on_news = on_news
        self._rng = random.Random()
        self._lock = trio.Lock()
        self._holding: list[_Holding] = []
        self._answers = cluster.system.answers(cluster.control)
        if self._answers is not None:
            nursery.start_soon(self._answers.serve)
        self._witness = cluster.system.witness(cluster.control, cluster.mode, cluster.access, cluster.members)

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a request. Never raises for what a requester can get wrong."""
        try:
            if request.get("do") == "status":
                require_known(request)
                return await self._status()
            if request.get("do") == "leaders":
                require_known(request, "scope")
                return await self._leaders(str(request.get("scope") or ""))
            async with self._lock:
                answer = await self._change(request)
        except (WrongWish, WrongAnswer, WrongReport) as wrong:
            return {"error": str(wrong), "usage": True}
        except (FaultRefused, Withheld, TooMuchReported) as refused:
            return {"error": str(refused)}
        except NotServing as late:
            return {"error": str(late), "late": True}
        except Exception as error:
            logger.exception("the request %.200r failed", request)
            why = f"the request failed ({type(error).__name__}: {str(error)[:500]}); see quorumlog fault status"
            return {"error": why, "failed": True}
        for line in answer["told"] if request.get("do") != "acknowledge" else ():
            self._on_news(line)
        return answer

    async def _change(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a request that may change something; alone."""
        match request.get("do"):
            case "fault":
                return {"told": await self._break(FaultWish.of(request))}
            case "heal":
                require_known(request)
                return {"told": await self.heal()}
            case "answer":
                return {"told": await self._answer(request.get("words"))}
            case "undo":
                require_known(request)
                return {"told": undo_answers(self._answers)}
            case "acknowledge":
                require_known(request, "records")
                count = self._require_witness().note(request)
                return {"told": [f"acknowledged: {count}, to be looked for by check"], "noted": count}
            case "forget":
                require_known(request)
                self._require_witness().forget()
                return {"told": ["forgotten: all that was reported as acknowledged"]}
            case "check":
                require_known(request, "within_s")
                return await self._check(request.get("within_s"))
            case other:
                raise WrongWish(f"no request {other!r}; there are {', '.join(REQUESTS)}")

    # ---------------------------------------------------------------- breaking

    async def _break(self, wish: FaultWish) -> list[str]:
        kind = self._kind(wish.kind)
        scope, leader = await self._leader(wish)
        hit = await kind.locate(self._cluster, scope, self._select(kind, wish, leader))
        holding = _Holding(kind, hit)
        self._holding.append(holding)
        try:
            seen = await kind.inject(self._cluster, hit)
        except Withheld:
            self._holding.remove(holding)
            raise
        self._nursery.start_soon(self._hold, holding, math.inf if wish.hold_s is None else wish.hold_s)
        until = "until heal" if wish.hold_s is None else f"for {wish.hold_s:g} s"
        return [f"{kind.name} of {_names(hit)} {until}", *(f"{what}: {text}" for what, text in _put_into_words(seen))]

    def _kind(self, name: str) -> NemesisKind:
        kind = KINDS.get(name)
        system = self._cluster.system
        if kind is None:
            raise WrongWish(f"no fault {name!r}; there are {', '.join(self.kinds())}")
        if name in system.refused:
            raise FaultRefused(f"{name} is not done to {system.name}: {system.refused[name]}")
        if isinstance(kind, InZone) and not self._cluster.zones.names:
            raise FaultRefused(f"a {name} needs a cluster with zones: start it with quorumlog up --zones 3")
        if not kind.needs <= self._needs:
            raise FaultRefused(f"the cluster was not started for {name}: start it with quorumlog up --faults {name}")
        if len(self._cluster.targets) < kind.nodes_min:
            raise FaultRefused(f"a {name} needs at least {kind.nodes_min} nodes")
        return kind

    def kinds(self) -> list[str]:
        """The kinds that can be done to this cluster."""
        refused = self._cluster.system.refused
        has_zones = bool(self._cluster.zones.names)
        return [
            name
            for name, kind in KINDS.items()
            if name not in refused and kind.needs <= self._needs and (has_zones or not isinstance(kind, InZone))
        ]

    async def _leader(self, wish: FaultWish) -> tuple[Scope, Leadership]:
        """Whose leader is meant, and who that is."""
        leaders = await self._cluster.leaders(within_s=LEADER_WITHIN_S)
        if wish.scope and wish.scope not in leaders:
            raise FaultRefused(f"{wish.scope!r} has no leader; there are {', '.join(sorted(leaders)) or 'none'}")
        if wish.scope:
            return wish.scope, leaders[wish.scope]
        if not leaders:
            if wish.nodes or wish.target not in (Target.LEADER, Target.ONE_WAY):
                return "", Leadership(min(self._cluster.targets), 0)
            raise FaultRefused("nothing has a leader now")
        # The last in order: what is written to, where there is more than the cluster's own.
        scope = max(leaders, key=lambda name: (name != self._cluster.system.own_scope, name))
        return scope, leaders[scope]

    def _select(self, kind: NemesisKind, wish: FaultWish, leader: Leadership) -> ResolvedTarget:
        nodes = self._cluster.targets
        if unknown := [node for node in wish.nodes if node not in nodes]:
            raise WrongWish(f"no node {unknown[0]}; there are {', '.join(map(str, nodes))}")
        if kind.hits_first is Target.ALL and wish.nodes:
            raise WrongWish(f"a {kind.name} concerns all nodes; name none")
        if not wish.nodes:
            target = kind.hits_first if wish.target == Target.LEADER else Target(wish.target)
            allowed = dict.fromkeys((kind.hits_first, *kind.targets, *([Target.ZONE] if kind.takes_zones else [])))
            if target not in allowed:
                raise WrongWish(f"a {kind.name} has no target {target.value}; there are {', '.join(allowed)}")
            return kind.select(self._rng, target, nodes, leader.node)
        if isinstance(kind, InZone):
            return ResolvedTarget(tuple(wish.nodes), seed=self._rng.getrandbits(32), whole_zone=True)
        others = [node for node in nodes if node not in wish.nodes]
        if isinstance(kind, LinkKind):
            if not others:
                raise WrongWish(f"a {kind.name} of all nodes has no other side; leave one out")
            clients = tuple(wish.nodes) if Target.ONE in kind.targets else ()
            return ResolvedTarget(tuple(wish.nodes), both_ways(wish.nodes, others), clients, self._rng.getrandbits(32))
        return ResolvedTarget(tuple(wish.nodes), seed=self._rng.getrandbits(32))

    async def _hold(self, holding: _Holding, hold_s: float) -> None:
        """Keep up a fault for its time. A fault that fails meanwhile is reported, and the cluster lives on."""
        fault = f"{holding.kind.name} of {_names(holding.hit)}"
        try:
            with holding.scope:
                seen = await holding.kind.hold(self._cluster, holding.hit, hold_s)
                for what, text in _put_into_words(seen):
                    self._on_news(f"{what}: {text}")
            if holding.scope.cancelled_caught:
                holding.is_undone.set()
                return
            async with self._lock:
                if holding in self._holding:
                    await self._undo(holding)
        except Exception as error:
            logger.exception("%s failed", fault)
            self._on_news(f"{fault} failed ({type(error).__name__}: {error}); run: quorumlog fault heal")
        else:
            self._on_news(f"{fault} is over")

    async def _undo(self, holding: _Holding) -> Seen:
        self._holding.remove(holding)
        return await holding.kind.undo(self._cluster, holding.hit)

    # ---------------------------------------------------------------- answers on request

    async def _answer(self, words: object) -> list[str]:
        cluster, answers = self._cluster, self._answers
        if answers is None:
            raise FaultRefused(f"there are no answers on request for {cluster.system.name}")
        if cluster.access.tls is not None:
            raise FaultRefused("answers need connections that a proxy can read; this cluster was started with --tls")
        if not isinstance(cluster.network, FaultNetwork):
            raise FaultRefused("answers need a cluster that was started with --network proxies")
        told = await wish_for_answer(answers, words)
        ways = {node: (LOOPBACK, answers.listen(cluster.direct[node])) for node in cluster.client_addresses}
        cluster.network.lead_clients_to(ways)
        return told

    # ---------------------------------------------------------------- healing, looking

    async def heal(self) -> list[str]:
        """Undo all faults, and start and open whatever is not. Returns what was undone."""
        undone = [] if self._answers is None or not self._answers.undo_all() else ["answers on request"]
        for holding in tuple(self._holding):
            holding.scope.cancel()
            await self._undo(holding)
            undone.append(f"{holding.kind.name} of {_names(holding.hit)}")
        await self._cluster.heal()
        return [f"healed: {', '.join(undone) or 'nothing was broken by request'}", *self._processes()]

    async def _status(self) -> dict[str, Any]:
        cluster = self._cluster
        leaders = await cluster.leaders(within_s=LEADER_WITHIN_S)
        broken = [f"{each.kind.name} of {_names(each.hit)}" for each in self._holding]
        led = [
            f"{scope or 'the cluster'}: led by n{one.node} in epoch {one.epoch}"
            for scope, one in sorted(leaders.items())
        ]
        answers = [] if self._answers is None else self._answers.lines()
        name, _, addresses = cluster.system.address_line(cluster.entrances).partition("=")
        return {
            "told": [
                *self._processes(),
                *(led or ["nothing has a leader"]),
                *(f"holds: {each}" for each in broken),
                *answers,
            ],
            "system": cluster.system.name,
            "clients": {name: addresses},
            "nodes": [
                {"node": node, "role": cluster.members[node].role, "state": _state_of(process)}
                for node, process in sorted(cluster.nodes.items())
            ],
            "leaders": _as_json(leaders),
            "faults": broken,
            "answers": [] if self._answers is None else self._answers.list_all(),
        }

    async def _leaders(self, scope: Scope) -> dict[str, Any]:
        """The leaders that are up: of one scope or of all. Waits for one."""
        with trio.move_on_after(LEADER_WITHIN_S):
            while True:
                if scope:
                    one = await self._cluster.control.leader_of(scope)
                    found = {} if one is None else {scope: one}
                else:
                    found = dict(await self._cluster.control.leaders())
                found = {name: each for name, each in found.items() if self._cluster.can_answer(each.node)}
                if found:
                    told = [f"{name or 'the cluster'}: n{each.node}" for name, each in sorted(found.items())]
                    return {"told": told, "leaders": _as_json(found)}
                await trio.sleep(POLL_S)
        raise NotServing(f"{scope or 'the cluster'} has no leader that is up, for {LEADER_WITHIN_S:g} s")

    def _processes(self) -> list[str]:
        return [f"n{node}: {process.observe()}" for node, process in sorted(self._cluster.nodes.items())]

    # ---------------------------------------------------------------- the check

    def _require_witness(self) -> Witness:
        if self._witness is None:
            raise FaultRefused(f"there is no check on request for {self._cluster.system.name}")
        return self._witness

    async def _check(self, within_s: object) -> dict[str, Any]:
        """Heal, and hold the cluster to what was reported. A node that ended unasked is a broken promise, too."""
        witness = self._require_witness()
        if within_s is None:
            within_s = CHECK_WITHIN_S
        if (
            not isinstance(within_s, (int, float))
            or isinstance(within_s, bool)
            or not 0 < within_s <= CHECK_WITHIN_S_MAX
        ):
            raise WrongWish(f"within_s is a number of seconds, above 0 and at most {CHECK_WITHIN_S_MAX:g}")
        await self.heal()
        found = await witness.compare(within_s=within_s)
        broken = [*found.broken, *self._cluster.unasked_ends]
        more = len(broken) - BROKEN_SHOWN_MAX
        shown = [*broken[:BROKEN_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]
        told = [f"{'broken' if broken else 'kept'}: {found.text}", *self._cluster.unasked_ends]
        return {
            "told": told,
            "valid": not broken,
            "acknowledged": found.acknowledged,
            "compared": found.compared,
            "broken": shown,
        }


async def wish_for_answer(answers: Answers, words: object) -> list[str]:
    """Carry out the request for an answer. Raises `WrongAnswer`."""
    if not isinstance(words, dict):
        raise WrongAnswer('an answer has words: {"api": "EndTxn", "error": "NOT_COORDINATOR"}')
    return [await answers.ask(words)]


def undo_answers(answers: Answers | None) -> list[str]:
    """Carry out the request to end all wishes for answers."""
    return [f"undone: {0 if answers is None else answers.undo_all()} answers on request"]


def _as_json(leaders: Mapping[Scope, Leadership]) -> dict[str, Any]:
    return {scope: {"node": one.node, "epoch": one.epoch} for scope, one in sorted(leaders.items())}


def _state_of(process: NodeProcess) -> str:
    if not process.is_running:
        return "down"
    return "paused" if process.is_paused else "running"


def _names(hit: ResolvedTarget) -> str:
    nodes = ", ".join(f"n{node}" for node in hit.nodes)
    return f"{nodes} ({', '.join(hit.links)})" if hit.links else nodes


def _put_into_words(seen: Seen) -> list[tuple[str, str]]:
    return [(f"n{what}" if what.isdecimal() else what, text) for what, text in seen.items()]


# -------------------------------------------------------------------- the socket


@contextmanager
def short_address(directory: Path) -> Iterator[str]:
    """Returns a path of the socket that is short enough for its address, however long that of the directory is."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


class Desk(Protocol):
    """Something that answers requests."""

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a request. Never raises for what a requester can get wrong."""


@asynccontextmanager
async def desk_open(directory: Path, desk: Desk) -> AsyncIterator[None]:
    """Answer requests on a socket in `directory`, for this user only. Raises `OSError` if it cannot be made."""
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = directory / SOCKET
    path.unlink(missing_ok=True)
    with short_address(directory) as address:
        await listener.bind(address)
    path.chmod(0o600)
    listener.listen()

    async def serve() -> None:
        while True:
            connection, _ = await listener.accept()
            nursery.start_soon(_serve_one, desk, trio.SocketStream(connection))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()
            listener.close()
            path.unlink(missing_ok=True)


async def _serve_one(desk: Desk, stream: trio.SocketStream) -> None:
    async with stream:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            line = b""
            while not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
                chunk = await stream.receive_some()
                if not chunk:
                    return
                line += chunk
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                request = None
            answer = (
                await desk.answer(request) if isinstance(request, dict) else {"error": "a request is one JSON object"}
            )
            await stream.send_all(json.dumps(answer).encode() + b"\n")


def ask(directory: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the desk in `directory`. Raises `OSError` if none is open there."""
    with short_address(directory) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(address)
        client.sendall(json.dumps(request).encode() + b"\n")
        line = b""
        while chunk := client.recv(LINE_BYTES_MAX):
            line += chunk
    if not line:
        raise ConnectionResetError("the cluster ended before it answered")
    answer = json.loads(line)
    assert isinstance(answer, dict)
    return answer
