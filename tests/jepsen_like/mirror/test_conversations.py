"""Every script under scripts/ still gets the answers that were reviewed."""

from pathlib import Path

import pytest

from tests.jepsen_like.mirror.conversation import SCRIPTS, renew


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_conversation_goes_as_reviewed(path: Path) -> None:
    script = path.read_text()
    assert renew(script) == script


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_script_begins_with_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")
