"""`quorumlog member` and `transfer`: who belongs to a raft group, the replacement of a node, and who leads.

A command asks for one committed change after another. Each may be repeated, so one of unknown outcome is asked for again,
and a command that was interrupted goes on where it stopped when it is run again. A new node is a learner first: it gets
the log and is not counted. It becomes a voter once it keeps up, however long that takes, as long as it gets further.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs
import click
import trio

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.log import GroupAccess, group_options, no_leader, statuses
from jepsen_like.operate.options import Printer, run
from jepsen_like.operate.outcomes import NotDone, PerhapsDone
from jepsen_like.operate.tables import Row
from jepsen_like.port.wires import Address, text_of
from log.errors import LogError
from raft.addresses import address_of
from raft.client import Client
from raft.client_codec import NODE_ID_MAX
from raft.errors import InvalidRequest, NotAdmitted, ProtocolError, RaftError
from raft.membership import ORIGINAL, AddLearner, Change, Promote, Remove
from raft.process import NodeAddressType
from raft.sole_voter import make_sole_voter

ATTEMPT_S: Final = 1.0
PAUSE_S: Final = 0.1
ANSWER_S: Final = 2.0
REPORT_EVERY_S: Final = 1.0
VOTER, LEARNER, LEAVES = "voter", "learner", "leaves"
SILENT_S: Final = 2.0
"""A node that has not answered its leader for longer is shown as silent."""


class MemberType(click.ParamType[tuple[int, Address | None]]):
    """`ID` or `ID=HOST:PORT`."""

    name = "ID[=HOST:PORT]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, Address | None]:
        """Returns the id, and the address if one is there."""
        text = str(value)
        if "=" in text:
            return NodeAddressType().convert(text, param, ctx)
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= NODE_ID_MAX:
            self.fail(f"{value!r} is not of the form ID or ID=HOST:PORT", param, ctx)
        return int(text), None


NODE_ID: Final = click.IntRange(1, NODE_ID_MAX)


# -------------------------------------------------------------------- what there is


@attrs.frozen
class Members:
    """The members as a leader sees them: its status."""

    status: Row

    @property
    def leader(self) -> int:
        """The id of the leader."""
        return int(self.status["node"])

    @property
    def voters(self) -> list[int]:
        """The nodes that count, those that are being replaced included."""
        return sorted({*self.status["voters"], *self.status["outgoing"]})

    @property
    def nodes(self) -> list[int]:
        """All members."""
        return sorted({*self.voters, *self.status["learners"]})

    @property
    def commit_index(self) -> int:
        """The index up to which all is committed."""
        return int(self.status["commit_index"])

    def address(self, node: int) -> str:
        """Returns where the others dial a node; nothing if the leader does not know."""
        return str(self.status["addresses"].get(str(node), ""))

    def directory_id(self, node: int) -> int:
        """Returns the id of the directory with which a node is counted."""
        return int(self.status["directory_ids"].get(str(node), ORIGINAL))

    def place_of(self, node: int) -> tuple[int, int]:
        """Returns how far a node is known to have come: an index, and bytes of a snapshot behind it."""
        if node == self.leader:
            return int(self.status["last_index"]), 0
        follower = self.status["followers"].get(str(node), {})
        return follower.get("match_index", 0), follower.get("snapshot_bytes", 0)

    def silence_s(self, node: int) -> float:
        """Returns for how long a node has not answered the leader."""
        if node == self.leader:
            return 0.0
        return float(self.status["followers"].get(str(node), {}).get("silent_s", 0.0))

    def kept_by(self, node: int) -> str:
        """Returns what a node keeps besides the log, and how to take it away; empty if it keeps nothing."""
        return str(self.status.get("assigned", {}).get(str(node), ""))

    def kind(self, node: int) -> str:
        """Returns what a node is in the group."""
        if node in self.status["learners"]:
            return LEARNER
        return VOTER if node in self.status["voters"] else LEAVES

    def rows(self) -> list[Row]:
        """Returns a row for each member."""
        end = int(self.status["last_index"])
        return [
            {
                "node": node,
                "address": self.address(node),
                "member": self.kind(node),
                "leads": node == self.leader,
                "match_index": self.place_of(node)[0],
                "lag": max(0, end - self.place_of(node)[0]),
                "note": self._note(node),
            }
            for node in self.nodes
        ]

    def _note(self, node: int) -> str | None:
        if self.silence_s(node) > SILENT_S:
            return f"has not answered for {self.silence_s(node):.0f} s"
        return None

    def progress(self, node: int) -> str:
        """Returns a line about a node that catches up."""
        index, snapshot_bytes = self.place_of(node)
        if self.silence_s(node) > SILENT_S:
            return f"node {node} has not answered the leader for {self.silence_s(node):.0f} s"
        received = f", and {snapshot_bytes} bytes of a snapshot" if snapshot_bytes else ""
        return f"node {node} has {index} of {self.commit_index} entries{received}"


async def leaders_view(client: Client) -> Members:
    """Returns the members as the leader sees them. Raises `RaftError` if none answers in time."""
    while True:
        await client.tail()  # only a leader answers that, and it is asked next, too
        found = Members(await client.status())
        if found.status["role"] == "leader":
            return found


# -------------------------------------------------------------------- changes


@attrs.define
class Patience:
    """Ends after `within_s` in which nothing got further."""

    within_s: float
    _seen: tuple[object, ...] | None = None
    _until: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._until = trio.current_time() + self.within_s

    def note(self, reached: tuple[object, ...]) -> bool:
        """Take how far something has come. Returns True if that is news."""
        if reached == self._seen:
            return False
        self._seen, self._until = reached, trio.current_time() + self.within_s
        return True

    @property
    def is_over(self) -> bool:
        """True once it is time to give up."""
        return trio.current_time() >= self._until


@attrs.define
class Operator:
    """Makes changes one after another; `done` is what has been done so far, for errors."""

    access: GroupAccess
    client: Client
    again: str
    """The command that goes on where this one stopped."""
    done: list[str] = attrs.field(factory=list)
    _reports_at: float = attrs.field(default=0.0, init=False)

    @property
    def look(self) -> str:
        """The command that shows what is there."""
        return f"quorumlog member list {self.access.flags}"

    def say(self, line: str) -> None:
        """Print a line about what happens; standard output has results alone."""
        click.echo(line, err=True)

    def report(self, line: str) -> None:
        """Print how far something is, once a second at most."""
        if trio.current_time() >= self._reports_at:
            self._reports_at = trio.current_time() + REPORT_EVERY_S
            self.say(line)

    def note(self, line: str) -> None:
        """A step is done."""
        self.done.append(line)
        self.say(line)

    async def members(self, *, is_unknown: bool = False) -> Members:
        """Returns the members as the leader sees them; `is_unknown` if a change may be under way."""
        until = trio.current_time() + self.access.within_s
        while True:
            try:
                return await leaders_view(self.client)
            except (NotAdmitted, ProtocolError) as error:
                raise self.access.failure(error, self.so_far) from error
            except RaftError as error:
                if trio.current_time() >= until:
                    text = self._text(no_leader(await statuses(self.access)), f"then go on: {self.again}")
                    raise PerhapsDone(text) if is_unknown else NotDone(text) from error
                await trio.sleep(PAUSE_S)

    @property
    def so_far(self) -> str:
        """The steps that were done before an error."""
        return "; ".join(self.done)

    def _text(self, *parts: str) -> str:
        return "; ".join(filter(None, (self.so_far, *(part.rstrip(".") for part in parts))))

    async def add(self, node: int, address: Address | None, *, counts: bool) -> None:
        """Make a node a learner, and a voter if it `counts`. One that is one already stays it."""
        members = await self._without_forgotten(node)
        if node in members.voters:
            self.say(f"node {node} is a voter already")
            return
        known = members.address(node)
        if node not in members.nodes or (address is not None and text_of(address) != known):
            if address is None:
                raise NotDone(self._text(f"node {node} is no member yet: give its address, as {node}=HOST:PORT"))
            await self._meet(node, address)
            await self.change(AddLearner(node, text_of(address)))
            self.note(f"node {node} is a learner")
        elif not counts:
            self.say(f"node {node} is a learner already")
        if counts:
            await self._wait_until_whole(node)
            await self.change(Promote(node), waits_for=node)
            self.note(f"node {node} is a voter")

    async def _without_forgotten(self, node: int) -> Members:
        """Returns the members, once the leader has made this node a learner if it has lost its directory as a voter."""
        patience = Patience(self.access.within_s)
        while True:
            members = await self.members()
            if node not in members.voters:
                return members
            own = await self._status(node, members)
            if own is not None and own["term"] and own["directory_id"] == members.directory_id(node):
                return members
            if patience.is_over:
                reason = "does not answer" if own is None else "waits for what it has forgotten"
                text = f"node {node} is a voter, and {reason} at {members.address(node)}: see that it runs"
                raise NotDone(self._text(text, f"then go on: {self.again}"))
            await trio.sleep(PAUSE_S)

    async def _wait_until_whole(self, node: int) -> None:
        """Wait until a learner has all that is committed now, and its state machine lacks nothing, as long as it goes on."""
        patience = Patience(self.access.within_s)
        end = None
        while True:
            members = await self.members()
            end = members.commit_index if end is None else end
            reached = members.place_of(node)
            lacks = await self._lacks(node, members) if reached[0] >= end else ""
            if reached[0] >= end and lacks == "":
                return
            line = members.progress(node) if not lacks else f"node {node}: {lacks}"
            patience.note((*reached, lacks))  # that it is silent for longer is no news
            self.report(line)
            if patience.is_over:
                stands = f"it gets no further, and stays a learner: start node {node} if it is not up"
                raise NotDone(self._text(line, stands, f"then go on: {self.again}"))
            await trio.sleep(PAUSE_S)

    async def _lacks(self, node: int, members: Members) -> str:
        """Returns what a node lacks by its own status; why it cannot be asked, if so."""
        status = await self._status(node, members)
        if status is None:
            return f"no answer from {members.address(node) or 'its address, which is not known'}"
        return str(status.get("lacks", ""))

    async def _status(self, node: int, members: Members) -> Row | None:
        """Returns a node's own status; None if it does not answer."""
        try:
            with trio.fail_after(ANSWER_S):
                async with self.access.connection(address_of(members.address(node))) as connection:
                    return await connection.status()
        except (trio.TooSlowError, RaftError, ValueError):
            return None

    async def _require_whole(self, leaving: int, members: Members) -> None:
        """Raises `NotDone` if it is not sure that a majority of those that stay has all that the group stands for."""
        staying = [node for node in members.voters if node != leaving]
        lacking = {node: lacks for node in staying if (lacks := await self._lacks(node, members))}
        if staying and len(lacking) * 2 >= len(staying):
            reasons = ", ".join(f"node {node}: {lacks}" for node, lacks in lacking.items())
            raise NotDone(
                self._text(f"node {leaving} is still needed", reasons, f"wait, or start them; then go on: {self.again}")
            )

    async def _meet(self, node: int, address: Address) -> None:
        """Raises `NotDone` unless this node answers at the address: the group would send it entries in vain."""
        start = (
            f"start it there: quorumlog node --id {node} --joins --cluster-id {self.access.cluster_id} "
            f"--listen {text_of(address)} --data DIRECTORY, and one --peer for each member"
        )
        try:
            async with self.access.connection(address) as connection:
                if connection.node_id != node:
                    raise NotDone(self._text(f"node {connection.node_id} answers at {text_of(address)}", start))
        except (NotAdmitted, ProtocolError) as error:
            raise NotDone(self._text(f"{text_of(address)} is not of this cluster: {error}", start)) from error
        except RaftError as error:
            raise NotDone(self._text(f"nothing is changed: {error}", start)) from error

    async def remove(self, node: int) -> None:
        """Make a node leave. One that is no member stays away."""
        members = await self.members()
        if node not in members.nodes:
            self.say(f"node {node} is no member")
            return
        kept = members.kept_by(node)
        if kept:
            raise NotDone(self._text(f"node {node} is still needed", kept, f"then go on: {self.again}"))
        if node in members.voters:
            await self._require_whole(node, members)
        await self.change(Remove(node))
        self.note(f"node {node} has left the group: stop it, and never start it with its old flags")

    async def demote(self, node: int) -> None:
        """Make a voter a learner. One that is one already stays it."""
        members = await self.members()
        if node not in members.nodes:
            raise NotDone(f"nothing is changed: node {node} is no member; see who is there: {self.look}")
        if node not in members.voters:
            self.say(f"node {node} is a learner already")
            return
        await self._require_whole(node, members)
        await self.change(AddLearner(node))
        self.note(f"node {node} is a learner")

    async def change(self, change: Change, *, waits_for: int | None = None) -> None:
        """Ask for a change until it is committed; with `waits_for` as long as that node gets further.

        Raises `NotDone` or `PerhapsDone`.
        """
        patience, line, is_unknown = Patience(self.access.within_s), "", False
        while True:
            try:
                await self.client.change_members(change)
            except (NotAdmitted, ProtocolError) as error:
                raise self.access.failure(error, self.so_far) from error
            except InvalidRequest as error:
                raise NotDone(self._text(f"{error}", f"see who is there: {self.look}")) from error
            except RaftError as error:
                is_unknown |= not error.definite
                members = await self.members(is_unknown=is_unknown)
                if waits_for is not None:
                    line = members.progress(waits_for)
                    if patience.note(members.place_of(waits_for)):
                        self.report(line)
                if patience.is_over:
                    raise self._stop_waiting(error, line, is_unknown=is_unknown) from error
                await trio.sleep(PAUSE_S)
            else:
                return

    def _stop_waiting(self, error: RaftError, line: str, *, is_unknown: bool) -> click.ClickException:
        if is_unknown:
            return PerhapsDone(self._text(f"{error}", f"see who is there: {self.look}; then go on: {self.again}"))
        reason = f"{error}".replace("; try again later", "")
        return NotDone(self._text(line, reason, f"see who answers: {self.look}; then go on: {self.again}"))

    async def transfer(self, node: int) -> None:
        """Have a node lead."""
        until = trio.current_time() + self.access.within_s
        while True:
            members = await self.members()
            if members.leader == node:
                return
            failed: RaftError | None = None
            try:
                await self.client.transfer_leadership(node)
            except (NotAdmitted, ProtocolError) as error:
                raise self.access.failure(error) from error
            except InvalidRequest as error:
                raise NotDone(self._text(f"{error}", f"see who is there: {self.look}")) from error
            except RaftError as error:
                failed = error
            if trio.current_time() >= until and (members := await self.members()).leader != node:
                reason = f"node {members.leader} still leads" + (f": {failed}" if failed else "")
                text = self._text(members.progress(node), reason, f"see who answers: {self.look}; then: {self.again}")
                raise NotDone(text) if failed is not None and failed.definite else PerhapsDone(text)
            if failed is not None:
                await trio.sleep(PAUSE_S)


