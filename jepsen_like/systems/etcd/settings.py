"""The settings of an etcd cluster, as `--set` takes them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.archives.catalogue import ETCDS

SWITCHES: Final = {"true": True, "false": False, "True": True, "False": False}


@attrs.frozen(kw_only=True)
class EtcdSettings:
    """The settings of every member."""

    version: str = ETCDS[0].version
    unsafe_no_fsync: bool = False
    """As the flag `--unsafe-no-fsync`: nothing is flushed."""

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
        versions = [each.version for each in ETCDS]
        if version not in versions:
            raise WrongMode(f"--set: no version {version!r} of etcd; there are {', '.join(versions)}")
        if unsafe not in SWITCHES:
            raise WrongMode(f"--set: unsafe_no_fsync is true or false, not {unsafe!r}")
        return cls(version=version, unsafe_no_fsync=SWITCHES[unsafe])
