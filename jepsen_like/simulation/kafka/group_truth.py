"""The promises to a simulated consumer group, as seen on the wire of its coordinator.

K10 owners: within a generation no two members are given the same partition. Once a generation has begun, which the answer
to a JoinGroup shows, no commit of an earlier one that arrives later is taken, nor one of a member that was removed. By
KIP-848 each member has a generation of its own, its epoch, which the answer to a heartbeat begins.
"""

from collections import Counter
from collections.abc import Callable

import attrs

Term = tuple[int, int]
"""The coordinator of one leadership: its process and its leader epoch."""


@attrs.define(eq=False)
class GroupTruth:
    """One group. `era` counts losses that have an excuse: what was promised before one proves nothing after it."""

    report: Callable[[str], None]
    era: int = 0
    generations: int = 0
    newest: int = -1
    """The highest generation in which a member was given partitions."""
    begun: Counter[Term] = attrs.field(factory=Counter)
    """The highest generation of an answer to a JoinGroup. A coordinator that ends takes one without assignments along."""
    epochs: Counter[str] = attrs.field(factory=Counter)
    """The highest epoch of an answer to each member by KIP-848."""
    gone: set[tuple[Term, str]] = attrs.field(factory=set)
    """The members that a coordinator has removed."""
    owners: dict[int, dict[int, str]] = attrs.field(factory=dict)
    """By generation and partition."""
    committed: Counter[int] = attrs.field(factory=Counter)
    """By partition: the highest offset that was acknowledged."""
    asked: Counter[int] = attrs.field(factory=Counter)
    """By partition: the highest offset that any member has asked to commit."""

    def excuse(self) -> None:
        """The coordinator's log has lost something, and may."""
        self.era += 1
        self.newest = -1
        self.owners.clear()
        self.epochs.clear()
        self.committed.clear()

    def on_assigned(self, generation: int, member: str, partitions: frozenset[int]) -> None:
        """The coordinator answers a SyncGroup. `member` stays the same for a static member."""
        owners = self.owners.setdefault(generation, {})
        for partition in partitions:
            owner = owners.setdefault(partition, member)
            if owner != member:
                self.report(f"gives partition {partition} to {owner} and {member} in generation {generation}")
        self.generations += generation > self.newest
        self.newest = max(self.newest, generation)

    def on_epoch(self, member: str, epoch: int) -> None:
        """The coordinator answers a heartbeat by KIP-848."""
        self.epochs[member] = max(self.epochs[member], epoch)

    def find_refusal(self, term: Term, generation: int, member: str) -> str:
        """Returns the reason why a commit that arrives now is to be refused; nothing if there is none."""
        if (term, member) in self.gone:
            return f"of {member}, which it has removed"
        begun = self.epochs[member] if member in self.epochs else max(self.newest, self.begun[term])
        return f"of generation {generation} after generation {begun} has begun" if generation < begun else ""

    def on_committed(self, refusal: str, partition: int, offset: int) -> None:
        """The coordinator acknowledges a commit that was to be refused for this reason, if for any, as it arrived."""
        if refusal:
            self.report(f"takes a commit {refusal}")
        self.committed[partition] = max(self.committed[partition], offset)

    def on_fetched(self, partition: int, offset: int, acknowledged: int) -> None:
        """A new owner was told where to go on; `acknowledged` is what was committed when it asked."""
        if offset < acknowledged:
            self.report(f"goes on from {offset} in partition {partition}, and {acknowledged} was acknowledged before")
        elif offset > self.asked[partition]:
            self.report(f"goes on from {offset} in partition {partition}, which no member has committed")
