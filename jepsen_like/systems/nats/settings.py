"""The settings of a NATS cluster, as `--set` takes them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.archives.catalogue import NATS_SERVERS

ALWAYS: Final = "always"
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_INTERVAL: Final = re.compile(r"(\d{1,4})([smh])")


@attrs.frozen(kw_only=True)
class NatsSettings:
    """The settings of every server."""

    version: str = NATS_SERVERS[0].version
    sync_interval: str = "2m"
    """As in the server's configuration: `always`, or a time; the default is the server's own."""

    @classmethod
    def of(cls, words: Sequence[str]) -> "NatsSettings":
        """From `name=value`. Raises `WrongMode`."""
        given = dict(word.partition("=")[::2] for word in words)
        names = [field.name for field in attrs.fields(cls)]
        for name in given:
            if name not in names:
                raise WrongMode(f"--set: no {name!r} in nats; there are {', '.join(names)}")
        return cls.of_json(given)

    @classmethod
    def of_json(cls, shown: Mapping[str, Any]) -> "NatsSettings":
        """From the settings of a test.json. Raises `WrongMode`."""
        found = cls(**{field.name: str(shown[field.name]) for field in attrs.fields(cls) if field.name in shown})
        versions = [each.version for each in NATS_SERVERS]
        if found.version not in versions:
            raise WrongMode(f"--set: no version {found.version!r} of nats; there are {', '.join(versions)}")
        if found.sync_interval != ALWAYS and not _INTERVAL.fullmatch(found.sync_interval):
            raise WrongMode(f"--set: sync_interval is {ALWAYS}, or a time like 10s or 2m, not {found.sync_interval!r}")
        return found

    @property
    def sync_within_s(self) -> float:
        """Returns after which time a server has flushed what it acknowledged; 0 if it flushes first."""
        interval = _INTERVAL.fullmatch(self.sync_interval)
        return float(interval[1]) * _SECONDS[interval[2]] if interval else 0.0
