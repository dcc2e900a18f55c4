"""Conversations with the decider: commands in, effects out, as text that can be read, reviewed and renewed.

A script is a file of lines. `> command` is said to the cluster; what follows it, up to the next command, comment or blank
line, is what the cores answered. `python -m tests.raft.conversation --rewrite` renews all answers: the diff is the review.

Commands (`ID` is a node, `A>B` a link):
  nodes N                 a fresh group of N nodes, 1 to N
  log ID T T T            node ID starts with entries of these terms at index 1, 2, 3 (all durable)
  hard ID TERM [VOTE|-]   node ID starts with this term and vote
  keep ID                 by its settings nothing leaves ID's log
  set NAME VALUE          a setting of the core, for all nodes
  timeout ID              time passes to ID's deadline, and only ID notices
  elect ID                timeout ID, stabilize, show; only the last is printed
  wait S                  S seconds pass unnoticed
  propose ID TEXT         a client proposes one record at ID
  read ID                 a client reads at ID
  persist ID [W]          ID's disk completes its writes (up to write W)
  deliver A>B [N]         the first N messages (default: all) from A to B arrive
  drop A>B [N]            they are lost instead
  copy A>B                the first message from A to B is duplicated: the copy comes last
  forge A>B MESSAGE ...   a message that A never sent comes last on the link: a vote, a refused pre-vote or a heartbeat
                          (`VoteReply TERM`, `PreVoteReply TERM`, `AppendEntries TERM`), a vote asked for as at a transfer
                          (`RequestVote TERM`), or `InstallSnapshot TERM INDEX@TERM`
  swap A>B                the first two messages from A to B overtake each other
  slow ID                 what ID loads from its disk arrives only on command
  loaded ID               the oldest of it comes
  disconnect ID PEER      ID notices that its connection with PEER broke
  stepdown ID             ID is asked to stop leading
  join ID                 ID is none of the nodes with which the group begins; it starts with the command
  learner ID NODE         ID is asked to make NODE a learner
  promote ID NODE         ID is asked to make the learner NODE a voter
  remove ID NODE          ID is asked to remove NODE
  voters ID NODE ...      ID is asked to replace all voters at once
  transfer ID NODE        ID is asked to hand over to NODE
  crash ID                ID loses power and restarts with what was durable
  trim ID INDEX [TEXT]    everything up to INDEX leaves ID's log, durably; TEXT is its snapshot (default: empty)
  damage ID KEEP          ID loses power, damage all durable entries above index KEEP, and it restarts repaired
  stabilize [ID ...]      disks complete and messages arrive, among these nodes (default: all), until nothing moves
  settle                  stabilize, show; only the last is printed
  cut ID ...              from now on nothing passes between these nodes and the others
  heal                    all links work again
  show                    every node in one line
"""

import random
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_never

import attrs

from raft.config import RaftConfig
from raft.core import RaftCore
from raft.effects import (
    Answer,
    Commit,
    Committed,
    Effect,
    HandedOver,
    LoadEntries,
    MembersChanged,
    Persist,
    ReadReady,
    ReadRejected,
    Rejected,
    RoleChanged,
    Send,
    Unknown,
)
from raft.events import (
    ChangeMembers,
    Disconnected,
    Event,
    Loaded,
    Overslept,
    Persisted,
    Propose,
    ReadRequest,
    Receive,
    StepDown,
    Tick,
    TransferLeadership,
    Trimmed,
)
from raft.log_view import LogView
from raft.membership import AddLearner, Change, ChangeVoters, Configuration, Promote, Remove
from raft.messages import (
    AppendAccepted,
    AppendEntries,
    AppendRejected,
    InstallSnapshot,
    Message,
    PreVoteReply,
    RequestPreVote,
    RequestStanding,
    RequestVote,
    SnapshotReceived,
    StandingReply,
    TimeoutNow,
    VoteReply,
)
from raft.model import (
    NO_POSITION,
    NOOP,
    ORIGIN,
    Batch,
    Entry,
    EntryKind,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    Token,
    WriteId,
)
from raft.outbox import Outbox
from raft.render import render
from tests.golden import renew_script, rewrite

