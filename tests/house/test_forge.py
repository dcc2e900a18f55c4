"""The files for a forge agree with the project: Python versions, commands, and the version that the citation names."""

import re
from pathlib import Path

import pytest

from jepsen_like.cli import COMMANDS
from tests import pythons
from tests.house.checks import ROOT, settings

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TESTS = ROOT / ".github" / "workflows" / "test.yml"


def read_versions() -> list[str]:
    """Returns the versions of Python in the classifiers, in their order."""
    classifiers = settings()["project"]["classifiers"]
    return re.findall(r"Python :: (\d+\.\d+)", "\n".join(classifiers))


def test_the_workflow_runs_every_version_of_the_classifiers() -> None:
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", TESTS.read_text(), re.MULTILINE)
    assert re.findall(r'"([\d.]+)"', matrix) == read_versions()


def test_make_pythons_runs_every_version_of_the_classifiers() -> None:
    assert list(pythons.VERSIONS) == read_versions()


def test_the_oldest_version_is_the_one_that_an_installation_requires() -> None:
    assert settings()["project"]["requires-python"] == f">={read_versions()[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_commands_of_this_repository(path: Path) -> None:
    targets = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"^ +- run: (.+)$", path.read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        program, *arguments = command.split()
        assert (ROOT / program).is_file() or (program == "make" and set(arguments) <= targets), command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_the_major_version_of_each_action_and_only_reads(path: Path) -> None:
    text = path.read_text()
    actions = re.findall(r"uses: (\S+)", text)
    assert [action for action in actions if not re.fullmatch(r"actions/[\w-]+@v\d+", action)] == []
    assert re.findall(r"^permissions:\n((?:  .+\n)+)", text, re.MULTILINE) == ["  contents: read\n"]


def test_the_citation_is_of_this_version() -> None:
    cited = dict(re.findall(r"^(\w+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    project = settings()["project"]
    assert (cited["title"], cited["version"], cited["license"]) == (
        project["name"],
        project["version"],
        project["license"],
    )
    keywords = re.findall(r"^  - (?!name:)(.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert keywords == project["keywords"]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_an_issue_form_names_commands_that_exist(name: str) -> None:
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()
    assert set(re.findall(r"`quorumlog ([a-z]+)", form)) <= set(COMMANDS)
