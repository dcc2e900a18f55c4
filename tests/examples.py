"""Hypothesis draws few examples in the quick tests and a multiple of them in the campaign (`QUORUMLOG_EXAMPLES`)."""

import os
from typing import Final

TIMES: Final = int(os.environ.get("QUORUMLOG_EXAMPLES", "1"))


def examples(quick: int) -> int:
    """Returns how many examples to draw where the quick tests draw `quick`."""
    return quick * TIMES
