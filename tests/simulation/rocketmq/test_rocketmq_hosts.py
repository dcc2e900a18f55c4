"""Simulated brokers run the product's own hosts: nothing of the simulator carries out what a decider orders."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import jepsen_like.simulation.rocketmq
from jepsen_like.simulation.rocketmq import broker
from jepsen_like.simulation.rocketmq.dledger import broker as dledger_broker
from rocketmq_compat.broker import raft_copy, replicated_log
from rocketmq_compat.replication import effects
from rocketmq_compat.storage import broker_store

FOLDER = Path(jepsen_like.simulation.rocketmq.__file__).parent
FORKS_STATES = "explorer.py"
"""The search of all states copies a state before each step, which no real disk allows."""
LOOKED_AT = {
    "audits.py": {
        "AdoptTables",
        "AnswerPut",
        "AppendMessages",
        "AppendPushed",
        "CloseHaConnection",
        "ConfirmOffsetMoved",
        "CopyBackBegan",
        "DivergenceFound",
        "DoubtBegan",
        "DoubtEnded",
        "NoteSlave",
        "ResetCommitLog",
        "SendMessage",
        "TruncateCommitLog",
    },
    "world.py": {"AnswerPut"},
}
"""The orders that audits and traps look at."""
CHANGES_LOG = {"append", "append_messages", "append_copy", "append_assigned", "truncate", "begin_flush", "end_flush"}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the simulator of RocketMQ but the search."""
    for path in sorted(FOLDER.rglob("*.py")):
        if path.name != FORKS_STATES:
            yield path.relative_to(FOLDER).as_posix(), ast.parse(path.read_text())


def test_no_module_knows_more_orders_than_it_looks_at() -> None:
    orders = {each.__name__ for each in get_args(effects.Effect)}
    for name, tree in trees():
        known = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & orders
        assert known <= LOOKED_AT.get(name, set()), name


def test_no_module_writes_to_a_commit_log() -> None:
    for name, tree in trees():
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        written = [ast.unparse(call) for call in calls if isinstance(call, ast.Attribute) and call.attr in CHANGES_LOG]
        assert not [each for each in written if "store" in each or "log" in each], name


@pytest.mark.parametrize(
    ("module", "host"),
    [
        (broker, replicated_log.ReplicatedLog),
        (broker, broker_store.MessageStore),
        (dledger_broker, raft_copy.RaftCopy),
        (dledger_broker, broker_store.MessageStore),
    ],
)
def test_a_simulated_broker_is_built_of_the_real_parts(module: object, host: type) -> None:
    assert getattr(module, host.__name__) is host
