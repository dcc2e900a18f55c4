"""Settings from the command line: every name works, every mistake gets one line with its correction."""

import attrs
import pytest

from log.policy import FlushPolicy
from log.retention import KEEP_ALL, Retention
from raft.config import RaftConfig
from raft.settings import ConnectionSettings, NodeSettings, WrongSetting, known_settings, parse_settings


def test_without_assignments_everything_has_its_default() -> None:
    assert parse_settings([]) == NodeSettings()


def test_every_setting_can_be_given_its_own_default() -> None:
    nested = attrs.asdict(RaftConfig()) | attrs.asdict(ConnectionSettings())
    defaults = nested | attrs.asdict(NodeSettings(), recurse=False)
    for name in known_settings():
        value = defaults[name]
        text = value.value if isinstance(value, FlushPolicy) else value
        assert parse_settings([f"{name}={text}"]) == NodeSettings()


def test_core_and_node_settings_are_taken_by_name() -> None:
    settings = parse_settings(["heartbeat_s=0.02", "flush=interval", "connections_max=16"])
    assert settings.raft.heartbeat_s == 0.02
    assert settings.flush is FlushPolicy.INTERVAL
    assert settings.connections.connections_max == 16


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("hartbeat_s=1", "did you mean heartbeat_s"),
        ("zzz=1", "known are "),
        ("heartbeat_s", "not of the form name=value"),
        ("heartbeat_s=fast", "heartbeat_s is a number"),
        ("heartbeat_s=nan", "heartbeat_s is a finite number"),
        ("heartbeat_s=-1", "'heartbeat_s' must be > 0"),
        ("heartbeat_s=10", "need 2 \\* heartbeat_s"),
        ("connections_max=1.5", "connections_max is a whole number"),
        ("flush=sometimes", "flush is before-ack \\| interval \\| none"),
        ("batch_bytes_max=16777217", "batch_bytes_max <= frame_bytes_max"),
        ("frame_bytes_max=65536", "need append_bytes_max <= 2 \\* frame_bytes_max"),
        ("snapshot_part_bytes_max=33554433", "snapshot_part_bytes_max <= 2 \\* frame_bytes_max"),
        ("read_bytes_max=16777216", "read_bytes_max <= frame_bytes_max / 2"),
        ("retention_bytes=-1", "'retention_bytes' must be >= 0"),
        ("retention_s=-0.5", "'retention_s' must be >= 0"),
        ("retention_s=inf", "retention_s is a finite number"),
    ],
)
def test_a_mistake_is_named(assignment: str, line: str) -> None:
    with pytest.raises(WrongSetting, match=line):
        parse_settings([assignment])


def test_smaller_frames_bound_what_travels_together() -> None:
    assert parse_settings([]).batch_bytes_max == 3 << 20
    assert parse_settings(["frame_bytes_max=2097152", "read_bytes_max=1048576"]).batch_bytes_max == 2 << 20


@pytest.mark.parametrize("name", ["append_bytes_max", "read_bytes_max"])
def test_no_message_may_hold_more_entries_than_its_receiver_takes(name: str) -> None:
    frames = ["frame_bytes_max=268435456", "inflight_bytes_max=268435456"]
    parse_settings([*frames, f"{name}=67108864"])
    with pytest.raises(WrongSetting, match=f"need {name} <= 67108864"):
        parse_settings([*frames, f"{name}=67108865"])


@pytest.mark.parametrize(
    ("assignments", "retention"),
    [
        pytest.param([], KEEP_ALL, id="nothing leaves unless asked for"),
        pytest.param(["retention_bytes=1000"], Retention(bytes_max=1000), id="by size"),
        pytest.param(["retention_s=1.5"], Retention(age_ms_max=1500), id="by age"),
        pytest.param(["retention_bytes=1", "retention_s=2"], Retention(bytes_max=1, age_ms_max=2000), id="by either"),
        pytest.param(["retention_s=0.0001"], Retention(age_ms_max=1), id="however soon, is not never"),
    ],
)
def test_two_settings_make_the_rule_of_retention(assignments: list[str], retention: Retention) -> None:
    assert parse_settings(assignments).retention == retention
