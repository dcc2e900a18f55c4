"""Every script under scripts/ still gets its reviewed answers, and leaves no request without an answer at its end."""

from pathlib import Path

import pytest

from tests.kafka_compat.transactions.conversation import SCRIPTS, Conversation, renew


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_conversation_goes_as_reviewed(path: Path) -> None:
    script = path.read_text()
    assert renew(script) == script


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_script_begins_with_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_nothing_waits_once_leadership_ends(path: Path) -> None:
    """A request is answered once: its token is taken out when it is, and a second answer would not find it."""
    conversation = Conversation()
    for line in path.read_text().splitlines():
        if line.startswith(("> config", "> load")) and not line.startswith("> loaded"):
            conversation.say("resign")
            assert not conversation.clients
        if line.startswith("> "):
            conversation.say(line[2:])
    conversation.say("resign")
    assert not conversation.clients
