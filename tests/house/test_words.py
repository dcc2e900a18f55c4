"""The ban list sees what it forbids, where it forbids it, and nothing else."""

from pathlib import Path

import pytest

from tests.house import words

DOC = '"""A rule."""\n'


def find_complaints(root: Path, name: str, text: str) -> list[str]:
    """Returns the complaints about a project of one file."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return words.complaints(root)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        pytest.param("raft/rule.py", DOC + "x = 1  # nobody asked\n", 2, id="comment"),
        pytest.param("raft/rule.py", '"""A rule.\n\nIt hears all.\n"""\n', 3, id="docstring"),
        pytest.param("raft/rule.py", DOC + 'x = 1\n"""Kept for ever."""\n', 3, id="docstring of an attribute"),
        pytest.param("raft/rule.py", DOC + 'raise ValueError(f"{1} lies beside it")\n', 2, id="error text"),
        pytest.param("raft/rule.py", DOC + 'assert True, "it begins anew"\n', 2, id="text of an assertion"),
        pytest.param("raft/rule.py", DOC + 'e = UsageError("it says no")\n', 2, id="error that is made"),
        pytest.param("README.md", "# T\n\nThe Reign.\n", 3, id="document"),
        pytest.param("tests/raft/scripts/a.txt", "> nodes 3\n# It hears nothing.\n", 2, id="golden script"),
        pytest.param("docs/page.md", "# T\n`code`, told of it\n", 2, id="page of docs"),
    ],
)
def test_a_planted_word_is_seen(tmp_path: Path, name: str, text: str, line: int) -> None:
    complaints = find_complaints(tmp_path, name, text)
    assert len(complaints) == 1
    assert complaints[0].startswith(f"{name}:{line}: ")
    assert "; write: " in complaints[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "raft/rule.py", DOC + 'x = "nobody"\nheard_at = 1  # `heard_at` is a time, besides\n', id="source"
        ),
        pytest.param(
            "README.md", "# T\nThe column `beside`.\n<!-- printed: x -->\nbeside\n<!-- end -->\n", id="document"
        ),
    ],
)
def test_what_is_no_prose_is_left_alone(tmp_path: Path, name: str, text: str) -> None:
    assert find_complaints(tmp_path, name, text) == []


def test_every_place_is_a_complaint(tmp_path: Path) -> None:
    find_complaints(tmp_path, "README.md", "# T\nbeside\n")
    complaints = find_complaints(tmp_path, "raft/rule.py", DOC + "# nobody, somebody\n# nobody\n")
    assert [complaint.partition("; ")[0] for complaint in complaints] == [
        "README.md:2: 'beside'",
        "raft/rule.py:2: 'nobody'",
        "raft/rule.py:2: 'somebody'",
        "raft/rule.py:3: 'nobody'",
    ]
