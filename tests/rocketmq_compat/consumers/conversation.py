"""Golden scripts: a line `> command`, and below it what the registry and the locks answered and ordered.

Commands; channels are numbers, clients are called c and the number of their channel unless `id=` names them:

    beat 1 g=T,U:A||B     a heartbeat on channel 1 of a consumer of group g that wants T, and of U the tags A or B
    beat 1 @p g=T v=7     ... that produces in group p, too; its subscriptions have version 7
    beat 1 g=T model=BROADCASTING notifies=no
    leave 1 g   leave 1 @p   lose 1    wait 30     unregisters; its connection ends; time passes, 10 s at a time
    lock 1 g T0 T1        unlock 1 g T0       queues are a topic and a number
    ids g     wants g T v=7     producers p     owner g T0

`python -m tests.rocketmq_compat.consumers.conversation --rewrite` renews the answers.
"""

import sys
from pathlib import Path

from rocketmq_compat.consumers.locks import QueueLocks
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.registry import (
    ChannelLost,
    ClientBeat,
    ClientRegistry,
    ClientUnregistered,
    CloseChannel,
    ConsumerBeat,
    NotifyConsumers,
    RegistryEvent,
    RegistryTimePassed,
)
from rocketmq_compat.consumers.subscriptions import TagSubscription, parse_subscription
from rocketmq_compat.remoting.bodies import ConsumeModel, MessageQueue
from tests.golden import renew_script, rewrite

SCRIPTS = Path(__file__).with_name("scripts")
STEP_S = 10.0


class Conversation:
    """A registry, the locks, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.registry = ClientRegistry()
        self.locks = QueueLocks()

    def say(self, command: str) -> list[str]:
        """Carries out one command; returns the lines that it leads to."""
        verb, *words = command.split()
        try:
            return getattr(self, f"_{verb}")(*words)  # type: ignore[no-any-return]  # each of the methods below
        except RequestRefused as refusal:
            return [str(refusal)]

    def _beat(self, channel: str, *words: str) -> list[str]:
        options = {"v": "1", "id": f"c{channel}", "model": "CLUSTERING", "notifies": "yes"}
        groups: list[tuple[str, str]] = []
        for word in words:
            name, sign, value = word.partition("=")
            if name in options:
                options[name] = value
            elif sign:
                groups.append((name, value))
        consumers = tuple(
            ConsumerBeat(
                name,
                tuple(_subscription(each, int(options["v"])) for each in value.split(",") if each),
                ConsumeModel(options["model"]),
                notifies=options["notifies"] == "yes",
            )
            for name, value in groups
        )
        producers = tuple(word[1:] for word in words if word.startswith("@"))
        return self.step(ClientBeat(int(channel), options["id"], producers, consumers))

    def _leave(self, channel: str, *groups: str) -> list[str]:
        lines = []
        for group in groups:
            is_producer = group.startswith("@")
            name = group.lstrip("@")
            lines += self.step(
                ClientUnregistered(
                    int(channel), f"c{channel}", name if is_producer else None, None if is_producer else name
                )
            )
        return lines

    def _lose(self, channel: str) -> list[str]:
        return self.step(ChannelLost(int(channel)))

    def _wait(self, seconds: str) -> list[str]:
        lines: list[str] = []
        end = self.now + float(seconds)
        while self.now < end:
            self.now = min(self.now + STEP_S, end)
            lines += [f"{self.now:g}s {line}" for line in self.step(RegistryTimePassed())]
        return lines

    def _lock(self, channel: str, group: str, *queues: str) -> list[str]:
        locked = self.locks.lock(self.now, group, f"c{channel}", map(_queue, queues))
        return ["locked " + (" ".join(f"{each.topic}{each.queue_id}" for each in locked) or "none")]

    def _unlock(self, channel: str, group: str, *queues: str) -> list[str]:
        self.locks.unlock(group, f"c{channel}", map(_queue, queues))
        return []

    def _owner(self, group: str, queue: str) -> list[str]:
        return [f"{self.locks.owner(self.now, group, _queue(queue))}"]

    def _ids(self, group: str) -> list[str]:
        found = self.registry.consumer_group(group)
        return ["no consumers"] if found is None else [f"{' '.join(found.client_ids)} {found.model.value}"]

    def _producers(self, group: str) -> list[str]:
        return [" ".join(self.registry.producers(group).values()) or "none"]

    def _wants(self, group: str, topic: str, version: str = "v=0") -> list[str]:
        found = self.registry.subscription(group, topic, int(version[2:]))
        return [f"{found.expression} v={found.version}"]

    def step(self, event: RegistryEvent) -> list[str]:
        lines = []
        for effect in self.registry.step(self.now, event):
            match effect:
                case NotifyConsumers(group=group, channels=channels):
                    lines.append(f"notify {group}: {' '.join(map(str, channels))}")
                case CloseChannel(channel=channel):
                    lines.append(f"close {channel}")
        return lines


def _subscription(text: str, version: int) -> TagSubscription:
    topic, _, expression = text.partition(":")
    return parse_subscription(topic, expression, version)


def _queue(text: str) -> MessageQueue:
    return MessageQueue(broker_name="broker-a", topic=text[:-1], queue_id=int(text[-1]))


def renew(script: str) -> str:
    """Returns the script with the answers of today."""
    return renew_script(script, Conversation().say)


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite(SCRIPTS, renew)
