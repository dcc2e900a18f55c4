"""Conversations with replicas: commands in, effects out, as text that can be read, reviewed and renewed.

A script is a file of lines. `> command` goes to the world; the lines behind it, up to the next command, comment or
blank line, are the replicas' answers. `python -m tests.kafka_compat.partition.conversation --rewrite` renews all
answers: the diff is the review.

Commands (`B` is a broker, `A>B` a link, 0 the controller):

    start N [NAME=VALUE ...]     N brokers, all in the ISR, 1 leads in epoch 1; settings of PartitionConfig;
                                 then stabilize, unseen
    produce B TEXT [acks=A] [id=PID,EPOCH,SEQUENCE] [count=N] [size=BYTES] [timeout=S]
                                 with `txn`, in a transaction; guard=G is what `verify` gave
    verify B PID,EPOCH,SEQUENCE  the first batch of a transaction is to be verified
    marker B PID,EPOCH commit|abort [by=E] [version=V]  ends it; `by` is the epoch of the coordinator
    consume B OFFSET [epoch=E] [last=E] [min=BYTES]     waits half a second at most; `committed` reads committed only
    latest B [epoch=E] / end B EPOCH [epoch=E]          ListOffsets, OffsetsForLeaderEpoch
    trim B OFFSET [client]       retention, or DeleteRecords
    deliver A>B [N]              the first N messages (default 1) of a link arrive
    drop A>B [N]                 they are lost instead
    refuse A>B ERROR             the first message to the controller is answered with this error, unread
    lose A>B                     the first message to the controller is applied, its answer is lost
    stabilize [unseen]           messages arrive until there are none; `unseen` prints nothing
    wait S [unseen]              time passes, S seconds; deadlines in it happen
    flush B                      B's disk has everything
    kill B / power B             B ends; with a power cut its page cache is lost
    restart B                    B starts again and registers; still fenced
    fence B / unfence B          the controller does that
    elect B [unclean]            the controller makes B the leader
    reregister B                 the controller has a newer registration of B
    late B                       metadata for B waits for `deliver 0>B`; everything else stabilizes around it
    slow B / truncated B         B's truncations end only on command
    cut A B / heal               nothing passes between two; everything passes again
    step B EVENT                 a fact of no other command: expire, remove
    show                         every broker in one line
"""

import sys
from pathlib import Path
from typing import Any, assert_never

import attrs

from kafka_compat.partition.effects import (
    AnswerEpochEnd,
    AnswerFetch,
    AnswerLatestOffset,
    AnswerLogStart,
    AnswerProduce,
    AnswerVerification,
    AppendBatches,
    CloseConnection,
    Effect,
    FetchFrom,
    HighWatermarkMoved,
    MoveLogStart,
    PartitionRoleChanged,
    RefusePeer,
    ResetLog,
    SendAlterPartition,
    StopFetching,
    TransactionHangs,
    TruncateLog,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    EpochEndAsked,
    LatestOffsetAsked,
    LogStartDue,
    PartitionRemoved,
    Produce,
    ProducerExpiryDue,
    VerificationAsked,
)
from kafka_compat.partition.model import BatchInfo, BatchKind, PartitionConfig
from kafka_compat.partition.render import render
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.golden import renew_script, rewrite
from tests.kafka_compat.partition.world import BATCH_BYTES, CONTROLLER, World

SCRIPTS = Path(__file__).parent / "scripts"


def _config(words: tuple[str, ...]) -> PartitionConfig:
    values: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        kind = type(getattr(PartitionConfig(), name))
        values[name] = text == "True" if kind is bool else kind(text)
    return attrs.evolve(PartitionConfig(), **values)


