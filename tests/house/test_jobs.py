"""The rule about jobs counts the attributes of classes, and its list of exceptions only shrinks."""

import textwrap
from pathlib import Path

import pytest

from tests.house import jobs

FIELDS = "\n".join(f"    field_{number}: int" for number in range(16))
WIDE = f"class Wide:\n{FIELDS}\n"


def find_complaints(root: Path, code: str, allowed: dict[str, int] | None = None) -> list[str]:
    """Returns the complaints about a project of one module."""
    (root / "raft").mkdir(exist_ok=True)
    (root / "raft" / "rule.py").write_text(textwrap.dedent(code))
    return jobs.complaints(root, allowed or {})


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(WIDE, id="fields"),
        pytest.param(
            "class Wide:\n    def __init__(self):\n"
            + "\n".join(f"        self.field_{number} = 0" for number in range(15))
            + "\n    async def run(this):\n        this.more, this.field_1 = 1, 2\n",
            id="attributes of methods",
        ),
    ],
)
def test_a_class_with_too_many_attributes_is_seen(tmp_path: Path, code: str) -> None:
    assert find_complaints(tmp_path, code) == [
        "raft.Wide has 16 attributes, and may have 15; find the second job in it"
    ]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(WIDE.replace("field_0: int", "field_0: ClassVar[int]"), id="constant of the class"),
        pytest.param(WIDE.replace("    field_0: int", "    field_0 = 1"), id="member of an enum"),
        pytest.param("class Other(Wide):\n    def f(self, one): one.x = self.x\n", id="attribute of another object"),
        pytest.param(
            f"{WIDE.replace('    field_0: int', '')}    @classmethod\n    def f(cls): cls.x = 1\n", id="class"
        ),
    ],
)
def test_what_is_no_attribute_does_not_count(tmp_path: Path, code: str) -> None:
    assert find_complaints(tmp_path, code) == []


def test_the_list_only_shrinks(tmp_path: Path) -> None:
    assert find_complaints(tmp_path, WIDE, {"raft.Wide": 16}) == []
    assert "may have 16" in find_complaints(tmp_path, f"{WIDE}    more: int\n", {"raft.Wide": 16})[0]
    assert "has 16 attributes now; lower" in find_complaints(tmp_path, WIDE, {"raft.Wide": 17})[0]
    assert "has few attributes now; lower or remove" in find_complaints(tmp_path, "x = 1\n", {"raft.Wide": 16})[0]
