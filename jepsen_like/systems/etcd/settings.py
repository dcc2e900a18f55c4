"""The settings of an etcd cluster, as `--set` takes them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.archives.catalogue import ETCDS

_INTERVAL: Final = re.compile(r"\d{1,4}(us|ms|s)")
SWITCHES: Final = {"true": True, "false": False, "True": True, "False": False}


@attrs.frozen(kw_only=True)
class EtcdSettings:
    """The settings of every member."""

    version: str = ETCDS[0].version
    unsafe_no_fsync: bool = False
    """As the flag `--unsafe-no-fsync`: nothing is flushed."""
    backend_batch_interval: str = ""
    """As the flag `--backend-batch-interval`: how often the database is committed; empty: etcd's own."""

    @classmethod
    def of(cls, words: Sequence[str]) -> "EtcdSettings":
        """From `name=value`. Raises `WrongMode`."""
        given = dict(word.partition("=")[::2] for word in words)
        names = [field.name for field in attrs.fields(cls)]
        for name in given:
            if name not in names:
                raise WrongMode(f"--set: no {name!r} in etcd; there are {', '.join(names)}")
        return cls.of_json(given)

    @classmethod
    def of_json(cls, shown: Mapping[str, Any]) -> "EtcdSettings":
        """From the settings of a test.json. Raises `WrongMode`."""
        version, unsafe = str(shown.get("version", ETCDS[0].version)), str(shown.get("unsafe_no_fsync", False))
        interval = str(shown.get("backend_batch_interval", ""))
        versions = [each.version for each in ETCDS]
        if version not in versions:
            raise WrongMode(f"--set: no version {version!r} of etcd; there are {', '.join(versions)}")
        if unsafe not in SWITCHES:
            raise WrongMode(f"--set: unsafe_no_fsync is true or false, not {unsafe!r}")
        if interval and not _INTERVAL.fullmatch(interval):
            raise WrongMode(f"--set: backend_batch_interval is a time like 100us or 2s, not {interval!r}")
        return cls(version=version, unsafe_no_fsync=SWITCHES[unsafe], backend_batch_interval=interval)
