"""The states of both directions decide which mirror may open a link, and which switch may take it."""

import pytest

from jepsen_like.mirror.link import LinkRefused, LinkStage, LinkStatus, check_ownership, opening_epoch, switching_epoch


def status(epoch: int, state: LinkStage, *topics: str) -> LinkStatus:
    return LinkStatus(epoch, state, "someone", topics)


OPEN, SWITCHING, CUT = status(5, LinkStage.OPEN), status(6, LinkStage.SWITCHING), status(6, LinkStage.CUT)


@pytest.mark.parametrize(
    ("own", "other", "epoch"),
    [
        (None, None, 1),
        (OPEN, None, 5),
        (None, CUT, 7),
        (OPEN, status(4, LinkStage.CUT), 5),
        (CUT, status(8, LinkStage.CUT), 9),
    ],
)
def test_a_mirror_opens_a_new_link_goes_on_with_an_open_one_and_takes_turns(
    own: LinkStatus | None, other: LinkStatus | None, epoch: int
) -> None:
    assert opening_epoch("l", own, other) == epoch


@pytest.mark.parametrize(
    ("own", "other", "reason"),
    [
        (SWITCHING, None, "a switch of the link 'l' is under way"),
        (CUT, None, "the link 'l' is cut"),
        (CUT, status(6, LinkStage.CUT), "the link 'l' is cut"),
        (CUT, status(4, LinkStage.CUT), "the link 'l' is cut"),
        (None, OPEN, "records would go in circles"),
        (OPEN, SWITCHING, "records would go in circles"),
    ],
)
def test_a_mirror_is_refused_where_it_could_write_among_others(
    own: LinkStatus | None, other: LinkStatus | None, reason: str
) -> None:
    with pytest.raises(LinkRefused, match=reason):
        opening_epoch("l", own, other)


def test_a_switch_raises_the_epoch_once_and_goes_on_after_an_interruption() -> None:
    assert switching_epoch("l", OPEN) == 6
    assert switching_epoch("l", SWITCHING) == 6
    for own, reason in ((None, "knows no link"), (CUT, "was cut before")):
        with pytest.raises(LinkRefused, match=reason):
            switching_epoch("l", own)


def test_a_topic_has_one_open_link() -> None:
    other = {"other": status(1, LinkStage.OPEN, "a", "b")}
    with pytest.raises(LinkRefused, match="topic b of the source"):
        check_ownership("l", ["b", "c"], other, {})
    with pytest.raises(LinkRefused, match="topic b of the target"):
        check_ownership("l", ["b", "c"], {}, other)
    check_ownership("other", ["b"], {}, other)
    check_ownership("l", ["c"], other, other)
    check_ownership("l", ["b"], {"other": status(2, LinkStage.CUT, "b")}, {})
