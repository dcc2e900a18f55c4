"""A run of compaction on real brokers: under faults no last value is lost, and records really leave."""

import json
from pathlib import Path

import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.systems.kafka.mode import KafkaMode


@pytest.mark.parametrize(
    ("words", "kinds", "why"),
    [
        (["acks=1"], ["kill"], "use acks=all"),
        ([], ["clock-jump"], "by one clock"),
        ([], ["power"], "compaction is judged where nothing may be lost, and power may cost records"),
        ([], ["kill", "pause", "partition"], None),
    ],
)
def test_compaction_is_judged_where_ages_and_records_are_certain(
    words: list[str], kinds: list[str], why: str | None
) -> None:
    refusal = KafkaMode.of(words).refusal(Model.COMPACTED, kinds)
    assert refusal is None if why is None else why in (refusal or "")


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.timeout(200)
def test_the_last_value_of_each_key_stays_under_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--quick", "--json", "--system", "kafka", "--workload", "compact", "--duration", "20", "--seed", "3"]
    assert execute([*run, "--nemesis", "kill,pause,partition", "--out", str(tmp_path)]) == ExitStatus.VALID
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    counts = results["objects"]["compaction"]
    assert counts["removed"] > results["acked"] // 2
    assert counts["deleted_keys"] > 0
