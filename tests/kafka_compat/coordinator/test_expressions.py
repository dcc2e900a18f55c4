"""Expressions of topics match what RE2 matches, and cost no more than their states for each character."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_compat.coordinator.expressions import NESTING_MAX, STATES_MAX, BadExpression, Expression
from kafka_compat.coordinator.topic_search import SLICE, TopicSearch
from tests.examples import examples

LEAVES = st.sampled_from(
    ["a", "b", "_", "-", r"\.", ".", "[ab]", "[^a]", "[a-c_]", r"\d", r"\w", r"\W", "1", "^", "$", r"\b", r"\B", ""]
)


def compose(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = inner.map("(?:{})".format)
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format),
        st.builds("{}{}".format, group, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "*?"])),
        inner.map("({})".format),
        inner.map("(?i:{})".format),
    )


@given(st.recursive(LEAVES, compose, max_leaves=8), st.lists(st.text("aAbBc1_-.", min_size=1, max_size=8), max_size=6))
@settings(max_examples=examples(180), deadline=None)
def test_where_both_know_the_syntax_an_expression_matches_as_pythons(text: str, names: list[str]) -> None:
    theirs = re.compile(text)
    ours = Expression(text)
    for name in names:
        assert ours.matches(name) == bool(theirs.fullmatch(name)), (text, name)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        (r"\Qa.b\E+", "a.bb", "axb"),
        (r"\Qa.b", "a.b", "aab"),
        ("(?P<name>a)(?<other>b)", "ab", "a"),
        ("(?i)tOp(?-i)ic", "ToPic", "topIC"),
        ("a(?i)b|c", "C", "A"),
        ("[[:alpha:]]+[[:^digit:]]", "ab-", "ab1"),
        ("[]a]", "a", "]"),
        ("[a-]+", "a-", "b"),
        (r"\pL\p{Nd}\PL\p{^L}", "a1-1", "aa--"),
        (r"\x61\x{62}\141", "aba", "abb"),
        ("a{,2}", "nothing", "aa"),
        ("x{2", "nothing", "xx"),
        (r"\A(?s:a)\z", "a", "aa"),
        ("(?U)a+?", "aa", ""),
        ("topic-(red|blue)-[0-9]{1,3}", "topic-blue-42", "topic-blue-4242"),
    ],
)
def test_the_syntax_of_re2_is_known(text: str, matching: str, other: str) -> None:
    expression = Expression(text)
    assert expression.matches(matching) == (matching != "nothing")
    assert not expression.matches(other)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing closing )"),
        (")", "unexpected )"),
        ("[a", "missing closing ]"),
        ("[b-a]", "invalid character class range: b-a"),
        ("[[:none:]]", "invalid character class range: [:none:]"),
        ("*", "missing argument to repetition operator: *"),
        ("a**", "invalid nested repetition operator: *"),
        ("a{2}{3}", "invalid nested repetition operator: {3}"),
        ("a{1001}", "invalid repeat count: {1001}"),
        ("a{3,2}", "invalid repeat count: {3,2}"),
        ("\\", "trailing \\"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"\xg1", r"invalid escape sequence: \x"),
        (r"\y", r"invalid escape sequence: \y"),
        (r"\p{Greek}", r"invalid character class range: \p{Greek}"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?<!a)", "invalid or unsupported Perl syntax"),
        ("(?<n", "invalid named capture"),
        ("(" * (NESTING_MAX + 1) + ")" * (NESTING_MAX + 1), f"it nests more than {NESTING_MAX} deep"),
        ("(a{1000}){1000}", f"it has more than {STATES_MAX} states"),
        ("(((){1000}){1000}){1000}", f"it has more than {STATES_MAX} states"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadExpression) as refused:
        Expression(text)
    assert str(refused.value) == reason


def test_nesting_up_to_the_limit_is_read() -> None:
    assert Expression("(" * NESTING_MAX + "a" + ")*" * NESTING_MAX).matches("aa")


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*a){12}b", "(a?){200}a{200}b"])
def test_an_evil_expression_costs_no_more_than_its_states_for_each_character(text: str) -> None:
    expression = Expression(text)
    place, costs = expression.start, []
    for _ in range(200):
        place, cost = expression.step(place, "a")
        costs.append(cost)
    assert max(costs) <= STATES_MAX
    assert not expression.accepts(place)


def find(search: TopicSearch) -> tuple[frozenset[str], int]:
    slices = 1
    while (found := search.go_on()) is None:
        slices += 1
    return found, slices


def test_a_long_search_goes_on_in_slices() -> None:
    search = TopicSearch("(.?){400}b")
    topics = {"a" * 240 + str(number): None for number in range(3)} | {"ab": None}
    search.begin(topics, None, 0.0, 600.0)
    found, slices = find(search)
    assert found == {"ab"}
    assert slices >= 240 * 400 * 2 // SLICE // 2


def test_new_topics_alone_are_looked_at_and_all_of_them_after_the_refresh() -> None:
    search = TopicSearch("a.*")
    asked: list[str] = []

    def may_describe(name: str) -> bool:
        asked.append(name)
        return name != "a2" or len(asked) > 3

    search.begin({"a1": None, "a2": None, "b": None}, may_describe, 0.0, 600.0)
    assert find(search)[0] == {"a1"}
    topics = {"a2": None, "a3": None}
    search.begin(topics, may_describe, 10.0, 600.0)
    assert find(search)[0] == {"a3"}
    assert sorted(asked) == ["a1", "a2", "a3"]
    search.begin(topics, may_describe, 600.0, 600.0)
    assert find(search)[0] == {"a2", "a3"}
