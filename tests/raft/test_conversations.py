"""Every script under scripts/ still gets the answers that were reviewed, and explains its steps."""

from pathlib import Path

import pytest

from tests.raft.conversation import SCRIPTS, renew


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_conversation_goes_as_reviewed(path: Path) -> None:
    script = path.read_text()
    assert renew(script) == script


COMMENTS_MIN = 3
SHORT_LINES = 20


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_script_explains_its_steps(path: Path) -> None:
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[0] == comments[0], "a script begins with what it shows"
    assert len(comments) >= COMMENTS_MIN or len(lines) <= SHORT_LINES


def test_comments_and_blank_lines_stay() -> None:
    commented = "# What it shows.\n> nodes 1\n\n# Why.\n> show\n"
    assert renew(f"{commented}an old answer\n") == f"{commented}n1@0 follower() last=0@0 durable=0 commit=0\n"
