"""Documents as sentences: their prose without code, tables and printed parts, cut where a sentence ends."""

import re
from collections.abc import Iterator

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
PRINTED = re.compile(r"<!-- printed: \w+ -->.*?<!-- end -->", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")
NO_PROSE = ("#", "|", "<", "![")
END = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[`\"(*\[]?[A-Z`])")
WORD = re.compile(r"[A-Za-z0-9`][\w`'/.-]*")
NEGATION = re.compile(r"\b(?:not|no|none|never|nothing|neither|nor|nobody|cannot|without|\w+n't)\b", re.IGNORECASE)


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a Markdown text: paragraphs and items, without headings, tables, fenced code and printed parts."""
    return [sentence for paragraph in paragraphs(text) for sentence in END.split(paragraph) if WORD.search(sentence)]


def paragraphs(text: str) -> Iterator[str]:
    """Yields each paragraph and each item of a list as one line."""
    lines: list[str] = []
    for line in (*FENCE.sub("", PRINTED.sub("", text)).splitlines(), ""):
        stripped = LINK.sub(r"\1", line.strip())
        item = ITEM.match(stripped)
        if (not stripped or item or stripped.startswith(NO_PROSE)) and lines:
            yield " ".join(lines)
            lines = []
        if stripped and not stripped.startswith(NO_PROSE):
            lines.append(stripped[item.end() :] if item else stripped)


def count_words(sentence: str) -> int:
    """Returns the number of words; a code span counts as the words in it."""
    return len(WORD.findall(sentence))


def is_negative(sentence: str) -> bool:
    """Returns True if the sentence denies something."""
    return NEGATION.search(sentence) is not None
