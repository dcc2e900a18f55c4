"""The dashboard asks for metrics that exist, with labels that they have."""

import json
import re
from importlib.resources import files
from typing import Any

import pytest

from kafka_compat.broker import metrics as kafka
from raft import metrics as raft
from raft.metrics import Metric, all_metrics
from rocketmq_compat.broker import metrics as rocketmq
from rocketmq_compat.nameserver import metrics as nameserver

METRICS = {
    metric.name: metric for module in (raft, kafka, rocketmq, nameserver) for metric in all_metrics(vars(module))
}
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""


def dashboard() -> dict[str, Any]:
    found = json.loads(files("jepsen_like.operate").joinpath("dashboard.json").read_text())
    assert isinstance(found, dict)
    return found


TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}")
    for panel in dashboard()["panels"]
    for target in panel["targets"]
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_query_names_metrics_that_exist_and_labels_that_they_have(target: dict[str, str]) -> None:
    names = re.findall(r"\bquorumlog_\w+", target["expr"])
    assert names
    assert [name for name in names if name not in METRICS] == []
    labels = set.intersection(*(set(METRICS[name].labels) for name in names)) | SCRAPED
    shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    matched = set(re.findall(r"(\w+)=~?\"", target["expr"]))
    assert shown | matched <= labels


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_metric_has_one_name_a_unit_and_a_meaning(metric: Metric) -> None:
    assert re.fullmatch(r"quorumlog_[a-z_]+", metric.name)
    assert metric.is_counter == metric.name.endswith("_total")
    assert metric.meaning.endswith(".")


def test_a_counter_is_asked_for_by_its_rate_and_no_panel_covers_another() -> None:
    panels = dashboard()["panels"]
    for panel in panels:
        for target in panel["targets"]:
            for name in re.findall(r"\bquorumlog_\w+_total", target["expr"]):
                assert re.search(rf"(rate|increase)\({name}", target["expr"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels)