SCRIPTS = Path(__file__).parent / "scripts"


def _height(position: Position) -> tuple[Term, LogIndex]:
    return position.term, position.index


def record(text: str) -> Batch:
    """A batch of one record."""
    return Batch(EntryKind.RECORDS, span=1, timestamp_ms=0, data=text.encode(), crc=0)


def entries_of_terms(terms: list[int]) -> list[Entry]:
    """A log whose entries have these terms; `e1`, `e2`, ... are its records."""
    return [Entry(LogIndex(at), Term(term), Offset(at - 1), record(f"e{at}")) for at, term in enumerate(terms, start=1)]


def _forge_message(kind: str, term: Term, place: str) -> Message:
    match kind:
        case "VoteReply":
            return VoteReply(term, granted=True)
        case "PreVoteReply":
            return PreVoteReply(term, granted=False)
        case "RequestVote":
            return RequestVote(term, LogIndex(0), Term(0), is_transfer=True)
        case "AppendEntries":
            return AppendEntries(term, LogIndex(0), Term(0), LogIndex(0), 0)
        case "InstallSnapshot":
            index, _, index_term = place.partition("@")
            position = Position(LogIndex(int(index)), Term(int(index_term)))
            return InstallSnapshot(term, LogStart(position, Offset(0), position, b""), 0)
        case _:
            raise ValueError(f"no way to forge {kind}")


def view_of(entries: Sequence[Entry], start: LogStart, cache_bytes_max: int) -> LogView:
    """Returns the view that a restart makes of a log that begins at `start` and holds these entries."""
    runs: list[tuple[LogIndex, Term]] = []
    for entry in entries:
        if not runs or runs[-1][1] != entry.term:
            runs.append((entry.index, entry.term))
    return LogView.restore(
        runs=runs,
        last_index=entries[-1].index if entries else start.index,
        end_offset=entries[-1].end_offset if entries else start.offset,
        cache_bytes_max=cache_bytes_max,
        entries=entries,
        start=start,
    )


@attrs.define
class Node:
    """A core with a disk that completes writes on command; `log` is what the disk holds behind `start`."""

    core: RaftCore
    start: LogStart
    log: list[Entry]
    hard_state: HardState
    outbox: Outbox = attrs.field(factory=Outbox)
    writes: deque[Persist] = attrs.field(factory=deque)


