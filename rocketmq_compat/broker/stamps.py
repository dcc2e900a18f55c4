"""The properties that a broker adds to every message (`SendMessageProcessor`).

Clients trace messages and answer requests by them.
"""

from collections.abc import Mapping
from typing import Any, Final

from rocketmq_compat.broker.context import Context
from rocketmq_compat.config import Properties
from rocketmq_compat.records import write_properties

REGION: Final = "MSG_REGION"
TRACE: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
STAMPS: Final = (REGION, TRACE, CLUSTER)


class MessageStamps:
    """The stamps of one broker, as it is set to now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made_for: Properties | None = None
        self._values: Mapping[str, str] = {}
        self._text = ""
        self._of_answers: Mapping[str, Any] = {}

    def values(self) -> Mapping[str, str]:
        """Returns the properties that a message gets."""
        self._make()
        return self._values

    def text(self) -> str:
        """Returns the same as text, to be joined to the properties of a message that has none of them."""
        self._make()
        return self._text

    def of_answers(self) -> Mapping[str, Any]:
        """Returns the attributes of `SendMessageResponseHeader` that state them."""
        self._make()
        return self._of_answers

    def _make(self) -> None:
        properties = self._context.properties
        if self._made_for is not properties:
            self._made_for = properties
            region, trace_on = properties.words("regionId"), properties.flag("traceOn")
            self._values = {REGION: region, TRACE: "true" if trace_on else "false", CLUSTER: self._context.cluster}
            self._text = write_properties(self._values)
            self._of_answers = {"region_id": region, "trace_on": trace_on}
