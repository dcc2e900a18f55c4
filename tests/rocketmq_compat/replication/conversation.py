"""Conversations with replicas: commands in, effects out, as text that can be read, reviewed and renewed.

A script is a file of lines. `> command` goes to the world; the lines behind it, up to the next command, comment or
blank line, are the replicas' answers. `python -m tests.rocketmq_compat.replication.conversation --rewrite` renews all
answers: the diff is the review.

Commands (`B` is a broker, 1 the master at first; `A>B` a link):

    start N [NAME=VALUE ...]   a master with N slaves; settings of ReplicationConfig, `slave.NAME` for slaves;
                               then stabilize, unseen
    put B TEXT [nowait]        a client sends a record of these bytes
    deliver A>B [N]            the first N parcels (default 1) of a link arrive
    drop A>B                   its first parcel is lost, and with it the connection, without a sign
    damage A>B                 a bit of its first parcel that carries bytes is changed
    push A>B OFFSET EPOCH TEXT [wrong]
                               A sends a push of its own making on its connection to B; `wrong`: with a wrong checksum
    report A>B END             A sends this report on its connection to B
    stabilize [unseen]         parcels arrive and disks flush until there are none; `unseen` prints nothing
    hold                       disks flush on command only
    flush B                    B's disk has everything
    wait S [unseen]            time passes, S seconds; deadlines in it happen
    kill B / power B [KEEP]    B ends; with a power cut its log keeps its flushed part, or the part up to KEEP
    wipe B                     the disk of B, which is down, is lost
    shorten B END              the log of B, which is down, was damaged behind END, and is cut there
    restart B                  B starts again
    promote B                  an operator starts B, which is down, as the master; all others start as its slaves
    trim B START               retention lets B's log begin there
    accept B / discard B       the operator's two decisions
    cut A B / heal             nothing passes between two; everything passes again
    show                       every broker in one line
    log B                      the bytes of B's log
"""

import sys
from pathlib import Path
from typing import Any, assert_never

import attrs
import crc32c

