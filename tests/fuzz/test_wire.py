"""A short run of the wire fuzzer; `python -m tests.fuzz.wire` is the long one."""

import pytest

from tests.fuzz.wire import fuzz


@pytest.mark.cluster
def test_damaged_frames_end_their_own_connection_and_nothing_else() -> None:
    outcome = fuzz(frames=1_200, seed=20)
    assert outcome["fates"]["refused"] > 400
