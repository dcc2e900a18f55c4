"""A user finds what the faces list, documents use nothing else, and importing a face is quick and needs no extra."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen_like.cluster.ports import ReservedPorts
from tests.house import faces
from tests.house.checks import ROOT
from tests.house.faces import FACES, LAZY, LIST, PACKAGES

PYTHON_BLOCK = re.compile(r"^```(?:python|py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
USERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]
HEAVY = ("attrs", "click", "importlib.metadata", "msgpack", "numpy", "pyarrow", "pyspark", "pytest", "trio")
OF_CHECK = ("numpy", "pyarrow", "jinja2", "pyspark", "pandas", "confluent_kafka")
NEED_CHECK = {"jepsen_like": {"CheckReport", "check_history"}}
"""Names of which even the import needs the extra `check`."""


def run(code: str, **more: str) -> str:
    """Run a program in an interpreter of its own; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_faces_are_as_listed() -> None:
    assert faces.list_faces() == LIST.read_text(), "write the list again and read its diff: python -m tests.house.faces"


@pytest.mark.parametrize("face", FACES)
def test_a_face_explains_itself_and_has_each_of_its_names_once(face: str) -> None:
    module = importlib.import_module(face)
    assert len(module.__all__) == len({*module.__all__})
    assert {*module.__all__} <= {*dir(module)}
    assert module.__doc__


@pytest.mark.parametrize("face", LAZY)
def test_a_lazy_face_gives_what_type_checkers_see(face: str) -> None:
    module = importlib.import_module(face)
    found = {name: place for place, names in module._MODULES.items() for name in names.split()}
    assert found == faces.imports_of(face)
    assert sorted(found) == sorted(module.__all__)
    for name, place in found.items():
        assert getattr(module, name) is getattr(importlib.import_module(place), name)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


def test_the_lazy_faces_share_one_pattern() -> None:
    """Those of the harness can be imported where another `log` has taken the name of ours, so that it can say so."""
    harness = {face for face in LAZY if face.startswith("jepsen_like")}
    for alike in (harness, set(LAZY) - harness):
        assert len({faces.getter_of(face) for face in alike}) == 1


def test_a_name_that_is_not_stated_alike_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faces.complaints() == []
    monkeypatch.setattr(faces, "imports_of", lambda face: {"Client": "raft.group"})
    monkeypatch.setattr(faces, "submodules", lambda face: {"Tail"})
    found = faces.complaints()
    assert "raft: Client differs between the imports for type checkers, `_MODULES` and `__all__`" in found
    assert "raft: the module Tail hides a name" in found


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_documents_and_examples_import_from_faces_only(path: Path) -> None:
    text = path.read_text()
    programs = [text] if path.suffix == ".py" else [block for block in PYTHON_BLOCK.findall(text) if "import" in block]
    for program in programs:
        for module, name in faces.names_used(ast.parse(program)):
            assert module in FACES
            assert name is None or name in importlib.import_module(module).__all__ or f"{module}.{name}" in FACES


@pytest.mark.parametrize("path", [path for path in USERS if path.suffix == ".md"], ids=lambda path: path.name)
def test_documents_name_only_what_is_in_a_face(path: Path) -> None:
    for dotted in DOTTED.findall(path.read_text()):
        face, _, name = dotted.rpartition(".")
        assert dotted in FACES or (face in FACES and name in importlib.import_module(face).__all__), dotted


def test_importing_the_faces_loads_nothing_else() -> None:
    code = f"import sys, {', '.join(LAZY)}; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(code) == "[]\n"


def test_the_pure_ring_runs_without_trio() -> None:
    assert run("import sys, raft.core, raft.codec, raft.results; print('trio' in sys.modules)") == "False\n"


def test_the_base_installation_has_every_name_but_those_of_checks() -> None:
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({OF_CHECK}))
for face in {FACES}:
    module = importlib.import_module(face)
    for name in module.__all__:
        try:
            getattr(module, name)
        except ImportError:
            print(face, name)
"""
    lacking = {(face, name) for face, names in NEED_CHECK.items() for name in names}
    assert {tuple(line.split()) for line in run(code).splitlines()} == lacking


@pytest.mark.cluster
@pytest.mark.parametrize(
    "face", [face for face in FACES if face not in ("raft.aio", "raft.sync", "jepsen_like.testing.aio")]
)
def test_the_program_in_the_docstring_of_a_face_runs(face: str, tmp_path: Path) -> None:
    (code,) = faces.examples_of(face)
    assert {module for module, _ in faces.names_used(ast.parse(code))} == {face}
    named = sorted(set(re.findall(r"\b(?:4001|9092|9876|109\d\d)\b", code)))
    with ReservedPorts(len(named)) as free:
        for port, other in zip(named, free.ports, strict=True):  # the reader's ports may be taken here
            code = code.replace(port, str(other))
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout
