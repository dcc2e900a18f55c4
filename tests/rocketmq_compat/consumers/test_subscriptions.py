"""Filters: what an expression wants, by hash and by tag, and what cannot be parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.subscriptions import TAGS_MAX, parse_subscription, require_tags
from rocketmq_compat.record_layout import java_hash
from rocketmq_compat.remoting.codes import ResponseCode


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_wants_everything(expression: str | None) -> None:
    found = parse_subscription("T", expression)
    assert found.wants_all
    assert found.version == 0
    assert found.matches("A")
    assert found.matches(None)


def test_an_expression_wants_the_tags_that_it_names() -> None:
    found = parse_subscription("T", " A ||B|| ", version=3)
    assert found.tags == {"A", "B"}
    assert found.version == 3
    assert java_hash("A") in found.tag_hashes
    assert java_hash("C") not in found.tag_hashes
    assert not found.matches(None)


def test_tags_of_the_same_hash_are_told_apart_by_the_tag_alone() -> None:
    assert java_hash("Aa") == java_hash("BB")
    found = parse_subscription("T", "Aa")
    assert java_hash("BB") in found.tag_hashes
    assert not found.matches("BB")


@pytest.mark.parametrize(
    ("tag", "value"),
    [("", 0), ("A", 65), ("TagA", 2598919), ("polygenelubricants", -(2**31)), ("é", 233), ("😀", 1772899)],
)
def test_hashes_are_javas(tag: str, value: int) -> None:
    assert java_hash(tag) == value


@given(st.text(st.characters(blacklist_characters="|"), min_size=1).filter(str.strip))
def test_every_tag_is_wanted_by_its_own_expression(tag: str) -> None:
    if tag == "*":
        return
    found = parse_subscription("T", tag)
    assert found.matches(tag.strip())
    assert java_hash(tag.strip()) in found.tag_hashes


@pytest.mark.parametrize("expression", ["||", " || ", "|| ||"])
def test_an_expression_without_a_tag_cannot_be_parsed(expression: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        parse_subscription("T", expression)
    assert refused.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_an_expression_has_a_bound() -> None:
    most = parse_subscription("T", "||".join(f"t{number}" for number in range(TAGS_MAX)))
    assert len(most.tags) == TAGS_MAX == 10_000
    with pytest.raises(RequestRefused, match=str(TAGS_MAX)):
        parse_subscription("T", "||".join(f"t{number}" for number in range(TAGS_MAX + 1)))


def test_sql_is_refused_as_by_a_broker_without_property_filters() -> None:
    found = parse_subscription("T", "a > 5", expression_type="SQL92")
    assert java_hash("A") not in found.tag_hashes
    assert found.expression == "a > 5"
    with pytest.raises(RequestRefused, match="SQL92") as refused:
        require_tags(found)
    assert refused.value.code is ResponseCode.SYSTEM_ERROR
    assert require_tags(parse_subscription("T", "A")).tags == {"A"}
