"""Asks all nodes of a cluster at once, and reads what they have printed in a run."""

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import trio

T = TypeVar("T")


async def ask_each(nodes: Iterable[int], ask: Callable[[int], Awaitable[T | None]]) -> dict[int, T]:
    """Returns the answers of those that have one, by node and in order; all are asked at the same time."""
    answers: dict[int, T] = {}

    async def ask_one(node: int) -> None:
        answer = await ask(node)
        if answer is not None:
            answers[node] = answer

    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(ask_one, node)
    return dict(sorted(answers.items()))


def read_events(nodes: Path) -> list[tuple[int, int, dict[str, Any]]]:
    """Returns the events of every process below `nodes`, with time and node, in order; torn lines are left out."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    for path in sorted(nodes.glob("*/events.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                event = json.loads(line)
                found.append((int(event["t_ns"]), int(path.parent.name), event))
            except (ValueError, KeyError, TypeError):
                continue
    return sorted(found, key=lambda one: one[:2])
