"""Members: the nodes of a group as one of them knows them, checked before anything is touched.

Addresses may change between starts, the ids of the members may not (`raft.directory`).
"""

from collections.abc import Mapping
from typing import Self

import attrs

from raft.addresses import Address, address_of, can_be_dialled
from raft.client_codec import NODE_ID_MAX
from raft.model import NodeId


@attrs.frozen
class Members:
    """The members of a group, from the point of view of `own`."""

    own: NodeId
    dialled: Mapping[NodeId, Address]
    """The address at which this node dials each member; its own included."""
    for_clients: Mapping[NodeId, str]
    """The address at which clients reach each member: where it is dialled, unless another one is advertised."""

    @classmethod
    def of(
        cls,
        node_id: int,
        members: Mapping[int, Address | str],
        *,
        listen: Address | str | None = None,
        advertised: Mapping[int, str] | None = None,
    ) -> Self:
        """Returns the members, as `RaftGroup.open` takes them.

        Raises `ValueError` for ids or addresses that are none, and for nodes that would be taken for each other.
        """
        if node_id not in members:
            raise ValueError(f"node {node_id} is not among the members {sorted(members)}")
        if min(members) < 1 or max(members) > NODE_ID_MAX:
            raise ValueError(f"the ids of nodes are 1 to {NODE_ID_MAX}, not {sorted(members)}")
        advertised = advertised or {}
        _require_apart("members", members)
        _require_apart("advertised", advertised)
        if unknown := sorted(advertised.keys() - members.keys()):
            raise ValueError(f"node {unknown[0]} is advertised, and not among the members {sorted(members)}")
        for member, place in members.items():
            if listen is not None and member != node_id and address_of(place) == address_of(listen):
                raise ValueError(f"node {node_id} is to listen where node {member} is, at {address_of(listen)}")
        dialled = {NodeId(member): address_of(place) for member, place in members.items()}
        reached = {member: f"{host}:{port}" for member, (host, port) in dialled.items()}
        return cls(NodeId(node_id), dialled, reached | {NodeId(member): at for member, at in advertised.items()})

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """The ids of all members, in order."""
        return tuple(sorted(self.dialled))

    @property
    def peers(self) -> dict[NodeId, Address]:
        """The other members, and the addresses at which this node dials them."""
        return {member: address for member, address in self.dialled.items() if member != self.own}

    def told_address(self, configured: Mapping[NodeId, str]) -> str:
        """Returns the address at which others dial this node, as it tells them; empty if it knows none.

        That of the configuration comes before that of its settings.
        """
        host, port = self.dialled[self.own]
        address = configured.get(self.own, f"{host}:{port}")
        return address if can_be_dialled(address) else ""


def _require_apart(what: str, given: Mapping[int, Address | str]) -> None:
    """Two nodes at one address would be dialled as one, and never form a majority of two."""
    at: dict[Address, int] = {}
    for member, place in sorted(given.items()):
        host, port = address = address_of(place)
        if port and at.setdefault(address, member) != member:
            raise ValueError(f"{what} has nodes {at[address]} and {member} at one address, {host}:{port}")
