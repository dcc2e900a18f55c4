"""The site of the documents has every page and every package. What needs Sphinx is left to `make docs`."""

import ast
import re
from pathlib import Path

import pytest

from tests.house import tidy
from tests.house.checks import ROOT, settings

CONFIGURATION = ROOT / "docs" / "conf.py"
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK_TO_HEADING = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")


def contents() -> dict[str, list[str]]:
    """Returns the table of contents: captions, and the pages below each."""
    for node in ast.parse(CONFIGURATION.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="CONTENTS")]):
                return {str(caption): pages for caption, pages in ast.literal_eval(node.value).items()}
            case _:
                pass
    raise AssertionError("docs/conf.py has no CONTENTS")


def list_pages() -> list[str]:
    """Returns every page of the table of contents, in its order."""
    return [page for pages in contents().values() for page in pages]


def headings(document: Path) -> set[str]:
    """Returns the anchors of the headings of a document, as a forge and the site make them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_table_of_contents_once() -> None:
    pages = {str(path.with_suffix("")) for path, _ in tidy.documents(ROOT) if path.parts[0] == "docs"}
    assert {page for page in list_pages() if page.startswith("docs/") and not page.startswith("docs/api/")} == pages
    assert len(list_pages()) == len(set(list_pages()))


def test_every_document_of_the_root_is_on_the_site() -> None:
    assert {page for page in list_pages() if "/" not in page} | {"README"} == {path.stem for path in ROOT.glob("*.md")}


def test_every_package_has_a_page_of_its_api() -> None:
    assert {page.removeprefix("docs/api/") for page in list_pages() if page.startswith("docs/api/")} == set(
        tidy.PACKAGES
    )
    for package in tidy.PACKAGES:
        assert f".. automodule:: {package}\n" in (ROOT / "docs" / "api" / f"{package}.rst").read_text()


@pytest.mark.parametrize("document", [str(path) for path, _ in tidy.documents(ROOT)])
def test_links_lead_to_headings_that_exist(document: str) -> None:
    here = ROOT / document
    links = LINK_TO_HEADING.findall(FENCED.sub("", here.read_text()))
    broken = [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor not in headings((here.parent / target) if target else here)
    ]
    assert broken == []


def test_tools_of_the_site_are_in_no_other_installation() -> None:
    project = settings()["project"]
    others = [
        *project["dependencies"],
        *(each for name, needs in project["optional-dependencies"].items() if name != "docs" for each in needs),
    ]
    assert not [need for need in others if re.match(r"sphinx|myst|furo", need) or "docs" in need]


def test_the_site_is_no_part_of_the_repository() -> None:
    assert "build/" in (ROOT / ".gitignore").read_text().splitlines()
