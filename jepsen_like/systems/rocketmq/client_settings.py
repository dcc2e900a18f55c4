"""Which clients a run has, and what its messages are ordered by: settings of the load, which no broker knows."""

import importlib.util
from collections.abc import Sequence
from typing import Final

from jepsen_like.port.port import WrongMode

CLIENT: Final = "client"
CPP_CLIENT, OWN, AUTO = "wheel", "own", "auto"
ORDER: Final = "order"
PINNED, REHASHED = "pinned", "rehashed"
HOLDS: Final = "consume_ms"
LOG_WORKLOAD, GROUP_WORKLOAD, ORDER_WORKLOAD = "log", "group", "order"
PUSHED: Final = frozenset({GROUP_WORKLOAD, ORDER_WORKLOAD})
HOLDS_MS_MAX: Final = 1000
_CHOICES: Final = {CLIENT: (AUTO, CPP_CLIENT, OWN), ORDER: (PINNED, REHASHED)}


def split(words: Sequence[str]) -> tuple[dict[str, str | int], list[str]]:
    """Returns the settings of the load, and the other words. Raises `WrongMode`."""
    settings: dict[str, str | int] = {name: choices[0] for name, choices in _CHOICES.items()} | {HOLDS: 2}
    others = []
    for word in words:
        name, _, value = (part.strip() for part in word.partition("="))
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise WrongMode(f"--set: {name} takes {' or '.join(_CHOICES[name])}, not {value!r}")
            settings[name] = value
        elif name == HOLDS:
            if not value.isdecimal() or int(value) > HOLDS_MS_MAX:
                raise WrongMode(f"--set: {HOLDS} takes a number of ms up to {HOLDS_MS_MAX}, not {value!r}")
            settings[name] = int(value)
        else:
            others.append(word)
    return settings, others


def has_cpp_client() -> bool:
    """Returns True if RocketMQ's C++ client is installed: the package `rocketmq`."""
    return importlib.util.find_spec("rocketmq") is not None


def client_of(setting: str) -> str:
    """Which client a run has: the given one; else the C++ client where it is installed, and our own where it is not."""
    if setting != AUTO:
        return setting
    return CPP_CLIENT if has_cpp_client() else OWN
