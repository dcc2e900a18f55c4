"""Every script under scripts/ still gets the answers that were reviewed, and explains its steps."""

from pathlib import Path

import pytest

from tests.rocketmq_compat.replication.conversation import SCRIPTS, renew

PATHS = sorted(SCRIPTS.glob("*.txt"))
COMMENTS_MIN = 3
SHORT_LINES = 30


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_conversation_goes_as_reviewed(path: Path) -> None:
    script = path.read_text()
    assert renew(script) == script


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_script_explains_its_steps(path: Path) -> None:
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[0] == comments[0], "a script begins with what it shows"
    assert len(comments) >= COMMENTS_MIN or len(lines) <= SHORT_LINES


def test_comments_and_blank_lines_stay() -> None:
    commented = "# What it shows.\n> start 0\n\n# Why.\n> show\n"
    alone = "b1 master e1 log=[0,0) confirm=0 epochs=1@0\n"
    assert renew(f"{commented}an old answer\n") == commented.replace("\n\n", f"\n{alone}\n") + alone
