"""Losses of Apache Kafka that others have published come about here, and end with the setting that ends them."""

import json
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.systems.apache_kafka.scenarios import SCENARIOS
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(APACHE_KAFKA.missing()), reason=f"needs: {APACHE_KAFKA.missing()}"),
]


@pytest.mark.parametrize("name", [story.name for story in SCENARIOS])
def test_a_published_loss_comes_about_until_its_setting_changes(tmp_path: Path, name: str) -> None:
    assert execute(["scenario", name, "--quick", "--out", str(tmp_path)]) == ExitStatus.VALID
    faulty, mended = json.loads((tmp_path / "latest" / "scenario.json").read_text())["trials"]
    assert faulty["lost_allowed"] > 0
    assert mended["lost"] == 0
