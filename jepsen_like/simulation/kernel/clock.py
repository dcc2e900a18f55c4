"""The clock of one simulated node."""

import attrs


@attrs.define
class SimulatedClock:
    """A node's own idea of time: it may run too fast or too slow and jump forward, but never goes back."""

    rate: float = 1.0
    _reading: float = 0.0
    _since: float = 0.0

    def at(self, now: float) -> float:
        """Returns the reading at the world's `now`."""
        return self._reading + (now - self._since) * self.rate

    def when(self, reading: float) -> float:
        """The world's time at which it will show `reading`."""
        return self._since + (reading - self._reading) / self.rate

    def jump(self, seconds: float) -> None:
        """Show `seconds` more from now on."""
        self._reading += seconds

    def steady(self, now: float) -> None:
        """Run true from now on, from wherever it stands."""
        self._reading, self._since, self.rate = self.at(now), now, 1.0
