"""The report of a broker group shows roles, copies and what was confirmed next to the faults, from what its brokers told."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jepsen_like.history.partition_states import STATE_COLUMNS, PartitionStates, StateKind, read_states
from jepsen_like.report import render_report
from jepsen_like.report.copy_states import CUTS_MAX, POINTS_MAX, BrokerCopy, CopyGroup, read_copies
from jepsen_like.systems.rocketmq.states import copies_of
from tests.jepsen_like.report.made_up_runs import made_up_run
from tests.jepsen_like.report.test_report import strip_tags

S = 10**9
ORIGIN = 100 * S
EPOCH = 2**40


def make_move(at_s: float, role: str, epoch: int, end: int, confirmed: int, group: str = "broker-a") -> dict[str, Any]:
    words = {"group": group, "role": role, "epoch": epoch, "end": end, "confirmed": confirmed}
    return {"t_ns": ORIGIN + round(at_s * S), "event": "copy_moved", **words}


def write_events(run: Path, node: int, *events: dict[str, Any]) -> None:
    directory = run / "nodes" / str(node)
    directory.mkdir(parents=True)
    lines = [json.dumps(event) for event in events]
    (directory / "events.jsonl").write_text("\n".join(["torn {", '{"event": "copy_moved"}', *lines]))


def listening(at_s: float) -> dict[str, Any]:
    return {"t_ns": ORIGIN + round(at_s * S), "event": "listening"}


def write_failover(run: Path) -> tuple[CopyGroup, ...]:
    """Writes a failover: a master is killed at 10 s, and comes back as the slave of the promoted one, without its last bytes."""
    write_events(
        run,
        1,
        listening(0),
        make_move(0, "master", EPOCH, 0, 0),
        make_move(9.75, "master", EPOCH, 900, 800),
        listening(20),
        make_move(20, "slave", EPOCH, 900, 0),
        make_move(20.25, "slave", EPOCH + 5, 850, 850),
    )
    write_events(
        run,
        2,
        listening(0),
        make_move(0, "slave", EPOCH, 0, 0),
        make_move(9.75, "slave", EPOCH, 800, 800),
        listening(12),
        make_move(12, "master", EPOCH + 5, 800, 0),
        make_move(12.25, "master", EPOCH + 5, 850, 850),
    )
    copies_of(run / "nodes").write(run)
    states = read_states(run)
    assert states is not None
    return read_copies(states, ORIGIN)


def test_roles_epochs_ends_and_confirmed_ends_are_read_from_what_brokers_tell(tmp_path: Path) -> None:
    ((first, second),) = (group.copies for group in write_failover(tmp_path))
    assert [(span.begin_s, span.end_s, span.is_master, span.epoch) for span in first.roles] == [
        (0, 9.75, True, EPOCH),
        (20, 20.25, False, EPOCH),
        (20.25, None, False, EPOCH + 5),
    ]
    assert [list(line) for line in first.confirmed] == [[(0, 0), (9.5, 0), (9.75, 800)]]
    assert [list(line) for line in first.ends] == [[(0, 0), (9.5, 0), (9.75, 900)], [(20, 900), (20.25, 850)]]
    assert list(first.cuts) == [(20.25, 900, 850)]
    assert [line[-1] for line in second.confirmed] == [(12.25, 850)]
    assert (first.holds(), first.holds(as_master=True), second.holds(as_master=True)) == (True, False, True)


def test_the_page_shows_them_beside_the_faults(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    write_failover(run)
    page = render_report(run).read_text()
    text = strip_tags(page)
    assert "Copies of the commit log" in text
    assert "Partitions" not in text
    assert f"n1: master in epoch {EPOCH} from" in text
    assert f"n2: master in epoch {EPOCH + 5} from" in text
    assert "n1: log up to 850" in text
    assert "n2 as master: confirmed up to 850" in text
    assert "its log ended at 850, after 900" in text
    (picture,) = re.findall(r"<svg class=\"queue\".*?</svg>", page, flags=re.DOTALL)
    assert ElementTree.fromstring(picture).findall(".//g[@data-fault='1']")


def test_each_group_has_a_picture(tmp_path: Path) -> None:
    run = made_up_run(tmp_path)
    write_events(run, 1, make_move(0, "master", 1, 10, 10, "broker-b"))
    write_events(run, 2, make_move(0, "master", 2, 20, 20, "broker-a"))
    copies_of(run / "nodes").write(run)
    assert render_report(run).read_text().count('<svg class="queue"') == 2
    states = read_states(run)
    assert states is not None
    assert [[copy.node for copy in group.copies] for group in read_copies(states, 0)] == [[2], [1]]


def test_much_is_drawn_in_bounded_space() -> None:
    states = PartitionStates()
    states.record(0, 0, StateKind.ROLE, 1, node=1, epoch=1)
    for at in range(20 * POINTS_MAX):
        states.record(at, 0, StateKind.END, at % 100, node=1)
    table = {name: states._rows.table().column(name).to_numpy() for name, _ in STATE_COLUMNS}
    ((copy,),) = (group.copies for group in read_copies(table, 0))
    assert isinstance(copy, BrokerCopy)
    assert sum(map(len, copy.ends)) <= POINTS_MAX + 1
    assert len(copy.cuts) == CUTS_MAX


def test_states_of_an_older_version_are_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    states = PartitionStates()
    states.record(0, 0, StateKind.LEADER, 1, node=1, epoch=7)
    states.write(tmp_path)
    table = pq.read_table(tmp_path / "partitions.parquet", partitioning=None)
    narrow = table.set_column(table.schema.get_field_index("epoch"), "epoch", table["epoch"].cast(pa.int32()))
    pq.write_table(narrow, tmp_path / "partitions.parquet")
    found = read_states(tmp_path)
    assert found is not None
    assert (found["epoch"].tolist(), found["node"].tolist()) == ([7], [1])
