"""The trials of two topics: how producers send, what consumers do with late messages, and whether the lost cluster comes back."""

from collections.abc import Sequence
from typing import Final

import attrs

from raft.two_topics.receiving import Compensate, DropLate, DropOldEpochs, Policy, Replay
from raft.two_topics.sending import Alternate, Hedge

ATTEMPT_S: Final = 0.3
LATE_S: Final = 1.0
"""A message that is given later than this after it was sent is late, and past the deadline of `DropLate`."""
ALTERNATE: Final = Alternate(attempt_s=ATTEMPT_S, avoid_s=1.0)
HEDGE: Final = Hedge(after_s=0.0)
HEDGE_LATER: Final = Hedge(after_s=0.05)


@attrs.frozen(kw_only=True)
class TwoTopicsTrial:
    """One way to send and to receive. Times in seconds."""

    name: str
    sending: Alternate | Hedge
    receiving: Policy
    comes_back: bool = True

    @property
    def waits_s(self) -> float:
        """The stated RTO: a message waits no longer than this for its second attempt."""
        return self.sending.attempt_s if self.sending.hedge_s is None else self.sending.hedge_s


TRIALS: Final[Sequence[TwoTopicsTrial]] = (
    TwoTopicsTrial(name="alternate, replay", sending=ALTERNATE, receiving=Replay()),
    TwoTopicsTrial(name="alternate, drop by deadline", sending=ALTERNATE, receiving=DropLate(deadline_s=LATE_S)),
    TwoTopicsTrial(name="alternate, drop by epoch", sending=ALTERNATE, receiving=DropOldEpochs()),
    TwoTopicsTrial(name="alternate, compensate", sending=ALTERNATE, receiving=Compensate()),
    TwoTopicsTrial(name="hedge at once, replay", sending=HEDGE, receiving=Replay()),
    TwoTopicsTrial(name="hedge after 50 ms, replay", sending=HEDGE_LATER, receiving=Replay()),
    TwoTopicsTrial(name="alternate, lost for good", sending=ALTERNATE, receiving=Replay(), comes_back=False),
)
