"""The members of the group.

A configuration takes effect when it is appended, not when it is committed (dissertation section 4.1): everything that
counts votes or copies asks the core's current `Configuration`, so that changes of it need no second path.
"""

import attrs

from raft.model import NodeId


def _as_frozenset(ids: object) -> frozenset[NodeId]:
    if not isinstance(ids, set | frozenset | list | tuple):
        raise TypeError("voters must be a collection of node ids")
    return frozenset(ids)


@attrs.frozen
class Configuration:
    """The nodes whose votes and copies count.

    Raises `ValueError` unless there is at least one and all ids are positive.
    """

    voters: frozenset[NodeId] = attrs.field(converter=_as_frozenset)

    def __attrs_post_init__(self) -> None:
        if not self.voters or min(self.voters) < 1:
            raise ValueError("a configuration needs at least one voter, with ids from 1 up")

    def peers(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Returns all other voters, in a fixed order, because the order of a set differs from run to run."""
        return tuple(sorted(self.voters - {node_id}))