Work = Callable[[Operator], Awaitable[None]]


def operate(access: GroupAccess, as_json: bool, again: Iterable[object], work: Work) -> ExitStatus:
    """Returns the end of a command that does `work`, and shows the members afterwards."""

    async def go() -> Members:
        attempts = attrs.evolve(access, within_s=min(access.within_s, ATTEMPT_S))
        async with attempts.client() as client:
            operator = Operator(access, client, f"quorumlog {' '.join(map(str, again))} {access.flags}")
            await work(operator)
            return await operator.members()

    Printer(as_json).rows(run(go).rows())
    return ExitStatus.VALID


# -------------------------------------------------------------------- commands


@click.group(no_args_is_help=True)
def member() -> None:
    """List, add, remove, demote, replace and restore the members of a raft group: nodes, brokers of Kafka or of a RocketMQ raft group.

    Exit status 0 if it was done, 5 if it certainly was not, 3 if it is unknown. Each may be run again.
    """


@member.command("list")
@group_options
def list_members(*, access: GroupAccess, as_json: bool) -> ExitStatus:
    """Show the voters and learners, as the leader sees them.

    Exit status 0 if they are shown, 5 if no leader answers.
    """

    async def nothing(operator: Operator) -> None:
        """Only show."""

    return operate(access, as_json, ("member", "list"), nothing)


