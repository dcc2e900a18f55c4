"""The examples in other languages pass, where their toolchain is."""

import re
from pathlib import Path

import pytest

from jepsen_like.run.desk_http import ROUTES
from tests.brought import ClientMissing
from tests.kafka_compat.foreign.programs.examples import EXAMPLES, prove_go, prove_java, prove_node

SOURCES = ("java/src/test/java/OrdersTest.java", "go/orders_test.go", "node/orders.test.js")


@pytest.mark.cluster
@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("prove", [prove_java, prove_go, prove_node])
def test_an_example_breaks_a_cluster_over_http_and_passes(prove: object, tmp_path: Path) -> None:
    assert callable(prove)
    try:
        assert prove(None, tmp_path)
    except ClientMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("source", SOURCES)
def test_an_example_asks_for_what_there_is(source: str) -> None:
    text = (EXAMPLES / source).read_text()
    asked = set(re.findall(r'"(GET|POST|DELETE)", [`"](/\w+)', text))
    assert len(asked) >= 6
    assert asked <= ROUTES.keys()
