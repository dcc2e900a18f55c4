"""Every script under scripts/ still gets the answers that were reviewed, and explains its steps."""

import re
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


def test_the_scripts_that_the_guide_names_exist() -> None:
    named = re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+){4,})`", (SCRIPTS / "README.md").read_text())
    assert len(named) > COMMENTS_MIN
    assert [name for name in named if not (SCRIPTS / f"{name}.txt").is_file()] == []


def test_comments_and_blank_lines_stay() -> None:
    commented = "# What it shows.\n> nodes 1\n\n# Why.\n> show\n"
    assert renew(f"{commented}an old answer\n") == f"{commented}n1@0 follower() last=0@0 durable=0 commit=0\n"
