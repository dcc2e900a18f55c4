"""An operator's rows are one aligned table, or JSON; nothing in them reaches the terminal but as text."""

import json

import click
from click.testing import CliRunner

from jepsen_like.operate.addresses import AddressesType, text_of_cluster
from jepsen_like.operate.options import Printer
from jepsen_like.operate.tables import cell_of, json_line, record_fields, table_lines


def test_names_stand_above_and_numbers_to_the_right() -> None:
    rows = [{"topic": "orders", "in_sync": 3}, {"topic": "a", "in_sync": 12}]
    assert table_lines(rows) == ["topic   in sync", "orders        3", "a            12"]


def test_nothing_is_a_dash_and_lists_have_commas() -> None:
    assert [cell_of(value) for value in (None, "", [1, 2], [], True, 0, 0.5)] == [
        "-",
        "-",
        "1,2",
        "-",
        "yes",
        "0",
        "0.5",
    ]


def test_control_characters_of_a_record_do_nothing_to_the_terminal() -> None:
    assert cell_of("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
    assert cell_of("größer") == "größer"


def test_a_record_that_is_no_text_is_exact_in_json_and_escaped_in_a_table() -> None:
    assert record_fields(b"\xff\x00", as_json=True) == {"base64": "/wA="}
    assert record_fields(b"\xff", as_json=False) == {"record": "\\xff"}


def test_json_has_the_names_and_types_of_the_row() -> None:
    row = {"topic": "größer", "replicas": (1, 2), "lag": None}
    assert json.loads(json_line(row)) == {"topic": "größer", "replicas": [1, 2], "lag": None}


def test_rows_that_come_later_have_no_second_heading() -> None:
    printer = Printer(as_json=False)

    @click.command()
    def show() -> None:
        printer.rows([{"offset": 9}])
        printer.rows([{"offset": 10}])

    assert CliRunner().invoke(show).output == "offset\n     9\n10\n"


def test_addresses_are_taken_as_kafka_and_rocketmq_write_them() -> None:
    found = AddressesType().convert("a:1,b:2; [::1]:3 ,a:1", None, None)
    assert found == (("a", 1), ("b", 2), ("::1", 3))
    assert text_of_cluster((("a", 1), ("b", 2))) == "a:1,b:2"
