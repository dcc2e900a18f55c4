"""Claims settle alike for every reader, and the progress of a queue follows from its messages."""

from jepsen_like.mirror.link import LinkStage, LinkStatus
from jepsen_like.mirror.rocketmq.origin import (
    ORIGIN,
    LinkClaim,
    Origin,
    decode_claim,
    encode_claim,
    find_progress,
    origin_of,
    settle_claims,
)

OPEN, SWITCHING, CUT = LinkStage.OPEN, LinkStage.SWITCHING, LinkStage.CUT


def claim(epoch: int, state: LinkStage, holder: str = "m", **ends: int) -> LinkClaim:
    return LinkClaim(LinkStatus(epoch, state, holder, ("t",)), ends)


def settle(*claims: LinkClaim) -> LinkClaim:
    held = settle_claims(claims)
    assert held is not None
    return held


def copy_of(offset: int, epoch: int = 1, link: str = "l") -> dict[str, str]:
    return {ORIGIN: Origin(link, epoch, offset, 5).text()}


def test_a_claim_is_read_as_it_was_written_and_only_by_its_link() -> None:
    written = claim(3, OPEN, a=7)
    assert decode_claim(encode_claim("l", written), "l") == written
    assert decode_claim(encode_claim("l", written), "other") is None


def test_within_an_open_epoch_the_newest_mirror_holds_the_link_and_keeps_what_the_first_found() -> None:
    assert settle(claim(1, OPEN, "m", a=7), claim(1, OPEN, "n")) == claim(1, OPEN, "n", a=7)


def test_an_old_mirror_changes_nothing_once_a_switch_has_begun_or_ended() -> None:
    switching, cut = claim(2, SWITCHING, "s"), claim(2, CUT, "s")
    assert settle(claim(1, OPEN), switching, claim(1, OPEN, "old")) == switching
    assert settle(claim(1, OPEN), switching, claim(2, OPEN, "old")) == switching
    assert settle(claim(1, OPEN), switching, cut, claim(1, OPEN, "old"), claim(2, OPEN, "old")) == cut


def test_only_the_switch_that_holds_the_link_ends_itself() -> None:
    other = claim(2, SWITCHING, "other")
    assert settle(claim(1, OPEN), claim(2, SWITCHING, "s"), other, claim(2, CUT, "s")) == other
    assert settle(claim(1, OPEN), claim(2, SWITCHING, "s"), claim(3, OPEN, "s")) == claim(3, OPEN, "s")
    assert settle(claim(1, OPEN), claim(2, CUT, "s")) == claim(1, OPEN)


def test_an_origin_of_another_link_or_of_strange_words_is_none() -> None:
    assert origin_of(copy_of(7), "l") == Origin("l", 1, 7, 5)
    assert origin_of(copy_of(7, link="other"), "l") is None
    assert origin_of({ORIGIN: "1 x 5 l"}, "l") is None
    assert origin_of({}, "l") is None


def test_the_newest_copy_tells_how_far_a_queue_is_and_copies_that_came_twice_count_once() -> None:
    at_target = [(0, copy_of(10)), (1, copy_of(11)), (2, copy_of(11)), (3, {}), (4, copy_of(12))]
    progress = find_progress("l", at_target, [], floor=0)
    assert progress.position == 13
    assert [progress.map.translate(offset) for offset in (10, 11, 12, 13)] == [0, 1, 4, 5]


def test_messages_that_came_from_the_target_are_in_the_map_and_a_floor_settles_what_is_below_it() -> None:
    progress = find_progress("l", [(0, {}), (1, {})], [(5, copy_of(0)), (6, copy_of(1))], floor=7)
    assert progress.position == 7
    assert progress.map.translate(6) == 1