class Conversation:
    """A group of cores and the messages between them, driven by the commands of a script."""

    def __init__(self) -> None:
        self.now = 0.0
        self.config = RaftConfig(heartbeat_s=0.1, election_timeout_s_min=0.5, election_timeout_s_max=1.0)
        self.nodes: dict[int, Node] = {}
        self.size = 0
        self.starts = 0
        self.initial_logs: dict[int, list[Entry]] = {}
        self.initial_states: dict[int, HardState] = {}
        self.keeping: set[int] = set()
        self.lost: set[int] = set()
        self.joined: set[int] = set()
        self.blank: set[int] = set()
        """Nodes of which no one vouches that they have promised nothing as long as they are in term 0."""
        self.links: dict[tuple[int, int], deque[Message]] = {}
        self.held: dict[str, deque[Message]] = {}
        self.cut: set[int] = set()
        self.slow: dict[int, deque[Loaded]] = {}
        self.token = 0
        self.said: list[str] = []

    # ------------------------------------------------------------ commands

    def command(self, line: str) -> list[str]:
        """Carry out one command. Returns the lines that the cores produced."""
        name, *words = line.split()
        self.said = []
        getattr(self, f"do_{name}")(*words)
        return self.said

    def do_nodes(self, count: str) -> None:
        self.size = int(count)

    def do_log(self, node: str, *terms: str) -> None:
        self.initial_logs[int(node)] = entries_of_terms([int(term) for term in terms])

    def do_hard(self, node: str, term: str, vote: str = "-") -> None:
        self.initial_states[int(node)] = HardState(Term(int(term)), None if vote == "-" else NodeId(int(vote)))

    def do_keep(self, node: str) -> None:
        self.keeping.add(int(node))

    def do_new(self) -> None:
        """No node knows that its group is new."""
        self.blank = set(range(1, self.size + 1))

    def do_vanish(self, node: str) -> None:
        """Its directory is gone; so are its messages, with its connections."""
        old = self._node(int(node))
        old.start, old.log, old.hard_state = ORIGIN, [], HardState()
        self.blank.add(int(node))
        self.do_crash(node)

    def do_lose(self, node: str) -> None:
        """Its files are damaged and set aside: it knows that it had a past, and nothing else."""
        self.lost.add(int(node))
        self.do_vanish(node)

    def do_oversleep(self, node: str) -> None:
        """It stands still until after its next deadline, and is informed of that before its tick."""
        core = self._node(int(node)).core
        self.now = max(self.now, core.deadline + 1)
        self._step(int(node), Overslept())
        if self.now >= core.deadline:
            self._step(int(node), Tick())

    def do_damage(self, node: str, keep: str) -> None:
        """As storage repairs it: the durable log is cut, and the hard state remembers how long it was."""
        old = self._node(int(node))
        floor = Position(old.log[-1].index, old.log[-1].term) if old.log else old.start.position
        old.log = [entry for entry in old.log if entry.index <= int(keep)]
        old.hard_state = attrs.evolve(old.hard_state, floor=max(floor, old.hard_state.floor, key=_height))
        self.do_crash(node)

    def do_set(self, name: str, value: str) -> None:
        number: Any = float(value) if "." in value else int(value)
        self.config = attrs.evolve(self.config, **{name: number})

    def do_timeout(self, node: str) -> None:
        core = self._node(int(node)).core
        self.now = max(self.now, core.deadline)
        self._step(int(node), Tick())

    def do_elect(self, node: str) -> None:
        self.do_timeout(node)
        self.do_stabilize()
        self.said = []
        self.do_show()

    def do_settle(self) -> None:
        self.do_stabilize()
        self.said = []
        self.do_show()

    def do_wait(self, seconds: str) -> None:
        self.now += float(seconds)

    def do_propose(self, node: str, text: str) -> None:
        self.token += 1
        self._step(int(node), Propose(Token(self.token), record(text)))

    def do_join(self, node: str) -> None:
        self.blank.add(int(node))
        self.joined.add(int(node))
        self._node(1)
        self.nodes[int(node)] = self._start(int(node), [], HardState())
        self.do_show_one(int(node))

    def do_learner(self, node: str, other: str) -> None:
        self._change(node, AddLearner(NodeId(int(other))))

    def do_promote(self, node: str, other: str) -> None:
        self._change(node, Promote(NodeId(int(other))))

    def do_remove(self, node: str, other: str) -> None:
        self._change(node, Remove(NodeId(int(other))))

    def do_voters(self, node: str, *others: str) -> None:
        self._change(node, ChangeVoters(frozenset(NodeId(int(other)) for other in others)))

    def _change(self, node: str, change: Change) -> None:
        self.token += 1
        self._step(int(node), ChangeMembers(Token(self.token), change))

    def do_transfer(self, node: str, target: str) -> None:
        self.token += 1
        self._step(int(node), TransferLeadership(Token(self.token), NodeId(int(target))))

    def do_read(self, node: str) -> None:
        self.token += 1
        self._step(int(node), ReadRequest(Token(self.token)))

    def do_persist(self, node: str, write: str | None = None) -> None:
        writes = self._node(int(node)).writes
        if writes:
            self._persist(int(node), WriteId(int(write)) if write else writes[-1].write_id)

    def do_deliver(self, link: str, count: str | None = None) -> None:
        for message in self._take(link, count):
            sender, receiver = self._ends(link)
            self._step(receiver, Receive(NodeId(sender), message))

    def do_drop(self, link: str, count: str | None = None) -> None:
        self._take(link, count)

    def do_hold(self, link: str) -> None:
        """Keep the messages of a link apart, where a crash does not reach them."""
        self.held[link] = deque(self._take(link, None))

    def do_release(self, link: str) -> None:
        self.links.setdefault(self._ends(link), deque()).extend(self.held.pop(link))

    def do_copy(self, link: str) -> None:
        queue = self.links[self._ends(link)]
        queue.append(queue[0])

    def do_forge(self, link: str, kind: str, term: str, place: str = "") -> None:
        self.links.setdefault(self._ends(link), deque()).append(_forge_message(kind, Term(int(term)), place))

    def do_swap(self, link: str) -> None:
        queue = self.links[self._ends(link)]
        queue[0], queue[1] = queue[1], queue[0]

    def do_slow(self, node: str) -> None:
        self.slow[int(node)] = deque()

    def do_loaded(self, node: str) -> None:
        self._step(int(node), self.slow[int(node)].popleft())

    def do_trim(self, node: str, index: str, snapshot: str = "") -> None:
        here = self._node(int(node))
        last = here.log[int(index) - here.start.index - 1]
        position = Position(last.index, last.term)
        here.start = LogStart(position, last.end_offset, position, snapshot.encode())
        here.log = [entry for entry in here.log if entry.index > last.index]
        self._step(int(node), Trimmed(here.start))
        self.do_show_one(int(node))

    def do_disconnect(self, node: str, peer: str) -> None:
        self._step(int(node), Disconnected(NodeId(int(peer))))

    def do_stepdown(self, node: str) -> None:
        self._step(int(node), StepDown())

    def do_crash(self, node: str) -> None:
        old = self._node(int(node))
        self.nodes[int(node)] = self._start(int(node), old.log, old.hard_state, old.start)
        self.slow.get(int(node), deque()).clear()
        for link in self.links:
            if int(node) in link:
                self.links[link].clear()
        self.do_show_one(int(node))

    def do_cut(self, *nodes: str) -> None:
        self.cut = {int(node) for node in nodes}

    def do_heal(self) -> None:
        self.cut = set()

    def do_stabilize(self, *nodes: str) -> None:
        self._node(1)
        among = {int(node) for node in nodes} or set(self.nodes)
        for _ in range(1000):
            if not self._move_one(among):
                return
        raise AssertionError("the group does not come to rest")

    def do_show(self) -> None:
        self._node(1)
        for node in sorted(self.nodes):
            self.do_show_one(node)

    def do_show_one(self, node: int) -> None:
        self.said.append(render(self._node(node).core))

    # ------------------------------------------------------------ the world

    def _node(self, node: int) -> Node:
        if not self.nodes:
            for each in range(1, self.size + 1):
                log = self.initial_logs.get(each, [])
                default = HardState(log[-1].term if log else Term(0))
                self.nodes[each] = self._start(each, log, self.initial_states.get(each, default))
        return self.nodes[node]

    def _start(self, node: int, log: list[Entry], hard_state: HardState, start: LogStart = ORIGIN) -> Node:
        self.starts += 1
        core = RaftCore(
            node_id=NodeId(node),
            configuration=Configuration(frozenset(NodeId(each) for each in range(1, self.size + 1))),
            config=self.config,
            log=view_of(log, start, self.config.cache_bytes_max),
            hard_state=hard_state,
            rng=random.Random(node if node not in self.blank else node + 1000 * self.starts),
            now=self.now,
            takes_snapshots=node not in self.keeping,
            founded=node not in self.blank,
            was_member=node in self.lost,
        )
        return Node(core, start, list(log), hard_state)

    def _step(self, node: int, event: Event) -> None:
        core = self._node(node).core
        if isinstance(event, Receive) and (objection := core.objection(event.sender, event.message)) is not None:
            self.said.append(f"n{node} ends the link from n{event.sender}: {objection}")
        for effect in core.step(self.now, event):
            self.said.append(f"n{node} {say(effect)}")
            self._carry(node, effect)

    def _carry(self, node: int, effect: Effect) -> None:
        here = self.nodes[node]
        match effect:
            case Persist():
                here.writes.append(effect)
            case Send():
                if not here.outbox.hold(effect):
                    self._post(node, effect)
            case LoadEntries(peer=peer, first_index=first_index):
                loaded = Loaded(peer, tuple(entry for entry in here.log if entry.index >= first_index))
                if node in self.slow:
                    self.slow[node].append(loaded)
                else:
                    self._step(node, loaded)
            case Answer() | Commit() | ReadReady() | ReadRejected() | RoleChanged() | MembersChanged():
                pass
            case _:
                assert_never(effect)

    def _post(self, node: int, send: Send) -> None:
        if (node in self.cut) == (send.to in self.cut):
            self.links.setdefault((node, send.to), deque()).append(send.message)

    def _persist(self, node: int, upto: WriteId) -> None:
        here = self._node(node)
        while here.writes and here.writes[0].write_id <= upto:
            write = here.writes.popleft()
            here.hard_state = write.hard_state or here.hard_state
            if write.start is not None:
                here.start, here.log = write.start, []
            if write.entries:
                here.log = [entry for entry in here.log if entry.index < write.entries[0].index]
                here.log.extend(write.entries)
        self._step(node, Persisted(upto))
        for send in here.outbox.release(upto, here.core.term):
            self.said.append(f"n{node} released {say(send)}")
            self._post(node, send)

    def _move_one(self, among: set[int]) -> bool:
        for node in sorted(among):
            writes = self._node(node).writes
            if writes:
                self._persist(node, writes[-1].write_id)
                return True
        for (sender, receiver), queue in sorted(self.links.items()):
            if queue and sender in among and receiver in among:
                self._step(receiver, Receive(NodeId(sender), queue.popleft()))
                return True
        return False

    def _ends(self, link: str) -> tuple[int, int]:
        sender, receiver = link.split(">")
        return int(sender), int(receiver)

    def _take(self, link: str, count: str | None) -> list[Message]:
        queue = self.links.get(self._ends(link), deque())
        return [queue.popleft() for _ in range(min(len(queue), int(count) if count else len(queue)))]


