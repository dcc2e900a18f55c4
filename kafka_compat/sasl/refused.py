"""The error of a failed exchange: one reason for the log of this side, and one for the other."""

import attrs

from raft.trust import Untrusted

REFUSAL = "Authentication failed"


@attrs.define
class SaslRefused(Untrusted):
    """The exchange has failed. `detail` is for the log, `told` for the client."""

    told: str = REFUSAL