@member.command()
@click.argument("node", type=MemberType())
@click.option("--learner", is_flag=True, help="It gets the log, and is not counted.")
@group_options
def add(*, access: GroupAccess, as_json: bool, node: tuple[int, Address | None], learner: bool) -> ExitStatus:
    """Add a NODE that was started with --joins, and make it a voter once it keeps up.

    A learner needs no address: a node that has lost its directory becomes a voter again by this.
    """
    words = ("member", "add", _words(*node), *(["--learner"] if learner else []))
    return operate(access, as_json, words, lambda operator: operator.add(*node, counts=not learner))


@member.command()
@click.argument("node", type=NODE_ID)
@group_options
def remove(*, access: GroupAccess, as_json: bool, node: int) -> ExitStatus:
    """Make NODE leave the group. A leader that leaves hands over; the last voter stays."""
    return operate(access, as_json, ("member", "remove", node), lambda operator: operator.remove(node))


@member.command()
@click.argument("node", type=NODE_ID)
@group_options
def demote(*, access: GroupAccess, as_json: bool, node: int) -> ExitStatus:
    """Make NODE a learner: it keeps the log, and is not counted. A leader hands over."""
    return operate(access, as_json, ("member", "demote", node), lambda operator: operator.demote(node))


@member.command()
@click.argument("old", type=NODE_ID)
@click.argument("new", type=MemberType())
@group_options
def replace(*, access: GroupAccess, as_json: bool, old: int, new: tuple[int, Address | None]) -> ExitStatus:
    """Add the node NEW, and once it is a voter make OLD leave, which may be dead."""
    node, address = new
    if node == old:
        raise click.UsageError(
            "a new node has an id of its own; one with its old id and an empty directory returns by: "
            f"quorumlog member add {node} {access.flags}"
        )

    async def work(operator: Operator) -> None:
        members = await operator.members()
        if old not in members.nodes and node not in members.voters:
            raise NotDone(
                f"nothing is changed: node {old} is no member, those are {', '.join(map(str, members.nodes))}; "
                f"to add a node: quorumlog member add {_words(*new)} {access.flags}"
            )
        await operator.add(node, address, counts=True)
        await operator.remove(old)

    return operate(access, as_json, ("member", "replace", old, _words(*new)), work)


