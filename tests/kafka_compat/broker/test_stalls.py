"""Brokers whose processes stall for a while: a broker is fenced only after the configured session.

`python -m tests.kafka_compat.broker.test_stalls` stalls each process for 0.1 to 2 s, again and again, and prints the
proposals.
"""

import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.kafka_compat.broker.watched import watch


@pytest.mark.campaign
@pytest.mark.cluster
def test_a_stall_that_is_shorter_than_the_session_fences_nobody(tmp_path: Path) -> None:
    with watch(tmp_path) as brokers:
        for number in brokers.processes:
            brokers.stall(0.45, number)
        for _ in range(4):  # too short for an election, and longer than a heartbeat's interval
            brokers.stall(0.35, brokers.controller())
        assert brokers.fences() == []
        assert brokers.kill(1).endswith("its connection has ended"), "known at once, without waiting for the session"


@pytest.mark.cluster
def test_a_machine_that_stands_still_longer_than_a_session_fences_nobody(tmp_path: Path) -> None:
    """Every process stalls at once, as on a machine that was suspended: no controller counts its own silence."""
    with watch(tmp_path, {"broker.session.timeout.ms": 2000}) as brokers:
        brokers.stall(3.5, *brokers.processes)
        assert brokers.fences() == []
        brokers.kill(1)
        assert all(fields["reason"].startswith("broker 1: ") for fields in brokers.fences()), brokers.fences()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, watch(Path(directory)) as brokers:
        for _ in range(10):
            brokers.stall(0.4, brokers.controller())
            time.sleep(0.3)
        sys.stdout.write(f"10 stalls of the controller of 0.4 s: {len(brokers.fences())} fences proposed\n")
        for tenths in (1, 3, 4.5, 6, 8, 10, 15, 20):
            for number in brokers.processes:
                brokers.stall(tenths / 10, number)
                time.sleep(0.3)
        sys.stdout.write(f"24 stalls of 0.1 to 2 s: {len(brokers.fences())} fences proposed {brokers.fences()}\n")
        sys.stdout.write(
            f"controllers: {len([each for each in brokers.select('controller') if each['role'] == 'leader'])}\n"
        )


if __name__ == "__main__":
    main()