def _options(words: tuple[str, ...]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


class PartitionConversation:
    """A world, driven by the commands of a script."""

    def __init__(self) -> None:
        self.world = World(0, PartitionConfig())
        self.said: list[str] = []
        self.late: set[int] = set()

    def command(self, line: str) -> list[str]:
        """Carry out one command. Returns the lines that the replicas produced."""
        name, *words = line.split()
        self.said = []
        getattr(self, f"do_{name}")(*words)
        return [] if "unseen" in words else self.said

    def _hear(self, broker: int, effect: Effect) -> None:
        self.said.append(f"b{broker} {say(effect)}")

    def do_start(self, count: str, *words: str) -> None:
        self.world = World(int(count), _config(words), self._hear)
        self.world.begin()
        self.world.stabilize()
        self.said = []
        self.do_show()

    def do_produce(self, broker: str, text: str, *words: str) -> None:
        options = _options(words)
        ids = tuple(int(part) for part in options.get("id", "-1,-1,-1").split(","))
        kind = BatchKind.TRANSACTIONAL if "txn" in words else BatchKind.PLAIN
        batch = BatchInfo(
            int(options.get("count", 1)), int(options.get("size", BATCH_BYTES)), ids[0], ids[1], ids[2], kind=kind
        )
        self.world.token += 1
        acks, timeout = int(options.get("acks", -1)), float(options.get("timeout", 5))
        guard = int(options.get("guard", 0))
        self.world.step(int(broker), Produce(self.world.token, acks, batch, timeout, text, guard))

    def do_verify(self, broker: str, ids: str) -> None:
        self.world.token += 1
        self.world.step(int(broker), VerificationAsked(self.world.token, *map(int, ids.split(","))))

    def do_marker(self, broker: str, ids: str, kind: str, *words: str) -> None:
        options = _options(words)
        producer, epoch = map(int, ids.split(","))
        self.world.token += 1
        batch = BatchInfo(
            1, 78, producer, epoch, kind=BatchKind[kind.upper()], coordinator_epoch=int(options.get("by", 0))
        )
        version = int(options.get("version", 0))
        self.world.step(int(broker), Produce(self.world.token, -1, batch, 5.0, kind, transaction_version=version))

    def do_consume(self, broker: str, offset: str, *words: str) -> None:
        options = _options(words)
        self.world.consume(
            int(broker),
            int(offset),
            leader_epoch=int(options.get("epoch", -1)),
            last_fetched_epoch=int(options.get("last", -1)),
            min_bytes=int(options.get("min", 1)),
            read_committed="committed" in words,
        )

    def do_latest(self, broker: str, *words: str) -> None:
        self.world.token += 1
        epoch = int(_options(words).get("epoch", -1))
        self.world.step(int(broker), LatestOffsetAsked(self.world.token, epoch, "committed" in words))

    def do_end(self, broker: str, epoch: str, *words: str) -> None:
        self.world.token += 1
        asked = EpochEndAsked(self.world.token, int(_options(words).get("epoch", -1)), int(epoch))
        self.world.step(int(broker), asked)

    def do_trim(self, broker: str, offset: str, client: str = "") -> None:
        self.world.token += 1
        self.world.step(int(broker), LogStartDue(int(offset), self.world.token if client else None))

    def do_deliver(self, link: str, count: str = "1") -> None:
        for _ in range(int(count)):
            assert self.world.deliver(*_ends(link)), f"nothing can arrive on {link}"

    def do_drop(self, link: str, count: str = "1") -> None:
        for _ in range(int(count)):
            message = self.world.take(*_ends(link))
            assert message is not None, f"nothing is on {link}"
            self.world.lose(*_ends(link), message)

    def do_refuse(self, link: str, error: str) -> None:
        source, target = _ends(link)
        message = self.world.take(source, target)
        assert isinstance(message, SendAlterPartition)
        self.world.post(CONTROLLER, source, AlterPartitionAnswered(message.request, KafkaErrorCode[error]))
        self.world.deliver(CONTROLLER, source)

    def do_lose(self, link: str) -> None:
        source, _ = _ends(link)
        assert self.world.deliver(*_ends(link))
        queue = self.world.links[CONTROLLER, source]
        answer = next(each for each in queue if isinstance(each, AlterPartitionAnswered))
        queue.remove(answer)
        self.world.lose(CONTROLLER, source, answer)

    def do_stabilize(self, unseen: str = "") -> None:
        held = {
            broker: self.world.links.pop((CONTROLLER, broker))
            for broker in self.late
            if (CONTROLLER, broker) in self.world.links
        }
        self.world.stabilize()
        for broker, queue in held.items():
            self.world.links[CONTROLLER, broker] = queue

    def do_wait(self, seconds: str, unseen: str = "") -> None:
        self.world.pass_time(float(seconds))

    def do_flush(self, broker: str) -> None:
        self.world.flush(int(broker))

    def do_kill(self, broker: str) -> None:
        self.world.stop(int(broker), power=False)

    def do_power(self, broker: str) -> None:
        self.world.stop(int(broker), power=True)

    def do_restart(self, broker: str) -> None:
        self.world.restart(int(broker))

    def do_fence(self, broker: str) -> None:
        self.world.controller.fence(int(broker))
        self.world.publish()

    def do_unfence(self, broker: str) -> None:
        self.world.controller.unfence(int(broker))
        self.world.publish()

    def do_reregister(self, broker: str) -> None:
        controller = self.world.controller
        controller.index += 1
        controller.brokers[int(broker)] = attrs.evolve(controller.brokers[int(broker)], epoch=controller.index)
        self.world.publish()

    def do_elect(self, broker: str, unclean: str = "") -> None:
        state = self.world.controller.state
        isr = (int(broker),) if unclean else state.isr
        self.world.controller.change(isr, int(broker), recovering=bool(unclean), bump=True)
        self.world.publish()

    def do_late(self, broker: str) -> None:
        self.late.add(int(broker))

    def do_slow(self, broker: str) -> None:
        self.world.slow_truncation.add(int(broker))

    def do_truncated(self, broker: str) -> None:
        self.world.end_truncation(int(broker))

    def do_cut(self, one: str, other: str) -> None:
        self.world.cut |= {(int(one), int(other)), (int(other), int(one))}
        for link in ((int(one), int(other)), (int(other), int(one))):
            while (message := self.world.take(*link)) is not None:
                self.world.lose(*link, message)

    def do_heal(self) -> None:
        self.world.cut.clear()

    def do_step(self, broker: str, event: str) -> None:
        self.world.step(int(broker), ProducerExpiryDue() if event == "expire" else PartitionRemoved())

    def do_show(self) -> None:
        for broker in self.world.brokers.values():
            self.said.append(
                render(broker.replica) if broker.replica is not None else f"b{broker.id} down, log end {broker.log_end}"
            )


def _ends(link: str) -> tuple[int, int]:
    source, target = link.split(">")
    return int(source), int(target)


def say(effect: Effect) -> str:
    """One effect in one line."""
    match effect:
        case AppendBatches(base_offset=base, leader_epoch=epoch, batches=batches):
            return f"appends at {base}{f' epoch {epoch}' if epoch >= 0 else ''}: {_batches(batches, base)}"
        case TruncateLog(end=end):
            return f"truncates to {end}"
        case ResetLog(start=start):
            return f"resets its log to {start}"
        case MoveLogStart(log_start=log_start):
            return f"moves its log start to {log_start}"
        case FetchFrom():
            last = effect.last_fetched_epoch
            return f"fetches from b{effect.leader} e{effect.leader_epoch} offset={effect.fetch_offset} last={last if last >= 0 else '-'}"
        case StopFetching():
            return "stops fetching"
        case SendAlterPartition():
            isr = ",".join(f"{member}@{epoch}" for member, epoch in effect.isr)
            return f"asks #{effect.request} for isr={isr} e{effect.leader_epoch} p{effect.partition_epoch}"
        case AnswerProduce(token=token, error=error, base_offset=base):
            return f"answers produce #{token}: {error.name}{f' at {base}' if base >= 0 else ''}"
        case AnswerVerification(token=token, error=error, guard=guard):
            return f"answers #{token}: {error.name} guard {guard}"
        case CloseConnection(token=token, error=error):
            return f"closes the connection of #{token}: {error.name}"
        case AnswerFetch():
            return f"answers fetch #{effect.token}: {_show_fetch(effect)}"
        case AnswerEpochEnd(token=token, error=error, epoch=epoch, end_offset=end):
            return f"answers #{token}: {error.name} epoch {epoch} ends at {end}"
        case AnswerLatestOffset(token=token, error=error, offset=offset):
            return (
                f"answers #{token}: {error.name} latest={offset} start={effect.log_start} epoch={effect.leader_epoch}"
            )
        case AnswerLogStart(token=token, error=error, log_start=log_start):
            return f"answers #{token}: {error.name} log start {log_start}"
        case HighWatermarkMoved(high_watermark=high_watermark):
            return f"high watermark {high_watermark}"
        case PartitionRoleChanged(role=role, leader=leader, leader_epoch=epoch):
            return f"is {role.value} in e{epoch}, leader {f'b{leader}' if leader >= 0 else 'none'}"
        case RefusePeer(broker=broker, reason=reason):
            return f"refuses b{broker}: {reason}"
        case TransactionHangs(producer_id=producer, first_offset=first, idle_s=idle_s):
            return f"names the transaction of producer {producer} from {first}, idle for {idle_s:g} s"
        case _:
            assert_never(effect)


def _batches(batches: tuple[BatchInfo, ...], base: int) -> str:
    texts: list[str] = []
    for batch in batches:
        base = batch.base_offset if batch.base_offset >= 0 else base
        texts.append(
            f"[{base},{base + batch.offset_count})" + (f"e{batch.leader_epoch}" if batch.leader_epoch >= 0 else "")
        )
    return " ".join(texts)


def _show_fetch(effect: AnswerFetch) -> str:
    if effect.error is not KafkaErrorCode.NONE:
        return effect.error.name
    if effect.diverging is not None:
        return f"diverging, epoch {effect.diverging.epoch} ends at {effect.diverging.end_offset}"
    stable = f" stable={effect.last_stable}" if effect.last_stable != effect.high_watermark else ""
    return f"[{effect.start},{effect.end}) hw={effect.high_watermark}{stable}"


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, PartitionConversation().command)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
