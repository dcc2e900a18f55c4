"""The file of `--command-config`: properties named as the options of the system's own tools."""

from collections.abc import Collection, Mapping

from jepsen_like.operate.access import UnusableAccess, read_properties
from jepsen_like.port.port import RunningCluster, WrongMode
from raft.net.certificates import Certificates, TlsFiles, UnusableFiles

SWITCHES = {"true": True, "false": False}


def wrong_file(reason: object) -> WrongMode:
    """Returns the error of a file that cannot be used."""
    return WrongMode(f"--command-config: {reason}")


def properties_of(target: RunningCluster, known: Collection[str]) -> Mapping[str, str]:
    """Returns what the file of a target gives; nothing without a file. Raises `WrongMode` for a name that is not known."""
    if target.properties is None:
        return {}
    try:
        found = read_properties(target.properties.read_text())
    except (OSError, UnicodeDecodeError, UnusableAccess) as error:
        raise wrong_file(getattr(error, "strerror", None) or error) from None
    for name in found:
        if name not in known:
            raise wrong_file(f"{name} is not known here; there are {', '.join(known)}")
    return found


def switch_in(properties: Mapping[str, str], name: str) -> bool:
    """Returns a switch; False without it. Raises `WrongMode`."""
    value = properties.get(name, "false")
    if value not in SWITCHES:
        raise wrong_file(f"{name} is true or false, not {value!r}")
    return SWITCHES[value]


def certificates_of(files: TlsFiles) -> Certificates:
    """Returns the files as they are read. Raises `WrongMode`."""
    try:
        return Certificates(files)
    except UnusableFiles as error:
        raise wrong_file(error) from None
