"""Topics that are made because they are asked for: by a client's metadata request, or the first use of consumer groups."""

from collections.abc import Callable, Iterable

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.controller.commands import CommandResult, CreateTopics, NewTopic
from kafka_compat.model import OFFSETS_TOPIC


class TopicCreation:
    """Asks the controller once for each name, however many wait for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def create(self, names: Iterable[str], done: Callable[[], None]) -> None:
        """Have these topics made with the broker's defaults; `done` is called once they are there, or cannot be made now."""
        left = set(names)

        def settled(name: str) -> None:
            left.discard(name)
            if not left:
                done()

        for name in list(left):
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.append(lambda name=name: settled(name))  # type: ignore[misc]
                continue
            self._waiting[name] = [lambda name=name: settled(name)]  # type: ignore[misc]
            self._context.controller.send(
                CreateTopics((self._topic(name),), seed=self._context.rng.getrandbits(31)),
                lambda result, name=name: self._settled(name, result),  # type: ignore[misc]
            )

    def _settled(self, name: str, result: CommandResult | CommandFailed) -> None:
        for done in self._waiting.pop(name):
            done()

    def _topic(self, name: str) -> NewTopic:
        settings = self._context.settings
        if name == OFFSETS_TOPIC:
            return NewTopic(
                name,
                self._context.new_id(),
                settings.number("offsets.topic.num.partitions"),
                settings.number("offsets.topic.replication.factor"),
                configs=(
                    ("cleanup.policy", "compact"),
                    ("segment.bytes", str(settings.number("offsets.topic.segment.bytes"))),
                ),
            )
        return NewTopic(
            name,
            self._context.new_id(),
            settings.number("num.partitions"),
            settings.number("default.replication.factor"),
        )
