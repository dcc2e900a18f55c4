"""Creates topics on first use: by a client's metadata request, the first consumer group or transactional producer."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from kafka_compat.broker.context import Context
from kafka_compat.controller.commands import CreateTopics, NewTopic
from kafka_compat.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

NAMES_MAX: Final = 1_000
"""Topics that one request makes by naming them."""


class TopicCreation:
    """Asks the controller once for each name, however many wait for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def create(self, names: Iterable[str], done: Callable[[], None]) -> None:
        """Create these topics with the broker's defaults. `done` is called once they exist, or cannot be created now.

        Of more than `NAMES_MAX` names only the first are created: a client that misses a topic asks again.
        """
        left = set(islice(dict.fromkeys(names), NAMES_MAX))

        def settle(name: str) -> None:
            left.discard(name)
            if not left:
                done()

        new = [name for name in left if name not in self._waiting]
        for name in left:
            self._waiting.setdefault(name, []).append(lambda name=name: settle(name))  # type: ignore[misc]
        if new:
            self._context.controller.send(
                CreateTopics(tuple(self._topic(name) for name in new), seed=self._context.rng.getrandbits(31)),
                lambda result: self._settle(new),
            )

    def _settle(self, names: Iterable[str]) -> None:
        for name in names:
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
        if name == TRANSACTIONS_TOPIC:
            return NewTopic(
                name,
                self._context.new_id(),
                settings.number("transaction.state.log.num.partitions"),
                settings.number("transaction.state.log.replication.factor"),
                configs=(
                    ("cleanup.policy", "compact"),
                    ("min.insync.replicas", str(settings.number("transaction.state.log.min.isr"))),
                    ("segment.bytes", str(settings.number("transaction.state.log.segment.bytes"))),
                ),
            )
        return NewTopic(
            name,
            self._context.new_id(),
            settings.number("num.partitions"),
            settings.number("default.replication.factor"),
        )
