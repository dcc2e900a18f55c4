"""A healed clock is proven by what its process reads of it, however late the process gets to that."""

from pathlib import Path

import pytest
import trio

from jepsen_like.cluster.preload import SECOND_NS, FaultPage, Word
from jepsen_like.nemesis.machines import FIRST_WITHIN_S, _await_right_clock


@pytest.mark.parametrize(
    ("reads_from_s", "told"),
    [
        pytest.param(0.0, "n2 healed: told a time 1.00 times as fast", id="at once"),
        pytest.param(2.0, "n2 healed: told a time 1.00 times as fast", id="once it gets the processor"),
        pytest.param(2 * FIRST_WITHIN_S, "n2 healed: did not ask the time", id="too late"),
    ],
)
async def test_a_process_that_reads_its_clock_is_asked_what_it_read(
    reads_from_s: float, told: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    page, found = FaultPage(tmp_path / "page", tmp_path), dict[str, str]()

    async def read_clock() -> None:
        await trio.sleep(reads_from_s)
        while True:
            page[Word.MONOTONIC_REAL_NS] = round(trio.current_time() * SECOND_NS) + 7 * SECOND_NS
            page[Word.MONOTONIC_OWN_NS] = page[Word.MONOTONIC_REAL_NS] + 3 * SECOND_NS
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_clock)
        await _await_right_clock(2, page, found)
        nursery.cancel_scope.cancel()
    page.remove()
    assert found == {"clock of 2": told}
