"""Conversations with `ControllerLiveness`: a script of commands `> ...`, with the answers below each.

`python -m tests.kafka_compat.controller.conversation --rewrite` renews the answers of all scripts; comments and blank
lines stay.

    command                          meaning
    cluster N                        brokers 1 to N, registered and not fenced; topic t has N partitions, led by 1 to N
    elected, resigned                this node becomes the controller, or stops being it
    at T                             the time is T seconds from now on
    beat B [shutdown] [fence] [behind K] [by C] [epoch E] [misses L]
                                     a heartbeat of broker B, by connection B unless C; K commands behind; leader L is silent
    close C                          connection C ends
    due [held up]                    time has passed; this process has been held up until now
    own B                            the broker of this node
    commit                           the proposals come back through the log
    lose                             the proposals never come back
    register B                       a new process of broker B registers
    join B                           all leaders take broker B into their ISRs
    start B                          broker B registers, and is unfenced; fence B: it is fenced
    reassign P B,B                   partition P is to have these replicas; with `same` of the same number; `none` cancels
    isr P B,B [alone]                the leader of partition P asks for this ISR; the others lose their eligibility
    lead P                           the preferred replica of partition P is to lead
    setting NAME VALUE               a setting, before `elected`
    show                             the brokers, the leaders with their ISRs (or eligible ones), and the next deadline
"""

import itertools
import math
import sys
from pathlib import Path

import attrs

from kafka_compat.controller.commands import (
    AlterReassignments,
    BeginShutdown,
    Command,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    LeadersElected,
    Reassignment,
    ReassignmentsAltered,
    UnfenceBroker,
)
from kafka_compat.controller.liveness import (
    AnswerHeartbeat,
    BrokerHeartbeat,
    ControllerElected,
    ControllerLiveness,
    ControllerResigned,
    HeartbeatConnectionClosed,
    LivenessDue,
    LivenessEvent,
    LivenessSettings,
    ProposeCommand,
)
from kafka_compat.model import NO_LEADER, PartitionState, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.kafka_compat.controller.world import World

SCRIPTS = Path(__file__).with_name("scripts")


