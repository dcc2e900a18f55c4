"""The facts about RocketMQ brokers that others run, and the size of the run's own topic."""

from collections.abc import Sequence
from typing import Final

import attrs

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.apache_rocketmq.mode import CONTROLLER_RULES, RULES, VERSION, ApacheRocketMode
from jepsen_like.systems.rocketmq.division import PAIRS_MAX
from jepsen_like.systems.rocketmq.mode import PAIRS, QUEUES

KNOWN: Final = (QUEUES, PAIRS, *RULES, *CONTROLLER_RULES)


@attrs.frozen
class RocketTargetMode(ApacheRocketMode):
    """See `ApacheRocketMode`; brokers are left as they are, and stand in groups of one size."""

    @classmethod
    def of(cls, words: Sequence[str], replication: str) -> "RocketTargetMode":
        """Raises `WrongMode` for a setting that is the owner's, and for a value that it cannot have."""
        pairs, others = 1, []
        for word in words:
            name, _, value = (part.strip() for part in word.partition("="))
            if name not in KNOWN:
                raise WrongMode(
                    f"--set: {name} is not the run's to set on a cluster that runs already; there are {', '.join(KNOWN)}"
                )
            if name != PAIRS:
                others.append(word)
            elif value.isdecimal() and 1 <= int(value) <= PAIRS_MAX:
                pairs = int(value)
            else:
                raise WrongMode(f"--set: {PAIRS} takes a number from 1 to {PAIRS_MAX}, not {value!r}")
        mode = super().of(others, replication)
        facts = {name: value for name, value in mode.settings.items() if name != VERSION}
        return cls(mode.replication, {**facts, PAIRS: pairs})

    @property
    def copies_agree(self) -> bool:
        """False: queues are read of masters alone, since slaves show theirs only where their owner has said so."""
        return False