# ---------------------------------------------------------------- how effects read


def say(effect: Effect) -> str:
    """One effect in one line."""
    match effect:
        case Persist(write_id=write_id, hard_state=hard_state, entries=entries, start=start):
            parts = [f"persist w{write_id}"]
            if hard_state is not None:
                parts.append(f"term={hard_state.term} vote={hard_state.vote or '-'}")
                if hard_state.directory_id:
                    parts.append(f"directory={hard_state.directory_id % 1000}")
                if hard_state.configurations:
                    parts.append("configurations")
                if hard_state.floor != NO_POSITION:
                    parts.append(f"floor={hard_state.floor.index}@{hard_state.floor.term}")
            if start is not None:
                text = f":{start.snapshot.decode()}" if start.snapshot else ""
                parts.append(f"start={start.index}@{start.position.term}{text}")
            parts += [say_entry(entry) for entry in entries]
            return " ".join(parts)
        case Send(to=to, message=message, after=after):
            return f"→n{to} {say_message(message)}{f' after w{after}' if after else ''}"
        case Answer(token=token, outcome=outcome):
            return f"answers #{token}: {say_outcome(outcome)}"
        case Commit(commit_index=commit_index):
            return f"commits {commit_index}"
        case LoadEntries(peer=peer, first_index=first_index):
            return f"loads {first_index}… for n{peer}"
        case ReadReady(token=token, read_index=read_index):
            return f"answers #{token}: read at {read_index}"
        case ReadRejected(token=token, leader_hint=hint):
            return f"answers #{token}: read rejected, leader {hint or 'unknown'}"
        case RoleChanged(role=role, term=term, leader=leader):
            return f"is {role.value} in term {term}, leader {leader or 'unknown'}"
        case MembersChanged(configuration=configuration):
            return f"has the members {say_configuration(configuration)}"
        case _:
            assert_never(effect)


