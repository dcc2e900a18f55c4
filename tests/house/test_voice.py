"""The rules of docstrings and names see what they forbid, and leave alone what they allow; sentences end where they end."""

from pathlib import Path

import pytest

from tests.house import sentences, voice

DOC = '"""A rule."""\n'


def complaints(root: Path, text: str, name: str = "raft/rule.py") -> list[str]:
    """Returns the complaints about a project of one file."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return voice.complaints(root)


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        pytest.param('"""What it decides."""\n', 1, "begins with What", id="module"),
        pytest.param(DOC + 'def ask():\n    """Whether it is."""\n', 3, "begins with Whether", id="function"),
        pytest.param(DOC + 'x = 1\n"""How many there are."""\n', 3, "begins with How", id="attribute"),
        pytest.param(DOC + 'class Rule:\n    """`Where` it is."""\n', 3, "begins with Where", id="class"),
        pytest.param(DOC + "def carried_out(): ...\n", 2, "carried_out is named by a participle", id="with a particle"),
        pytest.param(DOC + "class Rule:\n    def _told(self): ...\n", 3, "_told is named", id="irregular, in a class"),
        pytest.param(DOC + "def ask():\n    def done(): ...\n", 3, "done is named", id="in a function"),
        pytest.param(DOC + "async def checked(): ...\n", 2, "checked is named", id="asynchronous"),
    ],
)
def test_a_planted_place_is_seen(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    (found,) = complaints(tmp_path, text)
    assert found.startswith(f"raft/rule.py:{line}: ")
    assert complaint in found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DOC + 'x = 1\n"""Howard asks what it is."""\n', id="another word"),
        pytest.param(DOC + "def feed(): ...\ndef _seed(): ...\n", id="a verb that ends in ed"),
        pytest.param(DOC + "def recorded_runs(): ...\ndef is_done(): ...\n", id="a participle with a noun or a verb"),
        pytest.param(DOC + "class Rule:\n    @property\n    def sealed(self): ...\n", id="property"),
    ],
)
def test_what_is_allowed_is_left_alone(tmp_path: Path, text: str) -> None:
    assert complaints(tmp_path, text) == []


def test_sentences_are_those_of_paragraphs_and_items() -> None:
    text = """# A title

A first sentence, of two
lines. `second` begins with code: and e.g. 1.5 ends nothing.

| a | table |
- An item (with [a link](page.md)).
- Another one
```sh
some code. More.
```
<!-- printed: x -->
Printed. Text.
<!-- end -->
"""
    assert sentences.split_sentences(text) == [
        "A first sentence, of two lines.",
        "`second` begins with code: and e.g. 1.5 ends nothing.",
        "An item (with a link).",
        "Another one",
    ]


def test_words_and_negations_are_counted() -> None:
    assert sentences.count_words("Run `make test`, then land it.") == 6
    assert sentences.is_negative("It does not land.")
    assert sentences.is_negative("It can't land.")
    assert not sentences.is_negative("It notes a knot.")