class Conversation:
    """One node, its machine and its liveness decider."""

    def __init__(self) -> None:
        self.world = World()
        self.liveness = ControllerLiveness(self.world.machine.image)
        self.now = 0.0
        self.token = 0
        self.proposed: list[Command] = []
        self.moves = False
        self.held_up_at = -math.inf

    def say(self, line: str) -> list[str]:
        word, *rest = line.split()
        return list(getattr(self, f"on_{word}")(*rest) or [])

    def step(self, event: LivenessEvent) -> list[str]:
        before = self.world.machine.snapshot()
        effects = self.liveness.step(self.now, event)
        assert self.world.machine.snapshot() == before, "only commands change the image"
        lines = []
        for effect in effects:
            match effect:
                case ProposeCommand():
                    self.proposed.append(effect.command)
                    lines.append(f"propose {show(effect.command)} ({effect.reason})")
                case AnswerHeartbeat():
                    assert effect.token == self.token
                    lines.append(f"answer {show_answer(effect)}")
        return lines

    def on_cluster(self, count: str) -> None:
        brokers = range(1, int(count) + 1)
        self.world.start(*brokers)
        rows = [(*brokers[at:], *brokers[:at]) for at in range(len(brokers))]
        assert self.world.create("t", *rows).error is KafkaErrorCode.NONE

    def on_setting(self, name: str, value: str) -> None:
        held = None if value == "none" else value == "yes" if value in ("yes", "no") else float(value)
        self.liveness.settings = attrs.evolve(self.liveness.settings, **{name: held})  # type: ignore[arg-type]
        assert isinstance(self.liveness.settings, LivenessSettings)

    def on_elected(self) -> list[str]:
        return self.step(ControllerElected())

    def on_resigned(self) -> list[str]:
        return self.step(ControllerResigned())

    def on_at(self, time: str) -> None:
        assert float(time) >= self.now
        self.now = float(time)

    def on_beat(self, broker: str, *words: str) -> list[str]:
        options = {word: int(value) for word, value in itertools.pairwise(words) if value.isdecimal()}
        self.token += 1
        registration = self.world.machine.image.brokers.get(int(broker))
        epoch = options.get("epoch", registration.epoch if registration is not None else 1)
        applied = self.world.index - options.get("behind", 0)
        connection = options.get("by", int(broker))
        wants = ("fence" in words, "shutdown" in words)
        silent = (options["misses"],) if "misses" in options else ()
        return self.step(BrokerHeartbeat(self.token, connection, int(broker), epoch, applied, *wants, silent))

    def on_close(self, connection: str) -> list[str]:
        return self.step(HeartbeatConnectionClosed(int(connection)))

    def on_own(self, broker: str) -> None:
        self.liveness.own = int(broker)

    def on_due(self, *words: str) -> list[str]:
        self.held_up_at = self.now if words else self.held_up_at
        return self.step(LivenessDue(self.held_up_at))

    def on_commit(self) -> None:
        for command in self.proposed:
            self.world.do(command, object)
        self.proposed.clear()

    def on_lose(self) -> None:
        self.proposed.clear()

    def on_register(self, broker: str) -> list[str]:
        return [self.world.register(int(broker)).error.name]

    def on_join(self, broker: str) -> None:
        for at, state in enumerate(self.world.machine.image.topics["t"].partitions):
            change = self.world.change(*state.isr, int(broker), partition=at)
            assert self.world.alter(change).error is KafkaErrorCode.NONE

    def on_start(self, broker: str) -> None:
        self.world.start(int(broker))

    def on_fence(self, broker: str) -> None:
        self.world.eligible = True
        self.world.fence(int(broker))

    def on_reassign(self, partition: str, replicas: str, *words: str) -> list[str]:
        self.moves = True
        wanted = None if replicas == "none" else tuple(map(int, replicas.split(",")))
        command = AlterReassignments((Reassignment("t", int(partition), wanted),), "same" not in words)
        (result,) = self.world.do(command, ReassignmentsAltered).partitions
        return [f"{result.error.name}{': ' if result.message else ''}{result.message}"]

    def on_isr(self, partition: str, members: str, *words: str) -> list[str]:
        isr, keeps = map(int, members.split(",")), "alone" not in words
        change = self.world.change(*isr, partition=int(partition), keeps_eligible=keeps)
        return [self.world.alter(change).error.name]

    def on_lead(self, partition: str) -> list[str]:
        command = ElectLeaders(ElectionType.PREFERRED, (TopicPartition("t", int(partition)),))
        (result,) = self.world.do(command, LeadersElected).partitions
        return [result.error.name]

    def on_show(self) -> list[str]:
        image = self.world.machine.image
        brokers = [
            f"{broker.id}{' fenced' * broker.fenced}{' leaving' * broker.shutting_down}"
            for _, broker in sorted(image.brokers.items())
        ]
        partitions = [
            f"t-{at} {state.leader if state.leader != NO_LEADER else 'none'} of {','.join(map(str, state.isr)) or 'none'}"
            + (f" or {','.join(map(str, state.elr))}" if state.elr else "")
            + (show_move(state) if self.moves else "")
            for at, state in enumerate(image.topics["t"].partitions)
        ]
        return [f"brokers {'; '.join(brokers)}", f"leaders {'; '.join(partitions)}", f"due {self.liveness.deadline}"]


def show(command: Command) -> str:
    match command:
        case UnfenceBroker() | FenceBroker() | BeginShutdown():
            return f"{type(command).__name__} {command.broker}@{command.epoch}"
        case ElectLeaders(partitions=keys):
            return f"ElectLeaders {command.election.name} {' '.join(map(str, keys or ()))}"
        case _:
            raise AssertionError(command)


def show_move(state: PartitionState) -> str:
    words = [f" @{state.leader_epoch} on {','.join(map(str, state.replicas))}"]
    words += [f"adding {','.join(map(str, state.adding))}"] * bool(state.adding)
    words += [f"removing {','.join(map(str, state.removing))}"] * bool(state.removing)
    return " ".join(words)


def show_answer(answer: AnswerHeartbeat) -> str:
    if answer.error is not KafkaErrorCode.NONE:
        return answer.error.name
    words = ["fenced" if answer.fenced else "unfenced", "caught up" if answer.is_caught_up else "behind"]
    return ", ".join(words + ["may end"] * answer.should_shut_down)


def replay(text: str) -> str:
    """Returns the script with the answers that are given now."""
    conversation = Conversation()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *conversation.say(line[2:])]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    assert sys.argv[1:] == ["--rewrite"]
    for script in sorted(SCRIPTS.glob("*.txt")):
        script.write_text(replay(script.read_text()))