def say_configuration(configuration: Configuration) -> str:
    """For example `1 2 3 | 4` with a learner, or `1 2→3 4` for a joint one."""
    groups = "→".join(" ".join(map(str, sorted(group))) for group in reversed(configuration.groups))
    learners = " ".join(map(str, sorted(configuration.learners)))
    return f"{groups}{' | ' if learners else ''}{learners}"


def say_outcome(outcome: Committed | Rejected | Unknown | HandedOver) -> str:
    """Returns the outcome of a proposal as the script has it."""
    match outcome:
        case Committed(index=index, term=term, base_offset=base_offset):
            return f"committed {index}@{term} at offset {base_offset}"
        case Rejected(reason=reason, leader_hint=hint, detail=detail):
            return f"rejected, {reason.value}{f' ({detail})' if detail else ''}, leader {hint or 'unknown'}"
        case Unknown(index=index):
            return f"unknown, at {index}"
        case HandedOver(target=target):
            return f"handed over to n{target}"
        case _:
            assert_never(outcome)


def say_entry(entry: Entry) -> str:
    """For example `3@2:text`; an empty entry of a leader is `3@2`."""
    if entry.batch.kind is EntryKind.CONFIGURATION:
        return f"{entry.index}@{entry.term}:[{say_configuration(Configuration.decode(bytes(entry.batch.data)))}]"
    text = "" if entry.batch == NOOP else f":{bytes(entry.batch.data).decode()}"
    return f"{entry.index}@{entry.term}{text}"


