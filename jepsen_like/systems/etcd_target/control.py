"""Asks the members of an etcd cluster that others run, about the keys of the run alone."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from jepsen_like.port.port import Access, Mode, NotServing, RunningCluster
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.etcd.control import POLL_S, EtcdControl
from jepsen_like.systems.etcd.processes import STATUS
from jepsen_like.systems.etcd.register_workload import encode
from jepsen_like.systems.etcd_target.access import UNAUTHENTICATED, EtcdAccess
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.json_client import UNREACHABLE, ErrorAnswered, JsonConnection
from jepsen_like.systems.reports import ask_each
from jepsen_like.systems.target.system import first_answer, name_of, none_answers

MEMBERS: Final = "/v3/cluster/member/list"
RANGE: Final = "/v3/kv/range"
DELETE: Final = "/v3/kv/deleterange"
ANSWER_WITHIN_S: Final = 5.0
SILENT_AFTER_S: Final = 2.0
CLEAR_WITHIN_S: Final = 20.0
NOBODY: Final = "0"
"""The leader of a member that knows none."""


def prefix_of(cluster_id: str) -> str:
    """Returns the beginning of the names of a run's keys."""
    return f"{name_of(cluster_id)}/"


class EtcdTargetControl(EtcdControl):
    """See `EtcdControl`. It removes the keys of its run, and no other ones."""

    answers_within_s = 2.0

    def __init__(self, access: Access, direct: Mapping[int, Address]) -> None:
        super().__init__(direct)
        assert access.target is not None
        self._access = EtcdAccess.of(access.target)
        prefix = prefix_of(access.cluster_id)
        self._ours = {"key": encode(prefix), "range_end": encode(prefix[:-1] + chr(ord(prefix[-1]) + 1))}
        self._prefix = prefix
        self.is_ours = False
        """True once keys of the run can be there because of this run."""

    async def ask(self, address: Address, path: str, body: Any, *, within_s: float) -> Any:
        """See `EtcdControl`. A refused token is replaced once."""
        try:
            with trio.fail_after(within_s):
                for is_last in (False, True):
                    with contextlib.closing(await self._access.connect(address, within_s=within_s)) as connection:
                        try:
                            return await connection.ask(path, body)
                        except ErrorAnswered as error:
                            if is_last or error.status != UNAUTHENTICATED:
                                raise
        except (*UNREACHABLE, ErrorAnswered) as error:
            raise NotAnswered(words_of(error, within_s)) from None

    async def prepare(self, mode: Mode, workload: str, *, within_s: float) -> None:
        """Nothing is made before the load. Raises `NotServing` if there are keys with the names of this run."""
        found = await self._ask_any(RANGE, {**self._ours, "count_only": True})
        if int(found.get("count", 0)):
            raise NotServing(f"there are keys that begin with {self._prefix}: use another --seed, or delete them")
        self.is_ours = True

    async def settle(self, *, within_s: float) -> Mapping[int, int]:
        """Wait until every member has the same of the run, as it reads it from its own disk."""
        seen = "none answers"
        with trio.move_on_after(within_s):
            while True:
                goal = await self.goal()
                held = await ask_each(self._direct, self._keys_on)
                has_all = [node for node in held if goal is not None and await self.has_reached(node, goal)]
                if len(has_all) == len(self._direct) and len(set(map(repr, held.values()))) == 1:
                    return {}
                seen = ", ".join(f"n{node} {'has all' if node in has_all else 'lags'}" for node in held) or seen
                await trio.sleep(POLL_S)
        raise NotServing(f"the members do not hold the same {within_s:g} s after everything was healed: {seen}")

    async def _keys_on(self, node: int) -> object:
        """Returns the keys of the run as one member has them; None if it does not answer."""
        with contextlib.suppress(NotAnswered):
            answer = await self.ask(
                self._direct[node], RANGE, {**self._ours, "serializable": True}, within_s=self.answers_within_s
            )
            return answer.get("kvs", [])
        return None

    async def why_silent_at(self, address: Address, *, within_s: float) -> str | None:
        """On a new connection. A refusal is an answer, too."""
        try:
            with trio.fail_after(within_s):
                async with JsonConnection.open(address, within_s=within_s, tls=self._access.tls) as connection:
                    await connection.ask(STATUS, {})
        except ErrorAnswered:
            return None
        except UNREACHABLE as error:
            return words_of(error, within_s)
        return None

    async def absence(self, node: int) -> str | None:
        """Silence at its address; or it answers, and knows no leader."""
        address = self._direct[node]
        if (silence := await self.why_silent_at(address, within_s=SILENT_AFTER_S)) is not None:
            return f"silent at {text_of(address)}: {silence}"
        with contextlib.suppress(NotAnswered):
            status = await self.ask(address, STATUS, {}, within_s=SILENT_AFTER_S)
            if status.get("leader", NOBODY) == NOBODY:
                return f"it answers at {text_of(address)}, and knows no leader"
        return None

    async def clear(self) -> str | None:
        """Delete the keys of the run, if the run has made them."""
        if not self.is_ours:
            return None
        why = "no member answers"
        with trio.move_on_after(CLEAR_WITHIN_S):
            while True:
                try:
                    await self._ask_any(DELETE, self._ours)
                    return None
                except NotServing as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise NotServing(f"the keys that begin with {self._prefix} could not be deleted: {why}")

    async def _ask_any(self, path: str, body: Any) -> Any:
        """Returns the answer of the first member that has one. Raises `NotServing`."""
        return await first_answer(
            self._direct.values(), lambda address: self.ask(address, path, body, within_s=ANSWER_WITHIN_S)
        )


def words_of(error: Exception, within_s: float) -> str:
    """Returns the reason why there was no answer."""
    match error:
        case ErrorAnswered(_, {"message": str(words)}):
            return words
        case ErrorAnswered(status):
            return f"status {status}"
        case _:
            return str(error.__cause__ or error) or f"no answer within {within_s:g} s"


# -------------------------------------------------------------------- the members


async def addresses_of(target: RunningCluster) -> dict[int, Address]:
    """Returns the addresses of the members, numbered by the order of their names. Raises `NotServing` and `WrongMode`.

    A member is asked where it was given, and else at the address that it shows to clients.
    """
    control = EtcdTargetControl(Access("", target=target), dict(enumerate(target.servers)))
    why: dict[Address, str] = {}
    given: dict[str, Address] = {}
    members: list[Mapping[str, Any]] = []
    for address in target.servers:
        try:
            answer = await control.ask(address, MEMBERS, {}, within_s=ANSWER_WITHIN_S)
        except NotAnswered as error:
            why[address] = str(error)
            continue
        members = answer["members"]
        given[answer["header"]["member_id"]] = address
    if not members:
        raise none_answers(why)
    found: dict[int, Address] = {}
    for number, member in enumerate(sorted(members, key=lambda one: natural(one.get("name", ""))), 1):
        if (address_of := given.get(member["ID"]) or address_shown_by(member)) is None:
            raise NotServing(f"the member {member.get('name') or member['ID']} has not started, or shows no client URL")
        found[number] = address_of
    return found


def natural(name: str) -> list[tuple[int, str]]:
    """Returns the key by which names are sorted: numbers in them by value."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def address_shown_by(member: Mapping[str, Any]) -> Address | None:
    """Returns the address in the first client URL of a member; None without any."""
    for url in member.get("clientURLs", ()):
        parts = urlsplit(url)
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    return None
