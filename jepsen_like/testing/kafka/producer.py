"""A producer of confluent-kafka whose acknowledged records are written down."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

Acknowledged = Callable[[str, int, int, bytes | None, bytes | None], None]


class WitnessedProducer(Producer):  # type: ignore[misc]  # confluent-kafka has no types
    """`Producer` with acks=all, which reports topic, partition, offset, value and key of each record acknowledged.

    What is acknowledged is learned in `poll` and `flush`, as with any producer of this client.
    """

    def __new__(cls, config: dict[str, Any], acknowledged: Acknowledged) -> "WitnessedProducer":
        """Made from the client's own settings."""
        made: WitnessedProducer = super().__new__(cls, config)
        return made

    def __init__(self, config: dict[str, Any], acknowledged: Acknowledged) -> None:
        super().__init__(config)
        self._acknowledged = acknowledged

    def produce(self, topic: str, *args: Any, **options: Any) -> None:
        """See `Producer.produce`; give `on_delivery` by name."""
        told = options.pop("on_delivery", None) or options.pop("callback", None)

        def on_delivery(error: Any, message: Any) -> None:
            if error is None and message.offset() >= 0:
                self._acknowledged(
                    message.topic(), message.partition(), message.offset(), message.value(), message.key()
                )
            if told is not None:
                told(error, message)

        super().produce(topic, *args, on_delivery=on_delivery, **options)