def say_message(message: Message) -> str:
    """One message in a few words; `t` is its term, `r` its round."""
    match message:
        case RequestPreVote(term=term, last_index=index, last_term=last_term):
            return f"RequestPreVote t{term} last={index}@{last_term}"
        case RequestVote(term=term, last_index=index, last_term=last_term):
            return f"RequestVote t{term} last={index}@{last_term}{' transfer' if message.is_transfer else ''}"
        case PreVoteReply(term=term, granted=granted):
            return f"PreVoteReply t{term} {'granted' if granted else 'refused'}"
        case VoteReply(term=term, granted=granted):
            return f"VoteReply t{term} {'granted' if granted else 'refused'}"
        case AppendEntries(term=term, prev_index=prev, prev_term=prev_term, commit_index=commit, entries=entries):
            body = "".join(" " + say_entry(entry) for entry in entries)
            return f"AppendEntries t{term} prev={prev}@{prev_term} commit={commit} r{message.round}{body}"
        case AppendAccepted(term=term, match_index=match_index, verified_index=verified):
            return f"AppendAccepted t{term} match={match_index} verified={verified} r{message.round}"
        case AppendRejected(term=term, prev_index=prev, hint_index=hint, hint_term=hint_term):
            return f"AppendRejected t{term} prev={prev} hint={hint}@{hint_term} r{message.round}"
        case InstallSnapshot(term=term, start=start):
            part = f" part={message.offset}+{len(start.snapshot)}/{message.total}" if message.total else ""
            return f"InstallSnapshot t{term} start={start.index}@{start.position.term}{part} r{message.round}"
        case SnapshotReceived(term=term, start_index=start_index, received=received):
            return f"SnapshotReceived t{term} start={start_index} received={received} r{message.round}"
        case TimeoutNow(term=term):
            return f"TimeoutNow t{term}"
        case RequestStanding():
            return "RequestStanding"
        case StandingReply(term=term, last_index=index, last_term=last_term):
            return f"StandingReply t{term} last={index}@{last_term}{' had a past' if message.was_member else ''}{' has changed' if message.has_changed else ''}"
        case _:
            assert_never(message)


# ---------------------------------------------------------------- scripts


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().command)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
