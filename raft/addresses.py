"""The address of a node: a host and a port, as a pair or as people write it, HOST:PORT."""

import ipaddress
from typing import TypeGuard

Address = tuple[str, int]
PORT_MAX = 65535


def is_address(value: object) -> TypeGuard[str]:
    """Returns whether `value` is a text of the form HOST:PORT."""
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return host != "" and port.isascii() and port.isdigit() and 1 <= int(port) <= PORT_MAX


def is_loopback(address: Address) -> bool:
    """Returns True if only this machine can reach `address`. Of names, this is believed of `localhost` alone."""
    host, _ = address
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def can_be_dialled(value: str) -> bool:
    """Returns True if others may reach `value`, HOST:PORT; none does that stands for all hosts of its own machine."""
    if not is_address(value):
        return False
    host, _ = address_of(value)
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return True


def address_of(value: object) -> Address:
    """Returns the host and the port of `value`, which is such a pair or HOST:PORT.

    Raises `ValueError` for anything else.
    """
    match value:
        case (str(host), int(port)) if host and 0 <= port <= PORT_MAX:
            return host, port
        case str() if is_address(value):
            host, _, digits = value.rpartition(":")
            return host.strip("[]"), int(digits)
        case _:
            raise ValueError(f"not an address: {value!r}; give (host, port) or HOST:PORT")
