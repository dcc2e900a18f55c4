"""The adapter of the toy system: what a system has to tell the harness, in the fewest words, with the names of the face alone."""

import contextlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import trio

from jepsen_like import (
    KINDS,
    NONE,
    Access,
    Action,
    Address,
    Allowance,
    Control,
    DumpWriter,
    Ending,
    ErrorCode,
    FaultSeen,
    KeepRule,
    Leadership,
    LoadPlan,
    LogFiles,
    Member,
    Mode,
    Model,
    Nonsense,
    NotServing,
    NotTheLeader,
    Observation,
    Outcome,
    ProcessPlan,
    Ready,
    Recorder,
    Request,
    RoleReported,
    RoutedLoad,
    Scope,
    Seen,
    System,
    WrongMode,
    value_ids,
)
from tests.jepsen_like.systems.toy_server import ask

SERVER = Path(__file__).with_name("toy_server.py")
SWITCHES = ("none", "lose", "stale")
UNREACHABLE = (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError)


@attrs.frozen
class ToyMode(Mode):
    replication: str
    settings: Mapping[str, Any]
    acks_are_durable: bool = False

    def refusal(self, model: Model, kinds: Iterable[str]) -> str | None:
        return None

    def keep_rule(self, kinds: Iterable[str]) -> KeepRule:
        return KeepRule()

    def promise(self, kinds: Iterable[str]) -> str:
        return "nothing that was acknowledged is lost while the machine has power"

    def allowances(self, faults: Iterable[FaultSeen]) -> tuple[Allowance, ...]:
        return ()

    def spare(self, nodes: int) -> int:
        return 0


@attrs.define
class Refused(Exception):
    leader: int


class ToyConnection:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.is_open = True

    async def ask(self, **request: Any) -> Any:
        try:
            await self._stream.send_all(json.dumps(request).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = await self._stream.receive_some()
                if not chunk:
                    raise trio.BrokenResourceError
                answer += chunk
        except BaseException:
            self.close()
            raise
        found = json.loads(answer)
        if "error" in found:
            raise Refused(found["leader"])
        return found

    def close(self) -> None:
        self.is_open = False
        self._stream.socket.close()


class ToyClients:
    errors: tuple[type[Exception], ...] = (*UNREACHABLE, Refused)

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self._addresses = addresses
        self.nodes = tuple(addresses)

    async def connect(self, node: int, *, within_s: float) -> ToyConnection:
        with trio.fail_after(within_s):
            return ToyConnection(await trio.open_tcp_stream(*self._addresses[node]))

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        if isinstance(error, Refused):
            return Ending(Outcome.FAIL, ErrorCode.NOT_LEADER, NotTheLeader(error.leader))
        return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST)


class ToyWorkload:
    name = "log"

    def __init__(self) -> None:
        self._ids: Iterator[int] = value_ids()
        self._end = 0

    def request(self, rng: random.Random) -> Request:
        draw = rng.random()
        return (
            self.write(rng) if draw < 0.6 else self._read(rng.randint(0, self._end)) if draw < 0.9 else self.probe(rng)
        )

    def write(self, rng: random.Random) -> Request:
        values = list(itertools.islice(self._ids, rng.randint(1, 3)))
        return Request(Action.APPEND, lambda on: on.ask(do="append", values=values), a=values[0], values=values)

    def probe(self, rng: random.Random) -> Request:
        return Request(Action.TAIL, lambda on: on.ask(do="tail"))

    def _read(self, offset: int) -> Request:
        return Request(Action.READ, lambda on: on.ask(do="read", offset=offset), offset=offset)

    def final_reads(self) -> Sequence[Request]:
        return [self._read(offset) for offset in range(max(0, self._end - 8), self._end + 1)]

    def claimed_ends(self) -> Mapping[int, int]:
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        raise Nonsense("nothing ever leaves this log")

    def interpret(self, request: Request, answer: Any) -> Seen:
        match request.f, answer:
            case Action.APPEND, {"offset": offset, "epoch": epoch}:
                self._end = max(self._end, offset + len(request.values))
                return Seen(request.values, offset, epoch=epoch)
            case Action.READ, {"entries": []}:
                return Seen((NONE,), request.offset)
            case Action.READ, {"entries": [[value, epoch]]}:
                return Seen((value,), request.offset, epoch=epoch)
            case Action.TAIL, {"end": end, "epoch": epoch}:
                return Seen((NONE,), end, epoch=epoch)
            case _:
                raise Nonsense(f"{answer} does not answer {request.f.name}")


