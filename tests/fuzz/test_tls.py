"""A short run of the fuzzer of TLS; `python -m tests.fuzz.tls` is the long one."""

import pytest

from tests.fuzz.tls import SYSTEMS, fuzz


@pytest.mark.cluster
@pytest.mark.parametrize(
    "system", ["raft", *(pytest.param(name, marks=pytest.mark.campaign) for name in SYSTEMS if name != "raft")]
)
def test_fuzzed_tls_ends_its_own_connection_and_nothing_else(system: str) -> None:
    found = fuzz(records=300 if system == "raft" else 2_000, seed=20, systems=(system,))[system]
    assert found["sent"]["close_notify"] > 10
    assert len(found["sent"]) == 11
