"""Answers on request: the port between a cluster that is up and a proxy that knows its system's wire."""

import abc
from collections.abc import Mapping
from typing import Any

from jepsen_like.port.wires import Address


class WrongAnswer(ValueError):
    """A wish for an answer that makes no sense; the text gives the reason and what there is."""


class Answers(abc.ABC):
    """Answers on request: what clients get instead of what the nodes answer, by a proxy between both."""

    @abc.abstractmethod
    async def serve(self) -> None:
        """Carry what passes the proxy, until cancelled."""

    @abc.abstractmethod
    def listen(self, node: Address) -> int:
        """Returns the port that leads to this node through the proxy, opened now if it is new. Raises `OSError`."""

    @abc.abstractmethod
    async def ask(self, words: Mapping[str, Any]) -> str:
        """Have requests answered in another way. Returns it in words. Raises `WrongAnswer`."""

    @abc.abstractmethod
    def undo_all(self) -> int:
        """End all wishes that are not over; returns how many these were."""

    @abc.abstractmethod
    def lines(self) -> list[str]:
        """Returns every wish with its counts, in words."""

    @abc.abstractmethod
    def list_all(self) -> list[dict[str, Any]]:
        """Returns every wish with its counts, for programs."""
