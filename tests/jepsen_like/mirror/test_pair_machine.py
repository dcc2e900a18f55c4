"""Two clusters with a mirror that dies, returns and turns around: each record once and in order, and no consumer skips one."""

import itertools
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import integers, sampled_from

from jepsen_like.mirror.kept import KeptLink, map_of
from jepsen_like.mirror.link import LinkRefused
from tests.jepsen_like.mirror.pair import AT, ModelCluster, ModelMirror, cut_model, open_model, write_values


class PairMachine(RuleBasedStateMachine):
    """Clients write to the primary. One mirror at a time copies to the standby; a switch makes that the primary."""

    def __init__(self) -> None:
        super().__init__()
        self.primary, self.standby = ModelCluster(), ModelCluster()
        self.values = itertools.count()
        self.mirror: ModelMirror | None = None
        self.rng = random.Random(0)

    @rule(count=integers(1, 12), seed=integers(0, 9))
    def write(self, count: int, seed: int) -> None:
        self.rng.seed(seed)
        write_values(self.primary, self.values, self.rng, count)

    @rule()
    def start(self) -> None:
        if self.mirror is not None:
            self.mirror.die()
        self.mirror = open_model(self.primary, self.standby, "m")

    @precondition(lambda self: self.mirror is not None)
    @rule(count=integers(1, 20))
    def fetch(self, count: int) -> None:
        assert self.mirror is not None
        self.mirror.fetch(count)

    @precondition(lambda self: self.mirror is not None)
    @rule(times=integers(1, 4))
    def carry_out(self, times: int) -> None:
        assert self.mirror is not None
        for _ in range(times):
            self.mirror.carry_out()

    @precondition(lambda self: self.mirror is not None)
    @rule(share=sampled_from([0, 1, 2, 3, 4]))
    def consume(self, share: int) -> None:
        assert self.mirror is not None
        self.primary.position = max(self.primary.position, len(self.primary.log) * share // 4)
        self.mirror.read_group()

    @rule()
    def compact_links(self) -> None:
        self.primary.compact_links()
        self.standby.compact_links()

    @precondition(lambda self: self.mirror is not None)
    @rule()
    def switch(self) -> None:
        """Copy the tail, cut the link, and write to the other side from now on. An old mirror is refused."""
        assert self.mirror is not None
        self.mirror.die()
        mirror = open_model(self.primary, self.standby, "switch")
        while not mirror.core.is_caught_up():
            mirror.fetch(50)
            mirror.read_group()
            while mirror.orders:
                mirror.carry_out()
        assert self.standby.visible() == self.primary.visible()
        cut_model(self.standby)
        with pytest.raises(LinkRefused, match="is cut"):
            open_model(self.primary, self.standby, "old")
        self.primary, self.standby = self.standby, self.primary
        self.mirror = None

    @invariant()
    def copies_are_a_prefix(self) -> None:
        copied = self.standby.visible()
        assert copied == self.primary.visible()[: len(copied)]

    @invariant()
    def no_translation_skips(self) -> None:
        own, other = self.standby.read_links(), self.primary.read_links()
        if AT not in own.points:
            return
        known = map_of(AT, own, other)
        copied = set(self.standby.visible())
        for offset in range(len(self.primary.log) + 1):
            place = known.translate(offset)
            behind = {value for value in self.primary.visible(offset) if value in copied}
            assert behind <= set(self.standby.visible(place)), (offset, place)

    @invariant()
    def the_group_skips_nothing(self) -> None:
        """Whatever the group of the primary has not read stands behind its position in the standby."""
        if self.mirror is None or self.mirror.orders or not self.mirror.knows_group:
            return
        copied = set(self.standby.visible())
        unread = {value for value in self.primary.visible(self.primary.position) if value in copied}
        assert unread <= set(self.standby.visible(self.standby.position))


def test_two_clusters_and_a_link() -> None:
    run_state_machine_as_test(
        PairMachine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_position_that_was_copied_is_exact() -> None:
    primary, standby = ModelCluster(), ModelCluster()
    write_values(primary, itertools.count(), random.Random(1), 100)
    mirror = open_model(primary, standby, "m")
    while not mirror.core.is_caught_up():
        mirror.fetch(7)
        while mirror.orders:
            mirror.carry_out()
    known = map_of(AT, standby.read_links(), KeptLink())
    for offset, value in enumerate(primary.log):
        if value is not None:
            assert standby.log[known.translate(offset)] == value


def test_a_link_turns_only_by_way_of_a_cut() -> None:
    primary, standby = ModelCluster(), ModelCluster()
    open_model(primary, standby, "m")
    with pytest.raises(LinkRefused, match="itself the target"):
        open_model(standby, primary, "back")
    cut_model(standby)
    with pytest.raises(LinkRefused, match="is cut"):
        open_model(primary, standby, "m")
    assert open_model(standby, primary, "back").core.epoch == 3
    with pytest.raises(LinkRefused, match="itself the target"):
        open_model(primary, standby, "m")
    cut_model(primary)
    with pytest.raises(LinkRefused, match="is cut"):
        open_model(standby, primary, "back")
    assert open_model(primary, standby, "m").core.epoch == 5
