"""Reads the members of a raft group from RocketMQ's properties: `dLegerPeers`, `dLegerSelfId`, `dLegerGroup`. Pure.

A peer's address is the broker's own address: clients and the group share a port, which RocketMQ's do not.
"""

from collections.abc import Mapping
from typing import Final, Self

import attrs

from raft.addresses import address_of, is_address
from rocketmq_compat.config import InvalidProperty, Properties

PEERS_MAX: Final = 99
Address = tuple[str, int]


@attrs.frozen
class GroupMembers:
    """One broker's view of its group. Nodes are numbered from 1 in the order of their ids, on every broker alike."""

    group: str
    node_id: int
    addresses: Mapping[int, Address]
    """Of all nodes, this one included."""
    joins: bool = False
    """True if the group began without this broker."""

    @classmethod
    def of(cls, properties: Properties) -> Self | None:
        """Returns the members, or None if `enableDLegerCommitLog` is false.

        Raises `InvalidProperty` for properties that name no valid group.
        """
        if not properties.flag("enableDLegerCommitLog"):
            return None
        addresses: dict[str, Address] = {}
        for peer in (properties.text("dLegerPeers") or "").split(";"):
            if not peer.strip():
                continue
            name, dash, address = peer.strip().partition("-")
            if not name or not dash or not is_address(address):
                raise InvalidProperty(
                    "dLegerPeers", f"dLegerPeers: {peer.strip()[:100]} is not of the form n0-HOST:PORT."
                )
            if name in addresses:
                raise InvalidProperty("dLegerPeers", f"dLegerPeers: {name} is there twice.")
            addresses[name] = address_of(address)
        own = properties.text("dLegerSelfId")
        if own not in addresses or len(addresses) > PEERS_MAX:
            known = ", ".join(sorted(addresses)) or "none"
            raise InvalidProperty("dLegerSelfId", f"dLegerSelfId={own} is none of dLegerPeers: {known[:200]}.")
        numbers = {name: number for number, name in enumerate(sorted(addresses, key=lambda name: (len(name), name)), 1)}
        group = properties.text("dLegerGroup") or properties.words("brokerName")
        return cls(group, numbers[own], {numbers[name]: address for name, address in addresses.items()})
