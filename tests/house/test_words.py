"""The ban list sees what it forbids, where it forbids it, and its ratchet only falls."""

from pathlib import Path

import pytest

from tests.house import words

DOC = '"""A rule."""\n'


def found(root: Path, name: str, text: str) -> list[str]:
    """The complaints about a project of one file."""
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
    complaints = [complaint for complaint in found(tmp_path, name, text) if complaint.startswith(f"{name}:{line}: ")]
    assert len(complaints) == 1
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
    assert found(tmp_path, name, text) == []


def test_the_ratchet_only_falls(tmp_path: Path) -> None:
    (tmp_path / words.TABLE).parent.mkdir(parents=True)
    one, two = DOC + "# nobody\n", DOC + "# nobody\n# somebody\n"
    assert len(found(tmp_path, "raft/rule.py", two)) == 3
    words.renew(tmp_path)
    assert words.complaints(tmp_path) == []
    assert "--renew" in found(tmp_path, "raft/rule.py", one)[0]
    words.renew(tmp_path)
    assert len(found(tmp_path, "raft/rule.py", two)) == 3
    with pytest.raises(ValueError, match="replace the new ones"):
        words.renew(tmp_path)


def test_a_file_that_moves_takes_its_words_along(tmp_path: Path) -> None:
    (tmp_path / words.TABLE).parent.mkdir(parents=True)
    found(tmp_path, "raft/rule.py", DOC + "# nobody\n")
    words.renew(tmp_path)
    (tmp_path / "raft" / "net").mkdir()
    (tmp_path / "raft" / "rule.py").rename(tmp_path / "raft" / "net" / "rule.py")
    assert words.complaints(tmp_path) != []
    words.renew(tmp_path)
    assert words.complaints(tmp_path) == []
