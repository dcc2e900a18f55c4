"""The house checks as tests, so that `pytest` alone covers them; and proof that tidiness sees what it forbids."""

import textwrap
from pathlib import Path

import pytest

from tests.house import tidy
from tests.house.checks import CHECKS, ROOT, pure_modules, settings


@pytest.mark.house
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CHECKS)
def test_the_house_is_in_order(name: str) -> None:
    complaints = CHECKS[name]()
    assert not complaints, "\n".join(complaints)


def test_every_pure_module_exists() -> None:
    missing = [
        module
        for module in pure_modules()
        if not (path := ROOT.joinpath(*module.split("."))).is_dir() and not path.with_suffix(".py").is_file()
    ]
    assert not missing


def test_every_package_ships_its_types() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in tidy.PACKAGES)


def test_every_package_is_in_the_wheel_and_checked() -> None:
    project = settings()["tool"]
    assert set(project["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(tidy.PACKAGES)
    assert set(project["mypy"]["packages"]) >= set(tidy.PACKAGES)


def house(root: Path, **files: str) -> list[str]:
    """The complaints about a small project with one module `raft/rule.py`, or the named files."""
    for name in ("pyproject.toml", "Makefile", ".ci/run", ".gitignore"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path = path.with_suffix(".md" if path.stem.isupper() else ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tidy.complaints(root, ["raft.rule"])


DOC = '"""A rule."""\n'


def test_a_tidy_project_has_no_complaints(tmp_path: Path) -> None:
    files = {
        "raft__rule": DOC + "import random\nrng: random.Random = random.Random(7)\nclass Rule: ...\n",
        "raft__sync": DOC + "class Rule: ...\n",
        "log__rule": DOC + "class Rule: ...\nclass _Rule: ...\n",
        "log__other": DOC + "class _Rule: ...\n",
        "tests__rule": DOC + "class Rule: ...\n",
        "README": "# Title\n",
    }
    assert house(tmp_path, **files) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        pytest.param({"raft__rule": "x = 1\n"}, "states first", id="no docstring"),
        pytest.param(
            {"jepsen_like__checker__rule": DOC + "def f(a, b, c, d, *e, f, **g): ...\n"},
            "7 parameters",
            id="many parameters",
        ),
        pytest.param({"raft__queue": DOC}, "standard library", id="a module named as one of the standard library"),
        pytest.param({"raft__log": DOC}, "package of this project", id="a module named as one of our packages"),
        pytest.param({"raft__rule": DOC + "import pickle\n"}, "can run code", id="pickle"),
        pytest.param({"raft__rule": DOC + "from yaml import load\n"}, "can run code", id="yaml"),
        pytest.param({"raft__rule": DOC + "eval('1')\n"}, "runs what it is given", id="eval"),
        pytest.param(
            {"raft__rule": DOC + "from tests import house\n"}, "tests must not be imported", id="import of tests"
        ),
        pytest.param({"raft__rule": DOC + "import random\nrandom.random()\n"}, "global source", id="chance"),
        pytest.param({"raft__rule": DOC + "from random import choice\n"}, "global source", id="chance by name"),
        pytest.param({"raft__rule": DOC + "import random\nr = random.Random()\n"}, "the machine", id="no seed"),
        pytest.param(
            {"raft__rule": DOC + "class Rule: ...\n", "raft__net__rule": DOC + "class Rule: ...\n"},
            "raft/rule.py:1: class Rule is also in raft/net/rule.py",
            id="a class name in two modules of a package",
        ),
        pytest.param({"README": "# One\n# Two\n"}, "2 titles", id="two titles"),
        pytest.param({"README": "text\n"}, "0 titles", id="no title"),
        pytest.param({"README": "# T\nsee /" + "home/me/x\n"}, "path of one machine", id="machine path"),
        pytest.param({"raft__rule": DOC + "# as the ag" + "ent said\n"}, "outside of the project", id="author"),
    ],
)
def test_tidiness_sees(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    found = house(tmp_path, **files)
    assert len(found) == 1
    assert complaint in found[0]


def test_code_in_a_document_may_hold_comments(tmp_path: Path) -> None:
    assert house(tmp_path, README="# One\n```sh\n# a comment\n```\n") == []
