"""The measures of prose see a page that is hard to read, and leave the other documents alone."""

from pathlib import Path

import pytest

from tests.house import prose

EASY = "# T\n\nYou start a node. It serves.\n"
LONG = "# T\n\n" + "The node " + "and its peer " * 9 + "serve.\n"
NEGATIVE = "# T\n\nIt does not serve. It stops. It serves. You wait.\n"


def complaints(root: Path, name: str, text: str) -> list[str]:
    """Returns the complaints about a project of one document."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return prose.complaints(root)


@pytest.mark.parametrize("name", ["README.md", "docs/page.md"])
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(LONG, "30.0 words a sentence", id="long"),
        pytest.param(NEGATIVE, "25% of the sentences", id="negative"),
    ],
)
def test_a_page_that_is_hard_to_read_is_named(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (found,) = complaints(tmp_path, name, text)
    assert found.startswith(f"{name}: ")
    assert complaint in found


def test_a_page_that_is_easy_to_read_is_left_alone(tmp_path: Path) -> None:
    assert complaints(tmp_path, "docs/page.md", EASY) == []


def test_documents_for_contributors_are_left_alone(tmp_path: Path) -> None:
    assert complaints(tmp_path, "CONTRIBUTING.md", LONG) == []