@member.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("node", type=NodeAddressType())
@click.confirmation_option(
    "--yes", prompt="Do all other nodes stand still, and are their directories out of the way?", help="Ask nothing."
)
def restore(*, directory: str, node: tuple[int, Address]) -> ExitStatus:
    """Make the NODE that owns DIRECTORY, which must not run, the only voter of its group: the others join it again.

    For a copy, or when most voters have lost their directories. All that DIRECTORY lacks is gone.
    """
    number, address = node
    try:
        made = make_sole_voter(directory, text_of(address), number)
    except (RaftError, LogError) as error:
        raise NotDone(f"nothing is changed: {error}") from error
    lost = f"; {made.lost_entries} entries that it once had are lost" if made.lost_entries else ""
    click.echo(f"node {number} is the only voter of {made.cluster_id}, and its log ends at {made.end_offset}{lost}")
    return ExitStatus.VALID


@click.command()
@click.argument("node", type=NODE_ID)
@group_options
def transfer(*, access: GroupAccess, as_json: bool, node: int) -> ExitStatus:
    """Have NODE, a voter, lead the raft group.

    Exit status 0 if it leads, 5 if it certainly does not, 3 if it may yet.
    """
    return operate(access, as_json, ("transfer", node), lambda operator: operator.transfer(node))


def _words(node: int, address: Address | None) -> str:
    return f"{node}" if address is None else f"{node}={text_of(address)}"