class ToyControl(Control):
    def __init__(self, direct: Mapping[int, Address], can_answer: Callable[[int], bool]) -> None:
        self._direct, self._can_answer = direct, can_answer

    async def log(self, node: int) -> Any:
        with contextlib.suppress(*UNREACHABLE):
            return await ask(self._direct[node], do="log", offset=0) if self._can_answer(node) else None

    async def leaders(self) -> Mapping[Scope, Leadership]:
        leader = await self.log(1)
        return {"log": Leadership(1, leader["epoch"])} if leader else {}

    async def goal(self) -> int | None:
        leader = await self.log(1)
        return leader["end"] if leader else None

    async def has_reached(self, node: int, goal: Any) -> bool:
        found = await self.log(node)
        return found is not None and found["end"] >= goal

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        with trio.move_on_after(within_s):
            while True:
                ends = {found["end"] if (found := await self.log(node)) else None for node in self._direct}
                if len(ends) == 1 and (end := ends.pop()) is not None:
                    return {0: end}
                await trio.sleep(0.05)
        raise NotServing("the copies do not agree")

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        try:
            with trio.fail_after(within_s):
                await ask(address, do="metadata")
        except UNREACHABLE as error:
            return repr(error)
        return None

    async def dump(self, ends: Mapping[int, int], writer: DumpWriter) -> None:
        for node in self._direct:
            writer.begin(node, 0)
            for offset, (value, epoch) in enumerate((await self.log(node))["entries"]):
                writer.record(node, offset, epoch, [value])


class ToySystem(System):
    name: ClassVar[str] = "toy"
    replications: ClassVar[tuple[str, ...]] = ("copies",)
    workloads: ClassVar[Mapping[str, Model]] = {"log": Model.LOG}
    serves: ClassVar[Mapping[str, str]] = dict.fromkeys(KINDS, "once node 1 is back")
    files: ClassVar[LogFiles] = LogFiles(segments="*.log", indexes="*.index")

    def configure(self, words: Sequence[str], replication: str) -> Mode:
        settings = {"switch": "none", **dict(word.split("=", 1) for word in words)}
        if settings.keys() != {"switch"} or settings["switch"] not in SWITCHES:
            raise WrongMode(f"--set: the toy has one setting, switch, one of {', '.join(SWITCHES)}")
        return ToyMode(replication, settings)

    def mode_of(self, test: Mapping[str, Any]) -> Mode:
        return ToyMode(test["replication"], test["settings"])

    def members(self, nodes: int) -> tuple[Member, ...]:
        return tuple(Member(node, "primary" if node == 1 else "copy") for node in range(1, nodes + 1))

    def command(self, plan: ProcessPlan) -> list[str]:
        return [
            *(sys.executable, str(SERVER), "--id", str(plan.member.id), "--port", str(plan.listen[1])),
            *("--data", str(plan.data), "--switch", plan.mode.settings["switch"]),
            *("--overrides", json.dumps(plan.peers), "--advertised", json.dumps(plan.advertised)),
        ]

    def observe(self, event: Mapping[str, Any]) -> Observation | None:
        match event["event"]:
            case "up":
                return Ready()
            case "now":
                return RoleReported(event["role"], event["epoch"], "log")
            case _:
                return None

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        return ToyControl(direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        return RoutedLoad(ToyWorkload(), recorder, ToyClients(addresses), plan)
