"""Ports of the loopback interface for nodes that are told theirs before they start."""

import itertools

from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts

_RESERVED = ReservedPorts(64)
"""Kept until the tests end; more than any one of them needs."""
_PORTS = itertools.cycle(_RESERVED.ports)


def free_ports(count: int) -> list[int]:
    """Ports that no other process gets, and on which no test listens now."""
    return list(itertools.islice(_PORTS, count))


def free_addresses(count: int) -> list[tuple[str, int]]:
    """Addresses with such ports."""
    return [(LOOPBACK, port) for port in free_ports(count)]
