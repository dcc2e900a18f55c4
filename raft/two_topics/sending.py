"""Decides for one producer of two clusters which message goes where, and when it goes to the other one. Pure.

`PairOutbox.step(now, event)` returns orders. A message has a home, one of the two clusters, by its key; messages without a
key have both in turn. So messages of a key keep their order while no cluster is lost.

- `Alternate`: one attempt at home. It fails when the client reports it, or when it takes too long. Then the message goes to
  the other cluster, and the failed one is left alone for a while: the writer begins a new epoch. When the while is over,
  one message tries it; the others follow when that one was acknowledged.
- `Hedge`: the same, and in addition the second attempt begins after a wait, though the first has not failed.

A message that failed at both is reported as failed. An attempt that took too long may have been carried out: consumers
find doubles by their numbers.
"""

import zlib
from typing import Final, assert_never

import attrs

SIDES: Final = (0, 1)
"""The two clusters."""


@attrs.frozen(kw_only=True)
class Alternate:
    """Each message to one cluster; to the other one after a failed attempt."""

    attempt_s: float = 0.3
    """An attempt without an answer has failed after this time."""
    avoid_s: float = 1.0
    """A cluster that failed is left alone for this time."""

    @property
    def hedge_s(self) -> float | None:
        """No second attempt without a failed one."""
        return None


@attrs.frozen(kw_only=True)
class Hedge:
    """Each message to both clusters; the second attempt begins `after_s` after the first, or when that fails."""

    after_s: float = 0.0
    attempt_s: float = 1.0
    avoid_s: float = 1.0

    @property
    def hedge_s(self) -> float | None:
        """The time after which the second attempt begins by itself."""
        return self.after_s


@attrs.frozen
class Wanted:
    """The application wants this message to be sent; the number is that of its envelope."""

    number: int
    key: bytes | None = None


@attrs.frozen
class Answered:
    """The client of a cluster reports the end of an attempt."""

    number: int
    side: int
    is_ok: bool


@attrs.frozen
class TimePassed:
    """It is at least as late as `PairOutbox.wakes_at`."""


@attrs.frozen
class PairAttempt:
    """Send this message to this cluster now, with this epoch."""

    number: int
    side: int
    epoch: int


@attrs.frozen
class Finish:
    """A message is done with: acknowledged by this cluster, or by none."""

    number: int
    side: int | None


Event = Wanted | Answered | TimePassed
Order = PairAttempt | Finish


@attrs.define
class _UnderWay:
    """A message without an end. `open` are its attempts without an answer, with the time at which each has failed."""

    home: int
    hedge_at: float | None
    open: dict[int, float] = attrs.field(factory=dict)
    tried: set[int] = attrs.field(factory=set)


@attrs.define
class _Health:
    """A cluster as this producer sees it."""

    avoid_until: float = float("-inf")
    probe: int | None = None
    """The number of the message that tries it after it failed; the next one may when this one took too long."""
    is_suspect: bool = False
    """It failed, and has not acknowledged anything since."""


class PairOutbox:
    """The decider of one producer."""

    def __init__(self, policy: Alternate | Hedge) -> None:
        self.epoch = 1
        self._policy = policy
        self._under_way: dict[int, _UnderWay] = {}
        self._health = [_Health() for _ in SIDES]
        self._turn = 0

    @property
    def is_idle(self) -> bool:
        """True if every message has ended."""
        return not self._under_way

    def wakes_at(self) -> float | None:
        """Returns when `TimePassed` is due; None if nothing waits."""
        times = [at for message in self._under_way.values() for at in message.open.values()]
        times += [message.hedge_at for message in self._under_way.values() if message.hedge_at is not None]
        return min(times, default=None)

    def step(self, now: float, event: Event) -> list[Order]:
        """Returns what is to be done."""
        match event:
            case Wanted(number, key):
                return self._begin(now, number, key)
            case Answered(number, side, is_ok):
                return self._succeed(number, side) if is_ok else self._fail(now, number, side)
            case TimePassed():
                return self._pass(now)
            case _:
                assert_never(event)

    def _begin(self, now: float, number: int, key: bytes | None) -> list[Order]:
        home = self._home(key)
        side = home if self._takes(home, now, number) else 1 - home
        hedge_s = self._policy.hedge_s
        self._under_way[number] = _UnderWay(side, None if hedge_s is None else now + hedge_s)
        orders = [self._attempt(now, number, side)]
        return orders + (self._pass(now) if hedge_s == 0 else [])

    def _home(self, key: bytes | None) -> int:
        if key is not None:
            return zlib.crc32(key) % len(SIDES)
        self._turn = 1 - self._turn
        return self._turn

    def _takes(self, side: int, now: float, number: int) -> bool:
        """Returns True if a message may go to a cluster first: it has not failed of late, or this one is to try it."""
        health = self._health[side]
        if not health.is_suspect:
            return True
        if now < health.avoid_until:
            return False
        health.avoid_until, health.probe = now + self._policy.attempt_s, number
        return True

    def _attempt(self, now: float, number: int, side: int) -> Order:
        message = self._under_way[number]
        message.open[side] = now + self._policy.attempt_s
        message.tried.add(side)
        return PairAttempt(number, side, self.epoch)

    def _succeed(self, number: int, side: int) -> list[Order]:
        """The cluster serves; a late answer to a message that has ended proves that, too."""
        self._health[side] = _Health()
        return [Finish(number, side)] if self._under_way.pop(number, None) is not None else []

    def _fail(self, now: float, number: int, side: int) -> list[Order]:
        message = self._under_way.get(number)
        if message is None or side not in message.open:
            return []  # it took too long, and was taken for failed then
        del message.open[side]
        self._avoid(now, number, side)
        other = 1 - side
        if other not in message.tried:
            message.hedge_at = None
            return [self._attempt(now, number, other)]
        if not message.open:
            del self._under_way[number]
            return [Finish(number, None)]
        return []

    def _avoid(self, now: float, number: int, side: int) -> None:
        """Leave a cluster alone. The epoch grows with the first failure, and with that of each message that tries it."""
        health = self._health[side]
        if not health.is_suspect or health.probe == number:
            self.epoch += not health.is_suspect
            self._health[side] = _Health(now + self._policy.avoid_s, is_suspect=True)

    def _pass(self, now: float) -> list[Order]:
        orders: list[Order] = []
        for number, message in list(self._under_way.items()):
            if message.hedge_at is not None and message.hedge_at <= now:
                message.hedge_at = None
                if len(message.tried) < len(SIDES):
                    orders.append(self._attempt(now, number, 1 - message.home))
            for side in [side for side, at in message.open.items() if at <= now]:
                orders += self._fail(now, number, side)
        return orders
