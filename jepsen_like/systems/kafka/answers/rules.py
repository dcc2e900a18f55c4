"""The wishes for answers: which requests are meant, what becomes of them, and how often it has.

A rule counts the requests that it matches; from its `call`-th on it changes `times` of them, or all that follow. The
first rule that changes a request decides, and each rule counts on its own.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.port.answers import WrongAnswer
from kafka_compat.protocol.api import RequestHeader
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.registry import APIS

BEFORE, AFTER = "before", "after"
API_KEYS: Final = {api.name: api.key for api in APIS.values()}
NEAR_NAMES: Final = 4
WORDS: Final = ("api", "error", "delay", "disconnect", "times", "call", "client_id", "topic")


@attrs.define(eq=False)
class AnswerRule:
    """One wish, and its counts. Exactly one of `error`, `delay_s` and `disconnect` is set."""

    api: str
    error: KafkaErrorCode | None = None
    delay_s: float | None = None
    disconnect: str | None = None
    times: int | None = 1
    """None stands for all."""
    call: int = 1
    client_id: str | None = None
    topic: str | None = None
    seen: int = 0
    """Requests that it matched."""
    done: int = 0
    """Requests that it changed."""
    is_undone: bool = False

    @classmethod
    def of(
        cls,
        api: str,
        *,
        error: str | None = None,
        delay: float | None = None,
        disconnect: str | None = None,
        times: int | None = 1,
        call: int = 1,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> "AnswerRule":
        """Returns the rule for these words. Raises `WrongAnswer`."""
        _find("API", api, API_KEYS)
        given = [name for name, value in _kinds(error, delay, disconnect) if value is not None]
        if len(given) != 1:
            raise WrongAnswer(f"give one of error, delay and disconnect, not {' and '.join(given) or 'none'}")
        code = None
        if error is not None:
            names = [each.name for each in KafkaErrorCode if each is not KafkaErrorCode.NONE]
            code = KafkaErrorCode[_find("error", error, names)]
        if delay is not None and not (_is_number(delay) and delay >= 0 and not math.isnan(delay)):
            raise WrongAnswer(f"delay is a number of seconds from 0 on, not {delay!r}")
        if disconnect not in (None, BEFORE, AFTER):
            raise WrongAnswer(f"disconnect is {BEFORE!r} or {AFTER!r} the request is served, not {disconnect!r}")
        for name, value in (("times", times), ("call", call)):
            if not (value is None and name == "times") and (type(value) is not int or value < 1):
                raise WrongAnswer(f"{name} is a whole number from 1 on, not {value!r}")
        for name, text in (("client_id", client_id), ("topic", topic)):
            if not isinstance(text, str | None):
                raise WrongAnswer(f"{name} is a text, not {text!r}")
        return cls(api, code, None if delay is None else float(delay), disconnect, times, call, client_id, topic)

    @property
    def is_spent(self) -> bool:
        """True if it will change no request any more."""
        return self.is_undone or (self.times is not None and self.done >= self.times)

    @property
    def change(self) -> str:
        """The fate of a request, in words."""
        if self.error is not None:
            return f"error {self.error.name}"
        return f"delay {self.delay_s:g} s" if self.delay_s is not None else f"disconnect {self.disconnect}"

    def __str__(self) -> str:
        which = "".join(
            f", {name} {value}" for name, value in (("client", self.client_id), ("topic", self.topic)) if value
        )
        times = "all" if self.times is None else str(self.times)
        begin = f" from call {self.call} on" if self.call > 1 else ""
        undone = ", undone" if self.is_undone else ""
        return f"{self.api}{which}: {self.change}{begin}, done {self.done} of {times}, {self.seen} seen{undone}"

    @classmethod
    def from_words(cls, words: Mapping[str, Any]) -> "AnswerRule":
        """Returns the rule for a request of another program. Raises `WrongAnswer`, for words that it does not know, too."""
        if unknown := sorted(set(words) - set(WORDS)):
            raise WrongAnswer(f"an answer has no {unknown[0]!r}; it has {', '.join(WORDS)}")
        if "api" not in words:
            raise WrongAnswer("an answer names its api")
        return cls.of(**words)

    def as_json(self) -> dict[str, Any]:
        """Returns it for other programs."""
        return {
            "api": self.api,
            "change": self.change,
            "times": self.times,
            "call": self.call,
            "client_id": self.client_id,
            "topic": self.topic,
            "seen": self.seen,
            "done": self.done,
            "undone": self.is_undone,
        }

    def takes(self, header: RequestHeader, topics: Callable[[], Iterable[str] | None]) -> bool:
        """Count this request if it is meant; returns True if it is to be changed. `topics` names those of the request.

        `topics` returns None for a request that cannot be read: one of a version that is not known here.
        """
        if self.is_undone or API_KEYS[self.api] != header.api_key:
            return False
        if self.client_id is not None and self.client_id != header.client_id:
            return False
        if self.topic is not None and self.topic not in (topics() or ()):
            return False
        self.seen += 1
        return not self.is_spent and self.seen >= self.call


@attrs.define
class Rules:
    """All wishes of a cluster or proxy, in their order; only the newest of those that are over are kept."""

    rules: list[AnswerRule] = attrs.field(factory=list)
    kept_max: int = 1000

    def add(self, rule: AnswerRule) -> None:
        """Keep one more. Raises `WrongAnswer` if there are too many that are not over."""
        if len(self.rules) >= self.kept_max:
            self.rules = [each for each in self.rules if not each.is_spent]
        if len(self.rules) >= self.kept_max:
            raise WrongAnswer(f"there are {self.kept_max} answers in wait; undo some first")
        self.rules.append(rule)

    def choose(self, header: RequestHeader, topics: Callable[[], Iterable[str] | None]) -> AnswerRule | None:
        """Count this request with every rule. Returns the first that changes it, which counts that, too."""
        taking = [rule for rule in self.rules if rule.takes(header, topics)]
        if not taking:
            return None
        taking[0].done += 1
        return taking[0]


def _kinds(error: Any, delay: Any, disconnect: Any) -> Sequence[tuple[str, Any]]:
    return (("error", error), ("delay", delay), ("disconnect", disconnect))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _find(what: str, name: object, names: Iterable[str]) -> str:
    known = tuple(names)
    if isinstance(name, str) and name in known:
        return name
    folded = {each.replace("_", "").lower(): each for each in known}
    near = difflib.get_close_matches(str(name).replace("_", "").lower(), folded, n=NEAR_NAMES, cutoff=0.5)
    hint = f"did you mean {', '.join(folded[each] for each in near)}?" if near else f"there are {', '.join(known)}"
    raise WrongAnswer(f"no {what} {str(name)[:100]!r}; {hint}")