from rocketmq_compat.replication.effects import (
    AdoptTables,
    AnswerPut,
    AppendMessages,
    AppendPushed,
    CloseHaConnection,
    ConfirmOffsetMoved,
    CopyBackBegan,
    Dial,
    DivergenceEnded,
    DivergenceFound,
    DoubtBegan,
    DoubtEnded,
    Effect,
    NoteSlave,
    PushLog,
    RefusePut,
    ResetCommitLog,
    SendMessage,
    SendTables,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import DivergenceDiscarded, LogStartMoved, LossAccepted
from rocketmq_compat.replication.messages import (
    FetchBack,
    HaMessage,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    Tables,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import ReplicationConfig
from rocketmq_compat.replication.render import render
from tests.golden import renew_script, rewrite
from tests.rocketmq_compat.replication.world import World

SCRIPTS = Path(__file__).parent / "scripts"


def _evolve(config: ReplicationConfig, words: tuple[str, ...]) -> ReplicationConfig:
    values: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        kind = type(getattr(config, name))
        values[name] = text == "True" if kind is bool else kind(text)
    return attrs.evolve(config, **values)


def _ends(link: str) -> tuple[int, int]:
    source, target = link.split(">")
    return int(source), int(target)


class ReplicationConversation:
    """A world, driven by the commands of a script."""

    def __init__(self) -> None:
        self.world = World(ReplicationConfig(), ReplicationConfig(), 0)
        self.said: list[str] = []

    def command(self, line: str) -> list[str]:
        """Carry out one command. Returns the lines that the replicas produced."""
        name, *words = line.split()
        self.said = []
        getattr(self, f"do_{name}")(*words)
        return [] if "unseen" in words else self.said

    def _hear(self, node: int, effect: Effect) -> None:
        self.said.append(f"b{node} {say(effect)}")

    def do_start(self, slaves: str, *words: str) -> None:
        common = tuple(word for word in words if not word.startswith("slave."))
        config = _evolve(ReplicationConfig(), common)
        of_slaves = _evolve(config, tuple(word[6:] for word in words if word.startswith("slave.")))
        self.world = World(config, of_slaves, int(slaves), self._hear)
        self.world.begin()
        self.world.stabilize()
        self.said = []
        self.do_show()

    def do_put(self, node: str, text: str, nowait: str = "") -> None:
        self.world.put(int(node), text, wait=not nowait)

    def do_deliver(self, link: str, count: str = "1") -> None:
        for _ in range(int(count)):
            assert self.world.deliver(*_ends(link)), f"nothing can arrive on {link}"

    def do_drop(self, link: str) -> None:
        self.world.links[_ends(link)].clear()

    def do_damage(self, link: str) -> None:
        queue = self.world.links[_ends(link)]
        at = next(index for index, parcel in enumerate(queue) if parcel.what == "carries")
        data = bytearray(queue[at].data)
        data[-1] ^= 4
        queue[at] = attrs.evolve(queue[at], data=bytes(data))

    def _connection(self, link: str) -> tuple[int, int]:
        source, target = _ends(link)
        peers = self.world.nodes[source].peers
        return source, next(connection for connection, peer in peers.items() if peer == target)

    def do_push(self, link: str, offset: str, epoch: str, text: str, wrong: str = "") -> None:
        data = text.encode()
        crc = crc32c.crc32c(data) ^ bool(wrong)
        self.world.say(*self._connection(link), Push(int(offset), int(epoch), 0, crc, data))

    def do_report(self, link: str, end: str) -> None:
        self.world.say(*self._connection(link), Report(int(end)))

    def do_stabilize(self, unseen: str = "") -> None:
        self.world.stabilize()

    def do_hold(self) -> None:
        self.world.flushes = False

    def do_flush(self, node: str) -> None:
        self.world.flush(int(node))

    def do_wait(self, seconds: str, unseen: str = "") -> None:
        self.world.pass_time(float(seconds))

    def do_kill(self, node: str) -> None:
        self.world.stop(int(node))

    def do_power(self, node: str, keep: str = "") -> None:
        self.world.stop(int(node), power=True, keep=int(keep) if keep else None)

    def do_wipe(self, node: str) -> None:
        self.world.wipe(int(node))

    def do_shorten(self, node: str, end: str) -> None:
        self.world.shorten(int(node), int(end))

    def do_restart(self, node: str) -> None:
        self.world.start(int(node))

    def do_promote(self, node: str) -> None:
        self.world.master = int(node)
        self.world.start(int(node))

    def do_trim(self, node: str, start: str) -> None:
        self.world.nodes[int(node)].disk.trim(int(start))
        self.world.step(int(node), LogStartMoved(int(start)))

    def do_accept(self, node: str) -> None:
        self.world.step(int(node), LossAccepted())

    def do_discard(self, node: str) -> None:
        self.world.step(int(node), DivergenceDiscarded())

    def do_cut(self, one: str, other: str) -> None:
        for link in ((int(one), int(other)), (int(other), int(one))):
            self.world.cut.add(link)
            self.world.links.pop(link, None)

    def do_heal(self) -> None:
        self.world.cut.clear()

    def do_show(self) -> None:
        for node in self.world.nodes.values():
            state = render(node.replica) if node.replica is not None else f"down, log end {node.disk.end}"
            self.said.append(f"b{node.number} {state}")

    def do_log(self, node: str) -> None:
        disk = self.world.nodes[int(node)].disk
        self.said.append(f"b{node} [{disk.start},{disk.end}) {disk.data.decode()}")


def say(effect: Effect) -> str:
    """One effect in one line."""
    match effect:
        case AppendMessages(offset=offset, epoch=epoch, size=size):
            return f"appends [{offset},{offset + size}) epoch {epoch}"
        case AppendPushed(offset=offset, epoch=epoch, payload=payload):
            return f"appends [{offset},{offset + len(payload)}) epoch {epoch}, as pushed"
        case TruncateCommitLog(end=end):
            return f"truncates to {end}"
        case ResetCommitLog(start=start):
            return f"resets its log to {start}"
        case AnswerPut(token=token, status=status, offset=offset):
            return f"answers #{token}: {status.name} at {offset}"
        case RefusePut(token=token, code=code, reason=reason):
            return f"refuses #{token}: {code.name}, {reason}"
        case Dial(connection=connection):
            return f"dials, connection {connection}"
        case SendMessage(connection=connection, message=message):
            return f"sends on {connection}: {_message(message)}"
        case PushLog():
            return f"pushes on {effect.connection}: [{effect.offset},{effect.end_max}) epoch {effect.epoch}"
        case CloseHaConnection(connection=connection, reason=reason):
            return f"closes {connection}: {reason}"
        case DivergenceFound():
            lost = f"{effect.lost_bytes} bytes from {effect.agreed_end}"
            blocks = ", and takes no records" if effect.blocks else ""
            return f"finds that the log of slave {effect.slave_id} goes on alone for {lost}{blocks}"
        case DivergenceEnded(slave_id=slave_id):
            return f"finds that slave {slave_id} does not diverge any more"
        case ConfirmOffsetMoved(confirm_offset=offset):
            return f"confirms {offset}"
        case NoteSlave(slave_id=slave_id):
            return f"remembers that it has slave {slave_id}"
        case SendTables(connection=connection):
            return f"sends its tables on {connection}"
        case AdoptTables():
            return "adds what the tables of its slave have"
        case DoubtBegan(floor=floor):
            return f"remembers that it lacks what there is up to {floor.end}"
        case CopyBackBegan():
            return f"copies back [{effect.start},{effect.end}) from slave {effect.slave_id}"
        case DoubtEnded(end=end, missing_bytes=missing):
            lost = f", and {missing} bytes are nowhere any more" if missing else ""
            return f"is sure of its log up to {end}{lost}"
        case _:
            assert_never(effect)


def _message(message: HaMessage) -> str:
    match message:
        case Handshake():
            epochs = ",".join(f"{each.epoch}@{each.start}" for each in message.epochs) or "-"
            return f"handshake of slave {message.slave_id}, log=[{message.log_start},{message.log_end}) epochs={epochs}"
        case Welcome(push_from=push_from, confirm_offset=confirm):
            return f"welcome, pushes from {push_from}, confirm {confirm}{'' if message.is_sure else ', in doubt'}"
        case HandshakeRefused(reason=reason):
            return f"refused, {reason}"
        case Push(offset=offset):
            return f"push at {offset}"
        case Report(end=end):
            return f"report {end}"
        case Heartbeat(confirm_offset=confirm):
            return f"heartbeat, confirm {confirm}{'' if message.is_sure else ', in doubt'}"
        case FetchBack(offset=offset, end=end):
            return f"fetch [{offset},{end})"
        case TablesWanted():
            return "tables wanted"
        case Tables():
            return "tables"
        case _:
            assert_never(message)


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, ReplicationConversation().command)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
